//! The weights of one decoder layer.

use medley_kernels::cpu::matrix::Matrix;

use crate::LoadError;
use crate::config::Config;
use crate::tensors::{LayerRole, Role, Tensors};

/// One layer: attention, then the MLP, each behind a norm and added to its input.
pub(crate) struct Layer {
    pub attention_norm: Vec<f32>,
    /// Outputs: all query heads, all key heads, all value heads.
    pub qkv: Matrix,
    /// In the order of `qkv`'s outputs.
    pub qkv_bias: Option<Vec<f32>>,
    /// Norms of single heads, `[head_dim]` each.
    pub head_norms: Option<HeadNorms>,
    pub output: Matrix,
    pub mlp_norm: Vec<f32>,
    /// Outputs: gate, then up.
    pub gate_up: Matrix,
    pub down: Matrix,
}

/// Norms of every query and key head.
pub(crate) struct HeadNorms {
    pub query: Vec<f32>,
    pub key: Vec<f32>,
}

impl Layer {
    pub fn read(config: &Config, tensors: &mut dyn Tensors, index: usize) -> Result<Self, LoadError> {
        let mut source = LayerSource { tensors, index };
        let (width, inner, queries, keys) = (
            config.width,
            config.inner,
            config.query_width(),
            config.key_width(),
        );
        let qkv = [
            (LayerRole::Query, queries),
            (LayerRole::Key, keys),
            (LayerRole::Value, keys),
        ];
        let biases = [
            (LayerRole::QueryBias, queries),
            (LayerRole::KeyBias, keys),
            (LayerRole::ValueBias, keys),
        ];
        Ok(Self {
            attention_norm: source.vector(LayerRole::AttentionNorm, width)?,
            qkv: source.stacked(&qkv, width)?,
            qkv_bias: config
                .architecture
                .has_qkv_bias()
                .then(|| source.joined(&biases))
                .transpose()?,
            head_norms: config
                .architecture
                .has_head_norms()
                .then(|| source.norms(config.head_dim))
                .transpose()?,
            output: source.stacked(&[(LayerRole::Output, width)], queries)?,
            mlp_norm: source.vector(LayerRole::MlpNorm, width)?,
            gate_up: source.stacked(&[(LayerRole::Gate, inner), (LayerRole::Up, inner)], width)?,
            down: source.stacked(&[(LayerRole::Down, width)], inner)?,
        })
    }

    pub fn bytes(&self) -> usize {
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

/// The tensors of one layer.
struct LayerSource<'a> {
    tensors: &'a mut dyn Tensors,
    index: usize,
}

impl LayerSource<'_> {
    fn vector(&mut self, role: LayerRole, len: usize) -> Result<Vec<f32>, LoadError> {
        self.tensors.read(Role::Layer(self.index, role), &[len])
    }

    fn norms(&mut self, head_dim: usize) -> Result<HeadNorms, LoadError> {
        let query = self.vector(LayerRole::QueryNorm, head_dim)?;
        Ok(HeadNorms {
            query,
            key: self.vector(LayerRole::KeyNorm, head_dim)?,
        })
    }

    /// Vectors one after the other.
    fn joined(&mut self, parts: &[(LayerRole, usize)]) -> Result<Vec<f32>, LoadError> {
        let parts = parts.iter().map(|&(role, len)| self.vector(role, len));
        parts.collect::<Result<Vec<_>, _>>().map(|parts| parts.concat())
    }

    /// One matrix of the outputs of several that share `inputs`.
    fn stacked(&mut self, parts: &[(LayerRole, usize)], inputs: usize) -> Result<Matrix, LoadError> {
        let outputs = parts.iter().map(|(_, outputs)| outputs).sum();
        let mut rows = Vec::new();
        for &(role, outputs) in parts {
            let part = self
                .tensors
                .read(Role::Layer(self.index, role), &[outputs, inputs])?;
            match rows.is_empty() {
                true => rows = part,
                false => rows.extend_from_slice(&part),
            }
        }
        Ok(Matrix::pack(&rows, outputs, inputs))
    }
}
