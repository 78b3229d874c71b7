//! The decoder families and their names in the two formats.

use crate::LoadError;

/// A family of decoders. All are pre-norm transformers with grouped-query attention, rotary positions and a
/// gated SiLU MLP; they differ in biases, norms of queries and keys, and the layout of rotary pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    /// Llama 2 and 3, Mistral, SmolLM2.
    Llama,
    /// Qwen 2 and 2.5: biases on queries, keys and values.
    Qwen2,
    /// Qwen 3 (dense): norms of every query and key head.
    Qwen3,
}

const SUPPORTED: &str = "llama (Llama 2 and 3, Mistral, SmolLM2), qwen2 (Qwen 2 and 2.5), qwen3 (dense)";

impl Architecture {
    /// From GGUF's `general.architecture`.
    pub(crate) fn from_gguf(name: &str) -> Result<Self, LoadError> {
        match name {
            "llama" => Ok(Self::Llama),
            "qwen2" => Ok(Self::Qwen2),
            "qwen3" => Ok(Self::Qwen3),
            other => Err(unsupported(other)),
        }
    }

    /// From `config.json`'s `model_type`.
    pub(crate) fn from_model_type(name: &str) -> Result<Self, LoadError> {
        match name {
            "llama" | "mistral" => Ok(Self::Llama),
            "qwen2" => Ok(Self::Qwen2),
            "qwen3" => Ok(Self::Qwen3),
            other => Err(unsupported(other)),
        }
    }

    /// Stable name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Llama => "llama",
            Self::Qwen2 => "qwen2",
            Self::Qwen3 => "qwen3",
        }
    }

    /// Whether queries, keys and values have biases.
    pub(crate) fn has_qkv_bias(self) -> bool {
        self == Self::Qwen2
    }

    /// Whether every head of queries and keys is normalised.
    pub(crate) fn has_head_norms(self) -> bool {
        self == Self::Qwen3
    }
}

fn unsupported(found: &str) -> LoadError {
    LoadError::Architecture {
        found: found.to_owned(),
        supported: SUPPORTED.to_owned(),
    }
}
