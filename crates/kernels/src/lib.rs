//! Compute kernels: matrix products, attention over parts, and their slow references.
