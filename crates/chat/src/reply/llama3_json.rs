//! Replies that are JSON objects and nothing else, perhaps behind a tag, one a call.

use serde_json::{Deserializer, Value};

use super::{News, ToolCall, call};

pub(super) const TAG: &str = "<|python_tag|>";

/// Reads such a reply. What begins as one is held back to its end.
#[derive(Default)]
pub(super) struct Llama3Json {
    held: String,
    is_content: bool,
}

impl Llama3Json {
    pub(super) fn push(&mut self, text: &str, news: &mut Vec<News>) {
        self.held.push_str(text);
        self.is_content = self.is_content || !may_be_calls(&self.held);
        if self.is_content {
            news.push(News::Content(std::mem::take(&mut self.held)));
        }
    }

    pub(super) fn finish(&mut self, news: &mut Vec<News>) {
        let text = std::mem::take(&mut self.held);
        match calls(&text) {
            Some(calls) => news.extend(calls.into_iter().map(News::Call)),
            None => news.push(News::Content(text)),
        }
    }
}

fn may_be_calls(text: &str) -> bool {
    let text = text.trim_start();
    let behind = text.strip_prefix(TAG).map_or(text, str::trim_start);
    behind.is_empty() || behind.starts_with('{') || TAG.starts_with(text)
}

/// The calls, if `text` is nothing else. They may stand behind semicolons.
fn calls(text: &str) -> Option<Vec<ToolCall>> {
    let text = text.trim();
    let mut rest = text.strip_prefix(TAG).unwrap_or(text).trim_start();
    let mut calls = Vec::new();
    while !rest.is_empty() {
        let mut objects = Deserializer::from_str(rest).into_iter::<Value>();
        let object = objects.next()?.ok()?;
        object
            .get("parameters")
            .or_else(|| object.get("arguments"))?
            .as_object()?;
        calls.push(call(&object)?);
        rest = rest[objects.byte_offset()..].trim_start_matches(|c: char| c == ';' || c.is_whitespace());
    }
    (!calls.is_empty()).then_some(calls)
}
