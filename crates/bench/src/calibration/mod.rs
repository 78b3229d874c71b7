//! How much a model has to recompute: a few built-in prompts, blended at a ladder of ratios and compared with full prefills.
//!
//! Results are of one model, number format, anchor and rule. They say what blending costs on short passages of plain prose;
//! for other texts `medley eval` measures with questions of one's own.

mod passages;

use std::path::Path;

use anyhow::{Context, Result};
use medley_generate::{Capture, Request};
use medley_kv::{BlendMode, BlendOptions, Prompt, Ratio};
use medley_prompt::{Body, CompletionInput, DocumentInput, PromptInput};
use medley_quality::Divergence;
use serde::{Deserialize, Serialize};

use crate::{Run, Subject, run::forced, run::greedy, statistics::mean};
use passages::{PASSAGES, QUESTIONS};

/// Ratios that are tried, ascending. The first one shows what repairs are worth.
pub const RATIOS: [f64; 7] = [0.0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4];

/// Repairs of this share of the tokens have to leave at most [`LEFT`] of the divergence.
const WORTHY: f64 = 0.3;
const LEFT: f64 = 0.5;

/// Tokens of each answer that distributions are compared over.
const ANSWER_TOKENS: usize = 16;

/// Changes whenever what is measured changes: older results then count for nothing.
const VERSION: u32 = 2;

/// How close to a full prefill answers have to be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Target {
    /// Mean KL(full ‖ blended) in nats a token, at most.
    pub kl: f64,
    /// Share of positions with the same most probable token, at least.
    pub top1: f64,
}

/// What was measured at one ratio.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Level {
    /// The ratio.
    pub ratio: f64,
    /// Mean KL(full ‖ blended) in nats a token.
    pub kl: f64,
    /// Share of positions with the same most probable token.
    pub top1: f64,
}

/// What was measured of a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    version: u32,
    /// All that decides the result besides the built-in prompts: model, weights, number format, anchor, rule.
    identity: String,
    /// By ratio, ascending.
    pub levels: Vec<Level>,
}

/// What servers ask for unless they are told otherwise.
impl Default for Target {
    fn default() -> Self {
        Self { kl: 0.06, top1: 0.9 }
    }
}

impl Target {
    /// Whether a level is close enough.
    pub fn meets(&self, level: &Level) -> bool {
        level.kl <= self.kl && level.top1 >= self.top1
    }
}

impl Calibration {
    /// What was measured of a model, by ratio, ascending.
    pub fn new(identity: String, levels: Vec<Level>) -> Self {
        Self {
            version: VERSION,
            identity,
            levels,
        }
    }

    /// The least ratio, above 0, from which on every level meets the target; `None` if not even the last one does, or if
    /// repairs are worth nothing.
    pub fn needed(&self, target: Target) -> Option<Ratio> {
        if self.is_useless() {
            return None;
        }
        let failing = self.levels.iter().rposition(|level| !target.meets(level));
        let enough = &self.levels[failing.map_or(0, |last| last + 1)..];
        let first = enough.iter().find(|level| level.ratio > 0.0)?;
        Ratio::new(first.ratio).ok()
    }

    /// Whether repairs of three tokens in ten leave more than half of the divergence: something is wrong with the rule, with
    /// positions, or with what documents are computed behind. A model that merely needs much is no such case.
    pub fn is_useless(&self) -> bool {
        let at = |ratio: f64| self.levels.iter().find(|level| level.ratio == ratio);
        let left = at(0.0)
            .zip(at(WORTHY))
            .map(|(without, with)| with.kl / without.kl);
        left.is_some_and(|left| left > LEFT)
    }

    /// Reads a result of this identity; `None` if there is none, or one that can't be used any more.
    pub fn read(path: &Path, identity: &str) -> Option<Self> {
        let text = std::fs::read(path).ok()?;
        let found: Self = serde_json::from_slice(&text).ok()?;
        (found.version == VERSION && found.identity == identity).then_some(found)
    }

    /// Writes the result whole or not at all.
    pub fn write(&self, path: &Path) -> Result<()> {
        let shown = path.display();
        let folder = path.parent().context("a calibration needs a folder")?;
        std::fs::create_dir_all(folder).with_context(|| format!("can't make the folder of {shown}"))?;
        let part = path.with_extension("part");
        std::fs::write(&part, serde_json::to_vec_pretty(self)?)
            .with_context(|| format!("can't write {shown}"))?;
        std::fs::rename(&part, path).with_context(|| format!("can't write {shown}"))
    }
}

/// Markdown.
impl std::fmt::Display for Calibration {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "| ratio | KL | top-1 |\n|---|---|---|")?;
        for Level { ratio, kl, top1 } in &self.levels {
            writeln!(f, "| {ratio:.2} | {kl:.3} | {top1:.3} |")?;
        }
        if self.is_useless() {
            writeln!(
                f,
                "\nRepairs bring answers hardly closer to a full prefill: something is wrong."
            )?;
        }
        Ok(())
    }
}

/// Measures a model. `blend` is the rule; its ratio does not matter. `identity` as for [`Calibration::read`].
pub async fn calibrate(subject: &Subject, blend: BlendOptions, identity: String) -> Result<Calibration> {
    Ok(Calibration::new(identity, levels(subject, blend, &RATIOS).await?))
}

