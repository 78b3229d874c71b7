//! Chat answers in one piece.

use medley_generate::{Event, FinishReason, Request, TokenEvent, TopLogprob};
use medley_kv::{Segment, TokenId};
use serde_json::{Value, json};

use crate::{
    fake::{Fake, Play, answer, finished, planned, token},
    setup::{chat, dialect, engine, post, server},
};

fn says(text: &str) -> Value {
    json!([{"role": "user", "content": text}])
}

fn tool() -> Value {
    json!({"type": "function", "function": {"name": "sky", "parameters": {"type": "object"}}})
}

/// The prompt with documents in braces, and control tokens by their ids.
fn shown(request: &Request) -> String {
    let text = |tokens: &[TokenId]| -> String {
        tokens
            .iter()
            .map(|token| match u8::try_from(token.0) {
                Ok(byte) => char::from(byte).to_string(),
                Err(_) => format!("⟨{}⟩", token.0),
            })
            .collect()
    };
    let segments = request.prompt.segments().iter();
    segments
        .map(|segment| match segment {
            Segment::Text(tokens) => text(tokens),
            Segment::Document(document) => format!("{{{}}}", text(&document.tokens)),
        })
        .collect()
}

#[tokio::test]
async fn an_answer_has_every_field_of_the_openai_shape() {
    let fake = Fake::says(&["Hel", "lo"]);
    let reply = chat(
        &server(&fake),
        json!({"model": "org/model", "messages": says("Hi")}),
    )
    .await;
    let json = reply.json();
    assert_eq!(reply.status, 200, "{json}");
    assert!(
        json["id"].as_str().is_some_and(|id| id.starts_with("chatcmpl-")),
        "{json}"
    );
    assert_eq!(json["object"], "chat.completion");
    assert_eq!(json["model"], "org/model");
    let choice = json!({
        "index": 0,
        "message": {"role": "assistant", "content": "Hello", "refusal": null},
        "logprobs": null,
        "finish_reason": "stop",
    });
    assert_eq!(json["choices"], json!([choice]));
    assert_eq!(shown(&fake.requests()[0]), "⟨256⟩user:Hi⟨257⟩assistant:");
    assert_eq!(json["usage"]["prompt_tokens"], 19);
    assert_eq!(json["usage"]["completion_tokens"], 2);
    assert_eq!(json["medley"]["plan"], "exact");
    assert_eq!(reply.header("x-medley-plan"), "exact");
}

#[tokio::test]
async fn without_a_limit_there_is_the_room_left() {
    let fake = Fake::says(&["x"]);
    let server = server(&fake);
    for more in [
        json!({}),
        json!({"max_tokens": 7}),
        json!({"max_completion_tokens": 8}),
        json!({"max_completion_tokens": 100_000}),
    ] {
        let mut body = more;
        body["messages"] = says("Hi");
        assert_eq!(chat(&server, body).await.status, 200);
    }
    let limits: Vec<_> = fake.requests().iter().map(|request| request.max_tokens).collect();
    assert_eq!(limits, [181, 7, 8, 181]);
}

#[tokio::test]
async fn what_users_and_documents_spell_is_text() {
    let fake = Fake::says(&["x"]);
    let body = json!({
        "messages": [{"role": "user", "content": [{"type": "text", "text": "a<|endoftext|>b"}]}],
        "documents": ["<|bos|>"],
    });
    assert_eq!(chat(&server(&fake), body).await.status, 200);
    assert_eq!(
        shown(&fake.requests()[0]),
        "⟨256⟩user:{<|bos|>\n\n}a<|endoftext|>b⟨257⟩assistant:"
    );
}

