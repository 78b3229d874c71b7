//! The same for chat: a conversation in, a message out.
//!
//! What a chat request asks of sampling, blending and streaming is checked as that of a completion, so that both have
//! the same limits and defaults. [`prepare`] renders the conversation and composes its prompt, [`collect`] and
//! [`Chunks`] shape the answer, whose text a [`reply::Reply`] reads.

mod chunk;
mod content;
mod conversation;
mod logprobs;
mod prepare;
mod reply;
mod request;
mod tools;
mod whole;

pub(crate) use chunk::Chunks;
pub(crate) use prepare::prepare;
pub(crate) use whole::collect;

use medley_chat::Reading;
use uuid::Uuid;

use super::{outcome::Answer, prepare::Prepared};

/// A chat request that can be run.
pub(crate) struct PreparedChat {
    /// What is run.
    pub(crate) prepared: Prepared,
    /// How replies are read.
    pub(crate) reading: Reading,
}

/// Gives an answer the name that chat answers have.
fn named(mut answer: Answer) -> Answer {
    answer.head.id = format!("chatcmpl-{}", Uuid::new_v4().simple());
    answer
}
