//! The check itself: an answer's tokens fed to the blended request again and to a full prefill.
//!
//! It has a thread of its own. Comparing distributions of a large vocabulary takes milliseconds, which neither the
//! engine's thread nor an executor has.

use std::sync::{Arc, Weak, mpsc::Receiver};

use medley_generate::{Capture, Event, Generate, GenerateError, Priority, Request, SubmitError};
use medley_kv::{BlendMode, BlendOptions, TokenId};
use medley_quality::Divergence;

use crate::sample::{Answered, Recorder};

/// What came of a sampled answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Outcome {
    /// How far the blended distributions were from the exact ones.
    Done(Divergence),
    /// There was no room for the check: too many waited, a document had left, or pages were short.
    Dropped,
    /// A run failed, or its distributions are no numbers.
    Failed,
}

/// Checks one answer after the other.
pub(crate) struct Check {
    engine: Weak<dyn Generate>,
    record: Recorder,
}

impl Check {
    pub(crate) fn new(engine: Weak<dyn Generate>, record: Recorder) -> Self {
        Self { engine, record }
    }

    /// Checks answers until nobody can send any or the engine is gone.
    pub(crate) fn run(self, answers: &Receiver<Answered>) {
        while let Ok(answered) = answers.recv() {
            let Some(engine) = self.engine.upgrade() else {
                return;
            };
            let outcome = compare(&*engine, answered);
            if let Outcome::Failed = outcome {
                tracing::warn!("a shadow check failed");
            }
            (self.record)(outcome);
        }
    }
}

/// Runs both and compares them.
fn compare(engine: &dyn Generate, answered: Answered) -> Outcome {
    let tokens: Arc<[TokenId]> = answered.tokens.into();
    let mode = |mode| BlendOptions {
        mode,
        ..answered.request.blend
    };
    // Documents may leave, so what needs them goes first.
    let blended = logits(engine, &answered.request, mode(BlendMode::Auto), &tokens);
    let exact = blended.and_then(|blended| {
        let exact = logits(engine, &answered.request, mode(BlendMode::Off), &tokens)?;
        Ok(Divergence::between(&exact, &blended))
    });
    match exact {
        Ok(Some(divergence)) if divergence.kl.is_finite() => Outcome::Done(divergence),
        Ok(_) => Outcome::Failed,
        Err(outcome) => outcome,
    }
}

/// The logits behind which each of `tokens` comes when they are fed to a request.
fn logits(
    engine: &dyn Generate,
    request: &Request,
    blend: BlendOptions,
    tokens: &Arc<[TokenId]>,
) -> Result<Vec<Vec<f32>>, Outcome> {
    let forced = Request {
        blend,
        max_tokens: tokens.len(),
        stop: Vec::new(),
        stop_tokens: Arc::new([]),
        logprobs: None,
        prompt_logprobs: None,
        capture: Capture {
            logits: true,
            forced: Some(tokens.clone()),
        },
        priority: Priority::Background,
        witness: None,
        ..request.clone()
    };
    let mut events = engine.submit(forced).map_err(refused)?;
    let mut logits = Vec::with_capacity(tokens.len());
    while let Some(event) = events.blocking_recv() {
        match event {
            Event::Planned(_) | Event::Prompt(_) => {}
            Event::Token(token) => logits.extend(token.logits),
            Event::Finished { .. } => return Ok(logits),
            Event::Failed(GenerateError::Displaced | GenerateError::ShuttingDown) => {
                return Err(Outcome::Dropped);
            }
            Event::Failed(GenerateError::Engine(_)) => return Err(Outcome::Failed),
        }
    }
    Err(Outcome::Failed)
}

fn refused(error: SubmitError) -> Outcome {
    match error {
        SubmitError::QueueFull | SubmitError::TooLarge { .. } | SubmitError::ShuttingDown => Outcome::Dropped,
        _ => Outcome::Failed,
    }
}
