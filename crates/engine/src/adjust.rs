//! What a request changes about logits before a token is drawn from them.
//!
//! The order is vLLM's. Stop tokens are masked while the text must go on, then come the bias, the penalties
//! (repetition, frequency, presence), the temperature, min-p, and at last top-k and top-p, which are the draw's own
//! ([`medley_backend::draw`]). Min-p is stated here on logits: a token's probability is less than a share of the most
//! probable one's exactly if its logit lies further below than `-temperature · ln(share)`.
//!
//! A mask of what may follow at all has its place in front, beside that of the stop tokens.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use medley_backend::most_likely;
use medley_generate::{Adjustments, Request};
use medley_kv::TokenId;

/// Adjusts the logits of one text as it grows.
pub(crate) struct Adjuster {
    adjustments: Adjustments,
    /// 0 is greedy.
    temperature: f32,
    stop_tokens: Arc<[TokenId]>,
    /// Tokens that a repetition would repeat: the prompt's, and then the text's.
    known: HashSet<TokenId>,
    /// How often each token was said.
    said: HashMap<TokenId, u32>,
    length: usize,
}

impl Adjuster {
    /// The adjuster of a request whose text is empty.
    pub(crate) fn new(request: &Request) -> Self {
        let adjustments = request.adjustments.clone();
        let known = match adjustments.repetition_penalty == 1.0 {
            true => HashSet::new(),
            false => request.prompt.tokens().into_iter().collect(),
        };
        Self {
            adjustments,
            temperature: request.sampling.temperature,
            stop_tokens: request.stop_tokens.clone(),
            known,
            said: HashMap::new(),
            length: 0,
        }
    }

    /// Whether the next token's logits are changed at all.
    pub(crate) fn is_active(&self) -> bool {
        let neutral = Adjustments {
            bias: self.adjustments.bias.clone(),
            min_tokens: self.adjustments.min_tokens,
            ..Adjustments::default()
        };
        self.must_go_on() || !self.adjustments.bias.is_empty() || self.adjustments != neutral
    }

    /// Whether nothing may end the text yet.
    pub(crate) fn must_go_on(&self) -> bool {
        self.length < self.adjustments.min_tokens
    }

    /// Changes the next token's logits.
    pub(crate) fn apply(&self, logits: &mut [f32]) {
        if self.must_go_on() {
            mask(logits, &self.stop_tokens);
        }
        self.add_bias(logits);
        self.penalise(logits);
        self.cut_improbable(logits);
    }

    /// Counts a token of the text.
    pub(crate) fn said(&mut self, token: TokenId) {
        self.known.insert(token);
        *self.said.entry(token).or_default() += 1;
        self.length += 1;
    }

    fn add_bias(&self, logits: &mut [f32]) {
        for &(token, bias) in self.adjustments.bias.iter() {
            change(logits, token, |logit| logit + bias);
        }
    }

    fn penalise(&self, logits: &mut [f32]) {
        let by = &self.adjustments;
        if by.repetition_penalty != 1.0 {
            for &token in &self.known {
                change(logits, token, |logit| match logit > 0.0 {
                    true => logit / by.repetition_penalty,
                    false => logit * by.repetition_penalty,
                });
            }
        }
        for (&token, &times) in &self.said {
            change(logits, token, |logit| {
                logit - by.frequency_penalty * times as f32 - by.presence_penalty
            });
        }
    }

    fn cut_improbable(&self, logits: &mut [f32]) {
        let share = self.adjustments.min_p;
        let best = logits.get(most_likely(logits).0 as usize).copied();
        if let Some(best) = best.filter(|_| share > 0.0) {
            let least = f64::from(best) + f64::from(self.temperature) * f64::from(share).ln();
            let improbable = logits.iter_mut().filter(|logit| f64::from(**logit) < least);
            improbable.for_each(|logit| *logit = f32::NEG_INFINITY);
        }
    }
}

fn mask(logits: &mut [f32], tokens: &[TokenId]) {
    tokens
        .iter()
        .for_each(|&token| change(logits, token, |_| f32::NEG_INFINITY));
}

fn change(logits: &mut [f32], token: TokenId, to: impl FnOnce(f32) -> f32) {
    if let Some(logit) = logits.get_mut(token.0 as usize) {
        *logit = to(*logit);
    }
}

#[cfg(test)]
mod tests;
