//! What is wrong with a chat request, and where.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::{
    fake::Fake,
    setup::{chat, dialect, engine, server, server_of},
};

/// Each change of a good request with the code and the parameter that it is refused for.
async fn check(cases: &[(Value, &str, &str)]) {
    let server = server(&Fake::says(&["x"]));
    for (change, code, param) in cases {
        let mut body = json!({"messages": [{"role": "user", "content": "Hi"}]});
        for (name, value) in change.as_object().expect("an object") {
            body[name] = value.clone();
        }
        let reply = chat(&server, body).await;
        let param = Some(*param).filter(|param| !param.is_empty());
        let message = reply.is_error(400, code, param);
        assert!(!message.contains("prompt["), "{message}");
    }
}

fn content(part: Value) -> Value {
    json!({"messages": [{"role": "user", "content": [part]}]})
}

#[tokio::test]
async fn messages_of_the_wrong_shape_are_located() {
    check(&[
        (
            json!({"messages": null}),
            "missing_required_parameter",
            "messages",
        ),
        (json!({"messages": []}), "invalid_value", "messages"),
        (json!({"messages": "Hi"}), "invalid_type", "messages"),
        (
            json!({"messages": [["user", "Hi"]]}),
            "invalid_type",
            "messages[0]",
        ),
        (
            json!({"messages": [{"role": "judge", "content": "Hi"}]}),
            "invalid_value",
            "messages[0].role",
        ),
        (
            json!({"messages": [{"role": "user", "content": 7}]}),
            "invalid_type",
            "messages[0].content",
        ),
        (
            json!({"messages": [{"role": "user"}]}),
            "invalid_value",
            "messages[0].content",
        ),
        (
            json!({"messages": [{"role": "user", "content": ["a"]}]}),
            "invalid_type",
            "messages[0].content[0]",
        ),
        (
            content(json!({"type": "image_url"})),
            "invalid_value",
            "messages[0].content[0].type",
        ),
        (
            content(json!({"type": "text"})),
            "invalid_value",
            "messages[0].content[0].text",
        ),
        (
            content(json!({"type": "document"})),
            "invalid_value",
            "messages[0].content[0].source",
        ),
        (
            content(json!({"type": "document", "source": {"type": "base64", "data": "x"}})),
            "invalid_value",
            "messages[0].content[0].source.type",
        ),
        (
            content(json!({"type": "search_result"})),
            "invalid_value",
            "messages[0].content[0].content",
        ),
        (
            content(json!({"type": "text", "text": "a", "medley": {"documents": true}})),
            "unknown_parameter",
            "messages[0].content[0].medley.documents",
        ),
    ])
    .await;
}

#[tokio::test]
async fn values_that_chat_has_not_are_refused() {
    check(&[
        (
            json!({"instructions": "a"}),
            "unsupported_parameter",
            "instructions",
        ),
        (json!({"echo": true}), "unsupported_parameter", "echo"),
        (
            json!({"chat_template": "a"}),
            "unsupported_parameter",
            "chat_template",
        ),
        (json!({"functions": []}), "unsupported_parameter", "functions"),
        (
            json!({"function_call": {"name": "a"}}),
            "unsupported_parameter",
            "function_call",
        ),
        (
            json!({"modalities": ["text", "audio"]}),
            "unsupported_parameter",
            "modalities",
        ),
        (json!({"max_tokens": 0}), "invalid_value", "max_tokens"),
        (
            json!({"max_tokens": 1, "max_completion_tokens": 2}),
            "invalid_value",
            "max_tokens",
        ),
        (
            json!({"max_completion_tokens": 0}),
            "invalid_value",
            "max_completion_tokens",
        ),
        (json!({"top_logprobs": 3}), "invalid_value", "top_logprobs"),
        (
            json!({"logprobs": true, "top_logprobs": 21}),
            "invalid_value",
            "top_logprobs",
        ),
        (json!({"logprobs": 3}), "invalid_type", "logprobs"),
        (json!({"temperature": 3}), "invalid_value", "temperature"),
        (json!({"stream_options": {}}), "invalid_value", "stream_options"),
        (json!({"n": 0}), "invalid_value", "n"),
        (
            json!({"guided_regex": "a"}),
            "unsupported_parameter",
            "guided_regex",
        ),
        (
            json!({"chat_template_kwargs": {"messages": []}}),
            "invalid_value",
            "chat_template_kwargs.messages",
        ),
        (
            json!({"continue_final_message": true, "add_generation_prompt": true}),
            "invalid_value",
            "continue_final_message",
        ),
    ])
    .await;
}

