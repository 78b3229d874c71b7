//! Attention over parts: against the reference, against itself, and against what it must not see.

mod bits;
mod causality;
mod scene;
mod truth;
