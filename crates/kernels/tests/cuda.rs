//! The device's attention beside the reference. Needs a CUDA device; without one these tests fail, so they only run when
//! they are asked for: `cargo test --features cuda --test cuda -- --ignored`.
#![cfg(feature = "cuda")]

#[path = "attention/scene.rs"]
#[expect(dead_code, reason = "the CPU's tests use all of it")]
mod scene;

use medley_kernels::cpu::attention::{Attention as Call, PartView};
use medley_kernels::cuda::attention::{Attention, Layer};
use medley_kernels::cuda::ops::Heads;
use medley_kernels::cuda::{Buffer, Device, Planner, Staging, bf16};
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

fn halves(values: &[f32]) -> Vec<bf16> {
    values.iter().map(|&x| bf16::from_f32(x)).collect()
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

struct Results {
    out: Vec<f32>,
    lse: Vec<f32>,
    masses: Vec<Vec<u64>>,
}

/// Output, log-sum-exp, and the masses of sequence 0's rows on all its parts.
fn on_device(device: &Device, scene: &Scene) -> Results {
    let views = scene.views();
    let call = scene.call(&views);
    let heads = Heads {
        query: scene.heads,
        kv: scene.shape.kv_heads,
        dim: scene.shape.head_dim,
    };
    let mut attention = Attention::new(device, heads, call.scale)
        .expect("attention")
        .expect("a head size");
    let mut planner = Planner::new(attention.tiling());
    let blocks: Vec<_> = views
        .iter()
        .map(|parts| planner.parts(parts, &vec![true; parts.len()]))
        .collect();
    for (sequence, blocks) in blocks.iter().enumerate() {
        let rows = (0..scene.rows()).filter(|&row| scene.sequence[row] as usize == sequence);
        let positions: Vec<_> = rows.map(|row| scene.positions[row]).collect();
        if !positions.is_empty() {
            planner.rows(&positions, blocks);
        }
    }
    let probing = mass_rows(scene);
    planner.masses(
        probing.iter().map(|&(row, weight)| (row, weight, None)),
        &blocks[0],
    );
    let mut staging = Staging::new(device, 1 << 12).expect("staging");
    let (plan, mass_plan) = planner.stage(&mut staging);
    staging.send(device).expect("sent");

    let qkv: Buffer<bf16> = device.upload(&joint(scene, heads)).expect("queries");
    let pages = device.pages_of(&halves(&scene.pool), heads).expect("pages");
    let angles = device.angles(&scene.rope, 2048).expect("angles");
    let layer = Layer {
        qkv: &qkv,
        pages: &pages,
        angles: &angles,
    };
    let mut out = device.upload(&vec![bf16::NAN; scene.queries.len()]).expect("out");
    let mut lse = device
        .upload(&vec![f32::NAN; scene.rows() * scene.heads])
        .expect("lse");
    let mut sums = device.zeros::<u64>(planner.mass_slots()).expect("sums");
    attention
        .run(device, &layer, (&staging, &plan), &mut out, Some(&mut lse))
        .expect("attention");
    attention
        .masses(device, &layer, (&staging, &plan, &mass_plan), &lse, &mut sums)
        .expect("masses");
    let (mut got, mut got_lse) = (vec![bf16::ZERO; out.len()], vec![0.0; lse.len()]);
    let mut got_sums = vec![0; planner.mass_slots()];
    device.download(&out, &mut got).expect("out");
    device.download(&lse, &mut got_lse).expect("lse");
    device.download(&sums, &mut got_sums).expect("sums");
    let masses = blocks[0].parts.iter().zip(&views[0]).map(|(blocks, part)| {
        let start = planner.mass_of(blocks.start);
        got_sums[start..start + part.len].to_vec()
    });
    Results {
        masses: masses.collect(),
        out: got.iter().map(|x| x.to_f32()).collect(),
        lse: got_lse,
    }
}

/// Queries as the joint projection holds them; keys and values are not read.
fn joint(scene: &Scene, heads: Heads) -> Vec<bf16> {
    let rows = scene.queries.chunks_exact(heads.query * heads.dim);
    let rows = rows.flat_map(|row| {
        let rest = std::iter::repeat_n(bf16::NAN, 2 * heads.kv * heads.dim);
        row.iter().map(|&x| bf16::from_f32(x)).chain(rest)
    });
    rows.collect()
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

/// `‖actual − expected‖ / ‖expected‖`; NaN never passes.
fn distance(actual: &[f32], expected: &[f32]) -> f64 {
    let square = |x: f32| f64::from(x).powi(2);
    let error: f64 = actual.iter().zip(expected).map(|(a, b)| square(a - b)).sum();
    let size: f64 = expected.iter().map(|&b| square(b)).sum();
    (error / size.max(1e-30)).sqrt()
}

#[test]
#[ignore = "needs a CUDA device"]
fn rows_of_any_sequences_and_parts_get_what_the_reference_says() {
    let device = Device::open(0).expect("a device");
    let mut worst: f64 = 0.0;
    for seed in 0..54 {
        let scene = prepared(seed);
        let got = on_device(&device, &scene);
        let scene = rotated(&scene);
        let views = scene.views();
        let call = scene.call(&views);
        let (out, lse) = reference::attention(&call);
        let error = distance(&got.out, &out);
        assert!(error <= 5e-3, "seed {seed}: output is {error} away");
        worst = worst.max(error);
        println!("seed {seed}: {error:.2e}");
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

#[test]
#[ignore = "needs a CUDA device"]
fn a_row_has_the_same_bits_with_and_without_others() {
    let device = Device::open(0).expect("a device");
    for seed in [7, 16, 25, 3, 12] {
        let scene = prepared(seed);
        let together = on_device(&device, &scene);
        // Odd rows only: other tiles, other neighbours; more than few, so that the same kernel runs.
        let some: Vec<_> = (0..scene.rows()).filter(|row| row % 2 == 1).collect();
        let apart = on_device(&device, &scene.only(&some));
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
