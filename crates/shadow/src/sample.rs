//! Sampled answers, from their first token into the queue of checks.

use std::sync::{
    Arc, Mutex, PoisonError,
    mpsc::{SyncSender, TrySendError},
};

use medley_generate::{Priority, Request, Witness};
use medley_kv::{BlendMode, Plan, TokenId};

use crate::Outcome;

/// Tokens of an answer that are compared at most.
pub const COMPARED_TOKENS: usize = 20;

/// Hears what came of each sampled answer.
pub(crate) type Recorder = Arc<dyn Fn(Outcome) + Send + Sync>;

/// A blended answer that has ended.
pub(crate) struct Answered {
    pub request: Arc<Request>,
    /// Its first tokens; at least one.
    pub tokens: Vec<TokenId>,
}

/// Whether a request may be blended and is somebody's. Only its plan will tell whether it is blended.
pub(crate) fn may_be_checked(request: &Request) -> bool {
    request.blend.mode == BlendMode::Auto
        && request.priority == Priority::Normal
        && request.witness.is_none()
        && request.prompt.documents().next().is_some()
}

/// Where sampled answers wait.
pub(crate) struct Line {
    queue: SyncSender<Answered>,
    record: Recorder,
}

/// Collects a sampled answer.
pub(crate) struct Sample {
    queue: SyncSender<Answered>,
    record: Recorder,
    request: Arc<Request>,
    tokens: Mutex<Vec<TokenId>>,
}

impl Line {
    pub(crate) fn new(queue: SyncSender<Answered>, record: Recorder) -> Self {
        Self { queue, record }
    }

    /// The witness of a sampled request.
    pub(crate) fn witness(&self, request: &Request) -> Sample {
        Sample {
            queue: self.queue.clone(),
            record: self.record.clone(),
            request: Arc::new(request.clone()),
            tokens: Mutex::default(),
        }
    }
}

impl Witness for Sample {
    fn token(&self, token: TokenId) {
        // A list of tokens can't be left half-written.
        let mut tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        if tokens.len() < COMPARED_TOKENS {
            tokens.push(token);
        }
    }

    fn answered(&self, plan: Plan) {
        if plan != Plan::Blended {
            return;
        }
        let mut tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        let answered = Answered {
            request: self.request.clone(),
            tokens: std::mem::take(&mut *tokens),
        };
        match self.queue.try_send(answered) {
            Ok(()) => {}
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => (self.record)(Outcome::Dropped),
        }
    }
}
