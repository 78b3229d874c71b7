//! One request from its submission to its last event, with times.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use medley_generate::{
    Adjustments, Capture, Event, Generate, GenerateError, Priority, Request, Sampling, SubmitError,
};
use medley_kv::{BlendOptions, Prompt, Report, TokenId};

/// What a request gave.
#[derive(Clone, Debug)]
pub struct Run {
    /// Its tokens, a token that ended the text included if the engine reported it.
    pub tokens: Vec<TokenId>,
    /// The logits of each token, if they were captured.
    pub logits: Vec<Vec<f32>>,
    /// The account.
    pub report: Report,
    /// Time from the submission to each token.
    pub at: Vec<Duration>,
}

/// A request that gave nothing.
#[derive(Debug, PartialEq, Eq)]
pub enum RunError {
    /// It was not taken.
    Refused(SubmitError),
    /// It was taken and failed.
    Failed(GenerateError),
    /// Its stream ended without a last event.
    Broken,
}

impl std::fmt::Display for RunError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Refused(e) => write!(f, "the engine refused the request: {e}"),
            Self::Failed(e) => e.fmt(f),
            Self::Broken => f.write_str("the engine ended the stream without a result"),
        }
    }
}

impl std::error::Error for RunError {}

impl Run {
    /// Runs a request and waits for its end.
    pub async fn of(engine: &dyn Generate, request: Request) -> Result<Self, RunError> {
        let start = Instant::now();
        let mut events = engine.submit(request).map_err(RunError::Refused)?;
        let (mut tokens, mut logits, mut at) = (Vec::new(), Vec::new(), Vec::new());
        while let Some(event) = events.recv().await {
            match event {
                Event::Planned(_) | Event::Prompt(_) => {}
                Event::Token(token) => {
                    at.push(start.elapsed());
                    tokens.push(token.token);
                    logits.extend(token.logits);
                }
                Event::Finished { report, .. } => {
                    return Ok(Self {
                        tokens,
                        logits,
                        report: *report,
                        at,
                    });
                }
                Event::Failed(error) => return Err(RunError::Failed(error)),
            }
        }
        Err(RunError::Broken)
    }

    /// Time to the first token.
    pub fn first_token(&self) -> Option<Duration> {
        self.at.first().copied()
    }

    /// Tokens per second behind the first one.
    pub fn decode_rate(&self) -> Option<f64> {
        let (first, last) = (self.at.first()?, self.at.last()?);
        let seconds = (*last - *first).as_secs_f64();
        (self.at.len() > 1 && seconds > 0.0).then(|| (self.at.len() - 1) as f64 / seconds)
    }
}

/// A greedy request for up to `max_tokens` tokens that ends at the `stop_tokens`.
pub(crate) fn greedy(
    prompt: Prompt,
    blend: BlendOptions,
    max_tokens: usize,
    stop_tokens: Arc<[TokenId]>,
) -> Request {
    Request {
        prompt,
        blend,
        cache_salt: None,
        sampling: greedily(),
        adjustments: Adjustments::default(),
        max_tokens,
        stop: Vec::new(),
        stop_tokens,
        logprobs: None,
        prompt_logprobs: None,
        capture: Capture::default(),
        priority: Priority::Normal,
        precedence: 0,
        witness: None,
    }
}

/// Takes the most likely token, always.
pub(crate) fn greedily() -> Sampling {
    Sampling {
        temperature: 0.0,
        ..Sampling::default()
    }
}

/// A request that is fed `answer` and returns the logits of each of its positions.
pub(crate) fn forced(prompt: Prompt, blend: BlendOptions, answer: Arc<[TokenId]>) -> Request {
    let capture = Capture {
        logits: true,
        forced: Some(Arc::clone(&answer)),
    };
    Request {
        capture,
        ..greedy(prompt, blend, answer.len(), [].into())
    }
}
