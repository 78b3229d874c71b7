//! Strings that end a text.

use std::fmt;

use serde::{
    Deserialize, Deserializer, Serialize,
    de::{Error, SeqAccess, Visitor, value::SeqAccessDeserializer},
};
use utoipa::ToSchema;

/// One stop string or a list of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(untagged)]
pub enum StopParam {
    /// One.
    One(String),
    /// Several.
    Many(Vec<String>),
}

impl<'de> Deserialize<'de> for StopParam {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StopVisitor)
    }
}

struct StopVisitor;

impl<'de> Visitor<'de> for StopVisitor {
    type Value = StopParam;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string or a list of strings")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<StopParam, E> {
        Ok(StopParam::One(text.to_owned()))
    }

    fn visit_string<E: Error>(self, text: String) -> Result<StopParam, E> {
        Ok(StopParam::One(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<StopParam, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(list)).map(StopParam::Many)
    }
}
