//! Documents in a request, in every accepted shape.

use serde::{Deserialize, Deserializer, Serialize, de::IgnoredAny};
use utoipa::ToSchema;

use crate::{name, string_or_map::string_or_map};

/// A document: its bare text, or an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(untagged)]
pub enum DocumentParam {
    /// The text.
    Text(String),
    /// An object that holds the text, its tokens or a reference.
    Object(Box<DocumentObject>),
}

/// A document as an object. It holds one of `text` (under any of its names), `data` and `token_ids`. An `id` alone
/// that begins with `doc_` refers to a stored document: not in this version, so it is refused. What retrieval stores
/// put beside a text is ignored: `metadata`, `type`, `score` and `url`. Other keys are refused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DocumentObject {
    /// The client's own name for it, returned in the report. A number is read as its digits.
    #[serde(default, deserialize_with = "name::optional")]
    #[schema(schema_with = name::schema)]
    pub id: Option<String>,
    /// Title, rendered in front of the text.
    pub title: Option<String>,
    /// The text.
    pub text: Option<String>,
    /// Another name of `text`.
    pub content: Option<String>,
    /// Another name of `text`.
    pub snippet: Option<String>,
    /// Another name of `text`.
    pub page_content: Option<String>,
    /// The text in Cohere's shape.
    pub data: Option<DocumentData>,
    /// The document's tokens, used as they are.
    pub token_ids: Option<Vec<u32>>,
    /// Text that the document is computed behind (its section, its neighbours). It is no part of the prompt.
    pub context: Option<String>,
    /// Ignored.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    pub metadata: Ignored,
    /// Ignored.
    #[serde(default, rename = "type")]
    #[schema(value_type = Option<String>)]
    pub kind: Ignored,
    /// Ignored.
    #[serde(default)]
    #[schema(value_type = Option<f64>)]
    pub score: Ignored,
    /// Ignored.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    pub url: Ignored,
}

/// A value that is read and forgotten.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Ignored;

impl<'de> Deserialize<'de> for Ignored {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|_| Self)
    }
}

/// The content of a document in Cohere's shape: its bare text, or an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(untagged)]
pub enum DocumentData {
    /// The text.
    Text(String),
    /// Title and text.
    Fields(DocumentFields),
}

/// Title and text in Cohere's shape. Whatever else Cohere's clients put there is ignored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DocumentFields {
    /// Title, rendered in front of the text.
    pub title: Option<String>,
    /// The text.
    pub snippet: Option<String>,
    /// Another name of `snippet`.
    pub text: Option<String>,
    /// Another name of `snippet`.
    pub content: Option<String>,
}

impl From<String> for DocumentParam {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<DocumentObject> for DocumentParam {
    fn from(object: DocumentObject) -> Self {
        Self::Object(Box::new(object))
    }
}

impl<'de> Deserialize<'de> for DocumentParam {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        string_or_map::<_, _, DocumentObject>(deserializer, "a document: a string or an object")
    }
}

impl From<String> for DocumentData {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<DocumentFields> for DocumentData {
    fn from(fields: DocumentFields) -> Self {
        Self::Fields(fields)
    }
}

impl<'de> Deserialize<'de> for DocumentData {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        string_or_map::<_, _, DocumentFields>(deserializer, "the data of a document: a string or an object")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> DocumentParam {
        serde_json::from_str(json).expect(json)
    }

    fn object(edit: impl FnOnce(&mut DocumentObject)) -> DocumentParam {
        let mut object = DocumentObject::default();
        edit(&mut object);
        object.into()
    }

    #[test]
    fn every_accepted_shape_is_read() {
        assert_eq!(read(r#""plain""#), DocumentParam::Text("plain".into()));
        assert_eq!(
            read(r#"{"token_ids":[1,2]}"#),
            object(|o| o.token_ids = Some(vec![1, 2]))
        );
        assert_eq!(
            read(r#"{"id":"doc_5f","title":null}"#),
            object(|o| o.id = Some("doc_5f".into()))
        );
        assert_eq!(read(r#"{"text":"t"}"#), object(|o| o.text = Some("t".into())));
        assert_eq!(
            read(
                r#"{"page_content":"t","metadata":{"source":"a"},"type":"Document","score":0.5,"url":null}"#
            ),
            object(|o| o.page_content = Some("t".into()))
        );
        let fields = DocumentFields {
            title: Some("T".into()),
            snippet: Some("t".into()),
            ..DocumentFields::default()
        };
        assert_eq!(
            read(r#"{"data":{"title":"T","snippet":"t","url":"u"}}"#),
            object(|o| o.data = Some(fields.into()))
        );
        assert_eq!(
            read(r#"{"data":"t"}"#),
            object(|o| o.data = Some("t".to_owned().into()))
        );
    }

    #[test]
    fn a_number_as_id_is_read_as_its_digits() {
        for (json, id) in [
            (r#"{"id":7}"#, "7"),
            (r#"{"id":-7}"#, "-7"),
            (r#"{"id":18446744073709551615}"#, "18446744073709551615"),
            (r#"{"id":"7"}"#, "7"),
        ] {
            assert_eq!(read(json), object(|o| o.id = Some(id.to_owned())));
        }
        for bad in [r#"{"id":1.5}"#, r#"{"id":true}"#, r#"{"id":[7]}"#] {
            assert!(serde_json::from_str::<DocumentParam>(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn keys_that_a_document_does_not_have_are_refused() {
        for bad in [r#"{"text":"t","titel":"T"}"#, r#"{"txt":"t"}"#] {
            let error = serde_json::from_str::<DocumentParam>(bad)
                .expect_err(bad)
                .to_string();
            assert!(error.contains("unknown field `t"), "{error}");
        }
    }

    #[test]
    fn other_json_types_are_refused_with_what_was_expected() {
        for bad in ["1", "null", "[]", "true"] {
            let error = serde_json::from_str::<DocumentParam>(bad)
                .expect_err(bad)
                .to_string();
            assert!(error.contains("a string or an object"), "{bad}: {error}");
        }
    }
}
