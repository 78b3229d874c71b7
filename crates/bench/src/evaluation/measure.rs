//! The measurement of one case.

use std::sync::Arc;

use anyhow::{Context, Result};
use medley_kv::{BlendMode, BlendOptions, Prompt, Ratio, TokenId};
use medley_quality::{Divergence, f1};

use super::{
    ANSWER_TOKENS, COMPARED_TOKENS, Options,
    case::Case,
    ledger::{Key, Record},
    rule::Rule,
};
use crate::{
    Run, Subject,
    run::{forced, greedy},
};

/// A case with its full prefill done.
pub(super) struct Measurement<'a> {
    subject: &'a Subject,
    options: &'a Options,
    case: &'a Case,
    prompt: &'a Prompt,
    /// What is forced: the beginning of the full prefill's answer; one end-of-text token if that is empty.
    answer: Arc<[TokenId]>,
    /// Distributions of the full prefill over the answer.
    logits: Arc<Vec<Vec<f32>>>,
    text: String,
}

impl<'a> Measurement<'a> {
    /// Answers on a full prefill.
    pub(super) async fn new(
        subject: &'a Subject,
        options: &'a Options,
        case: &'a Case,
        prompt: &'a Prompt,
    ) -> Result<Self> {
        let exact = BlendOptions {
            mode: BlendMode::Exact,
            ..BlendOptions::default()
        };
        let tokens = own_answer(
            subject,
            prompt,
            exact,
            if options.answers {
                ANSWER_TOKENS
            } else {
                COMPARED_TOKENS
            },
        );
        let tokens = tokens.await.context("full prefill")?;
        let end = subject.card().end_of_text.first().copied();
        let compared = tokens.iter().copied().take(COMPARED_TOKENS);
        let answer: Arc<[TokenId]> = if tokens.is_empty() {
            end.into_iter().collect()
        } else {
            compared.collect()
        };
        let run = Run::of(
            &*subject.engine,
            forced(prompt.clone(), exact, Arc::clone(&answer)),
        )
        .await;
        let logits = run.context("full prefill")?.logits;
        let text = subject.tokenizer().decode(&tokens);
        Ok(Self {
            subject,
            options,
            case,
            prompt,
            answer,
            logits: Arc::new(logits),
            text,
        })
    }

    /// The full prefill's own result.
    pub(super) fn reference(&self, key: Key) -> Record {
        let answer = self.options.answers.then(|| self.text.clone());
        self.record(
            key,
            (0, self.prompt.len()),
            Divergence { kl: 0.0, top1: 1.0 },
            answer,
        )
    }

    /// The result of a rule.
    pub(super) async fn of(&self, rule: Rule, ratio: Ratio, key: Key) -> Result<Record> {
        let blend = rule.options(ratio, self.options.check_layer);
        let request = forced(self.prompt.clone(), blend, Arc::clone(&self.answer));
        let run = Run::of(&*self.subject.engine, request).await?;
        let (full, blended) = (Arc::clone(&self.logits), run.logits);
        // Whole vocabularies: too long for a thread that others wait for.
        let divergence = tokio::task::spawn_blocking(move || Divergence::between(&full, &blended));
        let divergence = divergence.await?.context("the runs have different logits")?;
        let answer = if self.options.answers {
            let tokens = own_answer(self.subject, self.prompt, blend, ANSWER_TOKENS).await?;
            Some(self.subject.tokenizer().decode(&tokens))
        } else {
            None
        };
        let spent = (run.report.tokens.repaired, run.report.rows);
        Ok(self.record(key, spent, divergence, answer))
    }

    fn record(
        &self,
        key: Key,
        (repaired, rows): (usize, usize),
        divergence: Divergence,
        answer: Option<String>,
    ) -> Record {
        Record {
            key,
            prompt_tokens: self.prompt.len(),
            document_tokens: self.prompt.documents().map(|d| d.tokens.len()).sum(),
            repaired,
            rows: Some(rows),
            compared: self.logits.len(),
            kl: divergence.kl,
            top1: divergence.top1,
            f1: answer.as_ref().map(|text| f1(text, &self.case.answers)),
            answer,
        }
    }
}

/// The greedy answer without the token that ended it.
async fn own_answer(
    subject: &Subject,
    prompt: &Prompt,
    blend: BlendOptions,
    max_tokens: usize,
) -> Result<Vec<TokenId>> {
    let end = &subject.card().end_of_text;
    let request = greedy(prompt.clone(), blend, max_tokens, end.as_slice().into());
    let run = Run::of(&*subject.engine, request).await?;
    Ok(run
        .tokens
        .into_iter()
        .filter(|token| !end.contains(token))
        .collect())
}
