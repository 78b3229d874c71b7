//! Elementwise and rowwise operations: against the reference, and bit by bit against themselves.

use medley_kernels::cpu::ops;
use medley_kernels::cpu::pool::Threads;
use medley_kernels::reference;

fn random(rng: &mut fastrand::Rng, len: usize, scale: f32) -> Vec<f32> {
    (0..len).map(|_| (rng.f32() * 2.0 - 1.0) * scale).collect()
}

fn assert_close(actual: &[f32], expected: &[f32]) {
    assert_eq!(actual.len(), expected.len());
    for (i, (a, b)) in actual.iter().zip(expected).enumerate() {
        assert!(
            (a - b).abs() <= 2e-6 * b.abs().max(1e-3),
            "element {i} is {a}, not {b}"
        );
    }
}

fn rms_norm(x: &[f32], weight: &[f32], threads: &Threads) -> Vec<f32> {
    let mut out = vec![f32::NAN; x.len()];
    ops::rms_norm(x, weight, 1e-5, &mut out, threads);
    out
}

fn silu_mul(gate_up: &[f32], inner: usize, threads: &Threads) -> Vec<f32> {
    let mut out = vec![f32::NAN; gate_up.len() / 2];
    ops::silu_mul(gate_up, &mut out, inner, threads);
    out
}

#[test]
fn rows_of_any_width_are_normalised_and_gated_as_the_reference_says() {
    let threads = Threads::new(2);
    let mut rng = fastrand::Rng::with_seed(7);
    for (rows, width) in [(1, 1), (3, 7), (5, 8), (200, 577), (64, 576)] {
        let (x, weight) = (random(&mut rng, rows * width, 3.0), random(&mut rng, width, 2.0));
        assert_close(
            &rms_norm(&x, &weight, &threads),
            &reference::rms_norm(&x, &weight, 1e-5),
        );
        let gate_up = random(&mut rng, rows * 2 * width, 30.0);
        assert_close(
            &silu_mul(&gate_up, width, &threads),
            &reference::silu_mul(&gate_up, width),
        );
    }
}

#[test]
fn gates_far_from_zero_stay_finite() {
    let out = silu_mul(&[-1e4, 1e4, -90.0, 2.0, 3.0, 4.0], 3, &Threads::new(1));
    assert!(
        out[0].abs() < 1e-30 && out[1] == 3e4 && out[2].abs() < 1e-30,
        "{out:?}"
    );
}

#[test]
fn a_row_has_the_same_bits_alone_and_among_others() {
    let (rows, width) = (150, 333);
    let mut rng = fastrand::Rng::with_seed(8);
    let (x, weight) = (random(&mut rng, rows * width, 1.0), random(&mut rng, width, 1.0));
    let gate_up = random(&mut rng, rows * 2 * width, 5.0);
    let many = Threads::new(3);
    let (normal, gated) = (rms_norm(&x, &weight, &many), silu_mul(&gate_up, width, &many));
    for row in 0..rows {
        let one = Threads::new(1);
        let alone = rms_norm(&x[row * width..(row + 1) * width], &weight, &one);
        assert!(
            alone == normal[row * width..(row + 1) * width],
            "row {row} normalised"
        );
        let alone = silu_mul(&gate_up[row * 2 * width..(row + 1) * 2 * width], width, &one);
        assert!(alone == gated[row * width..(row + 1) * width], "row {row} gated");
    }
}

#[test]
fn sums_are_elementwise_and_a_bias_meets_every_row() {
    let mut rng = fastrand::Rng::with_seed(9);
    let (x, y) = (random(&mut rng, 40_001, 1.0), random(&mut rng, 40_001, 1.0));
    let mut sum = x.clone();
    ops::add(&mut sum, &y, &Threads::new(2));
    assert!(
        sum.iter()
            .zip(x.iter().zip(&y))
            .all(|(sum, (x, y))| *sum == x + y)
    );
    let mut rows = vec![1.0, 2.0, 3.0, 4.0];
    ops::add_bias(&mut rows, &[10.0, 20.0]);
    assert_eq!(rows, [11.0, 22.0, 13.0, 24.0]);
}
