//! Tiny random models, written as GGUF and as a folder of safetensors.
//!
//! Tensors carry Hugging Face's names and layout; the GGUF writer renames them and, for llama, permutes the rows
//! of queries and keys so that rotary pairs are neighbours.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::path::Path;

use candle_core::quantized::gguf_file::{self, Value};
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, Tensor};
use medley_backend_mistralrs::{LoadOptions, Loaded, ModelSource, PoolSize, load};

pub const VOCAB: usize = 101;
pub const LAYERS: usize = 3;
pub const WIDTH: usize = 64;
pub const INNER: usize = 96;
pub const HEADS: usize = 6;
pub const KV_HEADS: usize = 2;
pub const HEAD_DIM: usize = 32;
pub const CONTEXT: usize = 512;
pub const EPSILON: f64 = 1e-5;
pub const THETA: f64 = 10_000.0;

/// A model's tensors by name: shape and elements.
#[derive(Clone)]
pub struct Tiny {
    /// `llama`, `qwen2` or `qwen3`.
    pub family: &'static str,
    pub tensors: BTreeMap<String, (Vec<usize>, Vec<f32>)>,
}

impl Tiny {
    pub fn new(family: &'static str, tied: bool, seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut model = Self {
            family,
            tensors: BTreeMap::new(),
        };
        let mut add = |name: String, shape: &[usize]| {
            let count = shape.iter().product();
            // Norms stand around one, matrices keep the scale of their input, biases are small but not tiny.
            let (offset, scale) = match (shape.len(), name.ends_with("norm.weight")) {
                (2, _) => (0.0, (3.0 / shape[1] as f32).sqrt()),
                (_, true) => (1.0, 0.3),
                _ => (0.0, 0.5),
            };
            let values = (0..count)
                .map(|_| offset + scale * (2.0 * random.f32() - 1.0))
                .collect();
            model.tensors.insert(name, (shape.to_vec(), values));
        };
        add("model.embed_tokens.weight".into(), &[VOCAB, WIDTH]);
        add("model.norm.weight".into(), &[WIDTH]);
        if !tied {
            add("lm_head.weight".into(), &[VOCAB, WIDTH]);
        }
        for layer in 0..LAYERS {
            let name = |suffix: &str| format!("model.layers.{layer}.{suffix}");
            for (projection, outputs) in [("q", HEADS), ("k", KV_HEADS), ("v", KV_HEADS)] {
                add(
                    name(&format!("self_attn.{projection}_proj.weight")),
                    &[outputs * HEAD_DIM, WIDTH],
                );
                if family == "qwen2" {
                    add(
                        name(&format!("self_attn.{projection}_proj.bias")),
                        &[outputs * HEAD_DIM],
                    );
                }
                if family == "qwen3" && projection != "v" {
                    add(name(&format!("self_attn.{projection}_norm.weight")), &[HEAD_DIM]);
                }
            }
            add(name("self_attn.o_proj.weight"), &[WIDTH, HEADS * HEAD_DIM]);
            add(name("input_layernorm.weight"), &[WIDTH]);
            add(name("post_attention_layernorm.weight"), &[WIDTH]);
            add(name("mlp.gate_proj.weight"), &[INNER, WIDTH]);
            add(name("mlp.up_proj.weight"), &[INNER, WIDTH]);
            add(name("mlp.down_proj.weight"), &[WIDTH, INNER]);
        }
        model
    }

    pub fn values(&self, name: &str) -> Option<&[f32]> {
        self.tensors.get(name).map(|(_, values)| values.as_slice())
    }

    /// Replaces every matrix by what is left of it after quantisation.
    pub fn rounded(mut self, dtype: GgmlDType) -> Self {
        for (shape, values) in self.tensors.values_mut().filter(|(shape, _)| shape.len() == 2) {
            let tensor = Tensor::from_vec(values.clone(), shape.clone(), &Device::Cpu).unwrap();
            let rounded = QTensor::quantize(&tensor, dtype)
                .unwrap()
                .dequantize(&Device::Cpu)
                .unwrap();
            *values = rounded.flatten_all().unwrap().to_vec1().unwrap();
        }
        self
    }

    pub fn metadata(&self) -> Vec<(String, Value)> {
        let size = |value: usize| Value::U32(value as u32);
        let strings = |list: Vec<String>| Value::Array(list.into_iter().map(Value::String).collect());
        let own = [
            ("block_count", size(LAYERS)),
            ("context_length", size(CONTEXT)),
            ("embedding_length", size(WIDTH)),
            ("feed_forward_length", size(INNER)),
            ("attention.head_count", size(HEADS)),
            ("attention.head_count_kv", size(KV_HEADS)),
            ("attention.key_length", size(HEAD_DIM)),
            ("attention.layer_norm_rms_epsilon", Value::F32(EPSILON as f32)),
            ("rope.freq_base", Value::F32(THETA as f32)),
        ];
        let mut metadata: Vec<_> = own
            .map(|(key, value)| (format!("{}.{key}", self.family), value))
            .into();
        metadata.extend([
            (
                "general.architecture".to_owned(),
                Value::String(self.family.to_owned()),
            ),
            ("general.name".to_owned(), Value::String("tiny".to_owned())),
            (
                "tokenizer.ggml.model".to_owned(),
                Value::String("gpt2".to_owned()),
            ),
            (
                "tokenizer.ggml.tokens".to_owned(),
                strings((0..VOCAB).map(|i| format!("t{i}")).collect()),
            ),
            ("tokenizer.ggml.eos_token_id".to_owned(), size(2)),
        ]);
        metadata
    }

    pub fn write_gguf(&self, path: &Path, dtype: GgmlDType) {
        self.write_gguf_with(path, dtype, &self.metadata());
    }

    pub fn write_gguf_with(&self, path: &Path, dtype: GgmlDType, metadata: &[(String, Value)]) {
        let tensors: Vec<_> = self
            .tensors
            .iter()
            .map(|(name, tensor)| self.gguf_tensor(name, tensor, dtype))
            .collect();
        let tensors: Vec<_> = tensors
            .iter()
            .map(|(name, tensor)| (name.as_str(), tensor))
            .collect();
        let metadata: Vec<_> = metadata
            .iter()
            .map(|(key, value)| (key.as_str(), value))
            .collect();
        gguf_file::write(&mut File::create(path).unwrap(), &metadata, &tensors).unwrap();
    }

    fn gguf_tensor(
        &self,
        name: &str,
        tensor: &(Vec<usize>, Vec<f32>),
        dtype: GgmlDType,
    ) -> (String, QTensor) {
        let (shape, mut values) = tensor.clone();
        if self.family == "llama" && (name.contains("q_proj") || name.contains("k_proj")) {
            values = neighbouring_pairs(&values, shape[1]);
        }
        let dtype = if shape.len() == 2 { dtype } else { GgmlDType::F32 };
        let tensor = Tensor::from_vec(values, shape, &Device::Cpu).unwrap();
        (gguf_name(name), QTensor::quantize(&tensor, dtype).unwrap())
    }

    pub fn config_json(&self) -> serde_json::Value {
        serde_json::json!({
            "model_type": self.family,
            "num_hidden_layers": LAYERS,
            "hidden_size": WIDTH,
            "intermediate_size": INNER,
            "num_attention_heads": HEADS,
            "num_key_value_heads": KV_HEADS,
            "head_dim": HEAD_DIM,
            "vocab_size": VOCAB,
            "rms_norm_eps": EPSILON,
            "max_position_embeddings": CONTEXT,
            "rope_theta": THETA,
            "hidden_act": "silu",
            "tie_word_embeddings": !self.tensors.contains_key("lm_head.weight"),
            "eos_token_id": 2,
        })
    }

    /// Writes a folder with the tensors in `shards` files.
    pub fn write_folder(&self, folder: &Path, shards: usize) {
        std::fs::write(folder.join("config.json"), self.config_json().to_string()).unwrap();
        std::fs::write(folder.join("tokenizer.json"), "{}").unwrap();
        let tensor = |(shape, values): &(Vec<usize>, Vec<f32>)| {
            Tensor::from_vec(values.clone(), shape.clone(), &Device::Cpu).unwrap()
        };
        let file = |shard: usize| format!("model-{:05}-of-{shards:05}.safetensors", shard + 1);
        let named = self.tensors.iter().enumerate();
        let placed: Vec<_> = named
            .map(|(i, (name, values))| (i % shards, name.clone(), tensor(values)))
            .collect();
        for shard in 0..shards {
            let tensors = placed.iter().filter(|(at, ..)| *at == shard);
            let tensors: HashMap<_, _> = tensors
                .map(|(_, name, tensor)| (name.clone(), tensor.clone()))
                .collect();
            let name = if shards == 1 {
                "model.safetensors".to_owned()
            } else {
                file(shard)
            };
            candle_core::safetensors::save(&tensors, folder.join(name)).unwrap();
        }
        if shards > 1 {
            let map: HashMap<_, _> = placed
                .iter()
                .map(|(shard, name, _)| (name, file(*shard)))
                .collect();
            let index = serde_json::json!({ "weight_map": map });
            std::fs::write(folder.join("model.safetensors.index.json"), index.to_string()).unwrap();
        }
    }
}

