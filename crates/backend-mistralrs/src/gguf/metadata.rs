//! Typed access to GGUF metadata. A present value of another kind is an error, never a default.

use std::collections::HashMap;

use candle_core::quantized::gguf_file::Value;

use crate::LoadError;

/// The metadata of a file and the prefix of its architecture's keys.
pub(super) struct Metadata<'a> {
    values: &'a HashMap<String, Value>,
    /// `general.architecture`.
    pub architecture: &'a str,
}

impl<'a> Metadata<'a> {
    pub fn new(values: &'a HashMap<String, Value>) -> Result<Self, LoadError> {
        match values.get("general.architecture") {
            Some(Value::String(architecture)) => Ok(Self { values, architecture }),
            _ => Err(LoadError::config("general.architecture", "it is missing")),
        }
    }

    /// The full key of one of the architecture's own.
    pub fn key(&self, suffix: &str) -> String {
        format!("{}.{suffix}", self.architecture)
    }

    pub fn size(&self, key: &str) -> Result<usize, LoadError> {
        self.size_or_none(key)?
            .ok_or_else(|| LoadError::config(key, "it is missing"))
    }

    pub fn size_or_none(&self, key: &str) -> Result<Option<usize>, LoadError> {
        let Some(value) = self.values.get(key) else {
            return Ok(None);
        };
        let size = integer(value).and_then(|value| usize::try_from(value).ok());
        size.map(Some)
            .ok_or_else(|| LoadError::config(key, "it is no size"))
    }

    pub fn id_or_none(&self, key: &str) -> Result<Option<u32>, LoadError> {
        let size = self.size_or_none(key)?;
        size.map(|id| u32::try_from(id).map_err(|_| LoadError::config(key, "it is no token id")))
            .transpose()
    }

    pub fn float_or_none(&self, key: &str) -> Result<Option<f64>, LoadError> {
        let Some(value) = self.values.get(key) else {
            return Ok(None);
        };
        let float = match value {
            Value::F32(float) => Some(f64::from(*float)),
            Value::F64(float) => Some(*float),
            other => integer(other).map(|integer| integer as f64),
        };
        float
            .map(Some)
            .ok_or_else(|| LoadError::config(key, "it is no number"))
    }

    pub fn flag_or_none(&self, key: &str) -> Result<Option<bool>, LoadError> {
        match self.values.get(key) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(*flag)),
            Some(_) => Err(LoadError::config(key, "it is neither true nor false")),
        }
    }

    pub fn text_or_none(&self, key: &str) -> Option<String> {
        match self.values.get(key) {
            Some(Value::String(text)) => Some(text.clone()),
            _ => None,
        }
    }

    /// Elements of an array; empty if it is absent. `element` turns one into `T`.
    pub fn list<T>(&self, key: &str, element: impl Fn(&Value) -> Option<T>) -> Result<Vec<T>, LoadError> {
        match self.values.get(key) {
            None => Ok(Vec::new()),
            Some(Value::Array(values)) => values
                .iter()
                .map(|value| {
                    element(value).ok_or_else(|| LoadError::config(key, "an element has another type"))
                })
                .collect(),
            Some(_) => Err(LoadError::config(key, "it is no list")),
        }
    }
}

/// The value of an integer of any width.
pub(super) fn integer(value: &Value) -> Option<i64> {
    match value {
        Value::U8(v) => Some(i64::from(*v)),
        Value::I8(v) => Some(i64::from(*v)),
        Value::U16(v) => Some(i64::from(*v)),
        Value::I16(v) => Some(i64::from(*v)),
        Value::U32(v) => Some(i64::from(*v)),
        Value::I32(v) => Some(i64::from(*v)),
        Value::U64(v) => i64::try_from(*v).ok(),
        Value::I64(v) => Some(*v),
        _ => None,
    }
}
