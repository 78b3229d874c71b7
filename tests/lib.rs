//! Nothing but tests: see `behaviour/`.
