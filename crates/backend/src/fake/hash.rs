//! The hashes behind values, scores and logits. Stable, so that texts can stand in tests.

use medley_kv::Position;

/// A hash of two words; not symmetric.
pub(super) fn mix(a: u64, b: u64) -> u64 {
    let mut x = a.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ b.wrapping_add(0x632b_e59b_d9b4_e019).rotate_left(29);
    for multiplier in [0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb] {
        x = (x ^ (x >> 31)).wrapping_mul(multiplier);
    }
    x ^ (x >> 32)
}

/// What a slot adds to whoever sees it: its value at the position where its sequence sees it, and at the one where
/// the turned query meets its key. The two differ only when an offset is wrong.
pub(super) fn seen(value: u64, position: Position, met_at: i64) -> u64 {
    mix(value, u64::from(position.0) << 32 ^ met_at as u64)
}

/// A number from 0 to 1.
pub(super) fn noise(seed: u64, index: u64) -> f32 {
    (mix(seed, index) >> 40) as f32 / (1u64 << 24) as f32
}
