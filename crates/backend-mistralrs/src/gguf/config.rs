//! The decoder's shape from GGUF metadata.

use candle_core::quantized::gguf_file::Content;

use super::metadata::{Metadata, integer};
use super::tensors;
use crate::config::{Config, check_window};
use crate::rope::{self, Pairs, RopeConfig, Scaling};
use crate::{Architecture, LoadError};

/// Keys of variants that change the forward pass in ways that the decoders don't know.
const FOREIGN_KEYS: [&str; 8] = [
    "expert_count",
    "attention.scale",
    "attention.clamp_kqv",
    "attention.max_alibi_bias",
    "attn_logit_softcapping",
    "final_logit_softcapping",
    "logit_scale",
    "residual_scale",
];

pub(super) fn read(
    metadata: &Metadata<'_>,
    content: &Content,
    factors: Option<Vec<f32>>,
    limit: Option<usize>,
) -> Result<Config, LoadError> {
    let architecture = Architecture::from_gguf(metadata.architecture)?;
    refuse_foreign(metadata)?;
    let size = |suffix: &str| metadata.size(&metadata.key(suffix));
    let width = size("embedding_length")?;
    let heads = size("attention.head_count")?;
    let head_dim = head_dim(metadata, width, heads)?;
    let context = size("context_length")?;
    let window = metadata.key("attention.sliding_window");
    check_window(
        &window,
        metadata.size_or_none(&window)?,
        limit.unwrap_or(context).min(context),
    )?;
    let epsilon = metadata.key("attention.layer_norm_rms_epsilon");
    let epsilon = metadata
        .float_or_none(&epsilon)?
        .ok_or_else(|| LoadError::config(epsilon, "it is missing"))?;
    let kv_heads = metadata
        .size_or_none(&metadata.key("attention.head_count_kv"))?
        .unwrap_or(heads);
    Config {
        architecture,
        layers: size("block_count")?,
        width,
        inner: size("feed_forward_length")?,
        heads,
        kv_heads,
        head_dim,
        vocab: vocab(content)?,
        epsilon: epsilon as f32,
        context,
        rope: rope(metadata, architecture, factors, context)?,
    }
    .check()
}

fn refuse_foreign(metadata: &Metadata<'_>) -> Result<(), LoadError> {
    for suffix in FOREIGN_KEYS {
        let key = metadata.key(suffix);
        if metadata.float_or_none(&key)?.is_some_and(|value| value != 0.0) {
            return Err(LoadError::unsupported(
                key,
                "dense decoders with plain softmax attention",
            ));
        }
    }
    Ok(())
}

fn head_dim(metadata: &Metadata<'_>, width: usize, heads: usize) -> Result<usize, LoadError> {
    let key = metadata.key("attention.key_length");
    let given = metadata.size_or_none(&key)?;
    let head_dim = match given {
        Some(length) => length,
        None => width.checked_div(heads).unwrap_or(0),
    };
    let same = |suffix: &str| {
        let key = metadata.key(suffix);
        match metadata.size_or_none(&key)? {
            Some(other) if other != head_dim => Err(LoadError::unsupported(
                format!("{key} = {other} with heads of {head_dim} elements"),
                "keys, values and rotations of whole heads",
            )),
            _ => Ok(()),
        }
    };
    same("attention.value_length")?;
    same("rope.dimension_count")?;
    Ok(head_dim)
}

fn vocab(content: &Content) -> Result<usize, LoadError> {
    let name = tensors::EMBEDDING;
    let info = content.tensor_infos.get(name).ok_or(LoadError::MissingTensor {
        name: name.to_owned(),
    })?;
    info.shape
        .dims()
        .first()
        .copied()
        .ok_or_else(|| LoadError::config(name, "it has no dimensions"))
}

