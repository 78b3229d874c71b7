//! Tests of the loaders and the CPU backend on tiny random models, against a slow reference.

#![expect(clippy::unwrap_used, reason = "what tests build themselves is there")]

mod bad_files;
mod batches;
mod blending;
mod exact;
mod formats;
mod reference;
mod sequences;
mod tiny;
