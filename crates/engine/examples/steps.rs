//! Time that the engine itself takes for a decoding step: a backend that computes nothing, and streams whose listeners
//! run on other threads. `cargo run --release -p medley-engine --example steps -- 128 1024`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use medley_backend::{Backend, BackendError, Batch, Outcome};
use medley_engine::{Engine, EngineConfig};
use medley_generate::{Adjustments, Capture, Event, Generate, Priority, Request, Sampling, TokenText};
use medley_kv::{
    BlendMode, BlendOptions, KvDtype, KvGeometry, Namespace, PageId, Prompt, Segment, Source, TokenId,
};

/// Computes nothing, and counts how long that takes.
struct Nothing(Arc<AtomicU64>);

impl Backend for Nothing {
    fn geometry(&self) -> KvGeometry {
        KvGeometry {
            layers: 1,
            kv_heads: 1,
            head_dim: 64,
            dtype: KvDtype::Bf16,
        }
    }

    fn vocab(&self) -> usize {
        1000
    }

    fn pages(&self) -> usize {
        100_000
    }

    fn copy_pages(&mut self, _: &[(PageId, PageId)]) -> Result<(), BackendError> {
        Ok(())
    }

    fn run(&mut self, batch: &Batch) -> Result<Outcome, BackendError> {
        let start = Instant::now();
        let outcome = Outcome {
            drawn: batch
                .draws
                .iter()
                .map(|draw| TokenId(5 + draw.row as u32 % 7))
                .collect(),
            ..Outcome::default()
        };
        // As long as a device takes, so that listeners do not fall behind.
        while start.elapsed().as_millis() < 3 {}
        self.0
            .fetch_add(start.elapsed().as_nanos() as u64, Ordering::Relaxed);
        Ok(outcome)
    }
}

struct Words;

impl TokenText for Words {
    fn bytes(&self, _: TokenId) -> &[u8] {
        b" word"
    }
}

#[tokio::main]
async fn main() {
    let mut arguments = std::env::args().skip(1).map(|n| n.parse().expect("a number"));
    let streams: usize = arguments.next().unwrap_or(128);
    let context: usize = arguments.next().unwrap_or(1024);
    let inside = Arc::new(AtomicU64::new(0));
    let steps = 300;
    let config = EngineConfig {
        max_model_len: context + steps + 1,
        max_sequences: streams,
        max_queue: streams,
        step_rows: 8192,
        mixed_step_rows: 8192,
        resident_pages: 100,
        namespace: Namespace::builder().build(),
        resident_source: Source::Gpu,
        end_of_text: [].into(),
        unsupported: None,
    };
    let engine =
        Engine::start(Box::new(Nothing(Arc::clone(&inside))), config, Arc::new(Words)).expect("a thread");
    let request = |seed: u32| Request {
        prompt: Prompt::new(vec![Segment::Text(
            (0..context as u32)
                .map(|i| TokenId((seed * 31 + i) % 997))
                .collect(),
        )])
        .expect("tokens"),
        blend: BlendOptions {
            mode: BlendMode::Exact,
            ..BlendOptions::default()
        },
        cache_salt: None,
        sampling: Sampling {
            temperature: 0.0,
            ..Sampling::default()
        },
        adjustments: Adjustments::default(),
        max_tokens: steps,
        stop: Vec::new(),
        stop_tokens: [].into(),
        logprobs: None,
        prompt_logprobs: None,
        capture: Capture::default(),
        priority: Priority::Normal,
        precedence: 0,
        witness: None,
    };
    let events = engine
        .submit_all((0..streams as u32).map(request).collect())
        .expect("room");
    let listeners = events.into_iter().map(|mut events| {
        tokio::spawn(async move {
            let mut at = Vec::new();
            while let Some(event) = events.recv().await {
                if matches!(event, Event::Token(_)) {
                    at.push(Instant::now());
                }
            }
            at
        })
    });
    let mut last = Vec::new();
    for listener in listeners.collect::<Vec<_>>() {
        let at = listener.await.expect("a listener");
        last.push((at[steps - 1] - at[steps - 201]).as_secs_f64() / 200.0);
    }
    let step = last.iter().sum::<f64>() / last.len() as f64;
    println!(
        "{streams} streams at {context}: a step takes {:.0} us beside the backend's 3000",
        (step - 3e-3) * 1e6
    );
}
