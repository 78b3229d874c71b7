//! Load generator, quality evaluation and benchmarks.
