//! A choice's text as it is read, with the log-probabilities of what has not been shown yet.

use medley_chat::{News, Reader, Reading};
use medley_generate::{FinishReason, TokenEvent};
use medley_openai::{ChatFinishReason, ChatLogprob, FunctionAnswer, ToolCallAnswer};
use medley_prompt::Tokenizer;
use uuid::Uuid;

use super::logprobs;

/// What is new of a message.
#[derive(Default)]
pub(super) struct Fresh {
    pub(super) reasoning: String,
    pub(super) content: String,
    pub(super) calls: Vec<ToolCallAnswer>,
}

/// Reads one choice.
pub(super) struct Reply {
    reader: Reader,
    logprobs: Option<Vec<ChatLogprob>>,
    calls: usize,
}

impl Fresh {
    pub(super) fn is_empty(&self) -> bool {
        self.reasoning.is_empty() && self.content.is_empty() && self.calls.is_empty()
    }
}

impl Reply {
    pub(super) fn new(reading: Reading, with_logprobs: bool) -> Self {
        Self {
            reader: Reader::new(reading),
            logprobs: with_logprobs.then(Vec::new),
            calls: 0,
        }
    }

    /// Adds a token. Control tokens have no text; some are marks of a format.
    pub(super) fn token(&mut self, event: &TokenEvent, tokenizer: &Tokenizer) -> Fresh {
        if let Some(list) = &mut self.logprobs {
            list.push(logprobs::of(event, tokenizer));
        }
        let mut news = self.reader.push(&event.text);
        let spelling = tokenizer.token_text(event.token);
        if tokenizer.token_bytes(event.token).is_empty() && self.reader.is_mark(spelling) {
            news.extend(self.reader.push(spelling));
        }
        self.fresh(news)
    }

    /// Adds the text that was held back to the end.
    pub(super) fn end(&mut self, text: &str) -> Fresh {
        let mut news = self.reader.push(text);
        news.extend(self.reader.finish());
        self.fresh(news)
    }

    /// The log-probabilities since they were last taken, if they were asked for.
    pub(super) fn take_logprobs(&mut self) -> Option<Vec<ChatLogprob>> {
        self.logprobs.as_mut().map(std::mem::take)
    }

    /// Calls so far.
    pub(super) fn calls(&self) -> usize {
        self.calls
    }

    /// The reason as answers say it.
    pub(super) fn finish_reason(&self, reason: FinishReason) -> ChatFinishReason {
        match reason {
            FinishReason::Stop if self.calls > 0 => ChatFinishReason::ToolCalls,
            FinishReason::Stop => ChatFinishReason::Stop,
            FinishReason::Length => ChatFinishReason::Length,
        }
    }

    fn fresh(&mut self, news: Vec<News>) -> Fresh {
        let mut fresh = Fresh::default();
        for one in news {
            match one {
                News::Reasoning(text) => fresh.reasoning.push_str(&text),
                News::Content(text) => fresh.content.push_str(&text),
                News::Call(call) => fresh.calls.push(ToolCallAnswer {
                    id: format!("call_{}", Uuid::new_v4().simple()),
                    kind: "function",
                    function: FunctionAnswer {
                        name: call.name,
                        arguments: call.arguments,
                    },
                }),
            }
        }
        self.calls += fresh.calls.len();
        fresh
    }
}
