//! Templates in the styles of model families, and what clients may try with them.

mod boundary;
mod documents;
mod styles;

use serde_json::{Map, Value};

use crate::{Conversation, Ending, Message, Part, Piece, Role, Specials, Template};

const CHATML: &str = include_str!("chatml.jinja");
const LLAMA3: &str = include_str!("llama3.jinja");
const MISTRAL: &str = include_str!("mistral.jinja");

const SPECIALS: [&str; 13] = [
    "<s>",
    "</s>",
    "<|im_start|>",
    "<|im_end|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|eot_id|>",
    "[INST]",
    "[/INST]",
    "[TOOL_CALLS]",
    "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]",
    "user",
];

fn template(source: &str) -> Template {
    let specials = Specials {
        all: SPECIALS.map(str::to_owned).to_vec(),
        bos: Some("<s>".to_owned()),
        eos: Some("</s>".to_owned()),
    };
    Template::new(source, specials).expect("a template")
}

fn message(role: Role, text: &str) -> Message {
    Message {
        role,
        content: vec![Piece::Text(text.to_owned())],
        fields: Map::new(),
    }
}

fn with_fields(mut message: Message, fields: &Value) -> Message {
    message.fields = fields.as_object().cloned().expect("an object");
    message
}

fn conversation(messages: Vec<Message>) -> Conversation {
    Conversation {
        messages,
        documents: 0,
        tools: Vec::new(),
        tool_choice: None,
        variables: Map::new(),
        ending: Ending::Answer,
    }
}

/// `parts` with control tokens in `⟨⟩` and documents as `{0}`.
fn shown(parts: &[Part]) -> String {
    let show = |part: &Part| match part {
        Part::Control(special) => format!("⟨{special}⟩"),
        Part::Text(text) => text.clone(),
        Part::Document(number) => format!("{{{number}}}"),
    };
    parts.iter().map(show).collect()
}

fn render(source: &str, conversation: &Conversation) -> String {
    let rendered = template(source).render(conversation).expect("rendered");
    shown(&rendered.parts)
}

fn refusal(source: &str, conversation: &Conversation) -> String {
    let refused = template(source).render(conversation).expect_err("refused");
    refused.to_string()
}
