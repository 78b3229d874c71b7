//! The operations of a decoder on an NVIDIA device, in bf16 with f32 sums.
//!
//! A [`Device`] has one stream, on which everything runs in order, and the kernels. All launches return at once;
//! [`Device::wait`] and downloads wait. Errors of a launch may show in a later call; whoever sees one must take all
//! results since the last wait as lost.
//!
//! Every row's bits depend on that row's inputs and on the length of its pass ([`Class`]), and on nothing that shares the
//! step.

pub mod attention;
mod buffer;
pub mod check;
mod device;
mod error;
pub mod gemm;
mod launch;
pub mod ops;
mod pages;
mod planner;
mod staging;

pub use buffer::Buffer;
pub use device::{Device, Memory};
pub use error::CudaError;
pub use half::bf16;
pub use pages::{Pages, page_len};
pub use planner::{Class, Planner, SequenceBlocks};
pub use staging::{Section, Staging};
