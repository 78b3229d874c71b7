//! The events of a choice as chunks of a stream.

use medley_chat::Reading;
use medley_generate::Event;
use medley_openai::{ChatChunk, ChatChunkChoice, ChatDelta, ToolCallDelta};
use medley_prompt::Tokenizer;

use super::{
    super::{outcome::Answer, stream::Chunked},
    logprobs, named,
    reply::{Fresh, Reply},
};

/// Turns events into chunks; holds what has to be known from one to the next.
pub(crate) struct Chunks {
    answer: Answer,
    replies: Vec<Reply>,
    tokens: usize,
}

impl Chunks {
    /// The chunks of an answer whose replies are read in this way.
    pub(crate) fn new(answer: Answer, reading: Reading) -> Self {
        let with_logprobs = answer.shape.logprobs.is_some();
        let replies = (0..answer.choices()).map(|_| Reply::new(reading, with_logprobs));
        Self {
            replies: replies.collect(),
            answer: named(answer),
            tokens: 0,
        }
    }

    /// The chunk of what is new, if anything is. Log-probabilities wait for the text of their tokens.
    fn fresh(&mut self, index: usize, fresh: Fresh) -> Option<ChatChunk> {
        if fresh.is_empty() {
            return None;
        }
        let reply = self.replies.get_mut(index)?;
        let first = reply.calls() - fresh.calls.len();
        let some = |text: String| Some(text).filter(|text| !text.is_empty());
        let calls = (first..).zip(fresh.calls);
        let choice = ChatChunkChoice {
            index,
            delta: ChatDelta {
                role: None,
                content: some(fresh.content),
                reasoning_content: some(fresh.reasoning),
                tool_calls: calls.map(|(index, call)| ToolCallDelta { index, call }).collect(),
            },
            logprobs: reply.take_logprobs().map(logprobs::list),
            finish_reason: None,
        };
        Some(self.chunk(choice))
    }

    fn end(&mut self, index: usize, reason: medley_generate::FinishReason) -> Option<ChatChunk> {
        let reply = self.replies.get_mut(index)?;
        let waiting = reply.take_logprobs().filter(|waiting| !waiting.is_empty());
        let choice = ChatChunkChoice {
            index,
            logprobs: waiting.map(logprobs::list),
            finish_reason: Some(reply.finish_reason(reason)),
            ..ChatChunkChoice::default()
        };
        Some(self.chunk(choice))
    }

    fn chunk(&self, choice: ChatChunkChoice) -> ChatChunk {
        let head = &self.answer.head;
        ChatChunk {
            id: head.id.clone(),
            object: "chat.completion.chunk",
            created: head.created,
            model: head.model.clone(),
            choices: vec![choice],
            usage: self.answer.chunk_usage(self.tokens),
            medley: None,
        }
    }
}

impl Chunked for Chunks {
    type Chunk = ChatChunk;

    fn answer(&mut self) -> &mut Answer {
        &mut self.answer
    }

    fn opening(&self) -> Vec<ChatChunk> {
        let opening = |index| ChatChunkChoice {
            index,
            delta: ChatDelta {
                role: Some("assistant"),
                content: Some(String::new()),
                ..ChatDelta::default()
            },
            ..ChatChunkChoice::default()
        };
        (0..self.replies.len())
            .map(|index| self.chunk(opening(index)))
            .collect()
    }

    fn of(&mut self, index: usize, event: Event, tokenizer: &Tokenizer) -> Vec<ChatChunk> {
        let Some(reply) = self.replies.get_mut(index) else {
            return Vec::new();
        };
        match event {
            // Nobody can ask for them here.
            Event::Prompt(_) => Vec::new(),
            Event::Token(token) => {
                let fresh = reply.token(&token, tokenizer);
                self.tokens += 1;
                self.fresh(index, fresh).into_iter().collect()
            }
            Event::Finished { reason, text, report } => {
                let fresh = reply.end(&text);
                self.answer.ledger.enter(index, *report);
                let last = self.fresh(index, fresh);
                last.into_iter().chain(self.end(index, reason)).collect()
            }
            // Plans of further choices, and failures, which the caller has taken.
            Event::Planned(_) | Event::Failed(_) => Vec::new(),
        }
    }

    fn closing(&self) -> Option<ChatChunk> {
        let stream = self.answer.shape.stream?;
        stream.usage.then(|| ChatChunk {
            choices: Vec::new(),
            usage: Some(Some(self.answer.ledger.usage(self.tokens))),
            medley: Some(self.answer.ledger.medley()),
            ..self.chunk(ChatChunkChoice::default())
        })
    }
}
