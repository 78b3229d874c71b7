//! The conversation of a request, as templates take it.

use medley_chat::{Conversation, Dialect, Ending, Message, Role};
use medley_openai::{ChatMessage, ChatRequest, RoleParam, ToolCallParam};
use medley_prompt::DocumentInput;
use serde_json::{Map, Value, json};

use super::{super::documents, content, tools};
use crate::error::ApiError;

/// The conversation and its documents, those of the whole request first.
pub(super) fn conversation(
    mut request: ChatRequest,
    dialect: &Dialect,
    most_documents: usize,
) -> Result<(Conversation, Vec<DocumentInput>), ApiError> {
    let ending = ending(&request)?;
    let offered = tools::offered(&mut request, dialect)?;
    let mut variables = request.chat_template_kwargs.unwrap_or_default();
    if let Some(effort) = request.reasoning_effort {
        variables
            .entry("reasoning_effort")
            .or_insert_with(|| effort.into());
    }
    let mut inputs = documents::inputs(request.documents.unwrap_or_default(), most_documents)?;
    let documents = inputs.len();
    let messages = request.messages.ok_or(ApiError::Missing("messages"))?;
    if messages.is_empty() {
        return Err(ApiError::invalid("messages", "a conversation needs a message"));
    }
    let numbered = messages.into_iter().enumerate();
    let messages = numbered.map(|(index, message)| self::message(index, message, &mut inputs));
    let messages = messages.collect::<Result<Vec<_>, _>>()?;
    if inputs.len() > most_documents {
        let message = format!(
            "a request may carry {most_documents} documents, not {}",
            inputs.len()
        );
        return Err(ApiError::invalid("messages", message));
    }
    let conversation = Conversation {
        messages,
        documents,
        tools: offered.tools,
        tool_choice: offered.choice,
        variables,
        ending,
    };
    Ok((conversation, inputs))
}

fn ending(request: &ChatRequest) -> Result<Ending, ApiError> {
    let continues = request.continue_final_message == Some(true);
    match (continues, request.add_generation_prompt) {
        (true, Some(true)) => Err(ApiError::invalid(
            "continue_final_message",
            "a message that is continued can't be answered too: send `add_generation_prompt: false`",
        )),
        (true, _) => Ok(Ending::Inside),
        (false, Some(false)) => Ok(Ending::Message),
        (false, _) => Ok(Ending::Answer),
    }
}

fn message(
    index: usize,
    message: ChatMessage,
    documents: &mut Vec<DocumentInput>,
) -> Result<Message, ApiError> {
    let path = format!("messages[{index}].content");
    let content = match message.content {
        Some(content) => content::pieces(&path, content, documents)?,
        None if message.role == RoleParam::Assistant => Vec::new(),
        None => return Err(ApiError::invalid(path, "a message needs `content`")),
    };
    let mut fields = Map::new();
    let texts = [
        ("name", message.name),
        ("reasoning_content", message.reasoning_content),
        ("tool_call_id", message.tool_call_id),
    ];
    for (name, text) in texts {
        fields.extend(text.map(|text| (name.to_owned(), text.into())));
    }
    if let Some(calls) = message.tool_calls.filter(|calls| !calls.is_empty()) {
        fields.insert(
            "tool_calls".to_owned(),
            calls.into_iter().map(tool_call).collect(),
        );
    }
    Ok(Message {
        role: role(message.role),
        content,
        fields,
    })
}

fn role(param: RoleParam) -> Role {
    match param {
        RoleParam::System => Role::System,
        RoleParam::Developer => Role::Developer,
        RoleParam::User => Role::User,
        RoleParam::Assistant => Role::Assistant,
        RoleParam::Tool => Role::Tool,
    }
}

/// Templates take arguments as an object. What is none, as a model may have written it, stays the text that it is.
fn tool_call(call: ToolCallParam) -> Value {
    let arguments = call.function.arguments.unwrap_or_default();
    let object = serde_json::from_str::<Map<String, Value>>(&arguments).map(Value::Object);
    let arguments = match object {
        Ok(object) => object,
        Err(_) if arguments.trim().is_empty() => json!({}),
        Err(_) => arguments.into(),
    };
    json!({
        "id": call.id,
        "type": "function",
        "function": {"name": call.function.name, "arguments": arguments},
    })
}
