//! Plan and selection: which tokens of reused documents are repaired.
//!
//! A [`Layout`] partitions a prompt's positions into text and documents. A [`Selection`] then chooses the
//! document positions that are recomputed in their context: it asks for passes over the model one after the
//! other and is fed what they measured.
//!
//! **Invariants:** the choice among the positions up to the question row depends on nothing behind it; exact
//! documents cost no budget; equal measurements give equal choices, whatever their order of arrival.
//!
//! This crate runs no model, knows no tensors, pages or caches, and does no I/O.

mod candidates;
mod layout;
#[cfg(test)]
mod prompts;
mod rank;
mod repairs;
mod rule;
mod selection;
#[cfg(test)]
mod selection_tests;
mod stages;

pub use layout::{DocumentRegion, Layout, Region};
pub use repairs::Repairs;
pub use rule::Rule;
pub use selection::{HEADS, Observed, Pass, Selection};