fn rope(
    metadata: &Metadata<'_>,
    architecture: Architecture,
    factors: Option<Vec<f32>>,
    context: usize,
) -> Result<RopeConfig, LoadError> {
    let theta = metadata
        .float_or_none(&metadata.key("rope.freq_base"))?
        .unwrap_or(10_000.0);
    // GGUF's llama files have rows of q and k permuted so that pairs are neighbours.
    let pairs = match architecture {
        Architecture::Llama => Pairs::Interleaved,
        Architecture::Qwen2 | Architecture::Qwen3 => Pairs::Halves,
    };
    let scaling = scaling(metadata, context)?;
    let scaling = match (factors, scaling) {
        (None, scaling) => scaling,
        (Some(factors), Scaling::None) => Scaling::Factors(factors),
        (Some(_), _) => {
            let feature = format!(
                "{} together with {}.rope.scaling",
                tensors::ROPE_FACTORS,
                metadata.architecture
            );
            return Err(LoadError::unsupported(feature, rope::SUPPORTED));
        }
    };
    Ok(RopeConfig {
        theta,
        pairs,
        scaling,
    })
}

fn scaling(metadata: &Metadata<'_>, context: usize) -> Result<Scaling, LoadError> {
    let float = |suffix: &str| metadata.float_or_none(&metadata.key(suffix));
    let factor = match float("rope.scaling.factor")? {
        Some(factor) => Some(factor),
        None => float("rope.scale_linear")?,
    };
    let kind = metadata.text_or_none(&metadata.key("rope.scaling.type"));
    match (kind.as_deref(), factor) {
        (Some("none"), _) | (None | Some("linear"), None | Some(0.0 | 1.0)) => Ok(Scaling::None),
        (None | Some("linear"), Some(factor)) => Ok(Scaling::Linear { factor }),
        (Some("yarn"), factor) => {
            let factor = factor.unwrap_or(1.0);
            let original = metadata.size_or_none(&metadata.key("rope.scaling.original_context_length"))?;
            // GGUF's factor multiplies the paper's magnitude, where Hugging Face's replaces it.
            let attention = float("rope.scaling.attn_factor")?.map(|given| given * (0.1 * factor.ln() + 1.0));
            Ok(Scaling::Yarn {
                factor,
                original: original.unwrap_or(context),
                beta_fast: float("rope.scaling.yarn_beta_fast")?.unwrap_or(32.0),
                beta_slow: float("rope.scaling.yarn_beta_slow")?.unwrap_or(1.0),
                attention,
            })
        }
        (Some(other), _) => Err(LoadError::unsupported(
            format!("RoPE scaling {other:?}"),
            rope::SUPPORTED,
        )),
    }
}

/// The file type's name, else the type of most elements.
pub(super) fn quantisation(content: &Content) -> String {
    let kind = content.metadata.get("general.file_type").and_then(integer);
    let by_type = kind.and_then(|kind| FILE_TYPES.iter().find(|(id, _)| *id == kind));
    match by_type {
        Some((_, name)) => (*name).to_owned(),
        None => most_common_type(content),
    }
}

fn most_common_type(content: &Content) -> String {
    let mut sizes = std::collections::BTreeMap::new();
    for info in content.tensor_infos.values() {
        *sizes.entry(format!("{:?}", info.ggml_dtype)).or_insert(0) += info.shape.elem_count();
    }
    sizes
        .into_iter()
        .max_by_key(|(_, size)| *size)
        .map(|(name, _)| name)
        .unwrap_or_default()
}

/// `general.file_type` of llama.cpp's files.
const FILE_TYPES: [(i64, &str); 18] = [
    (0, "F32"),
    (1, "F16"),
    (2, "Q4_0"),
    (3, "Q4_1"),
    (7, "Q8_0"),
    (8, "Q5_0"),
    (9, "Q5_1"),
    (10, "Q2_K"),
    (11, "Q3_K_S"),
    (12, "Q3_K_M"),
    (13, "Q3_K_L"),
    (14, "Q4_K_S"),
    (15, "Q4_K_M"),
    (16, "Q5_K_S"),
    (17, "Q5_K_M"),
    (18, "Q6_K"),
    (21, "Q2_K_S"),
    (32, "BF16"),
];
