//! The events of a choice as chunks of a stream.

use medley_generate::Event;
use medley_openai::{CompletionChoice, CompletionChunk, CompletionLogprobs};
use medley_prompt::Tokenizer;

use super::{
    logprobs::{self, Listed, Offset},
    outcome::{Answer, OBJECT},
    stream::Chunked,
};

/// Turns events into chunks; holds what has to be known from one to the next.
pub(crate) struct Chunks {
    answer: Answer,
    offsets: Vec<Offset>,
    tokens: usize,
}

impl Chunks {
    pub(crate) fn new(answer: Answer) -> Self {
        Self {
            offsets: vec![Offset::default(); answer.choices()],
            answer,
            tokens: 0,
        }
    }

    /// The chunks ahead of all others: what each text begins with.
    fn opening(&self) -> Vec<CompletionChunk> {
        let indices = 0..self.answer.choices();
        let beginnings = indices
            .map(|index| (index, self.answer.beginning(index)))
            .filter(|(_, beginning)| !beginning.text.is_empty() || beginning.token_ids.is_some());
        beginnings
            .map(|(index, beginning)| {
                self.chunk(CompletionChoice {
                    prompt_token_ids: beginning.token_ids,
                    ..self.text(index, beginning.text)
                })
            })
            .collect()
    }

    /// The chunk of an event, if it brings anything: text that is not certain yet brings none.
    fn of(&mut self, index: usize, event: Event, tokenizer: &Tokenizer) -> Option<CompletionChunk> {
        match event {
            Event::Prompt(tokens) => {
                let logprobs = self.logprobs(index, &tokens, tokenizer);
                let choice = CompletionChoice {
                    logprobs,
                    ..self.text(index, String::new())
                };
                Some(self.chunk(choice))
            }
            Event::Token(_) if self.answer.shape.discards_output() => None,
            Event::Token(token) => {
                self.tokens += 1;
                let logprobs = self.logprobs(index, [&token], tokenizer);
                let token_ids = self.answer.shape.return_token_ids.then(|| vec![token.token.0]);
                let has_news = logprobs.is_some() || token_ids.is_some() || !token.text.is_empty();
                let choice = CompletionChoice {
                    logprobs,
                    token_ids,
                    ..self.text(index, token.text)
                };
                has_news.then(|| self.chunk(choice))
            }
            Event::Finished { reason, text, report } => {
                self.answer.ledger.enter(index, *report);
                let text = if self.answer.shape.discards_output() {
                    String::new()
                } else {
                    text
                };
                let finish_reason = Some(self.answer.finish_reason(reason));
                let choice = CompletionChoice {
                    finish_reason,
                    ..self.text(index, text)
                };
                Some(self.chunk(choice))
            }
            // Plans of further choices, and failures, which the caller has taken.
            Event::Planned(_) | Event::Failed(_) => None,
        }
    }

    /// The last chunk, if one was asked for.
    fn closing(&self) -> Option<CompletionChunk> {
        let stream = self.answer.shape.stream?;
        stream.usage.then(|| CompletionChunk {
            choices: Vec::new(),
            usage: Some(Some(self.answer.ledger.usage(self.tokens))),
            medley: Some(self.answer.ledger.medley()),
            ..self.chunk(CompletionChoice::default())
        })
    }

    fn logprobs<'a>(
        &mut self,
        index: usize,
        tokens: impl IntoIterator<Item = impl Into<Listed<'a>>>,
        tokenizer: &Tokenizer,
    ) -> Option<CompletionLogprobs> {
        self.answer.shape.logprobs?;
        let mut list = CompletionLogprobs::default();
        let offset = self.offsets.get_mut(index)?;
        for token in tokens {
            logprobs::add(&mut list, offset, token, tokenizer);
        }
        Some(list)
    }

    fn text(&self, index: usize, text: String) -> CompletionChoice {
        CompletionChoice {
            index,
            text,
            ..CompletionChoice::default()
        }
    }

    fn chunk(&self, choice: CompletionChoice) -> CompletionChunk {
        let head = &self.answer.head;
        CompletionChunk {
            id: head.id.clone(),
            object: OBJECT,
            created: head.created,
            model: head.model.clone(),
            choices: vec![choice],
            usage: self.answer.chunk_usage(self.tokens),
            medley: None,
        }
    }
}

impl Chunked for Chunks {
    type Chunk = CompletionChunk;

    fn answer(&mut self) -> &mut Answer {
        &mut self.answer
    }

    fn opening(&self) -> Vec<CompletionChunk> {
        self.opening()
    }

    fn of(&mut self, index: usize, event: Event, tokenizer: &Tokenizer) -> Vec<CompletionChunk> {
        self.of(index, event, tokenizer).into_iter().collect()
    }

    fn closing(&self) -> Option<CompletionChunk> {
        self.closing()
    }
}
