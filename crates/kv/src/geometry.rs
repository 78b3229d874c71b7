//! The shape of a model's KV cache.

/// Storage type of keys and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KvDtype {
    /// 32-bit floats: the CPU's format.
    F32,
    /// bfloat16.
    Bf16,
    /// IEEE half precision.
    F16,
}

impl KvDtype {
    /// Bytes of one element.
    pub fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::Bf16 | Self::F16 => 2,
        }
    }

    /// Stable name, part of cache keys.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
            Self::F16 => "f16",
        }
    }
}

/// The shape of one token's keys and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KvGeometry {
    /// Decoder layers.
    pub layers: u32,
    /// Key/value heads of a layer.
    pub kv_heads: u32,
    /// Elements of one head.
    pub head_dim: u32,
    /// Storage type.
    pub dtype: KvDtype,
}

impl KvGeometry {
    /// Bytes that the keys and values of one token take over all layers.
    pub fn bytes_per_token(&self) -> usize {
        2 * self.layers as usize * self.kv_heads as usize * self.head_dim as usize * self.dtype.bytes()
    }
}
