//! The server over HTTP, with a scripted engine behind the port. Tests are named as facts.

mod access;
mod batches;
mod clients;
mod documents;
mod errors;
mod fake;
mod keys;
mod logprobs;
mod metrics;
mod openapi;
mod operations;
mod parameters;
mod quality;
mod random;
mod reports;
mod setup;
mod sockets;
mod streams;
mod tokens;
mod turns;
mod whole;
