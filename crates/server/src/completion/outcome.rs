//! A request that is being answered: its choices, its accounts, and what both kinds of answer share.

use std::time::{SystemTime, UNIX_EPOCH};

use medley_openai::FinishReason;
use uuid::Uuid;

use super::{ledger::Ledger, prepare::PreparedPrompt, running::Running, shape::Shape};
use crate::error::ApiError;

/// A request that is being answered.
pub(crate) struct Answer {
    pub(super) head: Head,
    pub(super) shape: Shape,
    /// What each prompt's texts begin with.
    pub(super) echoes: Vec<String>,
    pub(super) running: Running,
    pub(super) ledger: Ledger,
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
        let ledger = Ledger::new(prompts.len(), shape.n, shape.blend.report);
        let echoes = prompts.into_iter().map(|prompt| prompt.echo).collect();
        Self {
            head: Head::new(model),
            shape,
            echoes,
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

    /// Number of choices.
    pub(super) fn choices(&self) -> usize {
        self.echoes.len() * self.shape.n
    }

    /// What the text of choice `index` begins with.
    pub(super) fn echo(&self, index: usize) -> &str {
        self.echoes.get(index / self.shape.n).map_or("", String::as_str)
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
