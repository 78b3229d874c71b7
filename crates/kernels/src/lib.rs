//! Compute kernels: matrix products, rotary positions, attention over parts.
//!
//! [`cpu`] works on plain `f32` slices and is fast, [`reference`] is slow and obvious; tests hold one against the other.
//! `cuda` (a feature of the same name) has the same operations in bf16 on NVIDIA devices. The crate knows no models and
//! no requests: callers own all memory.
//!
//! **The numerical recipe.** A result row depends on that row's inputs alone: it has the same bits whatever other
//! rows share the call, however many threads work, and however rows are spread over calls. Every sum has one order,
//! written where the sum is made. Vector code and its portable twin agree bit for bit, because both round after
//! every fused multiply-add.
#![expect(
    unsafe_code,
    reason = "vector instructions, tasks that borrow the caller's stack, threads that fill disjoint parts of a slice, \
              launches of kernels"
)]

pub mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
pub mod reference;
