//! A request that is being answered: its choices, its accounts, and what both kinds of answer share.

use std::time::{SystemTime, UNIX_EPOCH};

use medley_openai::{FinishReason, Usage};
use uuid::Uuid;

use super::{ledger::Ledger, prepare::PreparedPrompt, running::Running, shape::Shape};
use crate::error::ApiError;

/// A request that is being answered.
pub(crate) struct Answer {
    pub(super) head: Head,
    pub(super) shape: Shape,
    /// What each prompt's choices begin with.
    beginnings: Vec<Beginning>,
    pub(super) running: Running,
    pub(super) ledger: Ledger,
}

/// What the choices of a prompt begin with.
#[derive(Clone, Default)]
pub(super) struct Beginning {
    /// Empty without `echo`.
    pub(super) text: String,
    /// The prompt's tokens, if they are to be returned.
    pub(super) token_ids: Option<Vec<u32>>,
}

impl Beginning {
    fn of(prompt: PreparedPrompt, shape: &Shape) -> Self {
        let ids = || prompt.prompt.tokens().into_iter().map(|token| token.0).collect();
        Self {
            token_ids: shape.return_token_ids.then(ids),
            text: prompt.echo,
        }
    }
}

/// What every chunk of an answer says.
#[derive(Clone)]
pub(super) struct Head {
    pub(super) id: String,
    pub(super) created: u64,
    pub(super) model: String,
}

/// The type of whole answers and of chunks.
pub(super) const OBJECT: &str = "text_completion";

impl Answer {
    pub(super) fn new(model: String, shape: Shape, prompts: Vec<PreparedPrompt>, running: Running) -> Self {
        let ledger = Ledger::new(prompts.len(), shape.best_of, shape.blend.report);
        let beginnings = prompts
            .into_iter()
            .map(|prompt| Beginning::of(prompt, &shape))
            .collect();
        Self {
            head: Head::new(model),
            shape,
            beginnings,
            running,
            ledger,
        }
    }

    /// Waits until it is known how every prompt is run.
    pub(crate) async fn planned(&mut self) -> Result<(), ApiError> {
        self.running.planned(&mut self.ledger).await
    }

    /// What a stream is to carry; `None` for a whole answer.
    pub(crate) fn is_stream(&self) -> bool {
        self.shape.stream.is_some()
    }

    /// Number of choices that are generated.
    pub(super) fn choices(&self) -> usize {
        self.beginnings.len() * self.shape.best_of
    }

    /// What choice `index` begins with.
    pub(super) fn beginning(&self, index: usize) -> Beginning {
        self.beginnings
            .get(index / self.shape.best_of)
            .cloned()
            .unwrap_or_default()
    }

    /// The usage that a chunk behind so many tokens carries: absent unless asked for; then `null` before the end, or the
    /// usage so far if continuous.
    pub(super) fn chunk_usage(&self, tokens: usize) -> Option<Option<Usage>> {
        let stream = self.shape.stream.filter(|stream| stream.usage)?;
        Some(stream.continuous.then(|| self.ledger.usage(tokens)))
    }

    /// The reason as answers say it.
    pub(super) fn finish_reason(&self, reason: medley_generate::FinishReason) -> FinishReason {
        match reason {
            _ if self.shape.discards_output() => FinishReason::Length,
            medley_generate::FinishReason::Stop => FinishReason::Stop,
            medley_generate::FinishReason::Length => FinishReason::Length,
        }
    }
}

impl Head {
    fn new(model: String) -> Self {
        let created = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |age| age.as_secs());
        Self {
            id: format!("cmpl-{}", Uuid::new_v4().simple()),
            created,
            model,
        }
    }
}