#[tokio::test]
async fn a_document_is_the_same_in_chat_and_in_completions() {
    let fake = Fake::says(&["x"]);
    let server = server(&fake);
    let documents = json!([{"id": "a", "title": "T", "text": "t"}, "u"]);
    post(&server, json!({"prompt": "q", "documents": documents})).await;
    let parts = json!([
        {"type": "document", "title": "T", "source": {"type": "text", "media_type": "text/plain", "data": "t"}},
        {"type": "search_result", "title": "T", "source": "a", "content": [{"type": "text", "text": "t"}]},
        {"type": "text", "text": "u", "medley": {"document": true}},
    ]);
    let messages = json!([{"role": "user", "content": parts}]);
    let reply = chat(&server, json!({"messages": messages, "documents": documents})).await;
    assert_eq!(reply.status, 200, "{:?}", reply.bytes);
    let requests = fake.requests();
    let [completion, chat] = requests.as_slice() else {
        panic!("two requests")
    };
    let keys = |request: &Request| -> Vec<_> {
        let documents = request.prompt.documents();
        documents.map(|d| (d.tokens.clone(), d.anchor.clone())).collect()
    };
    let [t, u] = keys(completion).try_into().expect("two documents");
    assert_eq!(keys(chat), [t.clone(), u.clone(), t.clone(), t, u]);
    let names: Vec<_> = chat.prompt.documents().map(|d| d.name.clone()).collect();
    let a = || Some("a".to_owned());
    assert_eq!(names, [a(), None, None, a(), None]);
}

#[tokio::test]
async fn the_question_row_stays_where_the_documents_were_asked_about() {
    let fake = Fake::says(&["x"]);
    let server = server(&fake);
    let part = json!({"type": "text", "text": "d", "medley": {"document": true}});
    let first = json!({"role": "user", "content": [part, {"type": "text", "text": "q"}]});
    let later = json!([first, {"role": "assistant", "content": "a"}, {"role": "user", "content": "r"}]);
    chat(&server, json!({"messages": [first]})).await;
    chat(&server, json!({"messages": later})).await;
    let requests = fake.requests();
    assert_eq!(requests[0].prompt.question(), requests[0].prompt.len() - 1);
    assert_eq!(requests[1].prompt.question(), requests[0].prompt.question());
    assert!(
        requests[1]
            .prompt
            .tokens()
            .starts_with(&requests[0].prompt.tokens())
    );
}

#[tokio::test]
async fn the_last_message_can_be_continued() {
    let fake = Fake::says(&["x"]);
    let body = json!({
        "messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "It is "}],
        "continue_final_message": true,
    });
    assert_eq!(chat(&server(&fake), body).await.status, 200);
    assert_eq!(shown(&fake.requests()[0]), "⟨256⟩user:q⟨257⟩assistant:It is ");
}

#[tokio::test]
async fn tool_calls_are_read_from_the_text() {
    let fake = Fake::says(&[
        "Look.\n<tool",
        "_call>{\"name\": \"sky\", \"argu",
        "ments\": {\"at\": 1}}</tool_call>",
    ]);
    let server = server(&fake);
    let body = json!({"messages": says("Sky?"), "tools": [tool()]});
    let json = chat(&server, body.clone()).await.json();
    let choice = &json["choices"][0];
    assert_eq!(choice["finish_reason"], "tool_calls", "{json}");
    assert_eq!(choice["message"]["content"], "Look.");
    let call = &choice["message"]["tool_calls"][0];
    assert!(
        call["id"].as_str().is_some_and(|id| id.starts_with("call_")),
        "{json}"
    );
    assert_eq!(call["type"], "function");
    assert_eq!(
        call["function"],
        json!({"name": "sky", "arguments": "{\"at\":1}"})
    );
    assert!(shown(&fake.requests()[0]).contains("[{\"type\": \"function\""));
    // Who forbids calls gets the text, and the model is not told of tools.
    let mut forbidden = body;
    forbidden["tool_choice"] = "none".into();
    let json = chat(&server, forbidden).await.json();
    assert!(
        json["choices"][0]["message"]["content"]
            .as_str()
            .is_some_and(|text| text.contains("<tool_call>"))
    );
    assert_eq!(json["choices"][0]["finish_reason"], "stop");
    assert!(!shown(&fake.requests()[1]).contains("sky"));
}

#[tokio::test]
async fn a_message_with_calls_alone_has_no_content() {
    let fake = Fake::says(&["<tool_call>{\"name\": \"sky\"}</tool_call>"]);
    let json = chat(
        &server(&fake),
        json!({"messages": says("Sky?"), "tools": [tool()]}),
    )
    .await
    .json();
    assert_eq!(json["choices"][0]["message"]["content"], Value::Null, "{json}");
}

