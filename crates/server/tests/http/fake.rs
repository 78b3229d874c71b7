//! An engine that plays what a test scripts.

use std::sync::{Arc, Mutex};

use medley_generate::{
    Event, EventStream, FinishReason, Gauges, Generate, GenerateError, ModelCard, Request, SubmitError,
    TokenEvent,
};
use medley_kv::{DocumentReport, Plan, Report, Source, Span, Strategy, Timing, TokenCounts, TokenId};
use tokio::sync::{mpsc, watch};

/// What the engine does with a request.
pub enum Play {
    /// Refuses it.
    Refuse(SubmitError),
    /// Sends these events and ends the stream.
    Events(Vec<Event>),
    /// Sends these events; the test has the sender.
    Open(Vec<Event>),
}

type Script = dyn Fn(usize, &Request) -> Play + Send + Sync;

/// The scripted engine.
pub struct Fake {
    pub card: ModelCard,
    pub gauges: Gauges,
    script: Box<Script>,
    /// All requests that were submitted.
    pub requests: Mutex<Vec<Request>>,
    /// Senders of open streams.
    pub open: Mutex<Vec<mpsc::UnboundedSender<Event>>>,
    submitted: watch::Sender<usize>,
}

impl Fake {
    /// Plays `script(k, request)` for the k-th request.
    pub fn new(script: impl Fn(usize, &Request) -> Play + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self::bare(script))
    }

    /// The same, to be edited.
    pub fn bare(script: impl Fn(usize, &Request) -> Play + Send + Sync + 'static) -> Self {
        Self {
            card: ModelCard {
                max_model_len: 200,
                vocab: 258,
                unsupported: None,
                end_of_text: vec![TokenId(257)],
                created: 1_700_000_000,
            },
            gauges: Gauges::default(),
            script: Box::new(script),
            requests: Mutex::default(),
            open: Mutex::default(),
            submitted: watch::Sender::new(0),
        }
    }

    /// Answers every request with these pieces of text.
    pub fn says(pieces: &'static [&'static str]) -> Arc<Self> {
        Self::new(move |_, request| Play::Events(answer(request, pieces)))
    }

    /// Resolves when `count` requests have been submitted.
    pub async fn submitted(&self, count: usize) {
        self.submitted
            .subscribe()
            .wait_for(|now| *now >= count)
            .await
            .expect("the fake lives");
    }

    /// The sender of the k-th open stream.
    pub fn sender(&self, k: usize) -> mpsc::UnboundedSender<Event> {
        self.open.lock().expect("lock")[k].clone()
    }

    /// The requests so far.
    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().expect("lock").clone()
    }
}

impl Fake {
    fn play(&self, request: Request) -> Result<EventStream, SubmitError> {
        let k = self.requests.lock().expect("lock").len();
        let play = (self.script)(k, &request);
        self.requests.lock().expect("lock").push(request);
        let (sender, stream) = mpsc::unbounded_channel();
        let send = |events: Vec<Event>| {
            events
                .into_iter()
                .for_each(|event| sender.send(event).expect("received"));
        };
        match play {
            Play::Refuse(error) => return Err(error),
            Play::Events(events) => send(events),
            Play::Open(events) => {
                send(events);
                self.open.lock().expect("lock").push(sender);
            }
        }
        self.submitted.send_modify(|count| *count += 1);
        Ok(stream)
    }
}

impl Generate for Fake {
    fn submit_all(&self, requests: Vec<Request>) -> Result<Vec<EventStream>, SubmitError> {
        requests.into_iter().map(|request| self.play(request)).collect()
    }

    fn model(&self) -> &ModelCard {
        &self.card
    }

    fn gauges(&self) -> Gauges {
        self.gauges
    }
}

/// A whole life of a request that generates these pieces, one token each, and stops.
pub fn answer(request: &Request, pieces: &[&str]) -> Vec<Event> {
    let mut events = vec![planned(request)];
    events.extend(pieces.iter().map(|piece| token(piece)));
    events.push(finished(request, FinishReason::Stop, ""));
    events
}

/// The plan: two tokens of an exact prefix; of every document one token repaired, the others reused.
pub fn planned(request: &Request) -> Event {
    Event::Planned(Box::new(report(request)))
}

/// The end.
pub fn finished(request: &Request, reason: FinishReason, text: &str) -> Event {
    let timing = Timing {
        queue: 1.5,
        prefill: 31.0,
        ..Timing::default()
    };
    let report = Report {
        timing,
        ..report(request)
    };
    Event::Finished {
        reason,
        text: text.to_owned(),
        report: Box::new(report),
    }
}

/// A token with the text that it makes certain; the token is the text's first byte.
pub fn token(text: &str) -> Event {
    let token = TokenId(text.bytes().next().map_or(0, u32::from));
    Event::Token(TokenEvent {
        token,
        text: text.to_owned(),
        logprob: None,
        top: Vec::new(),
        logits: None,
    })
}

/// The engine fails.
pub fn broken() -> Event {
    Event::Failed(GenerateError::Engine(
        "page 7 of secret.bin is damaged".to_owned(),
    ))
}

fn report(request: &Request) -> Report {
    let documents = documents(request);
    let sum = |count: fn(&DocumentReport) -> usize| documents.iter().map(count).sum::<usize>();
    let (reused, repaired) = (sum(|d| d.reused), sum(|d| d.repaired));
    let fresh = request.prompt.len() - reused - repaired - 2;
    Report {
        plan: if documents.is_empty() {
            Plan::Exact
        } else {
            Plan::Blended
        },
        reason: None,
        ratio: request.blend.ratio,
        strategy: Strategy::Query,
        hops: request.blend.hops,
        rounds: request.blend.rounds,
        tokens: TokenCounts {
            exact_prefix: 2,
            reused,
            computed: 0,
            repaired,
            fresh,
        },
        rows: 0,
        documents,
        timing: Timing::default(),
    }
}

fn documents(request: &Request) -> Vec<DocumentReport> {
    let mut offset = 1;
    let each = request.prompt.documents().enumerate().map(|(index, document)| {
        let tokens = document.tokens.len();
        let start = offset;
        offset += tokens;
        DocumentReport {
            index,
            name: document.name.clone(),
            document_id: format!("doc_{index}"),
            tokens,
            offset: start,
            source: Source::Host,
            reused: tokens - 1,
            computed: 0,
            repaired: 1,
            repaired_ranges: vec![Span {
                start: start as u32,
                len: 1,
            }],
        }
    });
    each.collect()
}
