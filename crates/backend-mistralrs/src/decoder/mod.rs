//! The weights of a decoder.
//!
//! Matrices that read the same input are one: queries, keys and values, and the MLP's gate and up projection.
//! All are `[outputs, inputs]`. [`Layer`] is the same wherever weights are kept; [`Decoder`] keeps them on the CPU, packed
//! in f32, with the embedding as the file has it.

mod layer;

use medley_kernels::cpu::matrix::Matrix;
use medley_kernels::cpu::rope::RopeTable;

#[cfg(feature = "cuda")]
pub(crate) use layer::HeadNorms;
pub(crate) use layer::{Keep, Layer};

use crate::config::Config;
use crate::embedding::Embedding;
use crate::tensors::{Role, Tensors};
use crate::{LoadError, Progress};

/// Positions beyond these get their angles when they are used.
const MOST_TABULATED: usize = 1 << 17;

/// Matrices packed for the CPU's product, everything in f32.
pub(crate) struct Packed;

impl Keep for Packed {
    type Matrix = Matrix;
    type Vector = Vec<f32>;
    type Bias = Vec<f32>;

    fn matrix(&mut self, rows: Vec<f32>, outputs: usize, inputs: usize) -> Result<Matrix, LoadError> {
        Ok(Matrix::pack(&rows, outputs, inputs))
    }

    fn vector(&mut self, values: Vec<f32>) -> Result<Vec<f32>, LoadError> {
        Ok(values)
    }

    fn bias(&mut self, values: Vec<f32>) -> Result<Vec<f32>, LoadError> {
        Ok(values)
    }
}

impl Layer<Packed> {
    fn bytes(&self) -> usize {
        let matrices = [&self.qkv, &self.output, &self.gate_up, &self.down];
        let norms = self
            .head_norms
            .as_ref()
            .map_or(0, |norms| norms.query.len() + norms.key.len());
        let vectors = self.attention_norm.len() + self.mlp_norm.len() + norms;
        let vectors = vectors + self.qkv_bias.as_ref().map_or(0, Vec::len);
        matrices.iter().map(|matrix| matrix.bytes()).sum::<usize>() + 4 * vectors
    }
}

/// Reads all layers, one matrix at a time.
pub(crate) fn read_layers<K: Keep>(
    config: &Config,
    tensors: &mut dyn Tensors,
    keep: &mut K,
    report: &dyn Fn(Progress),
) -> Result<Vec<Layer<K>>, LoadError> {
    let total = config.layers;
    let read = |index| {
        let layer = Layer::read(config, tensors, keep, index)?;
        report(Progress::Weights {
            done: index + 1,
            total,
        });
        Ok(layer)
    };
    (0..total).map(read).collect()
}

/// Factor on attention logits. YaRN's magnitude scales queries and keys; all of it is applied here, so that stored keys
/// are plain.
pub(crate) fn attention_scale(rope: &RopeTable, head_dim: usize) -> f32 {
    rope.magnitude().powi(2) / (head_dim as f32).sqrt()
}

/// A model ready to compute on the CPU.
pub(crate) struct Decoder {
    pub config: Config,
    pub embedding: Embedding,
    pub layers: Vec<Layer<Packed>>,
    pub output_norm: Vec<f32>,
    /// `[vocab, width]`
    pub head: Matrix,
    pub rope: RopeTable,
}

impl Decoder {
    /// Reads and packs all tensors, one matrix at a time. `length` is the longest sequence that will run.
    pub fn read(
        config: Config,
        tensors: &mut dyn Tensors,
        length: usize,
        report: &dyn Fn(Progress),
    ) -> Result<Self, LoadError> {
        let (vocab, width) = (config.vocab, config.width);
        let embedding = tensors.embedding(vocab, width)?;
        // The largest matrix goes first, while little else is in memory.
        let head = match tensors.contains(Role::Head) {
            true => tensors.read(Role::Head, &[vocab, width])?,
            false => embedding.dense().map_err(LoadError::tensor("the embedding"))?,
        };
        let head = Matrix::pack(&head, vocab, width);
        let layers = read_layers(&config, tensors, &mut Packed, report)?;
        let output_norm = tensors.read(Role::OutputNorm, &[width])?;
        tensors.check_all_read()?;
        let rope = config.rope.table(config.head_dim, length.min(MOST_TABULATED));
        Ok(Self {
            config,
            embedding,
            layers,
            output_norm,
            head,
            rope,
        })
    }

    /// Bytes of the weights in memory.
    pub fn bytes(&self) -> u64 {
        let layers = self.layers.iter().map(Layer::<Packed>::bytes).sum::<usize>();
        (layers + self.embedding.bytes() + self.head.bytes() + 4 * self.output_norm.len()) as u64
    }
}
