//! The device's attention beside the reference.

use crate::cpu::attention::{Attention as Call, PartView, PoolShape, Positions};
use crate::cpu::rope::{RopeLayout, RopeScaling, RopeTable};
use crate::reference;

use super::attention::{Attention, Layer};
use super::ops::Heads;
use super::{Buffer, CudaError, Device, Planner, Staging, bf16};

/// What the device computed.
#[derive(Clone, Debug)]
pub struct Computed {
    /// `[rows, heads, head_dim]`
    pub out: Vec<f32>,
    /// `[rows, heads]`
    pub lse: Vec<f32>,
    /// Masses of sequence 0's slots, by part.
    pub masses: Vec<Vec<u64>>,
}

/// Which kernels compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernels {
    /// Those that serve on this device.
    Serving,
    /// Those for every device.
    Portable,
}

/// Attention on the device. Unlike the CPU's, the call's queries are not rotated. Its rows stand in the order of their
/// sequences and positions. `mass_rows` are rows of sequence 0, each with its weight. `None` if no kernel has this head
/// size.
pub fn compute(
    device: &Device,
    call: &Call<'_>,
    mass_rows: &[(usize, f32)],
    kernels: Kernels,
) -> Result<Option<Computed>, CudaError> {
    let heads = Heads {
        query: call.heads,
        kv: call.shape.kv_heads,
        dim: call.shape.head_dim,
    };
    let Some(mut attention) = Attention::new(device, heads, call.scale)? else {
        return Ok(None);
    };
    if kernels == Kernels::Portable {
        attention = attention.portable();
    }
    let mut planner = Planner::new(attention.tiling());
    let blocks: Vec<_> = call
        .sequences
        .iter()
        .map(|parts| planner.parts(parts, &vec![true; parts.len()]))
        .collect();
    for (sequence, blocks) in blocks.iter().enumerate() {
        let rows = (0..call.positions.len()).filter(|&row| call.sequence[row] as usize == sequence);
        let positions: Vec<_> = rows.map(|row| call.positions[row]).collect();
        if !positions.is_empty() {
            let class = attention.tiling().class(positions.len());
            planner.rows(&positions, blocks, class);
        }
    }
    planner.masses(
        mass_rows.iter().map(|&(row, weight)| (row, weight, None)),
        &blocks[0],
    );
    let mut staging = Staging::new(device, 1 << 12)?;
    let (plan, mass_plan) = planner.stage(&mut staging);
    staging.send(device)?;

    let last = call.positions.iter().copied().max().unwrap_or(0) as usize;
    let turns = call.sequences.iter().flatten().map(|part| part.turn);
    let back = turns.min().unwrap_or(0).min(0).unsigned_abs() as usize;
    let angles = device.angles(call.rope, last + back + 1)?;
    let qkv: Buffer<bf16> = device.upload(&joint(call, heads))?;
    let pages = device.pages_of(&halves(call.pool), heads)?;
    let layer = Layer {
        qkv: &qkv,
        pages: &pages,
        angles: &angles,
    };
    let mut out = device.upload(&vec![bf16::NAN; call.queries.len()])?;
    let mut lse = device.upload(&vec![f32::NAN; call.positions.len() * call.heads])?;
    let mut sums = device.zeros::<u64>(planner.mass_slots())?;
    attention.run(device, &layer, (&staging, &plan), &mut out, Some(&mut lse))?;
    attention.masses(device, &layer, (&staging, &plan, &mass_plan), &lse, &mut sums)?;

    let (mut got, mut got_lse) = (vec![bf16::ZERO; out.len()], vec![0.0; lse.len()]);
    let mut got_sums = vec![0; planner.mass_slots()];
    device.download(&out, &mut got)?;
    device.download(&lse, &mut got_lse)?;
    device.download(&sums, &mut got_sums)?;
    let masses = blocks[0]
        .parts
        .iter()
        .zip(&call.sequences[0])
        .map(|(blocks, part)| {
            let start = planner.mass_of(blocks.start);
            got_sums[start..start + part.len].to_vec()
        });
    Ok(Some(Computed {
        masses: masses.collect(),
        out: got.iter().map(|x| x.to_f32()).collect(),
        lse: got_lse,
    }))
}

