//! Engines on the fake backend, and prompts for them.

use std::sync::Arc;

use medley_backend::{
    Backend, BackendError, Batch, Outcome,
    fake::{FakeBackend, FakeConfig},
};
use medley_engine::{Engine, EngineConfig};
use medley_generate::TokenText;
use medley_kv::{Document, KvGeometry, Namespace, PageId, Segment, Source, TokenId};

const VOCAB: usize = 256;
/// Where documents of tests are computed behind.
const ANCHOR: [TokenId; 1] = [TokenId(1)];

/// Every token is one letter.
struct Letters(Vec<u8>);

impl TokenText for Letters {
    fn bytes(&self, token: TokenId) -> &[u8] {
        let at = token.0 as usize % self.0.len();
        &self.0[at..=at]
    }
}

/// Builds engines on the fake backend.
#[derive(Clone)]
pub struct Engines {
    pub pages: usize,
    pub config: EngineConfig,
}

impl Default for Engines {
    fn default() -> Self {
        let config = EngineConfig {
            max_model_len: 4096,
            max_sequences: 64,
            max_queue: 1024,
            step_rows: 96,
            mixed_step_rows: 40,
            resident_pages: 400,
            namespace: Namespace::builder().field("model", "fake").build(),
            resident_source: Source::Host,
            end_of_text: Arc::new([TokenId(0)]),
            unsupported: None,
        };
        Self { pages: 600, config }
    }
}

impl Engines {
    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    pub fn start(&self) -> Engine {
        self.start_on(self.backend())
    }

    pub fn backend(&self) -> FakeBackend {
        FakeBackend::new(FakeConfig {
            vocab: VOCAB,
            pages: self.pages,
            ..FakeConfig::default()
        })
    }

    pub fn start_on(&self, backend: impl Backend + 'static) -> Engine {
        let letters = Letters((b'a'..=b'z').collect());
        Engine::start(Box::new(backend), self.config.clone(), Arc::new(letters)).expect("a thread")
    }
}

/// A fake backend whose calls go through a closure.
pub struct Through<F>(pub FakeBackend, pub F);

impl<F> Backend for Through<F>
where
    F: FnMut(&mut FakeBackend, &Batch) -> Result<Outcome, BackendError> + Send,
{
    fn geometry(&self) -> KvGeometry {
        self.0.geometry()
    }

    fn vocab(&self) -> usize {
        self.0.vocab()
    }

    fn pages(&self) -> usize {
        self.0.pages()
    }

    fn copy_pages(&mut self, pairs: &[(PageId, PageId)]) -> Result<(), BackendError> {
        self.0.copy_pages(pairs)
    }

    fn run(&mut self, batch: &Batch) -> Result<Outcome, BackendError> {
        (self.1)(&mut self.0, batch)
    }
}

/// `count` tokens that follow from `seed`; never an end of text.
pub fn words(seed: u64, count: usize) -> Arc<[TokenId]> {
    let mut rng = fastrand::Rng::with_seed(seed);
    (0..count).map(|_| TokenId(rng.u32(2..VOCAB as u32))).collect()
}

/// A document of `count` tokens that follow from `seed`.
pub fn document(seed: u64, count: usize) -> Segment {
    Segment::Document(Document {
        name: None,
        tokens: words(seed, count),
        anchor: Arc::new(ANCHOR),
    })
}

/// The same behind a context of `context` tokens.
pub fn document_behind(context: usize, seed: u64, count: usize) -> Segment {
    let anchor = words(seed + 1, context);
    Segment::Document(Document {
        name: None,
        tokens: words(seed, count),
        anchor,
    })
}

/// Text of `count` tokens that follow from `seed`, behind the anchor's token.
pub fn text(seed: u64, count: usize) -> Segment {
    Segment::Text(words(seed, count))
}
