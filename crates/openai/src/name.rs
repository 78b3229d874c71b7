//! Names that clients give to things: strings, or the integer keys of their stores.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{Error, Visitor},
};
use utoipa::openapi::schema::{ObjectBuilder, OneOfBuilder, Schema, Type};

/// For `#[serde(deserialize_with)]`: a string, an integer, which is read as its digits, or `null`.
pub(crate) fn optional<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Option::<Name>::deserialize(deserializer).map(|name| name.map(|Name(text)| text))
}

/// The schema of such a field.
pub(crate) fn schema() -> Schema {
    let of = |kind| ObjectBuilder::new().schema_type(kind).build();
    OneOfBuilder::new()
        .item(of(Type::String))
        .item(of(Type::Integer))
        .item(of(Type::Null))
        .description(Some(
            "The client's own name for it, returned in the report. A number is read as its digits.",
        ))
        .build()
        .into()
}

struct Name(String);

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NameVisitor)
    }
}

struct NameVisitor;

impl Visitor<'_> for NameVisitor {
    type Value = Name;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string or an integer")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Name, E> {
        Ok(Name(text.to_owned()))
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Name, E> {
        Ok(Name(text))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Name, E> {
        Ok(Name(number.to_string()))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Name, E> {
        Ok(Name(number.to_string()))
    }
}
