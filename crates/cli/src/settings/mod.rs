//! Settings before they are checked: named texts with their origin.
//!
//! One table ([`table::SETTINGS`]) makes the flags, the `MEDLEY_…` variables and the keys of the configuration
//! file, so a setting that exists in one exists in all. [`Layers`] answers what was given and where; it knows
//! no types beyond text. Nothing behind it reads the environment.

mod environment;
mod file;
mod flags;
mod layers;
mod origin;
mod table;

pub use environment::Environment;
pub use flags::{given_flags, with_flags};
pub use layers::Layers;
pub use origin::{Misconfigured, Origin};
#[cfg(test)]
pub use table::table_of_all;
pub use table::{Scope, fallback};
