//! Objects, and nothing else, where an object is expected.
//!
//! What serde derives for a struct also reads a list as the fields in order: a client that sends one has made a
//! mistake and must hear of it.

use std::{fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor, value::MapAccessDeserializer},
};

/// A `T` that was read from a JSON object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Object<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(OnlyMaps(PhantomData))
    }
}

/// For `#[serde(deserialize_with)]`: an object or `null`.
pub(crate) fn optional<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Option::<Object<T>>::deserialize(deserializer).map(|object| object.map(|Object(value)| value))
}

/// For `#[serde(deserialize_with)]`: an object.
pub(crate) fn required<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Object::deserialize(deserializer).map(|Object(value)| value)
}

/// For `#[serde(deserialize_with)]`: a list of objects or `null`.
pub(crate) fn optional_list<'de, D, T>(deserializer: D) -> Result<Option<Vec<T>>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    let list = Option::<Vec<Object<T>>>::deserialize(deserializer)?;
    Ok(list.map(|list| list.into_iter().map(|Object(value)| value).collect()))
}

struct OnlyMaps<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for OnlyMaps<T> {
    type Value = Object<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Object<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CompletionRequest;

    #[test]
    fn a_list_is_no_object_at_any_depth() {
        for bad in [
            r#"["default","hi"]"#,
            "[]",
            r#"{"blend":["exact",0.5]}"#,
            r#"{"blend":[]}"#,
            r#"{"stream_options":[true]}"#,
            r#"{"documents":[["a","b","c"]]}"#,
            r#"{"documents":[{"data":["a","b"]}]}"#,
            r#"{"logit_bias":[1]}"#,
        ] {
            let read = serde_json::from_str::<Object<CompletionRequest>>(bad);
            assert!(read.is_err(), "{bad} accepted");
        }
    }

    #[test]
    fn objects_and_null_are_read_as_before() {
        let read = |json: &str| {
            serde_json::from_str::<Object<CompletionRequest>>(json)
                .expect(json)
                .0
        };
        assert_eq!(read(r#"{"blend":null,"stream_options":null}"#), read("{}"));
        let request = read(r#"{"blend":{"hops":2},"stream_options":{"include_usage":true}}"#);
        assert_eq!(request.blend.and_then(|blend| blend.hops), Some(2));
        let options = request.stream_options.expect("options");
        assert_eq!(options.include_usage, Some(true));
    }
}
