//! The device's attention beside the reference. Needs a CUDA device; without one these tests fail, so they only run when
//! they are asked for: `cargo test --features cuda --test cuda -- --ignored`.
#![cfg(feature = "cuda")]

#[path = "attention/scene.rs"]
#[expect(dead_code, reason = "the CPU's tests use all of it")]
mod scene;

use medley_kernels::cpu::attention::{Attention as Call, PartView};
use medley_kernels::cuda::check::{Computed, Kernels, compute, distance};
use medley_kernels::cuda::{Device, bf16};
use medley_kernels::reference;
use scene::Scene;

/// `(kv_heads, group, head_dim, rows)`
const SHAPES: [(usize, usize, usize, usize); 9] = [
    (1, 1, 64, 1),
    (3, 3, 64, 40),
    (2, 7, 64, 30),
    (1, 3, 128, 65),
    (2, 4, 128, 2),
    (2, 6, 128, 100),
    (1, 8, 64, 9),
    (8, 4, 128, 300),
    (2, 16, 64, 3),
];

fn rounded(values: &[f32]) -> Vec<f32> {
    values.iter().map(|&x| bf16::from_f32(x).to_f32()).collect()
}

/// A scene with rows in the order that the device wants, and with numbers that bf16 holds.
fn prepared(seed: u64) -> Scene {
    let (kv_heads, group, head_dim, rows) = SHAPES[seed as usize % SHAPES.len()];
    let scene = Scene::new(seed, kv_heads, group, head_dim, rows);
    let mut order: Vec<_> = (0..scene.rows()).collect();
    order.sort_by_key(|&row| (scene.sequence[row], scene.positions[row]));
    let mut scene = scene.only(&order);
    scene.pool = rounded(&scene.pool);
    scene.queries = rounded(&scene.queries);
    // Queries must not be turned to positions before the first: a document begins behind what it was computed behind.
    for part in scene.parts.iter_mut().flatten() {
        part.turn = part.turn.min(i64::from(part.from)).max(-100);
    }
    scene
}

/// The same scene as the reference takes it: queries rotated at their positions.
fn rotated(scene: &Scene) -> Scene {
    let mut scene = scene.clone();
    let width = scene.row_len();
    for (row, queries) in scene.queries.chunks_exact_mut(width).enumerate() {
        let heads = queries.chunks_exact_mut(scene.shape.head_dim);
        heads.for_each(|head| scene.rope.rotate(head, i64::from(scene.positions[row])));
    }
    scene
}

const BOTH: [Kernels; 2] = [Kernels::Serving, Kernels::Portable];

/// Output, log-sum-exp, and the masses of sequence 0's rows on all its parts.
fn on_device(device: &Device, scene: &Scene, kernels: Kernels) -> Computed {
    let views = scene.views();
    let computed = compute(device, &scene.call(&views), &mass_rows(scene), kernels);
    computed.expect("it runs").expect("a head size")
}

fn mass_rows(scene: &Scene) -> Vec<(usize, f32)> {
    let rows = (0..scene.rows()).filter(|&row| scene.sequence[row] == 0);
    rows.map(|row| (row, 1.0 / (row + 1) as f32)).collect()
}

fn reference_masses(
    call: &Call<'_>,
    lse: &[f32],
    rows: &[(usize, f32)],
    part: &PartView<'_>,
    index: usize,
) -> Vec<u64> {
    let mut masses = vec![0; part.len];
    for &(row, weight) in rows {
        let lse = &lse[row * call.heads..(row + 1) * call.heads];
        reference::masses(call, row, weight, lse, index, &mut masses);
    }
    masses
}

#[test]
#[ignore = "needs a CUDA device"]
fn rows_of_any_sequences_and_parts_get_what_the_reference_says() {
    let device = Device::open(0).expect("a device");
    let mut worst: f64 = 0.0;
    for (seed, kernels) in (0..54).flat_map(|seed| BOTH.map(|kernels| (seed, kernels))) {
        let scene = prepared(seed);
        let got = on_device(&device, &scene, kernels);
        let scene = rotated(&scene);
        let views = scene.views();
        let call = scene.call(&views);
        let (out, lse) = reference::attention(&call);
        let error = distance(&got.out, &out);
        assert!(error <= 5e-3, "seed {seed}: output is {error} away");
        worst = worst.max(error);
        println!("seed {seed}, {kernels:?}: {error:.2e}");
        for (i, (a, b)) in got.lse.iter().zip(&lse).enumerate() {
            assert!(
                a == b || (a - b).abs() < 2e-2,
                "seed {seed}: lse {i} is {a}, not {b}"
            );
        }
        for (index, part) in views[0].iter().enumerate() {
            let expected = reference_masses(&call, &lse, &mass_rows(&scene), part, index);
            let real = |masses: &[u64]| masses.iter().map(|&m| m as f32).collect::<Vec<_>>();
            let error = distance(&real(&got.masses[index]), &real(&expected));
            assert!(
                error <= 2e-2 || expected.iter().all(|&m| m < 1000),
                "seed {seed}: masses of part {index} are {error} away"
            );
        }
    }
    println!("worst output {worst:.2e}");
}

