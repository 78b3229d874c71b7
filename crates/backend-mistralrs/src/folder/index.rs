//! Where every tensor of a folder's safetensors files lies. The format: eight bytes with the header's length, a
//! JSON header of types, shapes and byte ranges, then the data.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use candle_core::DType;
use serde::Deserialize;

use crate::LoadError;

const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";
const MAX_HEADER: u64 = 100 << 20;

/// The tensors of all files.
pub(super) struct SafetensorsIndex {
    files: Vec<(PathBuf, Mutex<File>)>,
    tensors: BTreeMap<String, Entry>,
}

/// One tensor's place.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub dtype: String,
    pub shape: Vec<usize>,
    file: usize,
    start: u64,
    len: usize,
}

#[derive(Deserialize)]
struct HeaderEntry {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: (u64, u64),
}

#[derive(Deserialize)]
struct Shards {
    weight_map: BTreeMap<String, String>,
}

/// Names of the weight files that `model.safetensors.index.json` lists.
pub(crate) fn shard_names(index: &Path) -> Result<Vec<String>, LoadError> {
    let text = std::fs::read_to_string(index).map_err(LoadError::read(index))?;
    let damaged = |what: String| LoadError::Damaged {
        path: index.to_owned(),
        what,
    };
    let shards: Shards = serde_json::from_str(&text).map_err(|error| damaged(error.to_string()))?;
    let names: BTreeSet<_> = shards.weight_map.into_values().collect();
    match names
        .iter()
        .find(|name| name.contains(['/', '\\']) || name.as_str() == "..")
    {
        Some(name) => Err(damaged(format!(
            "it names the file {name:?}, which is not beside it"
        ))),
        None => Ok(names.into_iter().collect()),
    }
}

impl SafetensorsIndex {
    pub fn open(folder: &Path) -> Result<Self, LoadError> {
        let names = match (folder.join(SINGLE).is_file(), folder.join(INDEX).is_file()) {
            (_, true) => shard_names(&folder.join(INDEX))?,
            (true, false) => vec![SINGLE.to_owned()],
            (false, false) => {
                let missing = format!("{SINGLE} (or {INDEX} and its files)");
                return Err(LoadError::Incomplete {
                    folder: folder.to_owned(),
                    missing,
                });
            }
        };
        let mut index = Self {
            files: Vec::new(),
            tensors: BTreeMap::new(),
        };
        for name in names {
            if !folder.join(&name).is_file() {
                return Err(LoadError::Incomplete {
                    folder: folder.to_owned(),
                    missing: name,
                });
            }
            index.add(folder.join(name))?;
        }
        Ok(index)
    }

    fn add(&mut self, path: PathBuf) -> Result<(), LoadError> {
        let mut file = File::open(&path).map_err(LoadError::read(&path))?;
        let length = file.metadata().map_err(LoadError::read(&path))?.len();
        let (header, data) = read_header(&path, &mut file, length)?;
        for (name, value) in header {
            if name == "__metadata__" {
                continue;
            }
            let entry = serde_json::from_value(value).map_err(|error| LoadError::Damaged {
                path: path.clone(),
                what: format!("tensor {name}: {error}"),
            })?;
            let entry = self.place(&path, &name, entry, data, length)?;
            self.tensors.insert(name, entry);
        }
        self.files.push((path, Mutex::new(file)));
        Ok(())
    }

    fn place(
        &self,
        path: &Path,
        name: &str,
        entry: HeaderEntry,
        data: u64,
        length: u64,
    ) -> Result<Entry, LoadError> {
        let (start, end) = entry.data_offsets;
        let HeaderEntry { dtype, shape, .. } = entry;
        let elements = shape
            .iter()
            .try_fold(1usize, |product, &dim| product.checked_mul(dim));
        let bytes = elements.and_then(|elements| elements.checked_mul(dtype_of(&dtype)?.size_in_bytes()));
        let claimed = end.checked_sub(start).and_then(|len| usize::try_from(len).ok());
        let known = dtype_of(&dtype).is_some();
        let (Some(len), Some(needed)) = (claimed, data.checked_add(end)) else {
            return Err(damaged_tensor(path, name, "its byte range is impossible"));
        };
        if known && bytes != Some(len) {
            return Err(damaged_tensor(
                path,
                name,
                &format!("{len} bytes are no {dtype} of shape {shape:?}"),
            ));
        }
        if needed > length {
            let tensor = format!("tensor {name}");
            return Err(LoadError::Truncated {
                path: path.to_owned(),
                tensor,
                needed,
                found: length,
            });
        }
        Ok(Entry {
            dtype,
            shape,
            file: self.files.len(),
            start: data + start,
            len,
        })
    }

    pub fn get(&self, name: &str) -> Option<&Entry> {
        self.tensors.get(name)
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(|(path, _)| path.as_path())
    }

    /// The bytes of a tensor.
    pub fn bytes(&self, entry: &Entry) -> std::io::Result<Vec<u8>> {
        let mut file = self.files[entry.file]
            .1
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let mut bytes = vec![0; entry.len];
        file.seek(SeekFrom::Start(entry.start))?;
        file.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    pub fn path(&self, entry: &Entry) -> &Path {
        &self.files[entry.file].0
    }

    pub fn elements(&self) -> u64 {
        self.tensors
            .values()
            .map(|entry| entry.shape.iter().product::<usize>() as u64)
            .sum()
    }

    pub fn most_common_dtype(&self) -> String {
        let mut sizes = BTreeMap::new();
        for entry in self.tensors.values() {
            *sizes.entry(entry.dtype.as_str()).or_insert(0) += entry.len;
        }
        sizes
            .into_iter()
            .max_by_key(|(_, size)| *size)
            .map(|(name, _)| name.to_owned())
            .unwrap_or_default()
    }
}

/// The header's entries and where the data begins.
fn read_header(
    path: &Path,
    file: &mut File,
    length: u64,
) -> Result<(serde_json::Map<String, serde_json::Value>, u64), LoadError> {
    let damaged = |what: String| LoadError::Damaged {
        path: path.to_owned(),
        what,
    };
    let mut size = [0; 8];
    file.read_exact(&mut size)
        .map_err(|_| damaged("it has no header".to_owned()))?;
    let size = u64::from_le_bytes(size);
    if size > MAX_HEADER || size + 8 > length {
        return Err(damaged(format!("its header claims {size} bytes of {length}")));
    }
    let mut header = vec![0; size as usize];
    file.read_exact(&mut header).map_err(LoadError::read(path))?;
    let header = serde_json::from_slice(&header).map_err(|error| damaged(format!("its header: {error}")))?;
    Ok((header, 8 + size))
}

fn damaged_tensor(path: &Path, name: &str, what: &str) -> LoadError {
    LoadError::Damaged {
        path: path.to_owned(),
        what: format!("tensor {name}: {what}"),
    }
}

/// The types that can be read; quantised formats bring others that nobody reads.
pub(super) fn dtype_of(name: &str) -> Option<DType> {
    match name {
        "F32" => Some(DType::F32),
        "F16" => Some(DType::F16),
        "BF16" => Some(DType::BF16),
        "F8_E4M3" => Some(DType::F8E4M3),
        "F64" => Some(DType::F64),
        "U8" => Some(DType::U8),
        _ => None,
    }
}
