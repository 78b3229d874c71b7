//! Completions of a prompt in the making, and which of them are the best.

use medley_generate::TokenEvent;
use medley_openai::CompletionChoice;
use medley_prompt::Tokenizer;

use super::{
    logprobs::{self, Listed, Offset},
    outcome::Answer,
};

/// A completion that may be returned.
#[derive(Default)]
pub(super) struct Candidate {
    pub(super) choice: CompletionChoice,
    /// Tokens generated.
    pub(super) tokens: usize,
    offset: Offset,
    /// Sum of the log-probabilities of the tokens, where they are known.
    logprob: f64,
}

impl Candidate {
    /// Completion `index` of all that are generated.
    pub(super) fn new(answer: &Answer, index: usize) -> Self {
        let (beginning, shape) = (answer.beginning(index), &answer.shape);
        let choice = CompletionChoice {
            index,
            text: beginning.text,
            logprobs: shape.logprobs.map(|_| Default::default()),
            prompt_token_ids: beginning.token_ids,
            token_ids: shape.return_token_ids.then(Vec::new),
            ..CompletionChoice::default()
        };
        Self {
            choice,
            ..Self::default()
        }
    }

    /// Adds a generated token.
    pub(super) fn push(&mut self, token: &TokenEvent, tokenizer: &Tokenizer) {
        self.tokens += 1;
        self.logprob += f64::from(token.logprob.unwrap_or(0.0));
        self.choice.text.push_str(&token.text);
        if let Some(ids) = &mut self.choice.token_ids {
            ids.push(token.token.0);
        }
        self.list(token, tokenizer);
    }

    /// Adds a token to the log-probabilities, if they are asked for.
    pub(super) fn list<'a>(&mut self, token: impl Into<Listed<'a>>, tokenizer: &Tokenizer) {
        if let Some(list) = &mut self.choice.logprobs {
            logprobs::add(list, &mut self.offset, token, tokenizer);
        }
    }

    /// Mean log-probability of a token. Nothing is above a completion without tokens.
    fn mean(&self) -> f64 {
        self.logprob / self.tokens.max(1) as f64
    }
}

/// The `n` best of the `each` completions of every prompt, best first, of equal ones the first. Where all are returned
/// they stay in their order.
pub(super) fn best(candidates: Vec<Candidate>, each: usize, n: usize) -> Vec<CompletionChoice> {
    let mut candidates = candidates.into_iter();
    let mut chosen = Vec::new();
    while candidates.len() > 0 {
        let mut prompt: Vec<_> = candidates.by_ref().take(each.max(1)).collect();
        if n < each {
            prompt.sort_by(|a, b| b.mean().total_cmp(&a.mean()));
        }
        chosen.extend(prompt.into_iter().take(n).map(|candidate| candidate.choice));
    }
    let numbered = chosen.into_iter().enumerate();
    numbered
        .map(|(index, choice)| CompletionChoice { index, ..choice })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(text: &str, logprobs: &[f64]) -> Candidate {
        Candidate {
            choice: CompletionChoice {
                text: text.to_owned(),
                ..CompletionChoice::default()
            },
            tokens: logprobs.len(),
            logprob: logprobs.iter().sum(),
            ..Candidate::default()
        }
    }

    #[test]
    fn the_best_by_their_mean_come_first_prompt_by_prompt() {
        let candidates = vec![
            candidate("a", &[-1.0, -1.0]),
            candidate("b", &[-0.5, -0.5, -0.5]),
            candidate("c", &[-3.0]),
            candidate("d", &[-2.0]),
            candidate("e", &[-2.0]),
            candidate("f", &[-2.5]),
        ];
        let chosen = best(candidates, 3, 2);
        let seen: Vec<_> = chosen
            .iter()
            .map(|choice| (choice.index, choice.text.as_str()))
            .collect();
        assert_eq!(seen, [(0, "b"), (1, "a"), (2, "d"), (3, "e")]);
    }

    #[test]
    fn where_all_are_returned_they_keep_their_order() {
        let chosen = best(vec![candidate("a", &[-2.0]), candidate("b", &[-1.0])], 2, 2);
        assert_eq!(
            chosen.iter().map(|c| c.text.as_str()).collect::<Vec<_>>(),
            ["a", "b"]
        );
    }
}
