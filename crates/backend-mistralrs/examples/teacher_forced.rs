//! Compares the backend with another engine's greedy text, step by step.
//!
//! `teacher_forced MODEL STEPS.json`: the JSON comes from `tests/peers/llama_cpp.mjs`. At every step the backend
//! sees the tokens that the other engine saw, and its best token is compared with the other's, where the other's
//! two best probabilities lie more than 0.1 apart. Fails if any such token differs.

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use medley_backend::{Backend, Batch, Part, PartKind, Row, Sequence};
use medley_backend_mistralrs::{CpuBackend, LoadOptions, ModelSource, load};
use medley_kv::{PageId, Position, SlotId, TokenId, pages_for};
use serde::Deserialize;

/// Two best probabilities closer than this say nothing about who is right.
const MARGIN: f64 = 0.1;

#[derive(Deserialize)]
struct Peer {
    runs: Vec<Run>,
}

#[derive(Deserialize)]
struct Run {
    prompt: Vec<u32>,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
struct Step {
    token: u32,
    best: Vec<(u32, f64)>,
}

#[derive(Default)]
struct Count {
    steps: usize,
    clear: usize,
    equal: usize,
    clear_equal: usize,
    worst: f64,
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(model), Some(steps)) = (arguments.next(), arguments.next()) else {
        return Err("usage: teacher_forced MODEL STEPS.json".into());
    };
    let peer: Peer = serde_json::from_str(&std::fs::read_to_string(steps)?)?;
    let started = Instant::now();
    let mut loaded = load(&ModelSource::parse(&model)?, &LoadOptions::default())?;
    println!(
        "{} ({}), loaded in {:.1?}",
        loaded.info.name,
        loaded.info.quantisation,
        started.elapsed()
    );
    println!(
        "peak memory after loading: {}",
        peak_memory().unwrap_or_else(|| "unknown".to_owned())
    );
    let started = Instant::now();
    let mut count = Count::default();
    for run in &peer.runs {
        compare(&mut loaded.backend, run, &mut count)?;
    }
    let Count {
        steps,
        clear,
        equal,
        clear_equal,
        worst,
    } = count;
    println!(
        "{steps} steps in {:.1?}: {equal} equal; {clear_equal} of {clear} clear ones equal",
        started.elapsed()
    );
    println!("largest difference of a best token's probability: {worst:.4}");
    Ok(ExitCode::from(u8::from(clear_equal < clear)))
}

/// Runs prompt and text in one call, with logits at every step.
fn compare(backend: &mut CpuBackend, run: &Run, count: &mut Count) -> Result<(), Box<dyn Error>> {
    let text = run.steps.iter().map(|step| step.token);
    let tokens: Vec<u32> = run
        .prompt
        .iter()
        .copied()
        .chain(text)
        .take(run.prompt.len() + run.steps.len() - 1)
        .collect();
    let first = run.prompt.len() - 1;
    let outcome = backend.run(&prefill(&tokens, first))?;
    for (step, logits) in run.steps.iter().zip(&outcome.logits) {
        let [best, second] = step.best[..] else {
            return Err("a step lacks its two best tokens".into());
        };
        let margin = best.1 - second.1;
        let (token, probability) = top(logits, best.0);
        count.worst = count.worst.max((probability - best.1).abs());
        let equal = token == best.0;
        count.steps += 1;
        count.equal += usize::from(equal);
        count.clear += usize::from(margin > MARGIN);
        count.clear_equal += usize::from(margin > MARGIN && equal);
        if !equal {
            println!(
                "step {}: {token} instead of {} (margin {margin:.4})",
                count.steps, best.0
            );
        }
    }
    Ok(())
}

fn prefill(tokens: &[u32], first_logits: usize) -> Batch {
    let pages: Arc<[PageId]> = (0..pages_for(tokens.len()) as u32).map(PageId).collect();
    let row = |(i, &token): (usize, &u32)| Row {
        sequence: 0,
        token: TokenId(token),
        position: Position(i as u32),
        slot: SlotId::of(&pages, i),
    };
    let rows = tokens.iter().enumerate().map(row).collect();
    let part = Part {
        pages: Arc::clone(&pages),
        len: tokens.len(),
        kind: PartKind::Prefix,
    };
    Batch {
        sequences: vec![Sequence { parts: vec![part] }],
        rows,
        logits: (first_logits..tokens.len()).collect(),
        ..Batch::default()
    }
}

/// The best token, and the probability of `token`.
fn top(logits: &[f32], token: u32) -> (u32, f64) {
    let best = (0..logits.len()).fold(0, |best, i| if logits[i] > logits[best] { i } else { best });
    let sum: f64 = logits
        .iter()
        .map(|&logit| f64::from(logit - logits[best]).exp())
        .sum();
    (
        best as u32,
        f64::from(logits[token as usize] - logits[best]).exp() / sum,
    )
}

/// The process's peak resident memory, as Linux tells it.
fn peak_memory() -> Option<String> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM"))?;
    Some(line.split_whitespace().skip(1).collect::<Vec<_>>().join(" "))
}
