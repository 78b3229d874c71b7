//! What wraps every handler.

mod access;
mod panic;

pub(crate) use access::record;
pub(crate) use panic::catch;
