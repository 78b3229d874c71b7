//! An engine on random weights, for measuring.

use std::sync::Arc;

use anyhow::{Context, Result};
use medley_backend_mistralrs::{ComputeDevice, PoolSize, Shape, load_random};
use medley_engine::Engine;
use medley_generate::{Generate, TokenText};
use medley_kv::TokenId;

use super::start::engine_config;
use crate::config::Limits;

/// Tokens without text.
struct Silent;

impl TokenText for Silent {
    fn bytes(&self, _: TokenId) -> &[u8] {
        &[]
    }
}

/// Starts an engine on CUDA device `ordinal` that takes this share of its memory.
pub fn start_random(shape: Shape, ordinal: usize, memory: f32, limits: &Limits) -> Result<Arc<dyn Generate>> {
    let (backend, info) = load_random(shape, 1, ordinal, PoolSize::Utilization(memory))?;
    let config = engine_config(&info, [].into(), &*backend, ComputeDevice::Cuda(ordinal), limits);
    let engine = Engine::start(backend, config, Arc::new(Silent)).context("can't start the engine")?;
    Ok(Arc::new(engine))
}
