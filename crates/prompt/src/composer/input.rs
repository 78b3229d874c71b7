//! A request's texts and documents as the composer takes them.

/// A prompt as the client sent it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PromptInput {
    /// Text; the spelling of a control token is that token.
    Text(String),
    /// Token ids, taken as they are.
    Tokens(Vec<u32>),
}

/// A document's content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// Text; the spelling of a control token is plain text.
    Text(String),
    /// Token ids, taken as they are.
    Tokens(Vec<u32>),
}

/// A document of a request, references to stored documents resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentInput {
    /// The client's own name for it.
    pub id: Option<String>,
    /// Stands in front of the text. Empty equals absent.
    pub title: Option<String>,
    /// The content.
    pub body: Body,
    /// Text that the document is computed behind in place of the configured anchor; no part of the prompt.
    pub context: Option<String>,
}

impl DocumentInput {
    /// Bytes of text that have to be tokenised.
    pub(super) fn bytes(&self) -> usize {
        let body = match &self.body {
            Body::Text(text) => text.len(),
            Body::Tokens(_) => 0,
        };
        body + self.context.as_ref().map_or(0, String::len)
    }
}

/// What a completion request's prompt is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompletionInput {
    /// What the model continues.
    pub prompt: PromptInput,
    /// Stands in front of the documents. Empty equals absent.
    pub instructions: Option<String>,
    /// The documents, in the order of the prompt. Empty equals absent.
    pub documents: Option<Vec<DocumentInput>>,
    /// Whether a text prompt without documents gets BOS, if the model expects it.
    pub add_special_tokens: bool,
}

/// A part of a prompt that a chat template has put together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartInput {
    /// A control token, by its spelling.
    Control(String),
    /// Text; the spelling of a control token is plain text.
    Text(String),
    /// The document of this number.
    Document(usize),
}

/// What a chat request's prompt is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartsInput {
    /// The whole prompt.
    pub parts: Vec<PartInput>,
    /// The prompt when the text that follows its last documents was to be answered, if that was before the end.
    pub when_asked: Option<Vec<PartInput>>,
    /// The documents by number.
    pub documents: Vec<DocumentInput>,
}
