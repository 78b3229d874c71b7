//! Rotary positions: against the reference, and the scalings against their formulas.

use std::f64::consts::TAU;

use medley_kernels::cpu::pool::Threads;
use medley_kernels::cpu::rope::{RopeLayout, RopeScaling, RopeTable};
use medley_kernels::reference;

const LAYOUTS: [RopeLayout; 2] = [RopeLayout::Interleaved, RopeLayout::Halves];

fn random(rng: &mut fastrand::Rng, len: usize) -> Vec<f32> {
    (0..len).map(|_| rng.f32() * 2.0 - 1.0).collect()
}

fn plain(layout: RopeLayout, dim: usize, max_position: usize) -> RopeTable {
    RopeTable::new(dim, 10_000.0, layout, RopeScaling::None, max_position)
}

fn turned(table: &RopeTable, head: &[f32], position: i64) -> Vec<f32> {
    let mut head = head.to_vec();
    table.rotate(&mut head, position);
    head
}

fn assert_close(actual: &[f32], expected: impl IntoIterator<Item = f64>, bound: f64) {
    for (i, (a, b)) in actual.iter().zip(expected).enumerate() {
        assert!((f64::from(*a) - b).abs() < bound, "element {i} is {a}, not {b}");
    }
}

#[test]
fn rotation_is_the_reference_s_at_positions_in_beyond_and_before_the_table() {
    let mut rng = fastrand::Rng::with_seed(1);
    for layout in LAYOUTS {
        for dim in [2, 6, 64, 128] {
            let (table, head) = (plain(layout, dim, 100), random(&mut rng, dim));
            for position in [0, 1, 99, 100, 12_345, -1, -99, -100, -54_321] {
                assert_close(
                    &turned(&table, &head, position),
                    reference::rotate(&table, &head, position),
                    1e-6,
                );
            }
        }
    }
}

#[test]
fn pairs_stand_where_the_layout_says() {
    let (x, y) = (1f32.cos(), 1f32.sin());
    let head = [1.0, 0.0, 0.0, 0.0];
    assert_eq!(
        turned(&plain(RopeLayout::Interleaved, 4, 2), &head, 1),
        [x, y, 0.0, 0.0]
    );
    assert_eq!(
        turned(&plain(RopeLayout::Halves, 4, 2), &head, 1),
        [x, 0.0, y, 0.0]
    );
}

#[test]
fn turning_back_a_rotated_head_is_rotating_it_less() {
    let mut rng = fastrand::Rng::with_seed(2);
    for layout in LAYOUTS {
        let (table, head) = (plain(layout, 64, 4096), random(&mut rng, 64));
        for (position, back) in [(10, 3), (4000, 3999), (5, 9), (100_000, 99_000), (7, -20)] {
            let twice = turned(&table, &turned(&table, &head, position), -back);
            let once = turned(&table, &head, position - back);
            assert_close(&twice, once.iter().map(|&x| f64::from(x)), 5e-7);
        }
    }
}

#[test]
fn an_angle_has_the_same_bits_in_and_beyond_the_table() {
    let head = random(&mut fastrand::Rng::with_seed(3), 64);
    for position in [0, 17, 999, -999] {
        let long = turned(&plain(RopeLayout::Halves, 64, 1000), &head, position);
        assert_eq!(long, turned(&plain(RopeLayout::Halves, 64, 0), &head, position));
    }
}

#[test]
fn elements_beyond_the_rotary_dimension_stay() {
    let head = random(&mut fastrand::Rng::with_seed(4), 96);
    assert_eq!(
        turned(&plain(RopeLayout::Halves, 32, 8), &head, 5)[32..],
        head[32..]
    );
}

#[test]
fn rows_turn_head_by_head_at_their_own_positions() {
    let mut rng = fastrand::Rng::with_seed(5);
    let (heads, dim, rows) = (3, 64, 301);
    let positions: Vec<u32> = (0..rows).map(|_| rng.u32(0..5000)).collect();
    let x = random(&mut rng, rows * heads * dim);
    let table = plain(RopeLayout::Interleaved, dim, 4096);
    let mut together = x.clone();
    table.rotate_rows(&mut together, dim, &positions, &Threads::new(2));
    for (i, head) in x.chunks_exact(dim).enumerate() {
        let alone = turned(&table, head, i64::from(positions[i / heads]));
        assert_eq!(together[i * dim..(i + 1) * dim], alone, "head {i}");
    }
}

