//! An answer in one piece.

use axum::{
    Json,
    response::{IntoResponse, Response},
};
use medley_generate::Event;
use medley_openai::Completion;
use medley_prompt::Tokenizer;

use super::{
    candidate::{Candidate, best},
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

struct Texts(Vec<Candidate>);

impl Texts {
    fn new(answer: &Answer) -> Self {
        Self(
            (0..answer.choices())
                .map(|index| Candidate::new(answer, index))
                .collect(),
        )
    }

    fn take(&mut self, index: usize, event: Event, answer: &mut Answer, tokenizer: &Tokenizer) {
        let Some(candidate) = self.0.get_mut(index) else {
            return;
        };
        match event {
            Event::Planned(report) => answer.ledger.enter(index, *report),
            Event::Prompt(tokens) => tokens.iter().for_each(|token| candidate.list(token, tokenizer)),
            Event::Token(_) if answer.shape.discards_output() => {}
            Event::Token(token) => candidate.push(&token, tokenizer),
            Event::Finished { reason, text, report } => {
                if !answer.shape.discards_output() {
                    candidate.choice.text.push_str(&text);
                }
                candidate.choice.finish_reason = Some(answer.finish_reason(reason));
                answer.ledger.enter(index, *report);
            }
            Event::Failed(_) => {}
        }
    }

    fn completion(self, answer: Answer) -> Completion {
        let generated = self.0.iter().map(|candidate| candidate.tokens).sum();
        let (usage, medley) = (answer.ledger.usage(generated), answer.ledger.medley());
        let head = answer.head;
        Completion {
            id: head.id,
            object: OBJECT,
            created: head.created,
            model: head.model,
            choices: best(self.0, answer.shape.best_of, answer.shape.n),
            usage,
            medley,
        }
    }
}