pub fn options(pages: usize) -> LoadOptions {
    LoadOptions {
        pool: PoolSize::Pages(pages),
        threads: Some(2),
        ..LoadOptions::default()
    }
}

/// The model through a GGUF file of full precision, with a pool of 32 pages.
pub fn loaded(model: &Tiny) -> Loaded {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tiny.gguf");
    model.write_gguf(&path, GgmlDType::F32);
    load(&ModelSource::Gguf(path), &options(32)).unwrap()
}

/// Rows `(i, i + d/2)` of every head become rows `(2i, 2i + 1)`.
fn neighbouring_pairs(values: &[f32], inputs: usize) -> Vec<f32> {
    let heads = values.chunks_exact(HEAD_DIM * inputs);
    let order = (0..HEAD_DIM).map(|row| row / 2 + row % 2 * (HEAD_DIM / 2));
    let permuted = heads.flat_map(|head| {
        order
            .clone()
            .map(move |row| &head[row * inputs..(row + 1) * inputs])
    });
    permuted.flatten().copied().collect()
}

fn gguf_name(name: &str) -> String {
    let renamed = [
        ("model.embed_tokens", "token_embd"),
        ("model.norm", "output_norm"),
        ("lm_head", "output"),
        ("model.layers", "blk"),
        ("self_attn.q_proj", "attn_q"),
        ("self_attn.k_proj", "attn_k"),
        ("self_attn.v_proj", "attn_v"),
        ("self_attn.o_proj", "attn_output"),
        ("self_attn.q_norm", "attn_q_norm"),
        ("self_attn.k_norm", "attn_k_norm"),
        ("input_layernorm", "attn_norm"),
        ("post_attention_layernorm", "ffn_norm"),
        ("mlp.gate_proj", "ffn_gate"),
        ("mlp.up_proj", "ffn_up"),
        ("mlp.down_proj", "ffn_down"),
    ];
    renamed
        .iter()
        .fold(name.to_owned(), |name, (from, to)| name.replace(from, to))
}
