//! Documents in a request, in every accepted shape.

use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use crate::string_or_map::string_or_map;

/// A document: its bare text, or an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(untagged)]
pub enum DocumentParam {
    /// The text.
    Text(String),
    /// An object that holds the text, its tokens or a reference.
    Object(DocumentObject),
}

/// A document as an object. It holds one of `text`, `data` and `token_ids`, or only an `id` that begins with `doc_`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DocumentObject {
    /// The client's own name for it, returned in the report; alone and beginning with `doc_`, a reference.
    pub id: Option<String>,
    /// Title, rendered in front of the text.
    pub title: Option<String>,
    /// The text. `snippet` and `content` are read as `text` too.
    #[serde(alias = "snippet", alias = "content")]
    pub text: Option<String>,
    /// The text in Cohere's shape.
    pub data: Option<DocumentData>,
    /// The document's tokens, used as they are.
    pub token_ids: Option<Vec<u32>>,
    /// Text that the document is computed behind (its section, its neighbours). It is no part of the prompt.
    pub context: Option<String>,
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

/// Title and text in Cohere's shape.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DocumentFields {
    /// Title, rendered in front of the text.
    pub title: Option<String>,
    /// The text. `text` and `content` are read as `snippet` too.
    #[serde(alias = "text", alias = "content")]
    pub snippet: Option<String>,
}

impl From<String> for DocumentParam {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<DocumentObject> for DocumentParam {
    fn from(object: DocumentObject) -> Self {
        Self::Object(object)
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
        for name in ["text", "snippet", "content"] {
            assert_eq!(
                read(&format!(r#"{{"{name}":"t"}}"#)),
                object(|o| o.text = Some("t".into()))
            );
            let fields = DocumentFields {
                title: Some("T".into()),
                snippet: Some("t".into()),
            };
            let nested = format!(r#"{{"data":{{"title":"T","{name}":"t"}}}}"#);
            assert_eq!(read(&nested), object(|o| o.data = Some(fields.into())));
        }
        assert_eq!(
            read(r#"{"data":"t"}"#),
            object(|o| o.data = Some("t".to_owned().into()))
        );
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
