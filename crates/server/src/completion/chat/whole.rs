//! An answer in one piece.

use axum::{
    Json,
    response::{IntoResponse, Response},
};
use medley_chat::Reading;
use medley_generate::Event;
use medley_openai::{ChatChoice, ChatCompletion, ChatFinishReason, ChatLogprob, ChatMessageAnswer};
use medley_prompt::Tokenizer;

use super::{
    super::outcome::Answer,
    logprobs, named,
    reply::{Fresh, Reply},
};
use crate::error::ApiError;

/// Waits for all choices. Dropping the future cancels them.
pub(crate) async fn collect(
    answer: Answer,
    reading: Reading,
    tokenizer: &Tokenizer,
) -> Result<Response, ApiError> {
    let mut answer = named(answer);
    let with_logprobs = answer.shape.logprobs.is_some();
    let mut messages = Messages {
        all: (0..answer.choices())
            .map(|_| Message::new(reading, with_logprobs))
            .collect(),
        tokens: 0,
    };
    while let Some(event) = answer.running.next().await {
        let (index, event) = event?;
        messages.take(index, event, &mut answer, tokenizer);
    }
    let headers = answer.ledger.headers();
    Ok((headers, Json(messages.completion(answer))).into_response())
}

struct Messages {
    all: Vec<Message>,
    tokens: usize,
}

/// A message so far.
struct Message {
    reply: Reply,
    so_far: Fresh,
    logprobs: Option<Vec<ChatLogprob>>,
    finish_reason: ChatFinishReason,
}

impl Messages {
    fn take(&mut self, index: usize, event: Event, answer: &mut Answer, tokenizer: &Tokenizer) {
        let Some(message) = self.all.get_mut(index) else {
            return;
        };
        match event {
            Event::Planned(report) => answer.ledger.enter(index, *report),
            // Nobody can ask for them here.
            Event::Prompt(_) => {}
            Event::Token(token) => {
                self.tokens += 1;
                let fresh = message.reply.token(&token, tokenizer);
                message.add(fresh);
            }
            Event::Finished { reason, text, report } => {
                let fresh = message.reply.end(&text);
                message.add(fresh);
                message.finish_reason = message.reply.finish_reason(reason);
                message.logprobs = message.reply.take_logprobs();
                answer.ledger.enter(index, *report);
            }
            Event::Failed(_) => {}
        }
    }

    fn completion(self, answer: Answer) -> ChatCompletion {
        let (usage, medley) = (answer.ledger.usage(self.tokens), answer.ledger.medley());
        let head = answer.head;
        let choices = self.all.into_iter().enumerate();
        ChatCompletion {
            id: head.id,
            object: "chat.completion",
            created: head.created,
            model: head.model,
            choices: choices.map(|(index, message)| message.choice(index)).collect(),
            usage,
            medley,
        }
    }
}

impl Message {
    fn new(reading: Reading, with_logprobs: bool) -> Self {
        Self {
            reply: Reply::new(reading, with_logprobs),
            so_far: Fresh::default(),
            logprobs: None,
            finish_reason: ChatFinishReason::Stop,
        }
    }

    fn add(&mut self, fresh: Fresh) {
        self.so_far.reasoning.push_str(&fresh.reasoning);
        self.so_far.content.push_str(&fresh.content);
        self.so_far.calls.extend(fresh.calls);
    }

    fn choice(self, index: usize) -> ChatChoice {
        let Fresh {
            reasoning,
            content,
            calls,
        } = self.so_far;
        ChatChoice {
            index,
            message: ChatMessageAnswer {
                role: "assistant",
                content: Some(content).filter(|content| !content.is_empty() || calls.is_empty()),
                refusal: None,
                reasoning_content: Some(reasoning).filter(|reasoning| !reasoning.is_empty()),
                tool_calls: calls,
            },
            logprobs: self.logprobs.map(logprobs::list),
            finish_reason: self.finish_reason,
        }
    }
}
