//! What a model wrote, read as it comes: reasoning, content and tool calls.
//!
//! The news of a [`Reader`] do not depend on how the text was cut. What may still become a mark of a format is held
//! back, a tool call until it is whole. What does not keep to its format is content as it stands: nothing is lost.

mod format;
mod held;
mod hermes;
mod llama3_json;
mod mistral;
mod reasoning;

#[cfg(test)]
mod tests;

use serde_json::Value;

pub use format::{ToolFormat, UnknownFormat};

use hermes::Hermes;
use llama3_json::Llama3Json;
use mistral::Mistral;
use reasoning::Reasoning;

/// How a reply is to be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// The format of tool calls, where there may be any.
    pub tools: Option<ToolFormat>,
    /// Whether there may be more than one call.
    pub parallel: bool,
    /// Whether the model may think before it answers.
    pub reasoning: bool,
    /// Whether the prompt ends inside the thoughts.
    pub thinking: bool,
}

/// A call of a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolCall {
    /// The tool.
    pub name: String,
    /// Its arguments, as JSON.
    pub arguments: String,
}

/// Something new in a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// Thoughts.
    Reasoning(String),
    /// The answer.
    Content(String),
    /// A call.
    Call(ToolCall),
}

/// Reads one reply.
pub struct Reader {
    reading: Reading,
    reasoning: Reasoning,
    tools: Tools,
    calls: usize,
}

enum Tools {
    None,
    Hermes(Hermes),
    Llama3Json(Llama3Json),
    Mistral(Mistral),
}

impl Reader {
    /// A reader of a reply that has not begun.
    pub fn new(reading: Reading) -> Self {
        Self {
            reading,
            reasoning: Reasoning::new(reading.reasoning, reading.thinking),
            tools: match reading.tools {
                None => Tools::None,
                Some(ToolFormat::Hermes) => Tools::Hermes(Hermes::default()),
                Some(ToolFormat::Llama3Json) => Tools::Llama3Json(Llama3Json::default()),
                Some(ToolFormat::Mistral) => Tools::Mistral(Mistral::default()),
            },
            calls: 0,
        }
    }

    /// Whether a control token with this spelling is a mark of the format, to be pushed as text.
    pub fn is_mark(&self, spelling: &str) -> bool {
        let of_tools = self.reading.tools.map_or(&[][..], ToolFormat::marks);
        of_tools.contains(&spelling) || (self.reading.reasoning && reasoning::MARKS.contains(&spelling))
    }

    /// Adds text.
    pub fn push(&mut self, text: &str) -> Vec<News> {
        let (thought, content) = self.reasoning.push(text);
        self.news(thought, content, false)
    }

    /// The end of the reply.
    pub fn finish(&mut self) -> Vec<News> {
        let (thought, content) = self.reasoning.finish();
        self.news(thought, content, true)
    }

    fn news(&mut self, thought: String, content: String, ends: bool) -> Vec<News> {
        let mut news = vec![News::Reasoning(thought)];
        self.tools.push(&content, &mut news);
        if ends {
            self.tools.finish(&mut news);
        }
        news.retain(|one| match one {
            News::Reasoning(text) | News::Content(text) => !text.is_empty(),
            News::Call(_) => {
                self.calls += 1;
                self.reading.parallel || self.calls == 1
            }
        });
        news
    }
}

impl Tools {
    fn push(&mut self, text: &str, news: &mut Vec<News>) {
        match self {
            Self::None => news.push(News::Content(text.to_owned())),
            Self::Hermes(hermes) => hermes.push(text, news),
            Self::Llama3Json(llama) => llama.push(text, news),
            Self::Mistral(mistral) => mistral.push(text, news),
        }
    }

    fn finish(&mut self, news: &mut Vec<News>) {
        match self {
            Self::None => {}
            Self::Hermes(hermes) => hermes.finish(news),
            Self::Llama3Json(llama) => llama.finish(news),
            Self::Mistral(mistral) => mistral.finish(news),
        }
    }
}

/// The call that a JSON object describes: a `name` with `arguments` or `parameters`.
fn call(value: &Value) -> Option<ToolCall> {
    let name = value.get("name")?.as_str()?;
    let arguments = value.get("arguments").or_else(|| value.get("parameters"));
    let arguments = match arguments {
        None => "{}".to_owned(),
        Some(Value::String(json)) => json.clone(),
        Some(Value::Object(_)) => arguments?.to_string(),
        Some(_) => return None,
    };
    Some(ToolCall {
        name: name.to_owned(),
        arguments,
    })
}
