//! What is measured.

use std::sync::Arc;

use medley_generate::{Generate, ModelCard};
use medley_prompt::{Composer, Tokenizer};

/// A running engine and the composition of its prompts.
#[derive(Clone)]
pub struct Subject {
    /// The name of the model, as results show it.
    pub name: String,
    /// What its documents stand behind, as results show it: part of what makes results comparable.
    pub anchor: String,
    /// Runs requests.
    pub engine: Arc<dyn Generate>,
    /// Makes prompts.
    pub composer: Arc<Composer>,
}

impl Subject {
    /// The model's tokenizer.
    pub fn tokenizer(&self) -> &Tokenizer {
        self.composer.tokenizer()
    }

    /// What is served.
    pub fn card(&self) -> &ModelCard {
        self.engine.model()
    }
}
