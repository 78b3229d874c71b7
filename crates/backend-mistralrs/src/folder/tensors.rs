//! Tensors of a folder: names, shapes, and mistral.rs' layers for what may be quantised.

use std::collections::HashSet;
use std::sync::Arc;

use candle_core::quantized::GgmlDType;
use candle_core::{DType, Tensor};
use mistralrs_quant::{QuantizedConfig, ShardedVarBuilder, linear_no_bias};

use super::builder::builder;
use super::config::RawConfig;
use super::index::{Entry, SafetensorsIndex, dtype_of};
use super::packed::{Packing, Parts};
use crate::LoadError;
use crate::config::Config;
use crate::embedding::Embedding;
use crate::tensors::{LayerRole, Role, Tensors};

const HEAD: &str = "lm_head";
const EMBEDDING: &str = "model.embed_tokens.weight";

/// The tensors of an opened folder.
pub(crate) struct FolderTensors {
    index: Arc<SafetensorsIndex>,
    builder: ShardedVarBuilder,
    quantised: Option<QuantizedConfig>,
    packing: Option<Packing>,
    tied: bool,
    read: HashSet<String>,
}

impl FolderTensors {
    pub(super) fn new(
        index: Arc<SafetensorsIndex>,
        raw: RawConfig,
        config: &Config,
    ) -> Result<Self, LoadError> {
        let packing = raw
            .quantization_config
            .as_ref()
            .and_then(Packing::new)
            .transpose()?;
        check_quantisation(raw.quantization_config.as_ref())?;
        let has_head = index.get(&format!("{HEAD}.weight")).is_some();
        // Llama's and Qwen's default is an output matrix of its own.
        let tied = raw.tie_word_embeddings.unwrap_or(!has_head);
        tracing::debug!(tied, layers = config.layers, "tensors of a folder");
        let builder = builder(Arc::clone(&index));
        Ok(Self {
            index,
            builder,
            quantised: raw.quantization_config,
            packing,
            tied,
            read: HashSet::new(),
        })
    }

    fn find(&self, name: &str) -> Result<&Entry, LoadError> {
        self.index.get(name).ok_or_else(|| LoadError::MissingTensor {
            name: name.to_owned(),
        })
    }

    fn check_shape(&self, name: &str, shape: &[usize]) -> Result<(), LoadError> {
        let found = &self.find(name)?.shape;
        match found == shape {
            true => Ok(()),
            false => Err(LoadError::Shape {
                name: name.to_owned(),
                expected: shape.to_vec(),
                found: found.clone(),
            }),
        }
    }

    /// A matrix `[outputs, inputs]`, unpacked if it is quantised.
    fn matrix(&self, prefix: &str, name: &str, shape: &[usize]) -> Result<Vec<f32>, LoadError> {
        match self
            .packing
            .filter(|_| self.index.get(&format!("{prefix}.qweight")).is_some())
        {
            Some(packing) => self.packed(packing, prefix, shape),
            None => self
                .matrix_of_floats(prefix, name, shape)
                .and_then(|tensor| floats(&tensor, name)),
        }
    }

    /// A matrix in GPTQ's or AWQ's packing.
    fn packed(&self, packing: Packing, prefix: &str, shape: &[usize]) -> Result<Vec<f32>, LoadError> {
        let (outputs, inputs) = (shape[0], shape[1]);
        let name = |part: &str| format!("{prefix}.{part}");
        let rest = || {
            LoadError::config(
                name("qweight"),
                format!("[{outputs}, {inputs}] can't be packed without a rest"),
            )
        };
        let [weights, zeros, scales] = packing.shapes(outputs, inputs).ok_or_else(rest)?;
        let groups = match packing.has_group_indices() && self.index.get(&name("g_idx")).is_some() {
            true => self.words(&name("g_idx"), &[inputs])?,
            false => (0..inputs).map(|input| (input / packing.group) as u32).collect(),
        };
        if groups.iter().any(|&group| group as usize >= scales[0]) {
            return Err(LoadError::config(
                name("g_idx"),
                "an input is in a group that has no scales",
            ));
        }
        let parts = Parts {
            weights: self.words(&name("qweight"), &weights)?,
            zeros: self.words(&name("qzeros"), &zeros)?,
            scales: self
                .vector(&name("scales"), &scales)
                .and_then(|tensor| floats(&tensor, &name("scales")))?,
            groups,
        };
        Ok(packing.unpack(&parts, outputs, inputs))
    }

    /// 32-bit words.
    fn words(&self, name: &str, shape: &[usize]) -> Result<Vec<u32>, LoadError> {
        self.check_shape(name, shape)?;
        let entry = self.find(name)?;
        if !matches!(entry.dtype.as_str(), "I32" | "U32") {
            return Err(LoadError::unsupported(
                format!("tensor {name} of type {}", entry.dtype),
                "I32",
            ));
        }
        let bytes = self
            .index
            .bytes(entry)
            .map_err(LoadError::read(self.index.path(entry)))?;
        let word = |bytes: &[u8; 4]| u32::from_le_bytes(*bytes);
        Ok(bytes.as_chunks().0.iter().map(word).collect())
    }

