//! The folder's tensors as mistral.rs' layers ask for them.

use std::sync::Arc;

use candle_core::{DType, Device, Error, Result, Shape, Tensor};
use candle_nn::Init;
use candle_nn::var_builder::SimpleBackend;
use mistralrs_quant::{ShardedSafeTensors, ShardedVarBuilder};

use super::index::{SafetensorsIndex, dtype_of};

/// Reads tensors from their files, one at a time.
struct Reader(Arc<SafetensorsIndex>);

/// A builder of layers in f32 on the CPU.
pub(super) fn builder(index: Arc<SafetensorsIndex>) -> ShardedVarBuilder {
    ShardedSafeTensors::wrap(Box::new(Reader(index)), DType::F32, Device::Cpu)
}

impl SimpleBackend for Reader {
    fn get(&self, shape: Shape, name: &str, _: Init, dtype: DType, device: &Device) -> Result<Tensor> {
        let tensor = self.get_unchecked(name, dtype, device)?;
        match tensor.shape() == &shape {
            true => Ok(tensor),
            false => Err(Error::UnexpectedShape {
                msg: name.to_owned(),
                expected: shape,
                got: tensor.shape().clone(),
            }),
        }
    }

    fn get_unchecked(&self, name: &str, dtype: DType, device: &Device) -> Result<Tensor> {
        let entry = self.0.get(name).ok_or_else(|| Error::CannotFindTensor {
            path: name.to_owned(),
        })?;
        let stored =
            dtype_of(&entry.dtype).ok_or_else(|| Error::Msg(format!("{name} has type {}", entry.dtype)))?;
        let bytes = self.0.bytes(entry)?;
        Tensor::from_raw_buffer(&bytes, stored, &entry.shape, device)?.to_dtype(dtype)
    }

    fn contains_tensor(&self, name: &str) -> bool {
        self.0.get(name).is_some()
    }
}
