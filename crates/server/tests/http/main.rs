//! The server over HTTP, with a scripted engine behind the port. Tests are named as facts.

mod access;
mod batches;
mod chat;
mod chat_errors;
mod chat_streams;
mod clients;
mod documents;
mod errors;
mod fake;
mod logprobs;
mod metrics;
mod openapi;
mod operations;
mod parameters;
mod quality;
mod reports;
mod setup;
mod sockets;
mod streams;
mod turns;
mod whole;