/// Queries as the joint projection holds them; keys and values are not read.
fn joint(call: &Call<'_>, heads: Heads) -> Vec<bf16> {
    let rows = call.queries.chunks_exact(heads.query * heads.dim);
    let rows = rows.flat_map(|row| {
        let rest = std::iter::repeat_n(bf16::NAN, 2 * heads.kv * heads.dim);
        row.iter().map(|&x| bf16::from_f32(x)).chain(rest)
    });
    rows.collect()
}

fn halves(values: &[f32]) -> Vec<bf16> {
    values.iter().map(|&x| bf16::from_f32(x)).collect()
}

/// `‖actual − expected‖ / ‖expected‖`; NaN if anything is NaN.
pub fn distance(actual: &[f32], expected: &[f32]) -> f64 {
    let square = |x: f32| f64::from(x).powi(2);
    let error: f64 = actual.iter().zip(expected).map(|(a, b)| square(a - b)).sum();
    let size: f64 = expected.iter().map(|&b| square(b)).sum();
    (error / size.max(1e-30)).sqrt()
}

/// Relative error of attention with heads of this shape, on random numbers: a prefix, documents at offsets with hidden
/// slots, an overlay in any order; a sequence of many rows and one of a single row. `None` if no kernel has this size.
pub fn relative_error(device: &Device, heads: Heads) -> Result<Option<f64>, CudaError> {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let shape = PoolShape {
        pages: 32,
        kv_heads: heads.kv,
        head_dim: heads.dim,
    };
    let pool = random.numbers(shape.len());
    let rope = RopeTable::new(heads.dim, 500_000.0, RopeLayout::Halves, RopeScaling::None, 0);
    let pages: Vec<u32> = (0..shape.pages as u32).rev().collect();
    let overlay: Vec<u32> = (0..90).map(|i| 700 + (i * 37) % 90).collect();
    let hidden: Vec<u64> = (0..10).map(|_| random.word() & random.word()).collect();
    let parts = |first: usize| {
        let part = |pages, len, positions, turn, hidden| PartView {
            pages,
            len,
            positions,
            turn,
            hidden,
        };
        vec![
            part(&pages[first..first + 1], 33, Positions::From(0), 0, None),
            part(&pages[4..14], 640, Positions::From(33), 32, Some(&hidden[..])),
            part(&pages[14..15], 20, Positions::From(673), 672, None),
            part(&pages[16..18], 90, Positions::List(&overlay), 0, None),
        ]
    };
    let sequences = vec![parts(0), parts(1)];
    let positions: Vec<u32> = (0..70).map(|i| 400 + i * 5).chain([789]).collect();
    let sequence: Vec<u32> = (0..positions.len()).map(|row| u32::from(row == 70)).collect();
    let queries = random.numbers(positions.len() * heads.query * heads.dim);
    let mut rotated = queries.clone();
    for (row, row_queries) in rotated.chunks_exact_mut(heads.query * heads.dim).enumerate() {
        let single = row_queries.chunks_exact_mut(heads.dim);
        single.for_each(|head| rope.rotate(head, i64::from(positions[row])));
    }
    let call = |queries| Call {
        shape,
        pool: &pool,
        heads: heads.query,
        scale: 1.0 / (heads.dim as f32).sqrt(),
        rope: &rope,
        queries,
        positions: &positions,
        sequence: &sequence,
        sequences: &sequences,
    };
    let Some(computed) = compute(device, &call(&queries), &[(0, 1.0)], Kernels::Serving)? else {
        return Ok(None);
    };
    let (out, _) = reference::attention(&call(&rotated));
    Ok(Some(distance(&computed.out, &out)))
}

/// A small generator: splitmix64.
struct Random(u64);

impl Random {
    fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From -2 to 2, as bf16 holds them.
    fn numbers(&mut self, count: usize) -> Vec<f32> {
        let number = |word: u64| (word >> 40) as f32 / (1u32 << 22) as f32 - 2.0;
        (0..count)
            .map(|_| bf16::from_f32(number(self.word())).to_f32())
            .collect()
    }
}
