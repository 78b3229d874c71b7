//! Behaviour of the whole: engine and server, on the fake backend and on the small real model.
//!
//! Modules are named by the behaviour that they pin down. Tests on the fake backend see every wrong mask, offset
//! or stale page as a changed text, because its logits are a function of every visible slot.

mod arrows;
mod background;
mod calibration;
#[cfg(feature = "cuda")]
mod cuda;
mod exactness;
mod harness;
mod history;
mod http_chat;
mod http_load;
mod http_reuse;
mod lifecycle;
mod pieces;
mod ratio;
mod real_model;
mod real_text;
mod reuse;
mod shadow;
mod timing;
