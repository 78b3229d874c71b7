//! Behaviour tests live in `behaviour/`.
