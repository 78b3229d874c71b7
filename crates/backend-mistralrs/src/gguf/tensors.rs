//! Tensors of a GGUF file: names, shapes, unpacking. One tensor is in memory at a time.

use std::collections::HashSet;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;

use candle_core::Device;
use candle_core::quantized::gguf_file::{Content, TensorInfo};

use crate::LoadError;
use crate::embedding::{Embedding, dequantised};
use crate::tensors::{LayerRole, Role, Tensors};

/// `[vocab, width]`
pub(super) const EMBEDDING: &str = "token_embd.weight";
/// Divisors of the rotary angles (Llama 3).
pub(super) const ROPE_FACTORS: &str = "rope_freqs.weight";

/// The tensors of an opened file.
pub(crate) struct GgufTensors {
    path: PathBuf,
    file: File,
    content: Content,
    read: HashSet<String>,
}

impl GgufTensors {
    pub(super) fn new(path: PathBuf, file: File, content: Content) -> Self {
        Self {
            path,
            file,
            content,
            read: HashSet::from([ROPE_FACTORS.to_owned()]),
        }
    }

    fn find(&self, name: &str, shape: &[usize]) -> Result<&TensorInfo, LoadError> {
        let info = self.content.tensor_infos.get(name);
        let info = info.ok_or_else(|| LoadError::MissingTensor {
            name: name.to_owned(),
        })?;
        match info.shape.dims() == shape {
            true => Ok(info),
            false => Err(LoadError::Shape {
                name: name.to_owned(),
                expected: shape.to_vec(),
                found: info.shape.dims().to_vec(),
            }),
        }
    }
}

impl Tensors for GgufTensors {
    fn contains(&self, role: Role) -> bool {
        self.content.tensor_infos.contains_key(&name(role))
    }

    fn read(&mut self, role: Role, shape: &[usize]) -> Result<Vec<f32>, LoadError> {
        let name = name(role);
        self.find(&name, shape)?;
        let values = unpack(&mut self.file, &self.content, &name)?;
        self.read.insert(name);
        Ok(values)
    }

    fn embedding(&mut self, vocab: usize, width: usize) -> Result<Embedding, LoadError> {
        let info = self.find(EMBEDDING, &[vocab, width])?;
        let dtype = info.ggml_dtype;
        let start = self.content.tensor_data_offset + info.offset;
        let mut bytes = vec![0; vocab * width / dtype.block_size() * dtype.type_size()];
        let read = self
            .file
            .seek(SeekFrom::Start(start))
            .and_then(|_| self.file.read_exact(&mut bytes));
        read.map_err(LoadError::read(&self.path))?;
        self.read.insert(EMBEDDING.to_owned());
        Embedding::new(bytes, dtype, width).ok_or_else(|| {
            LoadError::config(
                EMBEDDING,
                format!("rows of {width} are no whole {dtype:?} blocks"),
            )
        })
    }

    fn check_all_read(&self) -> Result<(), LoadError> {
        let mut unread: Vec<_> = self
            .content
            .tensor_infos
            .keys()
            .filter(|name| !self.read.contains(*name))
            .collect();
        unread.sort();
        match unread.first() {
            Some(name) => {
                let feature = format!("tensor {name} ({} such tensors)", unread.len());
                Err(LoadError::unsupported(
                    feature,
                    "the tensors of plain llama, qwen2 and qwen3 decoders",
                ))
            }
            None => Ok(()),
        }
    }
}

/// The divisors of the rotary angles, if the file has them.
pub(super) fn rope_factors(file: &mut File, content: &Content) -> Result<Option<Vec<f32>>, LoadError> {
    match content.tensor_infos.contains_key(ROPE_FACTORS) {
        true => unpack(file, content, ROPE_FACTORS).map(Some),
        false => Ok(None),
    }
}

fn unpack(file: &mut File, content: &Content, name: &str) -> Result<Vec<f32>, LoadError> {
    let tensor = content
        .tensor(file, name, &Device::Cpu)
        .map_err(LoadError::tensor(name))?;
    dequantised(&tensor).map_err(LoadError::tensor(name))
}

fn name(role: Role) -> String {
    match role {
        Role::OutputNorm => "output_norm.weight".to_owned(),
        Role::Head => "output.weight".to_owned(),
        Role::Layer(layer, role) => format!("blk.{layer}.{}", layer_name(role)),
    }
}

fn layer_name(role: LayerRole) -> &'static str {
    match role {
        LayerRole::AttentionNorm => "attn_norm.weight",
        LayerRole::Query => "attn_q.weight",
        LayerRole::Key => "attn_k.weight",
        LayerRole::Value => "attn_v.weight",
        LayerRole::QueryBias => "attn_q.bias",
        LayerRole::KeyBias => "attn_k.bias",
        LayerRole::ValueBias => "attn_v.bias",
        LayerRole::QueryNorm => "attn_q_norm.weight",
        LayerRole::KeyNorm => "attn_k_norm.weight",
        LayerRole::Output => "attn_output.weight",
        LayerRole::MlpNorm => "ffn_norm.weight",
        LayerRole::Gate => "ffn_gate.weight",
        LayerRole::Up => "ffn_up.weight",
        LayerRole::Down => "ffn_down.weight",
    }
}
