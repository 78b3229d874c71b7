//! The tensors of a decoder, by role. Each format maps roles to its own names.

use crate::LoadError;
use crate::embedding::Embedding;

/// A tensor of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// `[width]`
    OutputNorm,
    /// `[vocab, width]`; absent when the embedding serves.
    Head,
    Layer(usize, LayerRole),
}

/// A tensor of one layer. Matrices are `[outputs, inputs]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LayerRole {
    AttentionNorm,
    Query,
    Key,
    Value,
    QueryBias,
    KeyBias,
    ValueBias,
    QueryNorm,
    KeyNorm,
    Output,
    MlpNorm,
    Gate,
    Up,
    Down,
}

/// Reads tensors of one model, each once, so that its memory can be given back before the next.
pub(crate) trait Tensors {
    /// Whether the model has this tensor.
    fn contains(&self, role: Role) -> bool;

    /// The elements of a vector, or of a matrix row by row. `shape` is what the configuration implies.
    fn read(&mut self, role: Role, shape: &[usize]) -> Result<Vec<f32>, LoadError>;

    /// The embedding, `[vocab, width]`, in the precision that the file has.
    fn embedding(&mut self, vocab: usize, width: usize) -> Result<Embedding, LoadError>;

    /// Refuses tensors that would change results but that nobody has read.
    fn check_all_read(&self) -> Result<(), LoadError>;
}
