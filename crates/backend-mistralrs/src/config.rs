//! The numbers that describe a decoder, checked once: whoever holds a [`Config`] may compute with it.

use medley_kv::{KvDtype, KvGeometry};

use crate::rope::RopeConfig;
use crate::{Architecture, LoadError};

/// Shape and constants of a decoder.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub architecture: Architecture,
    pub layers: usize,
    /// Elements of a hidden state.
    pub width: usize,
    /// Elements inside the MLP.
    pub inner: usize,
    pub heads: usize,
    pub kv_heads: usize,
    pub head_dim: usize,
    pub vocab: usize,
    /// Added to the mean square in every norm.
    pub epsilon: f32,
    /// Longest sequence that the model was made for, in tokens.
    pub context: usize,
    pub rope: RopeConfig,
}

impl Config {
    /// Checks every number against generous limits, so that no product of them overflows and no sum divides by
    /// zero.
    pub fn check(self) -> Result<Self, LoadError> {
        let limits = [
            ("layers", self.layers, 1 << 12),
            ("hidden size", self.width, 1 << 18),
            ("feed-forward size", self.inner, 1 << 20),
            ("attention heads", self.heads, 1 << 12),
            ("key/value heads", self.kv_heads, 1 << 12),
            ("head size", self.head_dim, 1 << 12),
            ("vocabulary", self.vocab, 1 << 24),
            ("context length", self.context, 1 << 26),
        ];
        for (name, value, limit) in limits {
            if value == 0 || value > limit {
                return Err(LoadError::config(
                    name,
                    format!("{value} is not within 1..={limit}"),
                ));
            }
        }
        if !self.heads.is_multiple_of(self.kv_heads) {
            let problem = format!(
                "{} is no multiple of {} key/value heads",
                self.heads, self.kv_heads
            );
            return Err(LoadError::config("attention heads", problem));
        }
        if !self.head_dim.is_multiple_of(2) {
            return Err(LoadError::config(
                "head size",
                format!("{} is odd", self.head_dim),
            ));
        }
        if !(self.epsilon.is_finite() && self.epsilon > 0.0) {
            return Err(LoadError::config("norm epsilon", self.epsilon));
        }
        self.rope.check(self.head_dim)?;
        Ok(self)
    }

    /// Elements of all query heads of a token.
    pub fn query_width(&self) -> usize {
        self.heads * self.head_dim
    }

    /// Elements of all key heads of a token.
    pub fn key_width(&self) -> usize {
        self.kv_heads * self.head_dim
    }

    /// Shape of a token's KV in the pool.
    pub fn geometry(&self) -> KvGeometry {
        KvGeometry {
            layers: self.layers as u32,
            kv_heads: self.kv_heads as u32,
            head_dim: self.head_dim as u32,
            dtype: KvDtype::F32,
        }
    }
}

/// Refuses a sliding window that would cut sequences of `length` tokens.
pub(crate) fn check_window(key: &str, window: Option<usize>, length: usize) -> Result<(), LoadError> {
    match window {
        Some(window) if window > 0 && window < length => Err(LoadError::unsupported(
            format!("a sliding window ({key} = {window}) under a context of {length} tokens"),
            format!("full attention, or a maximum length of at most {window} tokens"),
        )),
        _ => Ok(()),
    }
}
