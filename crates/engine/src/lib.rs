//! One task that turns requests into rows and rows into text.
//!
//! [`Engine`] implements [`Generate`]. Behind it one thread owns the backend: admission reserves pages, missing
//! documents are computed alone, the selection decides which rows to repair, and sequences of any lengths share
//! every step.
//!
//! **Invariants**
//! - The answer to a request depends on the request and the configuration, never on what is resident: a missing
//!   document is computed first and then used as if it had been there.
//! - Approximate KV (overlays) is never published; only exact prefixes and canonical documents are shared.
//! - Dropping a request's event stream gives back all it holds before the next step.
//!
//! The engine knows no HTTP, no tokenizer (only the bytes of tokens) and no tensors.

mod account;
mod adjust;
mod admission;
mod canonical;
mod chain;
mod chunk;
mod config;
mod events;
mod holdings;
mod pass;
mod sampler;
mod sequence;
mod shared;
mod siblings;
mod stem;
mod text;
mod trunk;
mod voice;
mod worker;

use std::{
    panic::{self, AssertUnwindSafe},
    sync::Arc,
    thread,
    time::{Instant, SystemTime, UNIX_EPOCH},
};

pub use config::EngineConfig;
use medley_backend::Backend;
use medley_generate::{EventStream, Gauges, Generate, ModelCard, Request, SubmitError, TokenText};
use medley_kv::{BlendMode, PAGE_TOKENS, Strategy};
use tokio::sync::mpsc::{self, UnboundedSender};

use crate::{
    admission::{Need, Queued},
    events::{Events, Place},
    shared::Shared,
    trunk::Group,
    worker::Worker,
};

/// The handle of a running engine. Dropping it lets submitted requests finish and then ends the task.
pub struct Engine {
    config: EngineConfig,
    card: ModelCard,
    last_layer: u32,
    pages: usize,
    inbox: UnboundedSender<Queued>,
    shared: Arc<Shared>,
}

impl Engine {
    /// Starts the engine's task on a backend.
    ///
    /// # Errors
    /// If the system can't start a thread.
    pub fn start(
        backend: Box<dyn Backend>,
        config: EngineConfig,
        text: Arc<dyn TokenText>,
    ) -> std::io::Result<Self> {
        let (inbox, receiver) = mpsc::unbounded_channel();
        let (geometry, pages) = (backend.geometry(), backend.pages());
        let page_bytes = geometry.bytes_per_token() * PAGE_TOKENS;
        let capacity = config.resident_pages.min(pages) * page_bytes;
        let gauges = Gauges {
            pool_pages: pages,
            page_bytes,
            resident_capacity: capacity,
            ..Gauges::default()
        };
        let shared = Arc::new(Shared::new(gauges, config.max_queue, config.max_sequences));
        let card = ModelCard {
            max_model_len: config.max_model_len,
            vocab: backend.vocab(),
            unsupported: config.unsupported.clone(),
            end_of_text: config.end_of_text.to_vec(),
            created: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default()
                .as_secs(),
        };
        let worker = Worker::new(backend, config.clone(), text, receiver, shared.clone());
        let task = {
            let shared = shared.clone();
            move || live(worker, &shared)
        };
        thread::Builder::new()
            .name("medley-engine".to_owned())
            .spawn(task)?;
        Ok(Self {
            config,
            card,
            last_layer: geometry.layers.saturating_sub(1),
            pages,
            inbox,
            shared,
        })
    }

    /// Takes no further requests; those submitted go on.
    pub fn close(&self) {
        self.shared.close();
    }

    /// Sends a request that has its place in the queue. If the task is gone, the stream ends at once.
    fn queue(&self, request: Request, place: Place, group: Option<Arc<Group>>) -> EventStream {
        let (sender, stream) = mpsc::unbounded_channel();
        let priority = request.priority;
        let queued = Queued {
            request,
            events: Events::new(sender, place),
            submitted: Instant::now(),
            group,
        };
        if self.inbox.send(queued).is_err() {
            self.shared.arrived(priority);
        }
        stream
    }

    fn check(&self, request: &Request) -> Result<(), SubmitError> {
        self.check_lengths(request)?;
        self.check_tokens(request)?;
        let blend = &request.blend;
        let deviation = blend.mode == BlendMode::Auto && blend.strategy == Strategy::Deviation;
        if deviation && !(1..=self.last_layer).contains(&blend.check_layer) {
            return Err(SubmitError::CheckLayer {
                layer: blend.check_layer,
                last: self.last_layer,
            });
        }
        let needed = Need::of(request, &self.config, self.pages).pages_at_most(request);
        if needed > self.pages {
            return Err(SubmitError::TooLarge {
                needed,
                pages: self.pages,
            });
        }
        Ok(())
    }

    fn check_lengths(&self, request: &Request) -> Result<(), SubmitError> {
        let (tokens, context) = (request.prompt.len(), self.config.max_model_len);
        if tokens >= context {
            return Err(SubmitError::PromptTooLong { tokens, context });
        }
        let lengths = request
            .prompt
            .documents()
            .map(|d| d.anchor.len() + d.tokens.len());
        match lengths.enumerate().find(|(_, tokens)| *tokens > context) {
            Some((index, tokens)) => Err(SubmitError::DocumentTooLong {
                index,
                tokens,
                context,
            }),
            None => Ok(()),
        }
    }

    /// One request's token without a logit would fail everybody's step.
    fn check_tokens(&self, request: &Request) -> Result<(), SubmitError> {
        let prompt = request.prompt.segments().iter().flat_map(|s| s.tokens());
        let anchors = request.prompt.documents().flat_map(|d| d.anchor.iter());
        let forced = request.capture.forced.iter().flat_map(|f| f.iter());
        let vocab = self.card.vocab;
        match prompt
            .chain(anchors)
            .chain(forced)
            .find(|t| t.0 as usize >= vocab)
        {
            Some(token) => Err(SubmitError::TokenOutsideVocabulary {
                token: token.0,
                vocab,
            }),
            None => Ok(()),
        }
    }
}

/// Runs the task to its end. A panic in it is a mistake of ours: from then on nothing is taken, and the gauges say so.
fn live(worker: Worker, shared: &Shared) {
    if panic::catch_unwind(AssertUnwindSafe(|| worker.run())).is_err() {
        tracing::error!("the engine's task has panicked; no requests are taken any more");
        shared.fail();
    }
}

impl Generate for Engine {
    fn submit_all(&self, requests: Vec<Request>) -> Result<Vec<EventStream>, SubmitError> {
        requests.iter().try_for_each(|request| self.check(request))?;
        let priorities: Vec<_> = requests.iter().map(|request| request.priority).collect();
        let places = self.shared.enqueue(&priorities)?;
        let groups = siblings::groups(&requests);
        let queued = requests.into_iter().zip(places).zip(groups);
        Ok(queued
            .map(|((request, place), group)| self.queue(request, place, group))
            .collect())
    }

    fn model(&self) -> &ModelCard {
        &self.card
    }

    fn gauges(&self) -> Gauges {
        self.shared.gauges()
    }
}
