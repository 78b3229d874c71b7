//! The token embedding, kept as the file has it: a batch reads few of its rows, so unpacking all of them would
//! only cost memory.

use std::borrow::Cow;

use candle_core::quantized::{GgmlDType, QStorage, QTensor};
use candle_core::{Device, Result};

/// A table `[vocab, width]` of rows of blocks.
pub(crate) struct Embedding {
    bytes: Vec<u8>,
    dtype: GgmlDType,
    width: usize,
}

impl Embedding {
    /// `None` if the bytes are no rows of `width` elements of `dtype`.
    pub fn new(bytes: Vec<u8>, dtype: GgmlDType, width: usize) -> Option<Self> {
        let table = Self { bytes, dtype, width };
        let whole =
            width.is_multiple_of(dtype.block_size()) && table.bytes.len().is_multiple_of(table.stride());
        whole.then_some(table)
    }

    /// Bytes in memory.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Rows of the table.
    #[cfg(test)]
    pub fn rows(&self) -> usize {
        self.bytes.len() / self.stride()
    }

    /// Appends the rows of `tokens` to `out`. Every token must be below the vocabulary size.
    pub fn gather(&self, tokens: impl Iterator<Item = u32>, out: &mut Vec<f32>) -> Result<()> {
        let stride = self.stride();
        let mut blocks = Vec::new();
        for token in tokens {
            let start = token as usize * stride;
            blocks.extend_from_slice(&self.bytes[start..start + stride]);
        }
        if blocks.is_empty() {
            return Ok(());
        }
        out.extend(self.unpack(&blocks)?);
        Ok(())
    }

    /// The whole table in f32.
    pub fn dense(&self) -> Result<Vec<f32>> {
        self.unpack(&self.bytes)
    }

    fn unpack(&self, blocks: &[u8]) -> Result<Vec<f32>> {
        let rows = blocks.len() / self.stride();
        let storage = QStorage::from_data(Cow::Borrowed(blocks), &Device::Cpu, self.dtype)?;
        dequantised(&QTensor::new(storage, (rows, self.width))?)
    }

    fn stride(&self) -> usize {
        self.width / self.dtype.block_size() * self.dtype.type_size()
    }
}

/// All elements of a tensor in f32, row by row.
pub(crate) fn dequantised(tensor: &QTensor) -> Result<Vec<f32>> {
    tensor.dequantize(&Device::Cpu)?.flatten_all()?.to_vec1()
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::Tensor;

    #[test]
    fn gathered_rows_equal_those_of_the_dense_table() {
        let width = 64;
        let values: Vec<f32> = (0..5 * width)
            .map(|i| ((i * 37 % 101) as f32 - 50.0) / 50.0)
            .collect();
        let dense = Tensor::from_vec(values, (5, width), &Device::Cpu).expect("a tensor");
        for dtype in [
            GgmlDType::F32,
            GgmlDType::F16,
            GgmlDType::BF16,
            GgmlDType::Q8_0,
            GgmlDType::Q5_0,
        ] {
            let quantised = QTensor::quantize(&dense, dtype).expect("quantised");
            let bytes = quantised.data().expect("bytes").into_owned();
            let table = Embedding::new(bytes, dtype, width).expect("whole rows");
            assert_eq!(table.rows(), 5);
            let (all, mut some) = (table.dense().expect("dense"), Vec::new());
            table.gather([3, 0, 3].into_iter(), &mut some).expect("rows");
            let row = |r: usize| &all[r * width..(r + 1) * width];
            assert_eq!(some, [row(3), row(0), row(3)].concat(), "{dtype:?}");
        }
    }
}
