//! Models of random weights: for measuring speed in the shape of a model that need not be there. Their answers mean
//! nothing.

use medley_backend::Backend;

use crate::config::Config;
use crate::cuda::Origin;
use crate::rope::{Pairs, RopeConfig, Scaling};
use crate::{Architecture, CudaBackend, LoadError, ModelInfo, PoolSize};

/// Shape of a decoder of the llama family.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// What results call it.
    pub name: &'static str,
    /// Decoder layers.
    pub layers: usize,
    /// Elements of a hidden state.
    pub width: usize,
    /// Elements inside the MLP.
    pub inner: usize,
    /// Query heads.
    pub heads: usize,
    /// Key heads.
    pub kv_heads: usize,
    /// Elements a head.
    pub head_dim: usize,
    /// Token ids.
    pub vocab: usize,
    /// Longest sequence, in tokens.
    pub context: usize,
    /// Base of the rotary angles.
    pub theta: f64,
}

impl Shape {
    /// Llama 3.1 8B (its published `config.json`), without the scaling of rotary angles, which costs nothing.
    pub const LLAMA_8B: Self = Self {
        name: "llama-3.1-8b shape, random weights",
        layers: 32,
        width: 4096,
        inner: 14336,
        heads: 32,
        kv_heads: 8,
        head_dim: 128,
        vocab: 128_256,
        context: 40_960,
        theta: 500_000.0,
    };

    fn config(self) -> Result<Config, LoadError> {
        let rope = RopeConfig {
            theta: self.theta,
            pairs: Pairs::Halves,
            scaling: Scaling::None,
        };
        Config {
            architecture: Architecture::Llama,
            layers: self.layers,
            width: self.width,
            inner: self.inner,
            heads: self.heads,
            kv_heads: self.kv_heads,
            head_dim: self.head_dim,
            vocab: self.vocab,
            epsilon: 1e-5,
            context: self.context,
            rope,
        }
        .check()
    }

    fn parameters(&self) -> u64 {
        let attention = self.width * self.head_dim * 2 * (self.heads + self.kv_heads);
        let layer = attention + 3 * self.width * self.inner;
        (self.layers * layer + 2 * self.vocab * self.width) as u64
    }
}

/// A model of random weights on CUDA device `ordinal`; the same numbers for the same seed.
pub fn load_random(
    shape: Shape,
    seed: u64,
    ordinal: usize,
    pool: PoolSize,
) -> Result<(Box<dyn Backend>, ModelInfo), LoadError> {
    let config = shape.config()?;
    let rope = config.rope.describe();
    let backend = CudaBackend::new(ordinal, config, Origin::Random(seed), pool, shape.context)?;
    let mut fingerprint = [0; 32];
    fingerprint[..8].copy_from_slice(&seed.to_le_bytes());
    let info = ModelInfo {
        name: shape.name.to_owned(),
        architecture: Architecture::Llama,
        context_length: shape.context,
        vocab: shape.vocab,
        parameters: shape.parameters(),
        weights_bytes: backend.weights_bytes(),
        quantisation: "BF16".to_owned(),
        fingerprint,
        rope,
        recipe: backend.recipe(),
        eos_tokens: Vec::new(),
    };
    Ok((Box::new(backend), info))
}

/// Relative error of the device's attention in this shape against an f64 reference, on random numbers.
pub fn attention_error(shape: Shape, ordinal: usize) -> Result<f64, LoadError> {
    let device = medley_kernels::cuda::Device::open(ordinal)?;
    let heads = medley_kernels::cuda::ops::Heads {
        query: shape.heads,
        kv: shape.kv_heads,
        dim: shape.head_dim,
    };
    let error = medley_kernels::cuda::check::relative_error(&device, heads)?;
    error.ok_or_else(|| LoadError::Device(format!("no kernel for heads of {} elements", shape.head_dim)))
}
