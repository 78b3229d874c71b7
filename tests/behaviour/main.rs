//! Behaviour of the whole: engine and server, on the fake backend and on the small real model.
//!
//! Modules are named by the behaviour that they pin down. Tests on the fake backend see every wrong mask, offset
//! or stale page as a changed text, because its logits are a function of every visible slot.

mod adjustments;
mod arrows;
mod background;
mod calibration;
mod chain;
mod choices;
#[cfg(feature = "cuda")]
mod cuda;
mod exactness;
mod harness;
mod history;
mod hostile;
mod http_chat;
mod http_load;
mod http_reuse;
mod http_text;
mod lifecycle;
mod pieces;
mod prompt_logprobs;
mod ratio;
mod real_model;
mod real_text;
mod reuse;
mod shadow;
mod tenants;
mod timing;
