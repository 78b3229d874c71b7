//! A server without a model, for measuring everything around one: tokens are bytes, and what is generated is any printable text.
//!
//! Prints its address and serves until it is stopped: `cargo run --release --package medley-tests --example fake_server`.

#[allow(dead_code, unused_imports, reason = "the tests need more of it")]
#[path = "../behaviour/harness/mod.rs"]
mod harness;

use harness::{Engines, Server};

fn main() {
    let engines = Engines::default().with(|engines| {
        engines.pages = 100_000;
        engines.config.max_sequences = 256;
        engines.config.max_queue = 4096;
        engines.config.resident_pages = 50_000;
    });
    let server = Server::fake(&engines);
    println!("{}", server.address);
    loop {
        std::thread::park();
    }
}