/// A prefix and a document so long that few rows' sums are cut into many partial results, and those of some rows too.
fn long(seed: u64, kv_heads: usize, group: usize, head_dim: usize, rows: usize, slots: usize) -> Scene {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut scene = Scene::new(seed, kv_heads, group, head_dim, rows);
    let mut part = scene.parts[0][0].clone();
    let pages = scene.shape.pages as u32;
    let mut of = |len: usize, from: u32, turn: i64| {
        part.pages = (0..len.div_ceil(64)).map(|_| rng.u32(0..pages)).collect();
        (part.len, part.from, part.turn) = (len, from, turn);
        part.clone()
    };
    let (half, rest) = (slots / 2, slots - slots / 2);
    scene.parts = vec![vec![of(half, 0, 0), of(rest, half as u32, half as i64 - 3)]];
    scene.sequence.fill(0);
    let mut positions: Vec<u32> = (0..rows).map(|_| rng.u32(0..slots as u32)).collect();
    positions[0] = slots as u32 - 1;
    positions.sort_unstable();
    scene.positions = positions;
    scene.pool = rounded(&scene.pool);
    scene.queries = rounded(&scene.queries);
    scene
}

#[test]
#[ignore = "needs a CUDA device"]
fn long_parts_get_what_the_reference_says() {
    let device = Device::open(0).expect("a device");
    // Lengths around the places where sums are cut, and up to 33k.
    let scenes = [
        (2, 4, 128, 1, 511),
        (2, 4, 128, 2, 513),
        (1, 7, 64, 1, 4_097),
        (1, 8, 128, 1, 33_000),
        (1, 4, 128, 40, 1_025),
        (1, 3, 64, 90, 9_000),
        (1, 6, 128, 50, 33_000),
        (1, 4, 128, 400, 5_000),
    ];
    for (seed, (kv_heads, group, head_dim, rows, slots)) in scenes.into_iter().enumerate() {
        let scene = long(seed as u64, kv_heads, group, head_dim, rows, slots);
        agree(&device, &scene, &format!("{rows} rows over {slots} slots"));
    }
}

/// Both kernels agree with the reference.
fn agree(device: &Device, scene: &Scene, what: &str) {
    let by_reference = rotated(scene);
    let views = by_reference.views();
    let (out, lse) = reference::attention(&by_reference.call(&views));
    for kernels in BOTH {
        let got = on_device(device, scene, kernels);
        let error = distance(&got.out, &out);
        assert!(error <= 5e-3, "{what}, {kernels:?}: output is {error} away");
        let far = got
            .lse
            .iter()
            .zip(&lse)
            .find(|(a, b)| a != b && (a.is_nan() || (*a - *b).abs() >= 2e-2));
        assert_eq!(far, None, "{what}, {kernels:?}");
    }
}

/// One row each of so many sequences, over parts of up to `slots` slots.
fn streams(
    seed: u64,
    (kv_heads, group, head_dim): (usize, usize, usize),
    count: usize,
    slots: usize,
) -> Scene {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut scene = Scene::new(seed, kv_heads, group, head_dim, count);
    let part = scene.parts[0][0].clone();
    let pages = scene.shape.pages as u32;
    scene.parts = (0..count)
        .map(|_| {
            let first = rng.usize(1..slots / 2);
            let mut of = |len: usize, from: u32, turn: i64| {
                let mut part = part.clone();
                part.pages = (0..len.div_ceil(64)).map(|_| rng.u32(0..pages)).collect();
                (part.len, part.from, part.turn) = (len, from, turn);
                part
            };
            vec![of(first, 0, 0), of(slots / 2, first as u32, first as i64 - 1)]
        })
        .collect();
    scene.sequence = (0..count as u32).collect();
    let last = |parts: &Vec<scene::OwnedPart>| parts.iter().map(|part| part.len as u32).sum::<u32>() - 1;
    scene.positions = scene.parts.iter().map(last).collect();
    scene.pool = rounded(&scene.pool);
    scene.queries = rounded(&scene.queries);
    scene
}

#[test]
#[ignore = "needs a CUDA device"]
fn streams_get_what_the_reference_says() {
    let device = Device::open(0).expect("a device");
    // More work items than a device runs at once, so that rings go round.
    for (seed, (shape, count, slots)) in [
        ((8, 4, 128), 64, 2_000),
        ((3, 3, 64), 120, 1_500),
        ((4, 7, 64), 64, 700),
        ((2, 8, 128), 33, 5_000),
        ((8, 1, 128), 5, 300),
    ]
    .into_iter()
    .enumerate()
    {
        let scene = streams(seed as u64, shape, count, slots);
        agree(&device, &scene, &format!("{count} streams over {slots} slots"));
    }
}

#[test]
#[ignore = "needs a CUDA device"]
fn a_row_has_the_same_bits_with_and_without_others() {
    let device = Device::open(0).expect("a device");
    for (seed, kernels) in [7, 16, 25, 3, 12]
        .into_iter()
        .flat_map(|seed| BOTH.map(|kernels| (seed, kernels)))
    {
        let scene = prepared(seed);
        let together = on_device(&device, &scene, kernels);
        // Odd rows only: other tiles, other neighbours; more than few, so that the same kernel runs.
        let some: Vec<_> = (0..scene.rows()).filter(|row| row % 2 == 1).collect();
        let apart = on_device(&device, &scene.only(&some), kernels);
        let width = scene.row_len();
        for (i, &row) in some.iter().enumerate() {
            assert_eq!(
                apart.out[i * width..(i + 1) * width],
                together.out[row * width..(row + 1) * width],
                "seed {seed}: row {row}"
            );
        }
    }
}
