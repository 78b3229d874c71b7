//! The pages: keys and values of every layer, `[page, k | v, kv_head, 64, head_dim]` a layer.
//!
//! Memory is asked for as zeros, which the system commits when a page is first written: an empty pool costs
//! nothing, whatever its size.

use medley_kernels::cpu::attention::{PoolShape, write_rows};
use medley_kv::{PAGE_TOKENS, PageId};

use crate::config::Config;
use crate::{LoadError, PoolSize};

/// All pages of a model.
pub(super) struct PagePool {
    pub shape: PoolShape,
    layers: Vec<Vec<f32>>,
}

impl PagePool {
    pub fn new(config: &Config, pages: usize) -> Result<Self, LoadError> {
        let shape = PoolShape {
            pages,
            kv_heads: config.kv_heads,
            head_dim: config.head_dim,
        };
        let layers = (0..config.layers)
            .map(|_| zeros(shape.len()))
            .collect::<Result<_, _>>()?;
        Ok(Self { shape, layers })
    }

    pub fn pages(&self) -> usize {
        self.shape.pages
    }

    pub fn layer(&self, layer: usize) -> &[f32] {
        &self.layers[layer]
    }

    /// Stores keys and values, `[rows, kv_heads, head_dim]`, one slot a row.
    pub fn write(&mut self, layer: usize, slots: &[u32], keys: &[f32], values: &[f32]) {
        write_rows(self.shape, &mut self.layers[layer], slots, keys, values);
    }

    /// Copies a page of all layers.
    pub fn copy(&mut self, from: PageId, to: PageId) {
        let page = self.shape.len() / self.shape.pages;
        let start = |id: PageId| id.0 as usize * page;
        for layer in &mut self.layers {
            layer.copy_within(start(from)..start(from) + page, start(to));
        }
    }

    /// The keys of a slot, one slice for each head.
    pub fn keys(&self, layer: usize, slot: u32) -> impl Iterator<Item = &[f32]> {
        let pool = &self.layers[layer];
        (0..self.shape.kv_heads).map(move |head| &pool[self.shape.key_range(slot, head)])
    }
}

/// Zeros that take no memory until they are written. Asks first whether the address space is to be had: a vector
/// of zeros ends the process if it is not.
fn zeros(len: usize) -> Result<Vec<f32>, LoadError> {
    Vec::<f32>::new()
        .try_reserve_exact(len)
        .map_err(|error| LoadError::Pool(error.to_string()))?;
    Ok(vec![0.0; len])
}

/// Pages of a pool of this size; at least one, and no more than 32-bit slot numbers reach.
pub(crate) fn pages_within(size: PoolSize, config: &Config) -> Result<usize, LoadError> {
    let page_bytes = config.geometry().bytes_per_token() * PAGE_TOKENS;
    let pages = match size {
        PoolSize::Pages(pages) => pages,
        PoolSize::Utilization(_) => {
            return Err(LoadError::Pool(
                "on the CPU its size is a number of pages or bytes, not a share of a device's memory"
                    .to_owned(),
            ));
        }
        PoolSize::Bytes(bytes) => usize::try_from(bytes / page_bytes as u64).unwrap_or(usize::MAX),
    };
    let most = u32::MAX as usize / PAGE_TOKENS;
    match pages {
        0 => Err(LoadError::Pool(format!(
            "{size:?} is less than one page of {page_bytes} bytes"
        ))),
        pages
            if pages > most
                || pages
                    .checked_mul(page_bytes)
                    .is_none_or(|bytes| bytes > isize::MAX as usize) =>
        {
            Err(LoadError::Pool(format!(
                "{pages} pages are more than can be numbered ({most})"
            )))
        }
        pages => Ok(pages),
    }
}
