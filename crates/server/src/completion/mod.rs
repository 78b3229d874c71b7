//! From a completion request to its answer.
//!
//! [`prepare`] checks a request and turns it into prompts, [`submit`] queues one engine request a choice, and
//! [`collect`] or [`stream`] answers. The [`Ledger`] keeps the prompts' accounts; log-probabilities and chunks are
//! shaped in modules of their own. [`chat`] is the same for conversations. Nothing here knows routes.

mod adjustments;
mod blend;
mod bound;
mod candidate;
pub(crate) mod chat;
mod chunk;
mod documents;
mod fit;
mod ledger;
mod limits;
mod logprobs;
mod outcome;
mod prepare;
mod running;
mod sampling;
mod shape;
mod stream;
mod tracked;
mod unsupported;
mod whole;

pub(crate) use chunk::Chunks;
pub(crate) use ledger::PLAN_HEADERS;
pub(crate) use prepare::prepare;
pub(crate) use running::{Arrival, submit};
pub(crate) use stream::stream;
pub(crate) use whole::collect;
