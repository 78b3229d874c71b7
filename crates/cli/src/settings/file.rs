//! Settings as keys of a TOML file.

use std::{collections::BTreeMap, path::Path};

use toml::Value;

use super::{
    origin::{Misconfigured, Origin},
    table::{SETTINGS, Setting, find},
};

/// Reads a configuration file. Keys that are no settings are errors.
pub fn read(path: &Path) -> Result<BTreeMap<&'static str, Vec<String>>, Misconfigured> {
    let origin = |key: &str| Origin::File(path.to_owned(), key.to_owned());
    let text = std::fs::read_to_string(path).map_err(|e| Misconfigured::new(&origin(""), e))?;
    let table: toml::Table = text.parse().map_err(|e| Misconfigured::new(&origin(""), e))?;
    let entry = |(key, value): (String, Value)| {
        let setting = find(&key).ok_or_else(|| Misconfigured::new(&origin(&key), unknown(&key)))?;
        let texts = texts(setting, value).map_err(|reason| Misconfigured::new(&origin(&key), reason))?;
        Ok((setting.name, texts))
    };
    table.into_iter().map(entry).collect()
}

fn unknown(key: &str) -> String {
    let dashed = key.replace('_', "-");
    match find(&dashed) {
        Some(_) => format!("unknown key; it is written {dashed}"),
        None => {
            let names: Vec<_> = SETTINGS.iter().map(|s| s.name).collect();
            format!("unknown key; the keys are {}", names.join(", "))
        }
    }
}

fn texts(setting: &Setting, value: Value) -> Result<Vec<String>, &'static str> {
    match value {
        Value::Array(values) if setting.many => values.into_iter().map(scalar).collect(),
        Value::Array(_) => Err("takes one value, not a list"),
        value => Ok(vec![scalar(value)?]),
    }
}

fn scalar(value: Value) -> Result<String, &'static str> {
    match value {
        Value::String(text) => Ok(text),
        Value::Integer(_) | Value::Float(_) | Value::Boolean(_) => Ok(value.to_string()),
        Value::Datetime(_) | Value::Array(_) | Value::Table(_) => Err("must be a string or a number"),
    }
}
