//! Tests of the loaders and the CPU backend on tiny random models, against a slow reference.

mod bad_files;
mod batches;
mod blending;
mod exact;
mod formats;
mod reference;
mod sequences;
mod tiny;
