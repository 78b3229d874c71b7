//! The server over HTTP, with a scripted engine behind the port. Tests are named as facts.

mod access;
mod batches;
mod best_of;
mod clients;
mod documents;
mod errors;
mod fake;
mod logprobs;
mod metrics;
mod openapi;
mod operations;
mod parameters;
mod prompt_logprobs;
mod quality;
mod reports;
mod setup;
mod sockets;
mod streams;
mod token_ids;
mod turns;
mod whole;
