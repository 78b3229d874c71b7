//! What is known of a loaded model.

use crate::Architecture;

/// What is known of a loaded model.
#[derive(Clone, Debug)]
pub struct ModelInfo {
    /// The name that the model gives itself, or that of its file or folder.
    pub name: String,
    /// Decoder family.
    pub architecture: Architecture,
    /// Longest sequence that this load serves, in tokens.
    pub context_length: usize,
    /// Token ids that have a logit.
    pub vocab: usize,
    /// Parameters; a shared embedding counts once.
    pub parameters: u64,
    /// Bytes that the weights take in memory.
    pub weights_bytes: u64,
    /// How the weights are stored in the file (`Q4_1`, `BF16`, `fp8`, ..).
    pub quantisation: String,
    /// BLAKE3 over configuration and weights: another model, revision or quantisation gives another one.
    pub fingerprint: [u8; 32],
    /// Rotary positions: layout, base and scaling, part of cache keys.
    pub rope: String,
    /// How numbers are computed, part of cache keys: entries of different recipes may differ in last bits.
    pub recipe: String,
    /// Tokens that end a generation.
    pub eos_tokens: Vec<u32>,
}
