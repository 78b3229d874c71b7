//! An answer in one piece.

use axum::{
    Json,
    response::{IntoResponse, Response},
};
use medley_generate::Event;
use medley_openai::{Completion, CompletionChoice};
use medley_prompt::Tokenizer;

use super::{
    logprobs::{self, Offset},
    outcome::{Answer, OBJECT},
};
use crate::error::ApiError;

/// Waits for all choices. Dropping the future cancels them.
pub(crate) async fn collect(mut answer: Answer, tokenizer: &Tokenizer) -> Result<Response, ApiError> {
    let mut texts = Texts::new(&answer);
    while let Some(event) = answer.running.next().await {
        let (index, event) = event?;
        texts.take(index, event, &mut answer, tokenizer);
    }
    let headers = answer.ledger.headers();
    Ok((headers, Json(texts.completion(answer))).into_response())
}

struct Texts {
    choices: Vec<CompletionChoice>,
    offsets: Vec<Offset>,
    tokens: usize,
}

impl Texts {
    fn new(answer: &Answer) -> Self {
        let choice = |index| CompletionChoice {
            index,
            text: answer.echo(index).to_owned(),
            logprobs: answer.shape.logprobs.map(|_| Default::default()),
            finish_reason: None,
        };
        let choices: Vec<_> = (0..answer.choices()).map(choice).collect();
        Self {
            offsets: vec![Offset::default(); choices.len()],
            choices,
            tokens: 0,
        }
    }

    fn take(&mut self, index: usize, event: Event, answer: &mut Answer, tokenizer: &Tokenizer) {
        let Some((choice, offset)) = self.choices.get_mut(index).zip(self.offsets.get_mut(index)) else {
            return;
        };
        match event {
            Event::Planned(report) => answer.ledger.enter(index, *report),
            Event::Token(_) if answer.shape.discards_output() => {}
            Event::Token(token) => {
                self.tokens += 1;
                choice.text.push_str(&token.text);
                if let Some(list) = &mut choice.logprobs {
                    logprobs::add(list, offset, &token, tokenizer);
                }
            }
            Event::Finished { reason, text, report } => {
                if !answer.shape.discards_output() {
                    choice.text.push_str(&text);
                }
                choice.finish_reason = Some(answer.finish_reason(reason));
                answer.ledger.enter(index, *report);
            }
            Event::Failed(_) => {}
        }
    }

    fn completion(self, answer: Answer) -> Completion {
        let (usage, medley) = (answer.ledger.usage(self.tokens), answer.ledger.medley());
        let head = answer.head;
        Completion {
            id: head.id,
            object: OBJECT,
            created: head.created,
            model: head.model,
            choices: self.choices,
            usage,
            medley,
        }
    }
}
