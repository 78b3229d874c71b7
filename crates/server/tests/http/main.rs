//! The server over HTTP, with a scripted engine behind the port. Tests are named as facts.

mod access;
mod batches;
mod best_of;
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
mod prompt_logprobs;
mod quality;
mod random;
mod reports;
mod setup;
mod sockets;
mod streams;
mod token_ids;
mod tokens;
mod turns;
mod whole;
