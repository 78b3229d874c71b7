//! How the model chats, where its own files do not say it.

use medley_chat::ToolFormat;

use super::{Asked, asked};
use crate::settings::{Layers, Misconfigured};

/// What is given in place of what the model says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chat {
    /// Source of the template.
    pub template: Option<Asked<String>>,
    /// The format of tool calls.
    pub tools: Option<ToolFormat>,
}

impl Chat {
    pub(super) fn new(layers: &Layers) -> Result<Self, Misconfigured> {
        let template = layers.optional("chat-template", |path| {
            std::fs::read_to_string(path).map_err(|e| format!("is not a file that can be read: {e}"))
        })?;
        Ok(Self {
            template: asked(layers, "chat-template", template),
            tools: layers.required("tool-call-parser", tool_format)?,
        })
    }
}

fn tool_format(text: &str) -> Result<Option<ToolFormat>, &'static str> {
    match text {
        "auto" => Ok(None),
        name => name
            .parse()
            .map(Some)
            .map_err(|_| "is none of auto, hermes, llama3_json, mistral"),
    }
}
