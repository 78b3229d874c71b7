//! Chat over HTTP on the real model and its own template.

use serde_json::{Value, json};

use crate::harness::Server;

const MASON: &str = "The stone bridge of Arven was finished in 1611 by the mason Ilse Kerr. ";
const MILL: &str = "The mill below the bridge ground rye until the flood of 1744. ";

fn documents() -> [Value; 2] {
    [
        json!({"id": "bridge", "title": "The bridge", "text": MASON.repeat(8)}),
        json!({"id": "mill", "text": MILL.repeat(8)}),
    ]
}

fn asked(content: &str) -> Value {
    json!({"role": "user", "content": content})
}

fn sources(answer: &Value) -> Vec<&str> {
    let documents = answer["medley"]["documents"].as_array().expect("documents");
    documents
        .iter()
        .map(|document| document["source"].as_str().expect("a source"))
        .collect()
}

/// The template written out as a prompt is the same prompt and has the same answer.
#[test]
fn a_conversation_is_what_its_template_makes_of_it() {
    let server = Server::small_model();
    let rule = "Be brief. ".repeat(40);
    let messages = json!([
        {"role": "system", "content": rule}, asked("Name a colour."),
        {"role": "assistant", "content": "Red."}, asked("Another?"),
    ]);
    let chat = server.chat(&json!({"messages": messages, "max_tokens": 12, "temperature": 0}));
    let prompt = format!(
        "<|im_start|>system\n{rule}<|im_end|>\n<|im_start|>user\nName a colour.<|im_end|>\n\
         <|im_start|>assistant\nRed.<|im_end|>\n<|im_start|>user\nAnother?<|im_end|>\n<|im_start|>assistant\n"
    );
    let completion = server.complete(&json!({"prompt": prompt, "max_tokens": 12, "temperature": 0}));
    assert_eq!(
        chat["choices"][0]["message"]["content"],
        completion["choices"][0]["text"]
    );
    assert_eq!(
        chat["usage"]["prompt_tokens"],
        completion["usage"]["prompt_tokens"]
    );
    let without = completion["usage"]["prompt_tokens"].as_u64().expect("a count");
    assert!(
        completion["medley"]["tokens"]["exact_prefix"].as_u64() > Some(without / 2),
        "the completion finds the chat's prefix: {completion}"
    );
}

#[test]
fn spelled_control_tokens_end_no_turn() {
    let server = Server::small_model();
    let count = |content: &str| {
        let answer = server.chat(&json!({"messages": [asked(content)], "max_tokens": 1, "temperature": 0}));
        answer["usage"]["prompt_tokens"].as_u64().expect("a count")
    };
    // As a control token it would be one more.
    assert!(count("Hi<|im_end|>") > count("Hi") + 3);
}

#[test]
fn documents_of_completions_are_reused_in_chat_in_any_place() {
    let server = Server::small_model();
    let [bridge, mill] = documents();
    let question = "Question: who built the bridge?\nAnswer:";
    server.complete(&json!({"prompt": question, "documents": [bridge, mill], "max_tokens": 1}));
    let chat = server.chat(&json!({
        "messages": [asked("Who built the bridge?")], "documents": [mill, bridge],
        "max_tokens": 8, "temperature": 0,
    }));
    assert_eq!(sources(&chat), ["host", "host"], "{chat}");
    assert_eq!(chat["medley"]["plan"], "blended");
    let parts = json!([
        {"type": "text", "text": "Read this."},
        {"type": "document", "title": "The bridge", "source": {"type": "text", "data": MASON.repeat(8)}},
        {"type": "text", "text": "Who built it?"},
    ]);
    let body = json!({"messages": [{"role": "user", "content": parts}], "max_tokens": 1});
    let chat = server.chat(&body);
    assert_eq!(sources(&chat), ["host"], "{chat}");
    server.settle();
}

#[test]
fn at_a_ratio_of_one_a_chat_answers_as_exactly() {
    let server = Server::small_model();
    let answer = |blend: Value| {
        let chat = server.chat(&json!({
            "messages": [asked("Who built the bridge?")], "documents": documents(),
            "blend": blend, "max_tokens": 12, "temperature": 0,
        }));
        chat["choices"][0]["message"]["content"].clone()
    };
    assert_eq!(
        answer(json!({"recompute_ratio": 1.0})),
        answer(json!({"mode": "exact"}))
    );
}

/// Later turns repair what the first one repaired: nothing of what came later decides it.
#[test]
fn a_later_turn_finds_what_the_first_one_repaired_and_answers_as_without_it() {
    let [bridge, _] = documents();
    let document = json!({"type": "text", "text": bridge["text"], "medley": {"document": true}});
    let first =
        json!({"role": "user", "content": [document, {"type": "text", "text": "Who built the bridge?"}]});
    let chat = |server: &Server, more: &[Value]| {
        let messages = [std::slice::from_ref(&first), more].concat();
        let blend = json!({"report": "tokens"});
        server.chat(&json!({"messages": messages, "blend": blend, "max_tokens": 8, "temperature": 0}))
    };
    let ranges = |answer: &Value| answer["medley"]["documents"][0]["repaired_ranges"].clone();
    let server = Server::small_model();
    let once = ranges(&chat(&server, &[]));
    assert!(once.as_array().is_some_and(|ranges| !ranges.is_empty()), "{once}");
    for question in ["When?", "Which mill stands below it, and what did it grind?"] {
        let later = [
            json!({"role": "assistant", "content": "Ilse Kerr."}),
            asked(question),
        ];
        let cold = chat(&Server::small_model(), &later);
        assert_eq!(ranges(&cold), once, "{question}");
        let warm = chat(&server, &later);
        assert_eq!(ranges(&warm), json!([]), "{question}");
        assert_eq!(warm["choices"], cold["choices"], "{question}");
    }
}

#[test]
fn a_turn_finds_the_prefix_of_the_one_before() {
    let server = Server::small_model();
    let system = json!({"role": "system", "content": "Answer in one short sentence. ".repeat(20)});
    let exact = |messages: &[Value]| {
        let answer = server.chat(&json!({"messages": messages, "max_tokens": 1}));
        answer["medley"]["tokens"]["exact_prefix"]
            .as_u64()
            .expect("a count")
    };
    let turns = [
        system,
        asked("Hi"),
        json!({"role": "assistant", "content": "Hello."}),
        asked("Who?"),
    ];
    assert_eq!(exact(&turns[..2]), 0);
    assert!(exact(&turns) > 64);
}
