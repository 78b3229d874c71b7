//! What wraps every handler.

mod access;
mod deadline;
mod key;
mod panic;

pub(crate) use access::record;
pub(crate) use deadline::limit;
pub(crate) use key::{OPEN, require};
pub(crate) use panic::catch;
