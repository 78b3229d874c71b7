//! The steps of one layer, on the rows that are in the scratch.

use medley_kernels::cpu::attention::{Attention, PartView};
use medley_kernels::cpu::ops;

use super::CpuBackend;
use super::probe::Attended;
use super::scratch::{Scratch, sized};
use crate::config::Config;
use crate::decoder::attention_scale;
use crate::rows::Rows;

impl CpuBackend {
    /// Queries, keys and values of `rows` rows, not rotated.
    pub(super) fn project(&mut self, layer: usize, rows: usize) {
        let Self {
            decoder,
            scratch,
            threads,
            ..
        } = self;
        let (config, layer) = (&decoder.config, &decoder.layers[layer]);
        let normed = sized(&mut scratch.normed, rows * config.width);
        ops::rms_norm(
            &scratch.hidden,
            &layer.attention_norm,
            config.epsilon,
            normed,
            threads,
        );
        let qkv = sized(&mut scratch.qkv, rows * layer.qkv.rows());
        layer.qkv.multiply(normed, rows, qkv, threads);
        if let Some(bias) = &layer.qkv_bias {
            ops::add_bias(qkv, bias);
        }
        split(config, scratch);
        if let Some(norms) = &layer.head_norms {
            let heads = [
                (&mut scratch.queries, &norms.query),
                (&mut scratch.keys, &norms.key),
            ];
            for (heads, weight) in heads {
                std::mem::swap(heads, &mut scratch.raw_heads);
                let normed = sized(heads, scratch.raw_heads.len());
                ops::rms_norm(&scratch.raw_heads, weight, config.epsilon, normed, threads);
            }
        }
    }

    /// Projects and rotates the rows, and stores their keys and values.
    pub(super) fn store(&mut self, layer: usize, rows: &Rows) {
        self.project(layer, rows.len());
        let Self {
            decoder,
            scratch,
            threads,
            pool,
        } = self;
        let head_dim = decoder.config.head_dim;
        decoder
            .rope
            .rotate_rows(&mut scratch.queries, head_dim, &rows.positions, threads);
        decoder
            .rope
            .rotate_rows(&mut scratch.keys, head_dim, &rows.positions, threads);
        pool.write(layer, &rows.slots, &scratch.keys, &scratch.values);
    }

    /// Attention of the rows whose rotated queries are in the scratch, with their log-sum-exp if it is wanted.
    pub(super) fn attend<'a>(
        &'a mut self,
        layer: usize,
        rows: &'a Rows,
        views: &'a [Vec<PartView<'a>>],
        wants_lse: bool,
    ) -> Attended<'a> {
        let heads = self.decoder.config.heads;
        let scale = attention_scale(&self.decoder.rope, self.decoder.config.head_dim);
        let Self {
            decoder,
            scratch,
            threads,
            pool,
        } = self;
        let attention = Attention {
            shape: pool.shape,
            pool: pool.layer(layer),
            heads,
            scale,
            rope: &decoder.rope,
            queries: &scratch.queries,
            positions: &rows.positions,
            sequence: &rows.sequence,
            sequences: views,
        };
        let out = sized(&mut scratch.attended, rows.len() * decoder.config.query_width());
        let lse = sized(&mut scratch.lse, if wants_lse { rows.len() * heads } else { 0 });
        attention.run(out, wants_lse.then_some(&mut *lse), threads);
        Attended {
            attention,
            lse,
            threads,
        }
    }

    /// From attention's output to the hidden states that leave the layer.
    pub(super) fn finish_layer(&mut self, layer: usize, rows: usize) {
        let Self {
            decoder,
            scratch,
            threads,
            ..
        } = self;
        let (config, layer) = (&decoder.config, &decoder.layers[layer]);
        let update = sized(&mut scratch.update, rows * config.width);
        layer.output.multiply(&scratch.attended, rows, update, threads);
        ops::add(&mut scratch.hidden, update, threads);

        let normed = sized(&mut scratch.normed, rows * config.width);
        ops::rms_norm(&scratch.hidden, &layer.mlp_norm, config.epsilon, normed, threads);
        let gate_up = sized(&mut scratch.gate_up, rows * layer.gate_up.rows());
        layer.gate_up.multiply(normed, rows, gate_up, threads);
        let inner = sized(&mut scratch.inner, rows * config.inner);
        ops::silu_mul(gate_up, inner, config.inner, threads);
        layer.down.multiply(inner, rows, update, threads);
        ops::add(&mut scratch.hidden, update, threads);
    }

    /// Logits of the rows in the scratch, `[rows, vocab]`.
    pub(super) fn logits(&mut self, rows: usize) -> Vec<f32> {
        let Self {
            decoder,
            scratch,
            threads,
            ..
        } = self;
        let config = &decoder.config;
        let normed = sized(&mut scratch.normed, rows * config.width);
        ops::rms_norm(
            &scratch.hidden,
            &decoder.output_norm,
            config.epsilon,
            normed,
            threads,
        );
        let mut logits = vec![0.0; rows * config.vocab];
        decoder.head.multiply(normed, rows, &mut logits, threads);
        logits
    }
}

/// Cuts the rows of the joint projection into queries, keys and values.
fn split(config: &Config, scratch: &mut Scratch) {
    let (queries, keys) = (config.query_width(), config.key_width());
    scratch.queries.clear();
    scratch.keys.clear();
    scratch.values.clear();
    for row in scratch.qkv.chunks_exact(queries + 2 * keys) {
        let (query, rest) = row.split_at(queries);
        let (key, value) = rest.split_at(keys);
        scratch.queries.extend_from_slice(query);
        scratch.keys.extend_from_slice(key);
        scratch.values.extend_from_slice(value);
    }
}
