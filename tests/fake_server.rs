//! A server on the fake backend, for clients that send a great many requests. It prints its address and ends with its
//! standard input.

#[path = "behaviour/harness/mod.rs"]
#[expect(dead_code, unused_imports, reason = "tests use the rest")]
mod harness;

use std::io::Read;

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
    // Whatever ends it ends the server.
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}
