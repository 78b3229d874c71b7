//! Reads the tokenizer's metadata of a GGUF file; tensors are never touched.
//!
//! Layout, little-endian: `GGUF`, version u32, tensors u64, entries u64; an entry is its key, its type u32 and its
//! value; a string is its length u64 and its bytes; an array is its type u32, its length u64 and its values.

use std::{
    collections::HashMap,
    fs::File,
    io::{BufReader, Read},
};

use anyhow::{Result, bail, ensure};
use medley_prompt::GgufVocabulary;

/// A value, reduced to what vocabularies need.
enum Value {
    Integer(i64),
    Float(f32),
    Text(String),
    List(Vec<Value>),
}

/// The vocabulary of the GGUF file at `path`.
pub fn vocabulary(path: &str) -> Result<GgufVocabulary> {
    let mut entries = entries(&mut BufReader::new(File::open(path)?))?;
    let mut take = |key: &str| entries.remove(&format!("tokenizer.{key}"));
    let mut vocabulary = GgufVocabulary {
        model: take("ggml.model").and_then(Value::text).unwrap_or_default(),
        pre: take("ggml.pre").and_then(Value::text).unwrap_or_default(),
        tokens: list(take("ggml.tokens"), Value::text),
        token_types: list(take("ggml.token_type"), Value::integer)
            .into_iter()
            .map(|code| code as i32)
            .collect(),
        merges: list(take("ggml.merges"), Value::text),
        scores: list(take("ggml.scores"), Value::float),
        chat_template: take("chat_template").and_then(Value::text),
        ..GgufVocabulary::default()
    };
    let mut integer = |key: &str| take(key).and_then(Value::integer);
    vocabulary.bos = integer("ggml.bos_token_id").map(|id| id as u32);
    vocabulary.eos = integer("ggml.eos_token_id").map(|id| id as u32);
    vocabulary.unknown = integer("ggml.unknown_token_id").map(|id| id as u32);
    vocabulary.padding = integer("ggml.padding_token_id").map(|id| id as u32);
    vocabulary.add_bos = integer("ggml.add_bos_token").map(|flag| flag != 0);
    vocabulary.add_space_prefix = integer("ggml.add_space_prefix").map(|flag| flag != 0);
    Ok(vocabulary)
}

impl Value {
    fn text(self) -> Option<String> {
        if let Self::Text(text) = self {
            Some(text)
        } else {
            None
        }
    }

    fn integer(self) -> Option<i64> {
        if let Self::Integer(integer) = self {
            Some(integer)
        } else {
            None
        }
    }

    fn float(self) -> Option<f32> {
        if let Self::Float(float) = self {
            Some(float)
        } else {
            None
        }
    }
}

fn list<T>(value: Option<Value>, item: fn(Value) -> Option<T>) -> Vec<T> {
    match value {
        Some(Value::List(values)) => values.into_iter().filter_map(item).collect(),
        _ => Vec::new(),
    }
}

fn entries(file: &mut impl Read) -> Result<HashMap<String, Value>> {
    ensure!(bytes::<4>(file)? == *b"GGUF", "not a GGUF file");
    let (_version, _tensors, count) = (bytes::<4>(file)?, bytes::<8>(file)?, length(file)?);
    let mut entries = HashMap::new();
    for _ in 0..count {
        let key = string(file)?;
        let kind = u32::from_le_bytes(bytes(file)?);
        entries.insert(key, value(file, kind)?);
    }
    Ok(entries)
}

fn value(file: &mut impl Read, kind: u32) -> Result<Value> {
    Ok(match kind {
        0 | 7 => Value::Integer(i64::from(u8::from_le_bytes(bytes(file)?))),
        1 => Value::Integer(i64::from(i8::from_le_bytes(bytes(file)?))),
        2 => Value::Integer(i64::from(u16::from_le_bytes(bytes(file)?))),
        3 => Value::Integer(i64::from(i16::from_le_bytes(bytes(file)?))),
        4 => Value::Integer(i64::from(u32::from_le_bytes(bytes(file)?))),
        5 => Value::Integer(i64::from(i32::from_le_bytes(bytes(file)?))),
        6 => Value::Float(f32::from_le_bytes(bytes(file)?)),
        8 => Value::Text(string(file)?),
        9 => {
            let kind = u32::from_le_bytes(bytes(file)?);
            let count = length(file)?;
            Value::List((0..count).map(|_| value(file, kind)).collect::<Result<_>>()?)
        }
        10 | 11 => Value::Integer(i64::from_le_bytes(bytes(file)?)),
        12 => Value::Float(f64::from_le_bytes(bytes(file)?) as f32),
        _ => bail!("unknown value type {kind}"),
    })
}

fn bytes<const N: usize>(file: &mut impl Read) -> Result<[u8; N]> {
    let mut bytes = [0; N];
    file.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn length(file: &mut impl Read) -> Result<usize> {
    Ok(usize::try_from(u64::from_le_bytes(bytes(file)?))?)
}

fn string(file: &mut impl Read) -> Result<String> {
    let mut text = Vec::new();
    let expected = length(file)? as u64;
    file.take(expected).read_to_end(&mut text)?;
    ensure!(text.len() as u64 == expected, "the file ends inside a string");
    Ok(String::from_utf8(text)?)
}
