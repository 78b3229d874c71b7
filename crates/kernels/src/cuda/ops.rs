//! What stands between the matrix products and is not attention.

use super::buffer::holds;
use super::launch::{grid, launch};
use super::{Buffer, CudaError, Device, Pages, Section, Staging, bf16};

/// Threads a block in kernels that sum over a row.
const ROW_THREADS: usize = 256;

/// Heads of a token in the joint projection `[rows, query heads | key heads | value heads, dim]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heads {
    /// Query heads.
    pub query: usize,
    /// Key heads, and as many value heads.
    pub kv: usize,
    /// Elements a head.
    pub dim: usize,
}

impl Heads {
    /// Elements of a row of the joint projection.
    pub fn width(&self) -> usize {
        (self.query + 2 * self.kv) * self.dim
    }
}

/// What a token is drawn by.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Draw {
    /// 1 / temperature; 0 takes the greatest logit.
    pub inverse_temperature: f32,
    /// Tokens that are kept; 0 keeps all.
    pub top_k: i32,
    /// Share of their mass that is kept.
    pub top_p: f32,
    /// Always 0.
    pub reserved: i32,
    /// Where the draw falls, from 0 to below 1.
    pub at: f64,
}

// SAFETY: a structure of numbers, laid out as the kernel declares it.
unsafe impl cudarc::driver::DeviceRepr for Draw {}
// SAFETY: no padding: the fields' sizes add up to the structure's.
unsafe impl super::staging::Plain for Draw {}

const _: () = assert!(size_of::<Draw>() == 24);

/// Rotary angles on a device: `[position, (cos, sin) of every pair]`, f32.
pub struct Angles {
    pub(super) values: Buffer<f32>,
    pub(super) interleaved: bool,
    positions: usize,
}

impl Angles {
    /// Positions that have angles: those below this.
    pub fn positions(&self) -> usize {
        self.positions
    }
}

impl Device {
    /// Angles of the first `positions` positions.
    pub fn angles(&self, rope: &crate::cpu::rope::RopeTable, positions: usize) -> Result<Angles, CudaError> {
        let interleaved = rope.layout() == crate::cpu::rope::RopeLayout::Interleaved;
        let pairs = |position: usize| {
            rope.frequencies().iter().flat_map(move |frequency| {
                let (sin, cos) = (frequency * position as f64).sin_cos();
                [cos as f32, sin as f32]
            })
        };
        let values: Vec<f32> = (0..positions).flat_map(pairs).collect();
        Ok(Angles {
            values: self.upload(&values)?,
            interleaved,
            positions,
        })
    }

    /// `hidden[row] = embedding[tokens[row]]`; `embedding: [vocab, width]`. Tokens are within the vocabulary.
    pub fn embed(
        &self,
        hidden: &mut Buffer<f32>,
        embedding: &Buffer<bf16>,
        (staging, tokens): (&Staging, Section<u32>),
        width: usize,
    ) -> Result<(), CudaError> {
        holds(hidden, tokens.len() * width);
        holds(embedding, width);
        let width_argument = width as i32;
        launch!(
            self,
            &self.kernels.embed,
            grid((tokens.len(), 1, 1), ROW_THREADS, 0),
            hidden.address(),
            embedding.address(),
            staging.address(tokens),
            width_argument
        );
        Ok(())
    }

    /// `x / sqrt(mean(x²) + epsilon) · weight` of `rows` rows, or of those that `picked` names.
    pub fn rms_norm(
        &self,
        out: &mut Buffer<bf16>,
        x: &Buffer<f32>,
        weight: &Buffer<f32>,
        epsilon: f32,
        rows: usize,
        picked: Option<(&Staging, Section<u32>)>,
    ) -> Result<(), CudaError> {
        let width = weight.len();
        holds(out, rows * width);
        holds(x, if picked.is_some() { width } else { rows * width });
        let from = picked.map_or(0, |(staging, section)| staging.address(section));
        let width_argument = width as i32;
        launch!(
            self,
            &self.kernels.rms_norm,
            grid((rows, 1, 1), ROW_THREADS, 0),
            out.address(),
            x.address(),
            weight.address(),
            from,
            epsilon,
            width_argument
        );
        Ok(())
    }

    /// Copies the rows that `picked` names, of `width` elements each.
    pub fn gather<T: cudarc::driver::DeviceRepr>(
        &self,
        out: &mut Buffer<T>,
        x: &Buffer<T>,
        (staging, picked): (&Staging, Section<u32>),
        width: usize,
    ) -> Result<(), CudaError> {
        holds(out, picked.len() * width);
        let words = (width * size_of::<T>() / 4) as i32;
        launch!(
            self,
            &self.kernels.gather,
            grid((picked.len(), 1, 1), ROW_THREADS, 0),
            out.address(),
            x.address(),
            staging.address(picked),
            words
        );
        Ok(())
    }

