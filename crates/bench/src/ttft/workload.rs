//! Prompts of one shape: equal numbers of documents and tokens, in other orders or with other documents.

use anyhow::{Result, ensure};
use fastrand::Rng;
use medley_kv::{Prompt, TokenId};
use medley_prompt::{Body, CompletionInput, DocumentInput, PromptInput, Specials, Tokenizer};

use super::{Kind, Options};
use crate::Subject;
use crate::words;

/// Stands in front of the documents, so that none of them follows its own anchor and is exact for free.
const INSTRUCTIONS: &str = "Answer the question from the documents.";

/// Makes prompts.
pub(super) struct Workload {
    subject: Subject,
    document_tokens: usize,
    documents: Vec<Vec<u32>>,
    question: Vec<u32>,
    order: Vec<usize>,
    rng: Rng,
    next_seed: u64,
    prompt_tokens: usize,
}

impl Workload {
    /// The resident documents and the question.
    pub(super) fn new(subject: &Subject, options: &Options) -> Result<Self> {
        let tokenizer = subject.tokenizer();
        let seeds = 1..=options.documents as u64;
        let documents: Vec<_> = seeds
            .map(|seed| tokens(tokenizer, seed, options.document_tokens))
            .collect();
        let question = tokens(tokenizer, 0, options.question_tokens);
        let mut workload = Self {
            subject: subject.clone(),
            document_tokens: options.document_tokens,
            order: (0..documents.len()).collect(),
            next_seed: 1 + documents.len() as u64,
            documents,
            question,
            rng: Rng::with_seed(1),
            prompt_tokens: 0,
        };
        workload.prompt_tokens = workload.prompt(Kind::Repeated)?.len();
        Ok(workload)
    }

    /// Tokens of each prompt.
    pub(super) fn prompt_tokens(&self) -> usize {
        self.prompt_tokens
    }

    /// A prompt for a request of `kind`.
    pub(super) fn prompt(&mut self, kind: Kind) -> Result<Prompt> {
        match kind {
            Kind::Repeated => self.compose(&self.documents),
            Kind::Full | Kind::Warm => self.permuted(),
            Kind::Cold => self.unseen(),
        }
    }

    /// The resident documents in another order than last time.
    pub(super) fn permuted(&mut self) -> Result<Prompt> {
        let last = self.order.clone();
        while self.order == last {
            self.rng.shuffle(&mut self.order);
        }
        let documents: Vec<_> = self.order.iter().map(|&at| self.documents[at].clone()).collect();
        self.compose(&documents)
    }

    fn unseen(&mut self) -> Result<Prompt> {
        let first = self.next_seed;
        self.next_seed += self.documents.len() as u64;
        let tokenizer = self.subject.tokenizer();
        let documents = (first..self.next_seed).map(|seed| tokens(tokenizer, seed, self.document_tokens));
        let documents: Vec<_> = documents.collect();
        self.compose(&documents)
    }

    fn compose(&self, documents: &[Vec<u32>]) -> Result<Prompt> {
        let document = |ids: &Vec<u32>| DocumentInput {
            id: None,
            title: None,
            body: Body::Tokens(ids.clone()),
            context: None,
        };
        let composed = self.subject.composer.compose(CompletionInput {
            prompt: PromptInput::Tokens(self.question.clone()),
            instructions: Some(INSTRUCTIONS.to_owned()),
            documents: Some(documents.iter().map(document).collect()),
            add_special_tokens: true,
        })?;
        let prompt = composed.prompt;
        let expected = self.prompt_tokens;
        ensure!(
            expected == 0 || prompt.len() == expected,
            "prompts differ: {} and {expected} tokens",
            prompt.len()
        );
        Ok(prompt)
    }
}

/// Exactly `count` tokens of invented text.
fn tokens(tokenizer: &Tokenizer, seed: u64, count: usize) -> Vec<u32> {
    // A word is at least one token.
    let text = words::text(seed, count);
    let tokens = tokenizer.encode(&text, Specials::AsText);
    tokens.into_iter().take(count).map(|TokenId(id)| id).collect()
}