/// Frequencies under a scaling, and without.
fn frequencies(dim: usize, theta: f64, scaling: RopeScaling) -> (Vec<f64>, Vec<f64>) {
    let table = |scaling| {
        RopeTable::new(dim, theta, RopeLayout::Halves, scaling, 0)
            .frequencies()
            .to_vec()
    };
    (table(scaling), table(RopeScaling::None))
}

#[test]
fn frequencies_are_powers_of_theta_and_linear_scaling_divides_them() {
    let (scaled, plain) = frequencies(64, 10_000.0, RopeScaling::Linear { factor: 4.0 });
    for (i, (scaled, plain)) in scaled.iter().zip(&plain).enumerate() {
        assert!((plain - 1.0 / 10_000f64.powf(2.0 * i as f64 / 64.0)).abs() < 1e-15);
        assert_eq!(*scaled, plain / 4.0);
    }
}

#[test]
fn llama_3_scaling_follows_its_formula() {
    let (factor, low, high, context) = (8.0, 1.0, 4.0, 8192.0);
    let scaling = RopeScaling::Llama3 {
        factor: 8.0,
        low_freq_factor: 1.0,
        high_freq_factor: 4.0,
        original_context: 8192,
    };
    let (scaled, plain) = frequencies(128, 500_000.0, scaling);
    let mut kinds = [0; 3];
    for (scaled, plain) in scaled.iter().zip(&plain) {
        let wavelength = TAU / plain;
        let (kind, expected) = if wavelength < context / high {
            (0, *plain)
        } else if wavelength > context / low {
            (1, plain / factor)
        } else {
            let smooth = (context / wavelength - low) / (high - low);
            (2, (1.0 - smooth) * plain / factor + smooth * plain)
        };
        kinds[kind] += 1;
        assert!(
            (scaled - expected).abs() < 1e-12 * expected,
            "{scaled} is not {expected}"
        );
    }
    assert!(
        kinds.iter().all(|&count| count > 0),
        "the shape exercises every branch: {kinds:?}"
    );
}

#[test]
fn yarn_scaling_follows_its_formula_and_reports_its_magnitude() {
    let (dim, theta, factor, context) = (128, 1_000_000.0, 4.0, 32_768.0);
    let yarn = |attention_factor| RopeScaling::Yarn {
        factor: 4.0,
        original_context: 32_768,
        beta_fast: 32.0,
        beta_slow: 1.0,
        attention_factor,
    };
    let (scaled, plain) = frequencies(dim, theta, yarn(None));
    let pair = |turns: f64| (dim as f64 * (context / (turns * TAU)).ln()) / (2.0 * theta.ln());
    let (first, last) = (pair(32.0).floor(), pair(1.0).ceil());
    assert!(
        first > 2.0 && last < 62.0,
        "the ramp {first}..{last} is inside the head"
    );
    for (i, (scaled, plain)) in scaled.iter().zip(&plain).enumerate() {
        let ramp = ((i as f64 - first) / (last - first)).clamp(0.0, 1.0);
        let expected = plain / factor * ramp + plain * (1.0 - ramp);
        assert!(
            (scaled - expected).abs() < 1e-12 * expected,
            "pair {i}: {scaled} is not {expected}"
        );
    }
    let magnitude = |scaling| RopeTable::new(dim, theta, RopeLayout::Halves, scaling, 0).magnitude();
    assert!((magnitude(yarn(None)) - (0.1 * 4f32.ln() + 1.0)).abs() < 1e-6);
    assert_eq!(magnitude(yarn(Some(1.25))), 1.25);
    assert_eq!(magnitude(RopeScaling::Linear { factor: 2.0 }), 1.0);
}

#[test]
fn given_factors_divide_their_pairs() {
    let (scaled, plain) = frequencies(8, 10_000.0, RopeScaling::Factors(vec![1.0, 2.0, 4.0, 8.0]));
    for (i, (scaled, plain)) in scaled.iter().zip(plain).enumerate() {
        assert_eq!(*scaled, plain / f64::from(1 << i));
    }
}
