//! Tool calls behind a mark, up to the end of the reply: a list of JSON objects, or in later models a name and
//! arguments behind a mark of their own.

use serde_json::{Deserializer, Value};

use super::{News, ToolCall, call, held::Held};

pub(super) const BEGIN: &str = "[TOOL_CALLS]";
pub(super) const ARGUMENTS: &str = "[ARGS]";
pub(super) const CALL_ID: &str = "[CALL_ID]";

/// Reads such a reply.
#[derive(Default)]
pub(super) struct Mistral {
    held: Held,
    inside: bool,
}

impl Mistral {
    pub(super) fn push(&mut self, text: &str, news: &mut Vec<News>) {
        self.held.push(text);
        if self.inside {
            return;
        }
        match self.held.take_until(BEGIN) {
            Some(text) => {
                self.inside = true;
                news.push(News::Content(text.trim_end().to_owned()));
            }
            None => news.push(News::Content(self.held.take_certain(BEGIN))),
        }
    }

    pub(super) fn finish(&mut self, news: &mut Vec<News>) {
        let text = self.held.take();
        if !self.inside {
            news.push(News::Content(text));
            return;
        }
        let calls: Option<Vec<_>> = text.split(BEGIN).map(calls).collect();
        match calls.filter(|calls| calls.iter().any(|some| !some.is_empty())) {
            Some(calls) => news.extend(calls.into_iter().flatten().map(News::Call)),
            None => news.push(News::Content(format!("{BEGIN}{text}"))),
        }
    }
}

/// The calls behind one mark. What follows a list is no part of it.
fn calls(text: &str) -> Option<Vec<ToolCall>> {
    let text = text.trim();
    if !text.starts_with('[') {
        return named(text).map(|call| vec![call]);
    }
    let list: Vec<Value> = Deserializer::from_str(text).into_iter().next()?.ok()?;
    list.iter().map(call).collect()
}

/// `name[ARGS]{…}` or `name{…}`, perhaps with `[CALL_ID]…` behind the name.
fn named(text: &str) -> Option<ToolCall> {
    let (name, arguments) = match text.split_once(ARGUMENTS) {
        Some(parts) => parts,
        None => text.split_at(text.find('{')?),
    };
    let name = name.split(CALL_ID).next()?.trim();
    let arguments: Value = Deserializer::from_str(arguments).into_iter().next()?.ok()?;
    (!name.is_empty() && arguments.is_object()).then(|| ToolCall {
        name: name.to_owned(),
        arguments: arguments.to_string(),
    })
}
