//! The weights of a decoder, packed for the kernels.
//!
//! Matrices that read the same input are one: queries, keys and values, and the MLP's gate and up projection.
//! All are `[outputs, inputs]` in f32; the embedding stays as the file has it.

mod layer;

use medley_kernels::cpu::matrix::Matrix;
use medley_kernels::cpu::rope::RopeTable;

pub(crate) use layer::Layer;

use crate::config::Config;
use crate::embedding::Embedding;
use crate::tensors::{Role, Tensors};
use crate::{LoadError, Progress};

/// Positions beyond these get their angles when they are used.
const MOST_TABULATED: usize = 1 << 17;

/// A model ready to compute.
pub(crate) struct Decoder {
    pub config: Config,
    pub embedding: Embedding,
    pub layers: Vec<Layer>,
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
        let (vocab, width, total) = (config.vocab, config.width, config.layers);
        let embedding = tensors.embedding(vocab, width)?;
        // The largest matrix goes first, while little else is in memory.
        let head = match tensors.contains(Role::Head) {
            true => tensors.read(Role::Head, &[vocab, width])?,
            false => embedding.dense().map_err(LoadError::tensor("the embedding"))?,
        };
        let head = Matrix::pack(&head, vocab, width);
        let mut layers = Vec::with_capacity(total);
        for index in 0..total {
            layers.push(Layer::read(&config, tensors, index)?);
            report(Progress::Weights {
                done: index + 1,
                total,
            });
        }
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
        let layers = self.layers.iter().map(Layer::bytes).sum::<usize>();
        (layers + self.embedding.bytes() + self.head.bytes() + 4 * self.output_norm.len()) as u64
    }

    /// Factor on attention logits. YaRN's magnitude scales queries and keys; all of it is applied here, so that
    /// stored keys are plain.
    pub fn attention_scale(&self) -> f32 {
        self.rope.magnitude().powi(2) / (self.config.head_dim as f32).sqrt()
    }
}
