//! A conversation as a template takes it.

use serde_json::{Map, Value};

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Who sets the rules. A developer's message is `system` to templates that do not know developers.
    System,
    /// The same, as newer clients call it.
    Developer,
    /// Who asks.
    User,
    /// The model.
    Assistant,
    /// What a called tool returned.
    Tool,
}

impl Role {
    /// The name in messages and templates.
    pub fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Developer => "developer",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
        }
    }
}

/// A piece of a message's content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Text.
    Text(String),
    /// The document of this number.
    Document(usize),
}

/// A message.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// What is said. Pieces stand on lines of their own; a document brings its blank line.
    pub content: Vec<Piece>,
    /// What else templates may look at: `name`, `tool_calls`, `tool_call_id`, `reasoning_content`.
    pub fields: Map<String, Value>,
}

/// How a rendered conversation ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// With what the model's answer begins behind.
    Answer,
    /// With the last message.
    Message,
    /// Inside the last message, which the model continues.
    Inside,
}

/// A conversation and all that a template is told.
#[derive(Clone, Debug, PartialEq)]
pub struct Conversation {
    /// The messages in order.
    pub messages: Vec<Message>,
    /// Documents of the whole conversation: those of the numbers below this. They stand where the template puts
    /// documents, else before the last user message's text. Documents in messages have the numbers from this on.
    pub documents: usize,
    /// Descriptions of tools.
    pub tools: Vec<Value>,
    /// Which tools may be called.
    pub tool_choice: Option<Value>,
    /// Variables of this template.
    pub variables: Map<String, Value>,
    /// How it ends.
    pub ending: Ending,
}

impl Conversation {
    /// Place of the last message of a user.
    pub(crate) fn last_user(&self) -> Option<usize> {
        self.messages
            .iter()
            .rposition(|message| message.role == Role::User)
    }

    /// Documents of the whole conversation and of its messages.
    pub(crate) fn all_documents(&self) -> usize {
        let pieces = self.messages.iter().flat_map(|message| &message.content);
        let numbers = pieces.filter_map(|piece| match piece {
            Piece::Document(number) => Some(number + 1),
            Piece::Text(_) => None,
        });
        numbers.fold(self.documents, usize::max)
    }

    /// The conversation when the text that follows its last documents was to be answered, if that was before the end.
    pub(crate) fn when_asked(&self) -> Option<Self> {
        let own = self.messages.iter().rposition(|message| {
            message
                .content
                .iter()
                .any(|piece| matches!(piece, Piece::Document(_)))
        });
        let shared = self.last_user().filter(|_| self.documents > 0);
        let asking = own.max(shared)?;
        let behind = &self.messages[asking + 1..];
        let answer = behind
            .iter()
            .position(|message| message.role == Role::Assistant)?;
        Some(Self {
            messages: self.messages[..=asking + answer].to_vec(),
            ending: Ending::Answer,
            ..self.clone()
        })
    }
}