/// Measures a model at these ratios.
pub async fn levels(subject: &Subject, blend: BlendOptions, at: &[f64]) -> Result<Vec<Level>> {
    let ratios: Vec<Ratio> = at
        .iter()
        .map(|&ratio| Ratio::new(ratio))
        .collect::<Result<_, _>>()?;
    let mut divergences: Vec<Vec<Divergence>> = Vec::new();
    for (question, passages) in QUESTIONS {
        let prompt = prompt(subject, question, passages)?;
        divergences.push(ladder(subject, &prompt, blend, &ratios).await?);
    }
    let level = |(place, &ratio): (usize, &f64)| {
        let of = |value: fn(&Divergence) -> f64| mean(divergences.iter().map(|ladder| value(&ladder[place])));
        Level {
            ratio,
            kl: of(|d| d.kl).unwrap_or(f64::NAN),
            top1: of(|d| d.top1).unwrap_or(f64::NAN),
        }
    };
    Ok(at.iter().enumerate().map(level).collect())
}

/// One prompt at every ratio, against a full prefill.
async fn ladder(
    subject: &Subject,
    prompt: &Prompt,
    blend: BlendOptions,
    ratios: &[Ratio],
) -> Result<Vec<Divergence>> {
    let engine = &*subject.engine;
    let exact = BlendOptions {
        mode: BlendMode::Exact,
        ..blend
    };
    let answering = Request {
        capture: Capture {
            logits: true,
            forced: None,
        },
        ..greedy(prompt.clone(), exact, ANSWER_TOKENS, [].into())
    };
    let full = Run::of(engine, answering).await?;
    let answer: std::sync::Arc<[_]> = full.tokens.as_slice().into();
    let mut runs = Vec::with_capacity(ratios.len());
    // One at a time: a server's queue may be short.
    for &ratio in ratios {
        let blend = BlendOptions {
            mode: BlendMode::Auto,
            ratio,
            ..blend
        };
        runs.push(Run::of(engine, forced(prompt.clone(), blend, answer.clone())).await?);
    }
    let compare = move || {
        let compared = runs
            .iter()
            .map(|run| Divergence::between(&full.logits, &run.logits));
        compared.collect::<Option<Vec<_>>>()
    };
    let compared = tokio::task::spawn_blocking(compare).await?;
    compared.context("the runs have different logits")
}

fn prompt(subject: &Subject, question: &str, passages: &[usize]) -> Result<Prompt> {
    let document = |&at: &usize| {
        let (title, text) = PASSAGES[at];
        DocumentInput {
            id: None,
            title: Some(title.to_owned()),
            body: Body::Text(text.to_owned()),
            context: None,
        }
    };
    let input = CompletionInput {
        prompt: PromptInput::Text(format!("Question: {question}\nAnswer:")),
        instructions: Some("Answer the question from the passages.".to_owned()),
        documents: Some(passages.iter().map(document).collect()),
        add_special_tokens: true,
    };
    Ok(subject.composer.compose(input)?.prompt)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn levels(kl: &[f64]) -> Calibration {
        let level = |(i, &kl): (usize, &f64)| Level {
            ratio: RATIOS[i],
            kl,
            top1: 1.0,
        };
        Calibration::new("model".to_owned(), kl.iter().enumerate().map(level).collect())
    }

    const TARGET: Target = Target { kl: 0.2, top1: 0.8 };

    #[test]
    fn the_ratio_that_is_needed_is_the_least_from_which_on_all_meet_the_target() {
        let needed = |kl: &[f64]| levels(kl).needed(TARGET).map(|ratio| f64::from(ratio.get()));
        let close =
            |found: Option<f64>, wanted: f64| assert!((found.expect("a ratio") - wanted).abs() < 1e-6);
        close(needed(&[0.1, 0.1, 0.1]), 0.05);
        close(needed(&[0.5, 0.3, 0.1]), 0.1);
        // Lucky at the first: what is behind it counts.
        close(needed(&[0.1, 0.3, 0.1]), 0.1);
        assert_eq!(needed(&[0.1, 0.3, 0.3]), None);
        assert_eq!(needed(&[f64::NAN]), None);
    }

    #[test]
    fn both_measures_have_to_meet_the_target() {
        let level = |kl, top1| Level { ratio: 0.1, kl, top1 };
        assert!(TARGET.meets(&level(0.2, 0.8)));
        assert!(!TARGET.meets(&level(0.21, 0.9)) && !TARGET.meets(&level(0.1, 0.79)));
        assert!(!TARGET.meets(&level(f64::NAN, 1.0)));
    }

    #[test]
    fn repairs_that_leave_more_than_half_are_enough_for_no_target() {
        let found = levels(&[0.4, 0.1, 0.1, 0.1, 0.1, 0.2, 0.1]);
        assert!(!found.is_useless() && found.needed(TARGET).is_some());
        let found = levels(&[0.4, 0.1, 0.1, 0.1, 0.1, 0.201, 0.1]);
        assert!(found.is_useless());
        assert_eq!(found.needed(Target { kl: 9.0, top1: 0.0 }), None);
        // What was not measured is not held against it, and where nothing is lost nothing can be mended.
        assert!(!levels(&[0.4, 0.3]).is_useless());
        assert!(!levels(&[0.0; 7]).is_useless());
    }

    #[test]
    fn results_are_read_by_their_identity_and_nothing_else_is() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("sub").join("c.json");
        let found = levels(&[0.5, 0.1]);
        found.write(&path).expect("written");
        assert_eq!(Calibration::read(&path, "model"), Some(found));
        assert_eq!(Calibration::read(&path, "other"), None);
        std::fs::write(&path, "{").expect("written");
        assert_eq!(Calibration::read(&path, "model"), None);
        assert_eq!(Calibration::read(&folder.path().join("none"), "model"), None);
    }

    #[test]
    fn questions_name_passages_that_exist_and_none_twice() {
        for (question, passages) in QUESTIONS {
            let mut sorted = passages.to_vec();
            sorted.sort_unstable();
            sorted.dedup();
            assert!(
                sorted.len() == passages.len() && sorted.iter().all(|&p| p < PASSAGES.len()),
                "{question}"
            );
        }
    }
}
