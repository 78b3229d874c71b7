//! What a fake backend pretends to be.

use medley_kv::{KvDtype, KvGeometry, TokenId};

/// The shape of a [`super::FakeBackend`].
#[derive(Clone, Debug)]
pub struct FakeConfig {
    /// What [`crate::Backend::geometry`] says; changes nothing else.
    pub geometry: KvGeometry,
    /// Number of token ids. Logits cost a call as many steps.
    pub vocab: usize,
    /// Pages in the pool.
    pub pages: usize,
    /// Tokens that are never the likeliest, such as the end of text: their logit is lowest.
    pub muted: Vec<TokenId>,
}

impl FakeConfig {
    /// How far the largest logit stands above the others (and a muted one below), at least and in nats.
    pub(super) const MARGIN: f32 = 12.0;
}

impl Default for FakeConfig {
    /// A small model with 300 token ids and room for 16384 tokens.
    fn default() -> Self {
        let geometry = KvGeometry {
            layers: 2,
            kv_heads: 1,
            head_dim: 8,
            dtype: KvDtype::F32,
        };
        Self {
            geometry,
            vocab: 300,
            pages: 256,
            muted: Vec::new(),
        }
    }
}
