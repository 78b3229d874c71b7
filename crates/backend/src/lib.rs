//! The port to a model: rows against parts of paged KV.
//!
//! A [`Batch`] is any set of rows of any sequences. For every layer the rows' keys and values are written to
//! their slots; then each row attends to its sequence's [`Part`]s at positions up to its own. Decode, chunked
//! prefill, canonical document KV, probes and repairs are all this one call.
//!
//! **Invariant:** a row's results depend on its sequence's parts (as of this call), on the length of its pass
//! ([`Sequence::pass_rows`]) and on nothing else: not on which rows share the batch, nor on how a sequence's ascending
//! rows are split over calls. This holds to the last bit, so answers do not depend on load. What an implementation can't hold to the last bit, it states.
//!
//! The port knows nothing of requests, documents as text, selection rules or eviction.

mod batch;
mod draw;
pub mod fake;
mod part;

pub use batch::{
    ANY_LENGTH, Batch, Depth, Deviation, Outcome, Probe, ProbeRow, Row, Scores, Sequence, check_copies,
};
pub use draw::{Draw, draw, most_likely};
pub use part::{Mask, Part, PartKind};

use medley_kv::{KvGeometry, PageId};

/// A call that could not be completed. The pages that its rows were to fill hold nothing of use; all others are
/// untouched.
#[derive(Debug, thiserror::Error)]
pub enum BackendError {
    /// The batch contradicts itself or the model.
    #[error("invalid batch: {0}")]
    Invalid(String),
    /// The device failed.
    #[error("the device failed: {0}")]
    Device(String),
    /// The device failed and will fail every further call: nothing of it can be used any more.
    #[error("the device is lost: {0}")]
    Lost(String),
}

/// A model with its page pool.
pub trait Backend: Send {
    /// Shape of a token's KV.
    fn geometry(&self) -> KvGeometry;

    /// Number of token ids that have a logit.
    fn vocab(&self) -> usize;

    /// Pages in the pool. Pages are handed out by the caller; the backend only reads and writes them.
    fn pages(&self) -> usize;

    /// Copies whole pages, each from the first to the second of its pair, before anything that is run later. No page is
    /// written twice or both read and written.
    fn copy_pages(&mut self, pairs: &[(PageId, PageId)]) -> Result<(), BackendError>;

    /// Runs the batch to its end.
    fn run(&mut self, batch: &Batch) -> Result<Outcome, BackendError>;
}
