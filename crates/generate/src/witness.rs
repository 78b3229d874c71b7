//! Who learns what was answered without standing between the engine and the listener.

use medley_kv::{Plan, TokenId};

/// Sees one answer come into being. It is told on the engine's thread, so it must return at once.
pub trait Witness: Send + Sync {
    /// A token was generated. Its event is not sent yet.
    fn token(&self, token: TokenId);

    /// The answer has ended by itself and its listener has everything. Not called for an answer that failed or that
    /// nobody listens to any more.
    fn answered(&self, plan: Plan);
}
