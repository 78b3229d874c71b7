//! Every operation of a decoder on the CPU.
//!
//! Shapes are checked by assertion: a wrong one is a mistake of the calling code, never of a user.

pub mod attention;
mod disjoint;
mod lanes;
pub mod matrix;
pub mod ops;
pub mod pool;
pub mod rope;
mod tile;