#[tokio::test]
async fn tools_of_the_wrong_shape_are_located() {
    let tool = json!({"type": "function", "function": {"name": "a"}});
    check(&[
        (
            json!({"tools": [{"type": "custom"}]}),
            "invalid_value",
            "tools[0].type",
        ),
        (
            json!({"tools": [tool, {"type": "function"}]}),
            "invalid_value",
            "tools[1].function.name",
        ),
        (
            json!({"tools": [{"type": "function", "function": {"name": "a", "parameters": []}}]}),
            "invalid_value",
            "tools[0].function.parameters",
        ),
        (
            json!({"tools": [tool], "tool_choice": "required"}),
            "unsupported_parameter",
            "tool_choice",
        ),
        (
            json!({"tools": [tool], "tool_choice": {"type": "function"}}),
            "unsupported_parameter",
            "tool_choice",
        ),
    ])
    .await;
}

#[tokio::test]
async fn prompts_that_do_not_fit_are_the_messages_fault() {
    let long = json!({"messages": [{"role": "user", "content": "a".repeat(300)}]});
    let just = json!({"messages": [{"role": "user", "content": "a".repeat(183)}]});
    check(&[
        (long, "context_length_exceeded", "messages"),
        (just, "context_length_exceeded", "messages"),
    ])
    .await;
}

#[tokio::test]
async fn what_the_template_says_is_told() {
    let server = server(&Fake::says(&["x"]));
    let reply = chat(
        &server,
        json!({"messages": [{"role": "user", "content": "refuse"}]}),
    )
    .await;
    let message = reply.is_error(400, "invalid_value", Some("messages"));
    assert!(message.ends_with("no, <|bos|>"), "{message}");
}

#[tokio::test]
async fn documents_need_a_user_and_a_template_that_shows_them() {
    check(&[(
        json!({"messages": [{"role": "system", "content": "a"}], "documents": ["d"]}),
        "invalid_value",
        "documents",
    )])
    .await;
    let fake = Fake::says(&["x"]);
    let mut engine = engine(&fake);
    engine.chat = Some(Arc::new(dialect("always the same")));
    let body = json!({"messages": [{"role": "user", "content": "a"}], "documents": ["d"]});
    chat(&server_of(engine), body)
        .await
        .is_error(400, "invalid_value", Some("documents"));
}

#[tokio::test]
async fn a_model_without_a_template_does_not_chat() {
    let mut engine = engine(&Fake::says(&["x"]));
    engine.chat = None;
    let reply = chat(
        &server_of(engine),
        json!({"messages": [{"role": "user", "content": "a"}]}),
    )
    .await;
    let message = reply.is_error(400, "no_chat_template", None);
    assert!(message.contains("--chat-template"), "{message}");
}

#[tokio::test]
async fn a_template_without_tools_takes_none() {
    let mut engine = engine(&Fake::says(&["x"]));
    engine.chat = Some(Arc::new(dialect("{{ messages[0].content }}")));
    let tool = json!({"type": "function", "function": {"name": "a"}});
    let messages = json!([{"role": "user", "content": "a"}]);
    let reply = chat(&server_of(engine), json!({"messages": messages, "tools": [tool]})).await;
    reply.is_error(400, "unsupported_parameter", Some("tools"));
}
