//! Products with packed matrices: against the reference, and bit by bit against themselves.

use medley_kernels::cpu::matrix::Matrix;
use medley_kernels::cpu::pool::Threads;
use medley_kernels::reference;

fn random(rng: &mut fastrand::Rng, len: usize) -> Vec<f32> {
    (0..len).map(|_| rng.f32() * 2.0 - 1.0).collect()
}

fn product(matrix: &Matrix, x: &[f32], threads: &Threads) -> Vec<f32> {
    let rows = x.len() / matrix.columns();
    let mut out = vec![f32::NAN; rows * matrix.rows()];
    matrix.multiply(x, rows, &mut out, threads);
    out
}

#[test]
fn a_product_is_what_the_reference_says() {
    let threads = Threads::new(2);
    for (n, k, rows) in [
        (1, 1, 1),
        (15, 3, 2),
        (16, 64, 7),
        (17, 321, 13),
        (100, 700, 97),
        (33, 65, 200),
    ] {
        let mut rng = fastrand::Rng::with_seed(n as u64);
        let (weight, x) = (random(&mut rng, n * k), random(&mut rng, rows * k));
        let expected = reference::multiply(&x, &weight, n, k);
        for (i, (a, b)) in product(&Matrix::pack(&weight, n, k), &x, &threads)
            .iter()
            .zip(expected)
            .enumerate()
        {
            assert!(
                (a - b).abs() < 1e-5 * k as f32,
                "[{n}, {k}] x {rows}: element {i} is {a}, not {b}"
            );
        }
    }
}

#[test]
fn every_element_is_one_chain_of_fused_multiply_adds() {
    let (n, k, rows) = (37, 650, 9);
    let mut rng = fastrand::Rng::with_seed(3);
    let (weight, x) = (random(&mut rng, n * k), random(&mut rng, rows * k));
    let out = product(&Matrix::pack(&weight, n, k), &x, &Threads::new(1));
    for (i, out) in out.iter().enumerate() {
        let (x, w) = (&x[i / n * k..][..k], &weight[i % n * k..][..k]);
        let chain = x.iter().zip(w).fold(0.0f32, |sum, (x, w)| x.mul_add(*w, sum));
        assert_eq!(out.to_bits(), chain.to_bits(), "element {i}");
    }
}

#[test]
fn a_row_has_the_same_bits_alone_among_others_and_with_any_number_of_threads() {
    for (n, k) in [(576, 576), (48, 1536), (50, 333)] {
        let mut rng = fastrand::Rng::with_seed(k as u64);
        let matrix = Matrix::pack(&random(&mut rng, n * k), n, k);
        let x = random(&mut rng, 203 * k);
        let whole = product(&matrix, &x, &Threads::new(2));
        for count in [1, 2, 3] {
            let threads = Threads::new(count);
            for rows in [1, 2, 3, 4, 5, 6, 7, 31, 97, 203] {
                let first = rng.usize(0..=203 - rows);
                let part = product(&matrix, &x[first * k..(first + rows) * k], &threads);
                assert!(
                    part == whole[first * n..(first + rows) * n],
                    "[{n}, {k}]: {rows} rows, {count} threads"
                );
            }
        }
    }
}

#[test]
fn an_empty_product_writes_nothing_or_zeros() {
    let threads = Threads::new(2);
    assert!(product(&Matrix::pack(&[1.0; 6], 2, 3), &[], &threads).is_empty());
    let mut out = [1.0; 8];
    Matrix::pack(&[], 4, 0).multiply(&[], 2, &mut out, &threads);
    assert_eq!(out, [0.0; 8]);
}
