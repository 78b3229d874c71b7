//! Prompts of random tokens: instructions, documents in some order, a question.

use std::sync::Arc;

use anyhow::Result;
use fastrand::Rng;
use medley_kv::{Document, Prompt, Segment, TokenId};

/// Tokens in front of the documents.
const INSTRUCTION_TOKENS: usize = 16;

/// Tokens of the question.
const QUESTION_TOKENS: usize = 64;

/// Makes prompts over one vocabulary.
pub(super) struct Prompts {
    vocab: usize,
    anchor: Arc<[TokenId]>,
    rng: Rng,
}

impl Prompts {
    pub fn new(vocab: usize) -> Self {
        Self {
            vocab,
            anchor: [TokenId(1)].into(),
            rng: Rng::with_seed(7),
        }
    }

    /// `count` random tokens.
    pub fn tokens(&mut self, count: usize) -> Arc<[TokenId]> {
        let token = |rng: &mut Rng| TokenId(rng.u32(2..self.vocab as u32));
        (0..count).map(|_| token(&mut self.rng)).collect()
    }

    /// Documents of `tokens` tokens each.
    pub fn documents(&mut self, count: usize, tokens: usize) -> Vec<Arc<[TokenId]>> {
        (0..count).map(|_| self.tokens(tokens)).collect()
    }

    /// The documents in a random order, with instructions that are always the same and a question of its own.
    pub fn ask(&mut self, documents: &[Arc<[TokenId]>]) -> Result<Prompt> {
        let mut order: Vec<_> = documents.iter().collect();
        self.rng.shuffle(&mut order);
        let instructions = std::iter::once(TokenId(1)).chain((2..=INSTRUCTION_TOKENS as u32).map(TokenId));
        let mut segments = vec![Segment::Text(instructions.collect())];
        segments.extend(order.into_iter().map(|tokens| {
            Segment::Document(Document {
                name: None,
                tokens: Arc::clone(tokens),
                anchor: Arc::clone(&self.anchor),
            })
        }));
        segments.push(Segment::Text(self.tokens(QUESTION_TOKENS)));
        Ok(Prompt::new(segments)?)
    }

    /// Some `count` of the documents.
    pub fn some(&mut self, documents: &[Arc<[TokenId]>], count: usize) -> Vec<Arc<[TokenId]>> {
        self.rng.choose_multiple(documents.iter().cloned(), count)
    }

    /// A prompt of `count` tokens without documents.
    pub fn plain(&mut self, count: usize) -> Result<Prompt> {
        Ok(Prompt::new(vec![Segment::Text(self.tokens(count))])?)
    }
}
