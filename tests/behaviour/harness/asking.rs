//! Submits requests and collects their events.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use medley_generate::{
    Adjustments, Capture, Event, EventStream, FinishReason, Generate, GenerateError, Priority, PromptToken,
    Request, Sampling, SubmitError,
};
use medley_kv::{BlendMode, BlendOptions, Prompt, Ratio, Report, Segment, Strategy, TokenId};

/// As long as anything is waited for.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Every selection rule: strategy, hops, rounds.
pub const RULES: [(Strategy, u8, u8); 6] = [
    (Strategy::Auto, 0, 1),
    (Strategy::Heads, 0, 1),
    (Strategy::Deviation, 0, 1),
    (Strategy::Query, 0, 1),
    (Strategy::Query, 1, 1),
    (Strategy::Query, 2, 3),
];

/// A request in the making.
#[derive(Clone)]
pub struct Ask(pub Request);

impl Ask {
    /// Greedy, blended by the defaults, 8 tokens.
    pub fn new(segments: Vec<Segment>) -> Self {
        Self::of(Prompt::new(segments).expect("a prompt"))
    }

    /// The same for a whole prompt.
    pub fn of(prompt: Prompt) -> Self {
        Self(Request {
            prompt,
            blend: BlendOptions::default(),
            cache_salt: None,
            sampling: Sampling {
                temperature: 0.0,
                ..Sampling::default()
            },
            adjustments: Adjustments::default(),
            max_tokens: 8,
            stop: Vec::new(),
            stop_tokens: Arc::new([]),
            logprobs: None,
            prompt_logprobs: None,
            capture: Capture {
                logits: true,
                forced: None,
            },
            priority: Priority::Normal,
            precedence: 0,
            witness: None,
        })
    }

    pub fn mode(mut self, mode: BlendMode) -> Self {
        self.0.blend.mode = mode;
        self
    }

    pub fn ratio(mut self, ratio: f64) -> Self {
        self.0.blend.ratio = Ratio::new(ratio).expect("a ratio");
        self
    }

    pub fn strategy(mut self, strategy: Strategy) -> Self {
        self.0.blend.strategy = strategy;
        self
    }

    pub fn refined(mut self, hops: u8, rounds: u8) -> Self {
        (self.0.blend.hops, self.0.blend.rounds) = (hops, rounds);
        self
    }

    pub fn salt(mut self, salt: &str) -> Self {
        self.0.cache_salt = Some(salt.to_owned());
        self
    }

    pub fn max_tokens(mut self, max_tokens: usize) -> Self {
        self.0.max_tokens = max_tokens;
        self
    }

    pub fn with(mut self, change: impl FnOnce(&mut Request)) -> Self {
        change(&mut self.0);
        self
    }
}

/// What an engine answered.
#[derive(Clone, Debug)]
pub struct Answer {
    pub text: String,
    /// The prompt's tokens, if their log-probabilities were asked for.
    pub prompt: Vec<PromptToken>,
    pub tokens: Vec<TokenId>,
    /// Logits of every generated token.
    pub logits: Vec<Vec<f32>>,
    pub reason: FinishReason,
    pub report: Report,
}

impl Answer {
    /// Logits behind the prompt.
    pub fn first_logits(&self) -> &[f32] {
        &self.logits[0]
    }

    /// The source of every document.
    pub fn sources(&self) -> Vec<&'static str> {
        self.report.documents.iter().map(|d| d.source.name()).collect()
    }
}

/// Asks and waits for the answer.
pub fn ask(engine: &dyn Generate, ask: &Ask) -> Answer {
    try_ask(engine, ask).expect("submitted").expect("answered")
}

/// Asks all at once and waits for all answers.
pub fn ask_all(engine: &dyn Generate, asks: &[Ask]) -> Vec<Answer> {
    let streams: Vec<_> = asks
        .iter()
        .map(|a| engine.submit(a.0.clone()).expect("submitted"))
        .collect();
    streams
        .into_iter()
        .map(|s| collect(s).expect("answered"))
        .collect()
}

/// Waits until an engine holds nothing for anybody; panics if it never does.
pub fn settle(engine: &dyn Generate) {
    let patience = Instant::now() + PATIENCE;
    loop {
        let gauges = engine.gauges();
        let held = [
            gauges.waiting,
            gauges.running,
            gauges.background,
            gauges.private_pages,
            gauges.leases,
            gauges.computing,
        ];
        if held == [0; 6] {
            return;
        }
        assert!(Instant::now() < patience, "still held: {gauges:?}");
        std::thread::yield_now();
    }
}

/// Asks; both kinds of failure are returned.
pub fn try_ask(engine: &dyn Generate, ask: &Ask) -> Result<Result<Answer, GenerateError>, SubmitError> {
    engine.submit(ask.0.clone()).map(collect)
}

/// The largest difference of any logit; NaN if there is one anywhere.
pub fn distance(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    let differences = a.iter().zip(b).map(|(x, y)| (x - y).abs());
    differences.max_by(f32::total_cmp).unwrap_or(0.0)
}

/// Collects a stream to its end.
pub fn collect(mut stream: EventStream) -> Result<Answer, GenerateError> {
    let (mut text, mut tokens, mut all_logits, mut planned) = (String::new(), Vec::new(), Vec::new(), None);
    let mut prompt = Vec::new();
    while let Some(event) = stream.blocking_recv() {
        match event {
            Event::Planned(report) => {
                assert!(planned.replace(*report).is_none(), "planned twice");
            }
            Event::Prompt(tokens) => prompt.extend(tokens),
            Event::Token(token) => {
                text += &token.text;
                tokens.push(token.token);
                all_logits.extend(token.logits);
            }
            Event::Finished {
                reason,
                text: rest,
                report,
            } => {
                text += &rest;
                assert!(stream.blocking_recv().is_none(), "an event behind the last one");
                let planned = planned.expect("planned before it finished");
                assert_eq!(planned.tokens, report.tokens, "the plan changed");
                return Ok(Answer {
                    text,
                    prompt,
                    tokens,
                    logits: all_logits,
                    reason,
                    report: *report,
                });
            }
            Event::Failed(error) => return Err(error),
        }
    }
    panic!("the stream ended without a last event")
}

/// Logits of `target`'s first token, with other requests over the documents of `prompt` before and beside it: some finish,
/// some are abandoned.
pub fn live(
    engine: &dyn Generate,
    rng: &mut fastrand::Rng,
    target: &Ask,
    prompt: impl Fn(&[u64]) -> Vec<Segment>,
) -> Vec<f32> {
    let other = |rng: &mut fastrand::Rng| {
        let order: Vec<u64> = (0..rng.usize(1..3)).map(|_| rng.u64(0..7)).collect();
        let strategy = [Strategy::Query, Strategy::Heads, Strategy::Deviation][rng.usize(0..3)];
        Ask::new(prompt(&order))
            .strategy(strategy)
            .max_tokens(rng.usize(1..4))
    };
    let beside: Vec<_> = (0..rng.usize(0..3))
        .map(|_| engine.submit(other(rng).0).expect("submitted"))
        .collect();
    let answer = ask(engine, target);
    for stream in beside {
        if rng.bool() {
            collect(stream).expect("answered");
        }
    }
    answer.first_logits().to_vec()
}
