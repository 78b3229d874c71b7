//! The endpoints, one file each.

pub(crate) mod chat_completions;
pub(crate) mod completions;
pub(crate) mod detokenize;
pub(crate) mod docs;
pub(crate) mod health;
pub(crate) mod live;
pub(crate) mod metrics;
pub(crate) mod models;
pub(crate) mod openapi;
pub(crate) mod tokenize;
pub(crate) mod tokenizer_info;
pub(crate) mod unknown;
pub(crate) mod version;
