//! The weights of one decoder layer, wherever they are kept.

use crate::LoadError;
use crate::config::Config;
use crate::tensors::{LayerRole, Role, Tensors};

/// Where weights are kept, and in which form.
pub(crate) trait Keep {
    /// A matrix `[outputs, inputs]`.
    type Matrix;
    /// A norm's weights.
    type Vector;
    /// What is added to a product.
    type Bias;

    /// Keeps a matrix, given row by row.
    fn matrix(&mut self, rows: Vec<f32>, outputs: usize, inputs: usize) -> Result<Self::Matrix, LoadError>;

    fn vector(&mut self, values: Vec<f32>) -> Result<Self::Vector, LoadError>;

    fn bias(&mut self, values: Vec<f32>) -> Result<Self::Bias, LoadError>;
}

/// One layer: attention, then the MLP, each behind a norm and added to its input.
pub(crate) struct Layer<K: Keep> {
    pub attention_norm: K::Vector,
    /// Outputs: all query heads, all key heads, all value heads.
    pub qkv: K::Matrix,
    /// In the order of `qkv`'s outputs.
    pub qkv_bias: Option<K::Bias>,
    /// Norms of single heads, `[head_dim]` each.
    pub head_norms: Option<HeadNorms<K::Vector>>,
    pub output: K::Matrix,
    pub mlp_norm: K::Vector,
    /// Outputs: gate, then up.
    pub gate_up: K::Matrix,
    pub down: K::Matrix,
}

/// Norms of every query and key head.
pub(crate) struct HeadNorms<V> {
    pub query: V,
    pub key: V,
}

impl<K: Keep> Layer<K> {
    pub fn read(
        config: &Config,
        tensors: &mut dyn Tensors,
        keep: &mut K,
        index: usize,
    ) -> Result<Self, LoadError> {
        let mut source = LayerSource { tensors, keep, index };
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
}

/// The tensors of one layer.
struct LayerSource<'a, K> {
    tensors: &'a mut dyn Tensors,
    keep: &'a mut K,
    index: usize,
}

impl<K: Keep> LayerSource<'_, K> {
    fn read(&mut self, role: LayerRole, shape: &[usize]) -> Result<Vec<f32>, LoadError> {
        self.tensors.read(Role::Layer(self.index, role), shape)
    }

    fn vector(&mut self, role: LayerRole, len: usize) -> Result<K::Vector, LoadError> {
        let values = self.read(role, &[len])?;
        self.keep.vector(values)
    }

    fn norms(&mut self, head_dim: usize) -> Result<HeadNorms<K::Vector>, LoadError> {
        let query = self.vector(LayerRole::QueryNorm, head_dim)?;
        Ok(HeadNorms {
            query,
            key: self.vector(LayerRole::KeyNorm, head_dim)?,
        })
    }

    /// Vectors one after the other.
    fn joined(&mut self, parts: &[(LayerRole, usize)]) -> Result<K::Bias, LoadError> {
        let mut values = Vec::new();
        for &(role, len) in parts {
            values.extend(self.read(role, &[len])?);
        }
        self.keep.bias(values)
    }

    /// One matrix of the outputs of several that share `inputs`.
    fn stacked(&mut self, parts: &[(LayerRole, usize)], inputs: usize) -> Result<K::Matrix, LoadError> {
        let outputs = parts.iter().map(|(_, outputs)| outputs).sum();
        let mut rows = Vec::new();
        for &(role, outputs) in parts {
            let part = self.read(role, &[outputs, inputs])?;
            match rows.is_empty() {
                true => rows = part,
                false => rows.extend_from_slice(&part),
            }
        }
        self.keep.matrix(rows, outputs, inputs)
    }
}
