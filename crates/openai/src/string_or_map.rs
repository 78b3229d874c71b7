//! Values that may be a bare string or an object.
//!
//! An untagged enum would buffer the value and answer a wrong field with "did not match any variant"; this visitor
//! keeps the path, line and column of what is wrong.

use std::{fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, Visitor, value::MapAccessDeserializer},
};

/// Reads a `T` from a string or from an object with the fields of `M`.
pub(crate) fn string_or_map<'de, D, T, M>(deserializer: D, expecting: &'static str) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: From<String> + From<M>,
    M: Deserialize<'de>,
{
    deserializer.deserialize_any(StringOrMap::<T, M>(expecting, PhantomData))
}

struct StringOrMap<T, M>(&'static str, PhantomData<(T, M)>);

impl<'de, T, M> Visitor<'de> for StringOrMap<T, M>
where
    T: From<String> + From<M>,
    M: Deserialize<'de>,
{
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        Ok(T::from(text.to_owned()))
    }

    fn visit_string<E: Error>(self, text: String) -> Result<T, E> {
        Ok(T::from(text))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        M::deserialize(MapAccessDeserializer::new(map)).map(T::from)
    }
}
