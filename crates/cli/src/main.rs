//! The `medley` command.
fn main() {}
