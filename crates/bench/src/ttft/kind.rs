//! The kinds of requests that are compared.

use medley_kv::BlendMode;

/// A kind of request, by what is reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A full prefill: nothing is reused.
    Full,
    /// Blended, with documents that were never seen: each is computed first.
    Cold,
    /// Blended, with documents that are resident, in a new order.
    Warm,
    /// Plain prefill of a prompt that was run before: its prefix is resident.
    Repeated,
}

impl Kind {
    /// All kinds, in the order of a round.
    pub const ALL: [Self; 4] = [Self::Full, Self::Cold, Self::Warm, Self::Repeated];

    /// What tables and result files call it.
    pub fn label(self) -> &'static str {
        match self {
            Self::Full => "full prefill",
            Self::Cold => "blended, documents never seen",
            Self::Warm => "blended, documents in a new order",
            Self::Repeated => "same prompt again",
        }
    }

    /// The mode to ask for; blended kinds take the configured one.
    pub(super) fn mode(self, configured: BlendMode) -> BlendMode {
        match self {
            Self::Full => BlendMode::Off,
            Self::Cold | Self::Warm => configured,
            Self::Repeated => BlendMode::Exact,
        }
    }

    /// Whether the decoding rate is measured behind the first token.
    pub(super) fn decodes(self) -> bool {
        self == Self::Warm
    }
}
