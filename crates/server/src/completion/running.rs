//! The choices of a request while they run. Dropping them cancels them.

use std::{collections::VecDeque, time::Instant};

use futures::{StreamExt, stream::SelectAll};
use medley_generate::{Capture, Event, GenerateError, Priority, Request, Sampling, SubmitError};
use medley_kv::{BlendMode, pages_for};

use super::{
    ledger::Ledger,
    outcome::Answer,
    prepare::{Prepared, PreparedPrompt},
    shape::Shape,
    tracked::Tracked,
};
use crate::{AppState, Engine, error::ApiError, keys::Tenant, readiness::CutOff, request_id::RequestId};

/// Which request it is, when its body was there and whose it is.
pub(crate) struct Arrival {
    pub(crate) id: RequestId,
    pub(crate) at: Instant,
    pub(crate) tenant: Tenant,
}

/// Events of all choices, each choice's in order.
pub(crate) struct Running {
    choices: SelectAll<Tracked>,
    /// Events that came while the plans were waited for.
    early: VecDeque<(usize, Event)>,
    cut: CutOff,
    request_id: RequestId,
}

/// Queues one engine request a choice, prompt by prompt: all or none.
pub(crate) fn submit(
    prepared: Prepared,
    state: &AppState,
    engine: &Engine,
    arrival: Arrival,
) -> Result<Answer, ApiError> {
    let Prepared {
        model,
        shape,
        prompts,
    } = prepared;
    let choice = |(p, k): (usize, usize)| request(&prompts[p], &shape, arrival.tenant, p * shape.best_of + k);
    let pairs = (0..prompts.len()).flat_map(|p| (0..shape.best_of).map(move |k| (p, k)));
    let streams = engine
        .generate
        .submit_all(pairs.map(choice).collect())
        .map_err(|error| refused(error, &shape, &prompts))?;
    let meter = |index: usize| {
        state
            .metrics()
            .meter(arrival.at, index.is_multiple_of(shape.best_of))
    };
    let tracked = streams.into_iter().enumerate();
    let running = Running {
        choices: tracked
            .map(|(index, events)| Tracked::new(index, events, meter(index)))
            .collect(),
        early: VecDeque::new(),
        cut: state.readiness().cut_off_signal(),
        request_id: arrival.id,
    };
    Ok(Answer::new(model, shape, prompts, running))
}

/// The engine's request for choice `index` of the whole request, which takes the seed plus its index.
fn request(prompt: &PreparedPrompt, shape: &Shape, tenant: Tenant, index: usize) -> Request {
    let seed = shape.sampling.seed.map(|seed| seed.wrapping_add(index as u64));
    Request {
        prompt: prompt.prompt.clone(),
        blend: shape.blend,
        cache_salt: tenant.salt(shape.cache_salt.as_deref()),
        sampling: Sampling {
            seed,
            ..shape.sampling
        },
        adjustments: shape.adjustments.clone(),
        max_tokens: prompt.max_tokens,
        stop: shape.stop.clone(),
        stop_tokens: shape.stop_tokens.clone(),
        logprobs: shape.generated_logprobs(),
        prompt_logprobs: shape.prompt_logprobs(),
        capture: Capture::default(),
        priority: Priority::Normal,
        precedence: shape.precedence,
        witness: None,
    }
}

fn refused(error: SubmitError, shape: &Shape, prompts: &[PreparedPrompt]) -> ApiError {
    match error {
        SubmitError::QueueFull => ApiError::QueueFull,
        SubmitError::ShuttingDown => ApiError::ShuttingDown,
        SubmitError::TokenOutsideVocabulary { .. } => ApiError::invalid("prompt", error.to_string()),
        SubmitError::DocumentTooLong { index, .. } => {
            ApiError::invalid(format!("documents[{index}]"), error.to_string())
        }
        SubmitError::TooMany { .. } => {
            let message = format!("{error}: the server's `--max-num-seqs` and `--max-queue` together");
            ApiError::invalid(shape.multiplier(), message)
        }
        SubmitError::CheckLayer { .. } => ApiError::invalid("blend.check_layer", error.to_string()),
        SubmitError::TooLarge { needed, pages } => too_large(needed, pages, shape, prompts),
        SubmitError::PromptTooLong { tokens, context } => ApiError::ContextLength {
            prompt: 0,
            tokens,
            context,
            documents: String::new(),
        },
    }
}

/// Says what would help: exact mode keeps no copy of documents beside the prompt, if the prompt itself fits.
fn too_large(needed: usize, pages: usize, shape: &Shape, prompts: &[PreparedPrompt]) -> ApiError {
    let documents = prompts.iter().any(|p| p.prompt.documents().next().is_some());
    let blended = documents && shape.blend.mode == BlendMode::Auto;
    let fit_alone = prompts.iter().all(|p| pages_for(p.prompt.len() + 1) <= pages);
    let (what, param, instead) = match (blended, documents) {
        (true, _) if fit_alone => (
            "the documents, the prompt and its answer",
            "documents",
            "send `blend.mode: exact` or fewer documents",
        ),
        (true, _) => (
            "the documents, the prompt and its answer",
            "documents",
            "send fewer documents",
        ),
        (false, true) => ("the prompt and its answer", "documents", "send fewer documents"),
        (false, false) => ("the prompt and its answer", "prompt", "send a shorter prompt"),
    };
    ApiError::KvCapacity {
        needed,
        pages,
        param,
        what,
        instead,
    }
}

impl Running {
    /// The next event of any choice; `None` once all have finished. After an error the others are given up.
    pub(super) async fn next(&mut self) -> Option<Result<(usize, Event), ApiError>> {
        let next = match self.early.pop_front() {
            Some(early) => Some(early),
            None => self.live().await,
        };
        match next? {
            (_, Event::Failed(error)) => Some(Err(self.failed(error))),
            event => Some(Ok(event)),
        }
    }

    /// Waits until the ledger knows the plan of every prompt. Other events are kept.
    pub(super) async fn planned(&mut self, ledger: &mut Ledger) -> Result<(), ApiError> {
        while !ledger.is_complete() {
            match self.live().await {
                Some((index, Event::Planned(report))) => ledger.enter(index, *report),
                Some((_, Event::Failed(error))) => return Err(self.failed(error)),
                Some(event) => self.early.push_back(event),
                None => {
                    return Err(self.failed(GenerateError::Engine("a prompt was never planned".to_owned())));
                }
            }
        }
        Ok(())
    }

    /// The next event that comes from the engine. A server that has no more time ends the request.
    async fn live(&mut self) -> Option<(usize, Event)> {
        tokio::select! {
            biased;
            next = self.choices.next() => next,
            () = self.cut.passed() => {
                self.choices.iter_mut().for_each(Tracked::cut_off);
                Some((0, Event::Failed(GenerateError::ShuttingDown)))
            }
        }
    }

    fn failed(&mut self, error: GenerateError) -> ApiError {
        self.give_up();
        match error {
            GenerateError::ShuttingDown => ApiError::ShuttingDown,
            GenerateError::Engine(_) | GenerateError::Displaced => {
                tracing::error!(request_id = %self.request_id, %error, "the engine failed");
                ApiError::Server(self.request_id.clone())
            }
        }
    }

    /// Drops all choices; they did not end of themselves.
    fn give_up(&mut self) {
        self.choices.iter_mut().for_each(Tracked::give_up);
        self.choices.clear();
        self.early.clear();
    }
}
