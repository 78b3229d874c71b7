//! The tools that a request offers.

use medley_chat::Dialect;
use medley_openai::ChatRequest;
use serde_json::Value;

use crate::error::ApiError;

/// Tools that are offered and may be called.
#[derive(Default)]
pub(super) struct Offered {
    pub(super) tools: Vec<Value>,
    pub(super) choice: Option<Value>,
}

/// The tools of a request; none if it forbids to call them.
pub(super) fn offered(request: &mut ChatRequest, dialect: &Dialect) -> Result<Offered, ApiError> {
    let tools = request.tools.take().unwrap_or_default();
    tools
        .iter()
        .enumerate()
        .try_for_each(|(index, tool)| check(index, tool))?;
    let choice = request.tool_choice.take();
    let calls = match choice.as_ref().map(Value::as_str) {
        None | Some(Some("auto")) => true,
        Some(Some("none")) => false,
        Some(_) => {
            let message =
                "this server lets the model choose: omit `tool_choice`, or send \"auto\" or \"none\"";
            return Err(ApiError::unsupported("tool_choice", message));
        }
    };
    if tools.is_empty() || !calls {
        return Ok(Offered::default());
    }
    if !dialect.takes_tools() {
        let message =
            "the model's chat template has no place for tools: omit them or send `tool_choice: \"none\"`";
        return Err(ApiError::unsupported("tools", message));
    }
    if dialect.tool_format().is_none() {
        let message = "it is not known how this model writes tool calls: have the server started with \
                       `--tool-call-parser`";
        return Err(ApiError::unsupported("tools", message));
    }
    Ok(Offered { tools, choice })
}

fn check(index: usize, tool: &Value) -> Result<(), ApiError> {
    let function = &tool["function"];
    if tool["type"] != "function" {
        let message = "a tool is an object with `type: \"function\"` and `function`";
        return Err(ApiError::invalid(format!("tools[{index}].type"), message));
    }
    if function["name"].as_str().is_none_or(str::is_empty) {
        let message = "a function needs a `name`";
        return Err(ApiError::invalid(
            format!("tools[{index}].function.name"),
            message,
        ));
    }
    match function.get("parameters") {
        None | Some(Value::Null | Value::Object(_)) => Ok(()),
        Some(_) => {
            let path = format!("tools[{index}].function.parameters");
            Err(ApiError::invalid(
                path,
                "a function's parameters are a JSON schema",
            ))
        }
    }
}
