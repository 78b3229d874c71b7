//! Load on an OpenAI server: clients or arrivals, over documents of which a few are popular.
//!
//! Times begin when a request is due, not when it could be sent: a server that is behind can't hide it. The server may be any
//! that answers `/v1/completions`.

mod arrivals;
mod client;
mod corpus;
mod report;
mod request;

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use fastrand::Rng;
use tokio::task::JoinSet;

pub use arrivals::Arrivals;
use client::Target;
pub use corpus::Corpus;
pub use report::{Percentiles, Report};
pub use request::Form;
use request::Requests;

/// Requests that have not ended this long after the last one was due count as failed.
const GRACE: Duration = Duration::from_secs(120);

/// A load.
#[derive(Clone, Debug)]
pub struct Options {
    /// The server, without `/v1`.
    pub url: String,
    /// The model to name; `None` names the first that the server names.
    pub model: Option<String>,
    /// Sent as a bearer token.
    pub api_key: Option<String>,
    /// When requests begin.
    pub arrivals: Arrivals,
    /// How long requests begin.
    pub duration: Duration,
    /// Requests at most.
    pub requests: Option<usize>,
    /// The documents.
    pub corpus: Corpus,
    /// What is asked.
    pub traffic: Traffic,
}

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Traffic {
    /// Documents of a request.
    pub documents: usize,
    /// Exponent of Zipf's law, by which documents are drawn.
    pub zipf: f64,
    /// How documents are sent.
    pub form: Form,
    /// Tokens of an answer at most.
    pub max_tokens: usize,
    /// Answers do not end before that; not every server knows it.
    pub ignore_eos: bool,
    /// Share of requests that stream.
    pub stream: f64,
    /// Share of requests whose client goes away within a second.
    pub hang_up: f64,
    /// Same seed, same requests.
    pub seed: u64,
}

impl Default for Traffic {
    fn default() -> Self {
        Self {
            documents: 4,
            zipf: 1.0,
            form: Form::Documents,
            max_tokens: 32,
            ignore_eos: false,
            stream: 1.0,
            hang_up: 0.0,
            seed: 0,
        }
    }
}

/// Puts the load on the server and waits for its end.
pub async fn run(options: Options) -> Result<Report> {
    let target = Target {
        client: reqwest::Client::builder()
            .pool_max_idle_per_host(usize::MAX)
            .build()?,
        base: format!("{}/v1", options.url.trim_end_matches('/')),
        api_key: options.api_key,
    };
    let model = match options.model {
        Some(model) => model,
        None => target
            .first_model()
            .await
            .with_context(|| format!("{} names no model", options.url))?,
    };
    let start = Instant::now();
    let load = Arc::new(Load {
        target,
        requests: Requests::new(model, options.traffic, options.corpus),
        most: options.requests.unwrap_or(usize::MAX),
        end: start + options.duration,
        next: AtomicUsize::new(0),
        tally: Mutex::new(report::Tally::new()),
    });
    match options.arrivals {
        Arrivals::Closed { clients } => Arc::clone(&load).clients(clients).await,
        Arrivals::Poisson { per_second } => {
            let rng = Rng::with_seed(options.traffic.seed);
            Arc::clone(&load).arrivals(per_second, start, rng).await;
        }
    }
    let elapsed = start.elapsed();
    let mut tally = load.tally();
    Ok(std::mem::replace(&mut *tally, report::Tally::new()).report(elapsed))
}

/// A load while it runs.
struct Load {
    target: Target,
    requests: Requests,
    most: usize,
    end: Instant,
    next: AtomicUsize,
    tally: Mutex<report::Tally>,
}

impl Load {
    fn tally(&self) -> MutexGuard<'_, report::Tally> {
        // A count that a panic left behind is as good as any.
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of the next request, unless the load is over.
    fn next(&self) -> Option<usize> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        (number < self.most && Instant::now() < self.end).then_some(number)
    }

    async fn send(&self, number: usize, due: Instant) {
        let outcome = self.target.ask(self.requests.get(number), due).await;
        let mut tally = self.tally();
        tally.add(outcome);
    }

    async fn clients(self: Arc<Self>, clients: usize) {
        let mut running = JoinSet::new();
        for _ in 0..clients {
            let load = Arc::clone(&self);
            running.spawn(async move {
                while let Some(number) = load.next() {
                    load.send(number, Instant::now()).await;
                }
            });
        }
        self.wait(running).await;
    }

    async fn arrivals(self: Arc<Self>, per_second: f64, start: Instant, mut rng: Rng) {
        let mut running = JoinSet::new();
        let mut due = start;
        while let Some(number) = self.next() {
            due += arrivals::gap(per_second, &mut rng);
            if due >= self.end {
                break;
            }
            tokio::time::sleep_until(due.into()).await;
            let load = Arc::clone(&self);
            running.spawn(async move { load.send(number, due).await });
            // Those that have ended are let go of.
            while running.try_join_next().is_some() {}
        }
        self.wait(running).await;
    }

    /// Waits for requests under way; those that take too long count as failed.
    async fn wait(&self, mut running: JoinSet<()>) {
        let patience = self.end.saturating_duration_since(Instant::now()) + GRACE;
        let all = async { while running.join_next().await.is_some() {} };
        if tokio::time::timeout(patience, all).await.is_err() {
            let mut tally = self.tally();
            for _ in 0..running.len() {
                tally.add(client::Outcome::Failed("no end in two minutes".to_owned()));
            }
        }
    }
}
