//! Checks a GGUF header before anything is allocated for it: candle's reader trusts every count and length.
//! Walks the header once without keeping it. Layout: the GGUF specification, versions 2 and 3.

use std::io::{Read, Seek};
use std::path::Path;

use candle_core::quantized::gguf_file::Content;

use crate::LoadError;

const MAGIC: &[u8; 4] = b"GGUF";
const MAX_STRING: u64 = 1 << 26;
const MAX_ARRAY: u64 = 1 << 23;
const MAX_ENTRIES: u64 = 1 << 20;
const MAX_DIMENSIONS: u32 = 4;
/// Types of tensors that can be unpacked, as the specification numbers them.
const TENSOR_TYPES: [u32; 13] = [0, 1, 2, 3, 6, 7, 8, 10, 11, 12, 13, 14, 30];
const TENSOR_TYPE_NAMES: &str = "F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K to Q6_K";
const TYPE_STRING: u32 = 8;
const TYPE_ARRAY: u32 = 9;

/// Checks magic, version, and every count and length against the file's length.
pub(super) fn check_header(path: &Path, reader: impl Read + Seek, length: u64) -> Result<(), LoadError> {
    let mut walk = Walk {
        path,
        reader,
        left: length,
    };
    if &walk.take::<4>()? != MAGIC {
        return walk.damaged("it does not begin with GGUF's magic number");
    }
    let version = walk.u32()?;
    if !(2..=3).contains(&version) {
        return Err(LoadError::unsupported(
            format!("GGUF version {version}"),
            "versions 2 and 3",
        ));
    }
    let tensors = walk.count("tensors", MAX_ENTRIES)?;
    let entries = walk.count("metadata entries", MAX_ENTRIES)?;
    for _ in 0..entries {
        walk.entry()?;
    }
    for _ in 0..tensors {
        walk.tensor()?;
    }
    Ok(())
}

/// Checks that every tensor's bytes lie inside the file.
pub(super) fn check_tensors(path: &Path, content: &Content, length: u64) -> Result<(), LoadError> {
    let mut infos: Vec<_> = content.tensor_infos.iter().collect();
    infos.sort_by_key(|(_, info)| info.offset);
    for (name, info) in infos {
        let block = info.ggml_dtype.block_size();
        let dims = info.shape.dims();
        let elements = dims
            .iter()
            .try_fold(1usize, |product, &dim| product.checked_mul(dim));
        let bytes = elements.and_then(|count| (count / block).checked_mul(info.ggml_dtype.type_size()));
        let end = bytes.and_then(|bytes| {
            content
                .tensor_data_offset
                .checked_add(info.offset)?
                .checked_add(bytes as u64)
        });
        let whole = dims.last().is_some_and(|last| last.is_multiple_of(block));
        match end {
            Some(needed) if whole && needed <= length => {}
            Some(needed) if whole => {
                let tensor = format!("tensor {name}");
                return Err(LoadError::Truncated {
                    path: path.to_owned(),
                    tensor,
                    needed,
                    found: length,
                });
            }
            _ => {
                let what = format!("tensor {name} has the impossible shape {dims:?}");
                return Err(LoadError::Damaged {
                    path: path.to_owned(),
                    what,
                });
            }
        }
    }
    Ok(())
}

struct Walk<'a, R> {
    path: &'a Path,
    reader: R,
    left: u64,
}

impl<R: Read + Seek> Walk<'_, R> {
    fn entry(&mut self) -> Result<(), LoadError> {
        let key = self.string()?;
        let kind = self.u32()?;
        if key == b"general.alignment" && kind <= 5 {
            return self.alignment(kind);
        }
        self.value(kind, 0)
    }

    fn alignment(&mut self, kind: u32) -> Result<(), LoadError> {
        let bytes = self.bytes(scalar_size(kind).unwrap_or(1))?;
        let value = bytes
            .iter()
            .rev()
            .fold(0u64, |value, &byte| value << 8 | u64::from(byte));
        match value.is_power_of_two() && value <= 1 << 16 {
            true => Ok(()),
            false => self.damaged(format!("its alignment is {value}")),
        }
    }

    fn value(&mut self, kind: u32, depth: u32) -> Result<(), LoadError> {
        match (kind, scalar_size(kind)) {
            (_, Some(size)) => self.skip(size),
            (TYPE_STRING, _) => self.string().map(drop),
            (TYPE_ARRAY, _) if depth < 2 => self.array(depth),
            _ => self.damaged(format!("a metadata value has type {kind}")),
        }
    }

    fn array(&mut self, depth: u32) -> Result<(), LoadError> {
        let kind = self.u32()?;
        let count = self.count("array elements", MAX_ARRAY)?;
        match scalar_size(kind) {
            Some(size) => self.skip(count * size),
            None => (0..count).try_for_each(|_| self.value(kind, depth + 1)),
        }
    }

    fn tensor(&mut self) -> Result<(), LoadError> {
        let name = String::from_utf8_lossy(&self.string()?).into_owned();
        let dimensions = self.u32()?;
        if dimensions > MAX_DIMENSIONS {
            return self.damaged(format!("tensor {name} has {dimensions} dimensions"));
        }
        self.skip(8 * u64::from(dimensions))?;
        let kind = self.u32()?;
        if !TENSOR_TYPES.contains(&kind) {
            let feature = format!("tensor {name}'s GGUF type {kind}");
            return Err(LoadError::unsupported(feature, TENSOR_TYPE_NAMES));
        }
        self.skip(8)
    }

    fn count(&mut self, what: &str, limit: u64) -> Result<u64, LoadError> {
        let count = self.u64()?;
        match count <= limit.min(self.left) {
            true => Ok(count),
            false => self.damaged(format!("its header claims {count} {what}")),
        }
    }

    fn string(&mut self) -> Result<Vec<u8>, LoadError> {
        let length = self.u64()?;
        if length > MAX_STRING.min(self.left) {
            return self.damaged(format!("its header claims a text of {length} bytes"));
        }
        self.bytes(length)
    }

    fn u32(&mut self) -> Result<u32, LoadError> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, LoadError> {
        self.take().map(u64::from_le_bytes)
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], LoadError> {
        let mut bytes = [0; N];
        self.claim(N as u64)?;
        self.reader
            .read_exact(&mut bytes)
            .map_err(LoadError::read(self.path))?;
        Ok(bytes)
    }

    fn bytes(&mut self, count: u64) -> Result<Vec<u8>, LoadError> {
        self.claim(count)?;
        let mut bytes = vec![0; count as usize];
        self.reader
            .read_exact(&mut bytes)
            .map_err(LoadError::read(self.path))?;
        Ok(bytes)
    }

    fn skip(&mut self, count: u64) -> Result<(), LoadError> {
        self.claim(count)?;
        self.reader
            .seek_relative(count as i64)
            .map_err(LoadError::read(self.path))
    }

    fn claim(&mut self, count: u64) -> Result<(), LoadError> {
        match self.left.checked_sub(count) {
            Some(left) => self.left = left,
            None => return self.damaged("it ends inside its header"),
        }
        Ok(())
    }

    fn damaged<T>(&self, what: impl Into<String>) -> Result<T, LoadError> {
        Err(LoadError::Damaged {
            path: self.path.to_owned(),
            what: what.into(),
        })
    }
}

/// Bytes of a metadata scalar; `None` for texts, arrays and unknown types.
fn scalar_size(kind: u32) -> Option<u64> {
    match kind {
        0 | 1 | 7 => Some(1),
        2 | 3 => Some(2),
        4..=6 => Some(4),
        10..=12 => Some(8),
        _ => None,
    }
}