    /// `silu(gate) · up`: `gate_up: [rows, gate | up, inner]`.
    pub fn silu_mul(
        &self,
        out: &mut Buffer<bf16>,
        gate_up: &Buffer<bf16>,
        rows: usize,
        inner: usize,
    ) -> Result<(), CudaError> {
        holds(out, rows * inner);
        holds(gate_up, rows * 2 * inner);
        let inner_argument = inner as i32;
        launch!(
            self,
            &self.kernels.silu_mul,
            grid((rows, (inner / 8).div_ceil(ROW_THREADS), 1), ROW_THREADS, 0),
            out.address(),
            gate_up.address(),
            inner_argument
        );
        Ok(())
    }

    /// RMS norm of every query and key head, in place.
    pub fn head_norms(
        &self,
        qkv: &mut Buffer<bf16>,
        [query, key]: [&Buffer<f32>; 2],
        epsilon: f32,
        rows: usize,
        heads: Heads,
    ) -> Result<(), CudaError> {
        holds(qkv, rows * heads.width());
        let (of_query, of_kv, dim) = (heads.query as i32, heads.kv as i32, heads.dim as i32);
        launch!(
            self,
            &self.kernels.head_norms,
            grid((rows, heads.query + heads.kv, 1), 32, 0),
            qkv.address(),
            query.address(),
            key.address(),
            epsilon,
            of_query,
            of_kv,
            dim
        );
        Ok(())
    }

    /// Rotates keys at their positions and puts keys and values into their slots.
    pub fn store_kv(
        &self,
        pages: &mut Pages,
        qkv: &Buffer<bf16>,
        angles: &Angles,
        staging: &Staging,
        (positions, slots): (Section<i32>, Section<u32>),
        heads: Heads,
    ) -> Result<(), CudaError> {
        holds(qkv, slots.len() * heads.width());
        let (of_query, of_kv, interleaved) =
            (heads.query as i32, heads.kv as i32, i32::from(angles.interleaved));
        launch!(
            self,
            &self.kernels.store_kv,
            grid((slots.len(), heads.kv, 1), heads.dim / 2, 0),
            pages.address(),
            qkv.address(),
            angles.values.address(),
            staging.address(positions),
            staging.address(slots),
            of_query,
            of_kv,
            interleaved
        );
        Ok(())
    }

    /// Squared distance over all heads between keys of `rows`, rotated at `rotated_at`, and the keys in `slots`.
    pub fn key_distance(
        &self,
        distances: &mut Buffer<f32>,
        (qkv, pages, angles): (&Buffer<bf16>, &Pages, &Angles),
        staging: &Staging,
        (rows, slots, rotated_at): (Section<u32>, Section<u32>, Section<i32>),
        heads: Heads,
    ) -> Result<(), CudaError> {
        holds(distances, rows.len());
        holds(qkv, heads.width());
        let (of_query, of_kv, dim) = (heads.query as i32, heads.kv as i32, heads.dim as i32);
        let interleaved = i32::from(angles.interleaved);
        launch!(
            self,
            &self.kernels.key_distance,
            grid((rows.len(), 1, 1), ROW_THREADS, 0),
            distances.address(),
            qkv.address(),
            pages.address(),
            angles.values.address(),
            staging.address(rows),
            staging.address(slots),
            staging.address(rotated_at),
            of_query,
            of_kv,
            dim,
            interleaved
        );
        Ok(())
    }

    /// The token that each row's draw takes: `logits: [rows, vocab]`. See `cuda/sample.cu`.
    pub fn sample(
        &self,
        tokens: &mut Buffer<u32>,
        logits: &Buffer<f32>,
        (staging, draws): (&Staging, Section<Draw>),
        vocab: usize,
    ) -> Result<(), CudaError> {
        let rows = draws.len();
        holds(tokens, rows);
        holds(logits, rows * vocab);
        let (vocab_argument, draws) = (vocab as i32, staging.address(draws));
        launch!(
            self,
            &self.kernels.sample_token,
            grid((rows, 1, 1), 1024, 0),
            tokens.address(),
            logits.address(),
            draws,
            vocab_argument,
        );
        Ok(())
    }

    /// Fills with uniform random numbers of standard deviation `deviation`, the same ones for the same seed.
    pub fn fill(&self, buffer: &mut Buffer<bf16>, seed: u64, deviation: f32) -> Result<(), CudaError> {
        let len = buffer.len() as u64;
        launch!(
            self,
            &self.kernels.fill,
            grid((4096, 1, 1), ROW_THREADS, 0),
            buffer.address(),
            len,
            seed,
            deviation
        );
        Ok(())
    }
}
