//! A message of a conversation.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::ContentParam;
use crate::object;

/// A message. Unknown fields are ignored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChatMessage {
    /// Who speaks.
    pub role: RoleParam,
    /// What is said; only an assistant may call tools instead.
    pub content: Option<ContentParam>,
    /// Who it is by name, for templates that show it.
    pub name: Option<String>,
    /// What an assistant thought before.
    pub reasoning_content: Option<String>,
    /// The tools that an assistant called.
    #[serde(default, deserialize_with = "object::optional_list")]
    pub tool_calls: Option<Vec<ToolCallParam>>,
    /// Which call a tool answers.
    pub tool_call_id: Option<String>,
}

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum RoleParam {
    /// Who sets the rules.
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

/// A call of a tool in an earlier message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ToolCallParam {
    /// Its id.
    pub id: Option<String>,
    /// `function`
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// What was called.
    #[serde(deserialize_with = "object::required")]
    pub function: FunctionCallParam,
}

/// What was called.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FunctionCallParam {
    /// The tool's name.
    pub name: String,
    /// Its arguments as JSON.
    pub arguments: Option<String>,
}