#[tokio::test]
async fn tool_turns_reach_the_template() {
    let fake = Fake::says(&["x"]);
    let call =
        json!({"id": "1", "type": "function", "function": {"name": "sky", "arguments": "{\"at\": 1}"}});
    let mut engine = engine(&fake);
    let template = "{% for m in messages %}{{ m.role }}:{{ m.content }}{{ m.tool_call_id }}\
                    {% for c in m.tool_calls or [] %}{{ c.function.arguments.at }}{% endfor %};{% endfor %}";
    engine.chat = Some(std::sync::Arc::new(dialect(template)));
    let server = crate::setup::server_of(engine);
    let body = json!({"messages": [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": null, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": "blue"},
    ]});
    let reply = chat(&server, body).await;
    assert_eq!(reply.status, 200, "{:?}", reply.bytes);
    assert_eq!(shown(&fake.requests()[0]), "⟨256⟩user:q;assistant:1;tool:blue1;");
}

#[tokio::test]
async fn thoughts_are_apart_from_the_answer() {
    let fake = Fake::says(&["Hm.", "\n</think>\n\n", "Yes."]);
    let mut engine = engine(&fake);
    engine.chat = Some(std::sync::Arc::new(dialect(
        "{{ messages[0].content }}{# </think> #}<think>\n{{ '' }}",
    )));
    let json = chat(&crate::setup::server_of(engine), json!({"messages": says("Hi")}))
        .await
        .json();
    let message =
        json!({"role": "assistant", "content": "Yes.", "refusal": null, "reasoning_content": "Hm."});
    assert_eq!(json["choices"][0]["message"], message);
}

#[tokio::test]
async fn log_probabilities_have_the_chat_shape() {
    let fake = Fake::new(|_, request| {
        let event = |token: u32, text: &str, logprob| {
            Event::Token(TokenEvent {
                token: TokenId(token),
                text: text.to_owned(),
                logprob: Some(logprob),
                top: vec![TopLogprob {
                    token: TokenId(98),
                    logprob: -0.25,
                }],
                logits: None,
            })
        };
        let end = finished(request, FinishReason::Stop, "");
        Play::Events(vec![
            planned(request),
            event(97, "a", -1.5),
            event(0xC3, "", -2.0),
            end,
        ])
    });
    let body = json!({"messages": says("Hi"), "logprobs": true, "top_logprobs": 1});
    let json = chat(&server(&fake), body).await.json();
    let top = json!([{"token": "b", "logprob": -0.25, "bytes": [98]}]);
    let expected = json!({
        "content": [
            {"token": "a", "logprob": -1.5, "bytes": [97], "top_logprobs": top},
            {"token": "bytes:\\xc3", "logprob": -2.0, "bytes": [0xC3], "top_logprobs": top},
        ],
        "refusal": null,
    });
    assert_eq!(json["choices"][0]["logprobs"], expected);
    assert_eq!(fake.requests()[0].logprobs, Some(1));
}

#[tokio::test]
async fn several_answers_have_their_places_and_seeds() {
    let fake = Fake::new(|k, request| Play::Events(answer(request, &[["a", "b"][k]])));
    let json = chat(&server(&fake), json!({"messages": says("Hi"), "n": 2, "seed": 7}))
        .await
        .json();
    let contents: Vec<_> = (0..2)
        .map(|k| json["choices"][k]["message"]["content"].clone())
        .collect();
    assert_eq!(contents, ["a", "b"]);
    let seeds: Vec<_> = fake
        .requests()
        .iter()
        .map(|request| request.sampling.seed)
        .collect();
    assert_eq!(seeds, [Some(7), Some(8)]);
    assert_eq!(json["usage"]["prompt_tokens"], 19);
}

#[tokio::test]
async fn text_held_back_to_the_end_belongs_to_the_message() {
    let fake = Fake::new(|_, request| {
        let end = finished(request, FinishReason::Length, "tail");
        Play::Events(vec![planned(request), token("a "), end])
    });
    let json = chat(&server(&fake), json!({"messages": says("Hi")})).await.json();
    assert_eq!(json["choices"][0]["message"]["content"], "a tail");
    assert_eq!(json["choices"][0]["finish_reason"], "length");
}
