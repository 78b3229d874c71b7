//! The formats in which models write tool calls.

use std::str::FromStr;

use super::{hermes, llama3_json, mistral};

/// A format of tool calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolFormat {
    /// JSON between `<tool_call>` and `</tool_call>`: Hermes, Qwen.
    Hermes,
    /// The whole reply is JSON: Llama 3.
    Llama3Json,
    /// JSON behind `[TOOL_CALLS]`: Mistral.
    Mistral,
}

/// A name of no format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is none of hermes, llama3_json, mistral")]
pub struct UnknownFormat;

impl ToolFormat {
    /// The format that a template writes calls in, if it is one of these.
    pub fn of_template(source: &str) -> Option<Self> {
        let has = |mark: &str| source.contains(mark);
        match () {
            () if has(mistral::BEGIN) => Some(Self::Mistral),
            () if has(hermes::BEGIN) => Some(Self::Hermes),
            () if has("tools") && (has(llama3_json::TAG) || has("\"parameters\"")) => Some(Self::Llama3Json),
            () => None,
        }
    }

    /// What may be a control token in replies.
    pub(super) fn marks(self) -> &'static [&'static str] {
        match self {
            Self::Hermes => &[hermes::BEGIN, hermes::END],
            Self::Llama3Json => &[llama3_json::TAG],
            Self::Mistral => &[mistral::BEGIN, mistral::ARGUMENTS, mistral::CALL_ID],
        }
    }
}

impl FromStr for ToolFormat {
    type Err = UnknownFormat;

    fn from_str(name: &str) -> Result<Self, UnknownFormat> {
        match name {
            "hermes" => Ok(Self::Hermes),
            "llama3_json" => Ok(Self::Llama3Json),
            "mistral" => Ok(Self::Mistral),
            _ => Err(UnknownFormat),
        }
    }
}
