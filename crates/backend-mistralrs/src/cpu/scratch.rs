//! Buffers of a pass, kept between calls. Each holds rows of one width for the rows of the current batch;
//! contents do not outlive the step that wrote them.

/// All buffers of a pass; `[rows, ..]` each.
#[derive(Default)]
pub(super) struct Scratch {
    /// The residual stream, `[rows, width]`.
    pub hidden: Vec<f32>,
    /// Input of a projection, `[rows, width]`.
    pub normed: Vec<f32>,
    /// Output of the joint projection, `[rows, q | k | v]`.
    pub qkv: Vec<f32>,
    /// `[rows, heads, head_dim]`
    pub queries: Vec<f32>,
    /// `[rows, kv_heads, head_dim]`
    pub keys: Vec<f32>,
    /// `[rows, kv_heads, head_dim]`
    pub values: Vec<f32>,
    /// Queries or keys before their norm.
    pub raw_heads: Vec<f32>,
    /// Output of attention, `[rows, heads, head_dim]`.
    pub attended: Vec<f32>,
    /// Log-sum-exp of attention logits, `[rows, heads]`.
    pub lse: Vec<f32>,
    /// What is added to the residual stream, `[rows, width]`.
    pub update: Vec<f32>,
    /// `[rows, gate | up]`
    pub gate_up: Vec<f32>,
    /// `[rows, inner]`
    pub inner: Vec<f32>,
}

/// The buffer with exactly `len` elements of any value.
pub(super) fn sized(buffer: &mut Vec<f32>, len: usize) -> &mut [f32] {
    buffer.resize(len, 0.0);
    buffer
}

/// Keeps the rows `keep` (ascending) of `buffer`, rows of `width`.
pub(super) fn keep_rows(buffer: &mut Vec<f32>, width: usize, keep: &[usize]) {
    for (to, &from) in keep.iter().enumerate() {
        buffer.copy_within(from * width..(from + 1) * width, to * width);
    }
    buffer.truncate(keep.len() * width);
}
