//! Resident documents, prefixes and blended overlays: pages, leases, eviction.
//!
//! A [`PagePool`] hands out pages; a [`Page`] returns to it when dropped, from any thread. [`Residency`] keeps
//! canonical documents and chains of exact prefix pages, finds them by content, and lends them out as leases. What
//! is not leased is evicted when its budget or the pool needs room.
//!
//! **Life of a page:** free (in the pool) → private (a [`Page`] in somebody's hands) → shared (inside an entry,
//! immutable from then on) → free again, when the entry has been evicted and its last lease dropped. The types allow
//! no other way: a `Page` can't be cloned, an entry gives no `Page` back. The overlay of a prompt is different in one
//! thing: it is kept while the sequence that made it still runs, so its pages are shared as `Arc<Page>`.
//!
//! **Invariants:** what is leased is never evicted; resident pages never exceed the budget; a key alone is never
//! trusted, token ids are compared on every hit. The residency belongs to one owner; leases and pages may be
//! dropped anywhere.
//!
//! This crate never reads or writes KV, and knows no requests, no models and no tiers below the pool.

mod blended;
mod check;
mod document;
mod fifo;
mod ghost;
mod lease;
#[cfg(test)]
mod model_tests;
mod pool;
mod prefix;
mod residency;
mod stats;
#[cfg(test)]
mod tests;

pub use blended::Blended;
pub use document::Miss;
pub use lease::{DocumentLease, PrefixLease};
pub use pool::{Page, PagePool};
pub use residency::Residency;
pub use stats::{MissCounts, ResidencyStats};