    fn matrix_of_floats(&self, prefix: &str, name: &str, shape: &[usize]) -> Result<Tensor, LoadError> {
        self.check_shape(name, shape)?;
        let float =
            dtype_of(&self.find(name)?.dtype).is_some_and(|dtype| dtype.is_float() && dtype != DType::F8E4M3);
        let scaled = self.index.get(&format!("{prefix}.weight_scale_inv")).is_some();
        let readable = float || scaled && self.quantised.is_some();
        if !readable {
            let feature = format!(
                "tensor {name} of type {} without weight_scale_inv",
                self.find(name)?.dtype
            );
            return Err(LoadError::unsupported(
                feature,
                "F32, F16, BF16, or F8_E4M3 with scales",
            ));
        }
        let quantised = if float { None } else { self.quantised.clone() };
        let layer = linear_no_bias(shape[1], shape[0], &quantised, self.builder.pp(prefix));
        layer
            .and_then(|layer| layer.dequantize_w())
            .map_err(LoadError::tensor(name))
    }

    fn vector(&self, name: &str, shape: &[usize]) -> Result<Tensor, LoadError> {
        self.check_shape(name, shape)?;
        self.builder.get(shape, name).map_err(LoadError::tensor(name))
    }
}

impl Tensors for FolderTensors {
    fn contains(&self, role: Role) -> bool {
        match role {
            Role::Head => !self.tied,
            other => self
                .index
                .get(&format!("{}.{}", prefix(other), suffix(other)))
                .is_some(),
        }
    }

    fn read(&mut self, role: Role, shape: &[usize]) -> Result<Vec<f32>, LoadError> {
        let prefix = prefix(role);
        let name = format!("{prefix}.{}", suffix(role));
        let values = match shape.len() {
            1 => self
                .vector(&name, shape)
                .and_then(|tensor| floats(&tensor, &name))?,
            _ => self.matrix(&prefix, &name, shape)?,
        };
        self.read.insert(name);
        Ok(values)
    }

    fn embedding(&mut self, vocab: usize, width: usize) -> Result<Embedding, LoadError> {
        self.check_shape(EMBEDDING, &[vocab, width])?;
        let entry = self.find(EMBEDDING)?;
        let dtype = match entry.dtype.as_str() {
            "F32" => GgmlDType::F32,
            "F16" => GgmlDType::F16,
            "BF16" => GgmlDType::BF16,
            other => {
                return Err(LoadError::unsupported(
                    format!("an embedding of type {other}"),
                    "F32, F16 and BF16",
                ));
            }
        };
        let bytes = self
            .index
            .bytes(entry)
            .map_err(LoadError::read(self.index.path(entry)))?;
        self.read.insert(EMBEDDING.to_owned());
        Embedding::new(bytes, dtype, width)
            .ok_or_else(|| LoadError::config(EMBEDDING, "its rows are not whole"))
    }

    /// Biases and head norms that nobody has read would change results; other leftovers are buffers.
    fn check_all_read(&self) -> Result<(), LoadError> {
        let weighs = |name: &&str| name.ends_with(".bias") || name.ends_with("_norm.weight");
        match self
            .index
            .names()
            .filter(weighs)
            .find(|name| !self.read.contains(*name))
        {
            Some(name) => {
                let supported = "the tensors of plain llama, qwen2 and qwen3 decoders";
                Err(LoadError::unsupported(format!("tensor {name}"), supported))
            }
            None => Ok(()),
        }
    }
}

fn floats(tensor: &Tensor, name: &str) -> Result<Vec<f32>, LoadError> {
    let values = tensor
        .to_dtype(DType::F32)
        .and_then(|tensor| tensor.flatten_all()?.to_vec1());
    values.map_err(LoadError::tensor(name))
}

fn check_quantisation(config: Option<&QuantizedConfig>) -> Result<(), LoadError> {
    let supported = "unquantised, fp8, GPTQ and AWQ weights, or a GGUF file";
    match config {
        None
        | Some(QuantizedConfig::GptqAwq { .. })
        | Some(QuantizedConfig::Fp8 {
            weight_block_size: None,
        }) => Ok(()),
        Some(QuantizedConfig::Fp8 {
            weight_block_size: Some(size),
        }) if size.len() == 2 && !size.contains(&0) => Ok(()),
        Some(other) => Err(LoadError::unsupported(
            format!("{} quantisation", other.name()),
            supported,
        )),
    }
}

fn prefix(role: Role) -> String {
    match role {
        Role::OutputNorm => "model.norm".to_owned(),
        Role::Head => HEAD.to_owned(),
        Role::Layer(layer, role) => format!("model.layers.{layer}.{}", module(role)),
    }
}

fn suffix(role: Role) -> &'static str {
    match role {
        Role::Layer(_, LayerRole::QueryBias | LayerRole::KeyBias | LayerRole::ValueBias) => "bias",
        _ => "weight",
    }
}

fn module(role: LayerRole) -> &'static str {
    match role {
        LayerRole::AttentionNorm => "input_layernorm",
        LayerRole::Query | LayerRole::QueryBias => "self_attn.q_proj",
        LayerRole::Key | LayerRole::KeyBias => "self_attn.k_proj",
        LayerRole::Value | LayerRole::ValueBias => "self_attn.v_proj",
        LayerRole::QueryNorm => "self_attn.q_norm",
        LayerRole::KeyNorm => "self_attn.k_norm",
        LayerRole::Output => "self_attn.o_proj",
        LayerRole::MlpNorm => "post_attention_layernorm",
        LayerRole::Gate => "mlp.gate_proj",
        LayerRole::Up => "mlp.up_proj",
        LayerRole::Down => "mlp.down_proj",
    }
}
