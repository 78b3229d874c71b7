//! The CPU implementation of the row backend.
//!
//! One pass over the layers serves every kind of work. All tensors are f32. A row's bits depend on its own
//! inputs and on the parts that it sees, because every kernel keeps one order of summation and nothing here
//! mixes rows.

mod deviation;
mod forward;
mod layer;
mod pool;
mod probe;
mod scratch;

use medley_backend::{Backend, BackendError, Batch, Outcome};
use medley_kernels::cpu::pool::Threads;
use medley_kv::{KvGeometry, PageId};

use crate::LoadError;
use crate::decoder::Decoder;
use pool::PagePool;
use scratch::Scratch;

pub(crate) use pool::pages_within;

/// A decoder with its page pool, computing on the CPU.
pub struct CpuBackend {
    decoder: Decoder,
    pool: PagePool,
    threads: Threads,
    scratch: Scratch,
}

impl CpuBackend {
    pub(crate) fn new(decoder: Decoder, pages: usize, threads: Option<usize>) -> Result<Self, LoadError> {
        let pool = PagePool::new(&decoder.config, pages)?;
        let threads = Threads::new(threads.unwrap_or(0));
        Ok(Self {
            decoder,
            pool,
            threads,
            scratch: Scratch::default(),
        })
    }

    /// Threads that compute.
    pub fn threads(&self) -> usize {
        self.threads.count()
    }
}

impl Backend for CpuBackend {
    fn geometry(&self) -> KvGeometry {
        self.decoder.config.geometry()
    }

    fn vocab(&self) -> usize {
        self.decoder.config.vocab
    }

    fn pages(&self) -> usize {
        self.pool.pages()
    }

    fn copy_pages(&mut self, pairs: &[(PageId, PageId)]) -> Result<(), BackendError> {
        medley_backend::check_copies(pairs, self.pages())?;
        pairs.iter().for_each(|&(from, to)| self.pool.copy(from, to));
        Ok(())
    }

    fn run(&mut self, batch: &Batch) -> Result<Outcome, BackendError> {
        batch.check(self.pages(), self.vocab())?;
        crate::check::against_model(batch, self.pages(), self.decoder.layers.len())?;
        self.forward(batch)
    }
}
