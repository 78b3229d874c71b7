//! Values that may be a bare string or a list of objects; errors keep their path, line and column.

use std::{fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{Error, SeqAccess, Visitor},
};

use crate::Object;

/// Reads a `T` from a string or from a list of objects with the fields of `E`.
pub(crate) fn string_or_list<'de, D, T, E>(deserializer: D, expecting: &'static str) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: From<String> + From<Vec<E>>,
    E: Deserialize<'de>,
{
    deserializer.deserialize_any(StringOrList::<T, E>(expecting, PhantomData))
}

struct StringOrList<T, E>(&'static str, PhantomData<(T, E)>);

impl<'de, T, E> Visitor<'de> for StringOrList<T, E>
where
    T: From<String> + From<Vec<E>>,
    E: Deserialize<'de>,
{
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }

    fn visit_str<R: Error>(self, text: &str) -> Result<T, R> {
        Ok(T::from(text.to_owned()))
    }

    fn visit_string<R: Error>(self, text: String) -> Result<T, R> {
        Ok(T::from(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<T, A::Error> {
        let mut all = Vec::new();
        while let Some(Object(one)) = list.next_element()? {
            all.push(one);
        }
        Ok(T::from(all))
    }
}
