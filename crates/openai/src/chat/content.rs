//! What a message says: text, or parts of which some are documents.
//!
//! A part is one flat object, whatever its type: so an error names the field at fault, and which fields a type has is
//! the server's to check.

use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use crate::{object, string_or_list::string_or_list, string_or_map::string_or_map};

/// The content of a message: a text or a list of parts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(untagged)]
pub enum ContentParam {
    /// A text.
    Text(String),
    /// Parts, each on lines of its own.
    Parts(Vec<ContentPart>),
}

/// A part of a message: `text`, `refusal`, or a document as `document` or `search_result`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ContentPart {
    /// `text`, `refusal`, `document` or `search_result`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Of `text`.
    pub text: Option<String>,
    /// Of `refusal`.
    pub refusal: Option<String>,
    /// Of `document` its content, of `search_result` where it comes from.
    pub source: Option<ContentSource>,
    /// Title of a document, rendered in front of the text.
    pub title: Option<String>,
    /// Of `document`: text that it is computed behind. It is no part of the prompt.
    pub context: Option<String>,
    /// Of `search_result`.
    pub content: Option<TextBlocks>,
    /// Makes a document of `text`.
    #[serde(default, deserialize_with = "object::optional")]
    pub medley: Option<MedleyPart>,
}

/// What makes a document of a text part.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MedleyPart {
    /// Whether the part is a document.
    pub document: Option<bool>,
    /// The client's own name for it, returned in the report.
    pub id: Option<String>,
    /// Title, rendered in front of the text.
    pub title: Option<String>,
    /// Text that the document is computed behind. It is no part of the prompt.
    pub context: Option<String>,
}

/// Where a part's content is or comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(untagged)]
pub enum ContentSource {
    /// An address.
    Address(String),
    /// The content itself.
    Object(ContentSourceObject),
}

/// A document's content: `text` has `data`, `content` has `content`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ContentSourceObject {
    /// `text` or `content`.
    #[serde(rename = "type")]
    pub kind: String,
    /// `text/plain`.
    pub media_type: Option<String>,
    /// The text.
    pub data: Option<String>,
    /// The text as blocks.
    pub content: Option<TextBlocks>,
}

/// A text, or the parts that it is made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(untagged)]
pub enum TextBlocks {
    /// A text.
    Text(String),
    /// Parts of type `text`.
    #[schema(no_recursion)]
    Parts(Vec<ContentPart>),
}

impl From<String> for ContentParam {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<Vec<ContentPart>> for ContentParam {
    fn from(parts: Vec<ContentPart>) -> Self {
        Self::Parts(parts)
    }
}

impl<'de> Deserialize<'de> for ContentParam {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        string_or_list::<_, _, ContentPart>(deserializer, "content: a string or a list of parts")
    }
}

impl From<String> for TextBlocks {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<Vec<ContentPart>> for TextBlocks {
    fn from(parts: Vec<ContentPart>) -> Self {
        Self::Parts(parts)
    }
}

impl<'de> Deserialize<'de> for TextBlocks {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        string_or_list::<_, _, ContentPart>(deserializer, "a string or a list of text parts")
    }
}

impl From<String> for ContentSource {
    fn from(address: String) -> Self {
        Self::Address(address)
    }
}

impl From<ContentSourceObject> for ContentSource {
    fn from(object: ContentSourceObject) -> Self {
        Self::Object(object)
    }
}

impl<'de> Deserialize<'de> for ContentSource {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        string_or_map::<_, _, ContentSourceObject>(deserializer, "a source: a string or an object")
    }
}
