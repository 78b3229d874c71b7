//! Engines on the small real model.

use std::{path::PathBuf, sync::Arc};

use medley_backend_mistralrs::{
    ComputeDevice, LoadOptions, Loaded, ModelSource, PoolSize, TokenizerSource, load,
};
use medley_engine::{Engine, EngineConfig};
use medley_generate::TokenText;
use medley_kv::{Namespace, Source, TokenId};
use medley_prompt::{GgufVocabulary, Tokenizer};

use super::server::Words;

/// File of the small default model.
pub const SMALL: &str = "SmolLM2-135M-Instruct.Q4_1.gguf";
/// File of a model of the other family.
pub const SECOND: &str = "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf";

/// Files of models beside the small one, as far as they are there; `tests/run` fetches the first.
pub fn others() -> Vec<&'static str> {
    let there = |name: &&str| fetched(SMALL).with_file_name(name).is_file();
    [SECOND, "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"]
        .into_iter()
        .filter(there)
        .collect()
}

/// A file that `tests/run` fetches.
///
/// # Panics
/// If it is not there: these tests do not pass by not running.
pub fn fetched(name: &str) -> PathBuf {
    let folder = std::env::var_os("MEDLEY_TEST_MODELS").map(PathBuf::from);
    let cache = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache/medley/models"));
    let path = folder.or(cache).unwrap_or_default().join(name);
    assert!(
        path.is_file(),
        "{} is missing: tests/run fetches it",
        path.display()
    );
    path
}

/// Words are of no interest to these tests.
struct Silent;

impl TokenText for Silent {
    fn bytes(&self, _: TokenId) -> &[u8] {
        &[]
    }
}

/// An engine on the small model with a pool of `pages` and `resident` of them for documents.
pub fn small_model(pages: usize, resident: usize, step_rows: usize) -> Engine {
    start(small(pages), resident, step_rows, Arc::new(Silent))
}

/// The same, and its tokenizer.
pub fn small_model_with_words(pages: usize, resident: usize, step_rows: usize) -> (Engine, Tokenizer) {
    with_words(small(pages), resident, step_rows)
}

/// An engine on a loaded model, and its tokenizer.
pub fn with_words(loaded: Loaded, resident: usize, step_rows: usize) -> (Engine, Tokenizer) {
    let tokenizer = tokenizer(&loaded);
    (
        start(loaded, resident, step_rows, Arc::new(Words(tokenizer.clone()))),
        tokenizer,
    )
}

/// An engine on the model of this file, on any device.
#[cfg(feature = "cuda")]
pub fn model_on(
    name: &str,
    device: ComputeDevice,
    pages: usize,
    resident: usize,
    step_rows: usize,
) -> Engine {
    start(loaded(name, device, pages), resident, step_rows, Arc::new(Silent))
}

fn small(pages: usize) -> Loaded {
    loaded(SMALL, ComputeDevice::Cpu, pages)
}

/// The model of this file on a device, with so many pages.
pub fn loaded(name: &str, device: ComputeDevice, pages: usize) -> Loaded {
    let options = LoadOptions {
        device,
        pool: PoolSize::Pages(pages),
        ..LoadOptions::default()
    };
    load(&ModelSource::Gguf(fetched(name)), &options).expect("the model loads")
}

fn start(loaded: Loaded, resident: usize, step_rows: usize, words: Arc<dyn TokenText>) -> Engine {
    let config = EngineConfig {
        max_model_len: loaded.info.context_length,
        max_sequences: 16,
        max_queue: 64,
        step_rows,
        mixed_step_rows: step_rows,
        resident_pages: resident,
        namespace: Namespace::builder()
            .field("model", loaded.info.fingerprint)
            .build(),
        resident_source: Source::Host,
        end_of_text: Arc::new([]),
        unsupported: None,
    };
    Engine::start(loaded.backend, config, words).expect("a thread")
}

/// The tokenizer of a GGUF file.
fn tokenizer(loaded: &Loaded) -> Tokenizer {
    let TokenizerSource::Gguf {
        model,
        pre,
        tokens,
        token_types,
        merges,
        bos,
        eos,
        add_bos,
        chat_template,
        ..
    } = &loaded.tokenizer
    else {
        panic!("a GGUF file has a GGUF tokenizer");
    };
    let vocabulary = GgufVocabulary {
        model: model.clone(),
        pre: pre.clone(),
        tokens: tokens.clone(),
        token_types: token_types.clone(),
        merges: merges.clone(),
        bos: *bos,
        eos: *eos,
        add_bos: *add_bos,
        chat_template: chat_template.clone(),
        ..GgufVocabulary::default()
    };
    Tokenizer::from_gguf(vocabulary).expect("a tokenizer")
}
