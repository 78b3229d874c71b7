//! Weights on a device, in bf16; norms in f32.

use std::sync::Arc;

use medley_kernels::cuda::gemm::Weight;
use medley_kernels::cuda::{Buffer, CudaError, Device, bf16};

use crate::config::Config;
use crate::decoder::{HeadNorms, Keep, Layer, read_layers};
use crate::tensors::{Role, Tensors};
use crate::{LoadError, Progress};

/// Keeps weights on a device.
pub(super) struct OnDevice(pub Arc<Device>);

impl Keep for OnDevice {
    type Matrix = Weight;
    type Vector = Buffer<f32>;
    type Bias = Buffer<bf16>;

    fn matrix(&mut self, rows: Vec<f32>, outputs: usize, inputs: usize) -> Result<Weight, LoadError> {
        Ok(Weight {
            values: self.0.upload(&halves(&rows))?,
            outputs,
            inputs,
        })
    }

    fn vector(&mut self, values: Vec<f32>) -> Result<Buffer<f32>, LoadError> {
        Ok(self.0.upload(&values)?)
    }

    fn bias(&mut self, values: Vec<f32>) -> Result<Buffer<bf16>, LoadError> {
        Ok(self.0.upload(&halves(&values))?)
    }
}

fn halves(values: &[f32]) -> Vec<bf16> {
    values.iter().map(|&x| bf16::from_f32(x)).collect()
}

/// All weights of a decoder.
pub(super) struct Weights {
    /// `[vocab, width]`
    pub embedding: Weight,
    pub layers: Vec<Layer<OnDevice>>,
    pub output_norm: Buffer<f32>,
    /// `[vocab, width]`; `None` if the embedding serves.
    head: Option<Weight>,
}

impl Weights {
    /// Reads and uploads all tensors, one matrix at a time.
    pub fn read(
        config: &Config,
        tensors: &mut dyn Tensors,
        device: &Arc<Device>,
        report: &dyn Fn(Progress),
    ) -> Result<Self, LoadError> {
        let (vocab, width) = (config.vocab, config.width);
        let mut keep = OnDevice(Arc::clone(device));
        let table = tensors.embedding(vocab, width)?;
        let table = table.dense().map_err(LoadError::tensor("the embedding"))?;
        let embedding = keep.matrix(table, vocab, width)?;
        let head = match tensors.contains(Role::Head) {
            true => {
                let head = tensors.read(Role::Head, &[vocab, width])?;
                Some(keep.matrix(head, vocab, width)?)
            }
            false => None,
        };
        let layers = read_layers(config, tensors, &mut keep, report)?;
        let output_norm = tensors.read(Role::OutputNorm, &[width])?;
        tensors.check_all_read()?;
        Ok(Self {
            embedding,
            layers,
            output_norm: keep.vector(output_norm)?,
            head,
        })
    }

    /// Random weights of this shape, made on the device: for measuring, not for answers.
    pub fn random(config: &Config, device: &Arc<Device>, seed: u64) -> Result<Self, LoadError> {
        let mut random = Random { device, seed, config };
        Ok(random.weights()?)
    }

    /// The output matrix.
    pub fn head(&self) -> &Weight {
        self.head.as_ref().unwrap_or(&self.embedding)
    }

    /// Bytes on the device.
    pub fn bytes(&self) -> u64 {
        let matrix = |weight: &Weight| weight.values.len() * 2;
        let layer = |layer: &Layer<OnDevice>| {
            let matrices = [&layer.qkv, &layer.output, &layer.gate_up, &layer.down];
            matrices.into_iter().map(matrix).sum::<usize>()
        };
        let layers = self.layers.iter().map(layer).sum::<usize>();
        (layers + matrix(&self.embedding) + self.head.as_ref().map_or(0, matrix)) as u64
    }
}

/// Makes random weights. Their size keeps hidden states in a range like a real model's.
struct Random<'a> {
    device: &'a Arc<Device>,
    seed: u64,
    config: &'a Config,
}

impl Random<'_> {
    fn weights(&mut self) -> Result<Weights, CudaError> {
        let (vocab, width) = (self.config.vocab, self.config.width);
        let layers = (0..self.config.layers)
            .map(|_| self.layer())
            .collect::<Result<_, _>>()?;
        Ok(Weights {
            embedding: self.matrix(vocab, width, 1.0)?,
            head: Some(self.matrix(vocab, width, 1.0)?),
            output_norm: self.ones(width)?,
            layers,
        })
    }

    fn layer(&mut self) -> Result<Layer<OnDevice>, CudaError> {
        let config = self.config;
        let (width, queries, keys) = (config.width, config.query_width(), config.key_width());
        let head_norms = match config.architecture.has_head_norms() {
            true => Some(HeadNorms {
                query: self.ones(config.head_dim)?,
                key: self.ones(config.head_dim)?,
            }),
            false => None,
        };
        let qkv_bias = match config.architecture.has_qkv_bias() {
            true => Some(self.device.zeros(queries + 2 * keys)?),
            false => None,
        };
        Ok(Layer {
            attention_norm: self.ones(width)?,
            qkv: self.matrix(queries + 2 * keys, width, 1.0)?,
            qkv_bias,
            head_norms,
            output: self.matrix(width, queries, 0.2)?,
            mlp_norm: self.ones(width)?,
            gate_up: self.matrix(2 * config.inner, width, 1.0)?,
            down: self.matrix(width, config.inner, 0.2)?,
        })
    }

    fn matrix(&mut self, outputs: usize, inputs: usize, gain: f32) -> Result<Weight, CudaError> {
        let mut values = self.device.zeros(outputs * inputs)?;
        self.seed += 1;
        self.device
            .fill(&mut values, self.seed << 40, gain / (inputs as f32).sqrt())?;
        Ok(Weight {
            values,
            outputs,
            inputs,
        })
    }

    fn ones(&self, len: usize) -> Result<Buffer<f32>, CudaError> {
        self.device.upload(&vec![1.0f32; len])
    }
}
