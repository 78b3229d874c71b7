//! Exact mode against two peers: an independent f32 computation in numpy, and llama.cpp's own greedy text.
//!
//! llama.cpp quantises activations to 8 bits, so its probabilities are off by several hundredths. Where its two best
//! tokens lie further apart than [`CLEAR`], its best one must be ours too, unless the f32 computation sides with us.

use std::{path::Path, process::Command, sync::Arc};

use medley_backend::{Backend, Batch, Part, PartKind, Row, Sequence};
use medley_backend_mistralrs::ComputeDevice;
use medley_kv::{PageId, Position, SlotId, TokenId, pages_for};
use serde_json::Value;

use crate::harness::{SECOND, SMALL, fetched, loaded};

/// Probabilities of llama.cpp closer than this say nothing about who is right.
const CLEAR: f64 = 0.1;
/// Norm of the difference over the norm, at any position.
const TOLERANCE: f64 = 1e-3;

const PEERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/peers");

fn backend(model: &str) -> Box<dyn Backend> {
    loaded(model, ComputeDevice::Cpu, 20).backend
}

/// Logits of exact mode behind every token from `first` on.
pub fn exact(backend: &mut dyn Backend, tokens: &[u32], first: usize) -> Vec<Vec<f32>> {
    let pages: Arc<[PageId]> = (0..pages_for(tokens.len()) as u32).map(PageId).collect();
    let row = |(i, &token): (usize, &u32)| Row {
        sequence: 0,
        token: TokenId(token),
        position: Position(i as u32),
        slot: SlotId::of(&pages, i),
    };
    let rows = tokens.iter().enumerate().map(row).collect();
    let parts = vec![Part {
        pages,
        len: tokens.len(),
        kind: PartKind::Prefix,
    }];
    let logits = (first..tokens.len()).collect();
    let batch = Batch {
        sequences: vec![Sequence::new(parts)],
        rows,
        logits,
        ..Batch::default()
    };
    backend.run(&batch).expect("it runs").logits
}

/// Logits of the f32 computation behind every token.
fn reference(model: &str, tokens: &[u32]) -> Vec<Vec<f32>> {
    let folder = tempfile::tempdir().expect("a folder");
    let (input, output) = (
        folder.path().join("tokens.json"),
        folder.path().join("logits.f32"),
    );
    std::fs::write(&input, serde_json::to_vec(tokens).expect("JSON")).expect("written");
    let python = std::env::var("MEDLEY_TEST_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let script = Path::new(PEERS).join("reference.py");
    let status = Command::new(python)
        .arg(script)
        .arg(fetched(model))
        .args([&input, &output])
        .status();
    assert!(
        status.expect("python starts").success(),
        "the reference failed: tests/run installs what it needs"
    );
    let bytes = std::fs::read(output).expect("logits");
    let (quads, _) = bytes.as_chunks::<4>();
    let floats: Vec<f32> = quads.iter().map(|b| f32::from_le_bytes(*b)).collect();
    floats
        .chunks(floats.len() / tokens.len())
        .map(<[f32]>::to_vec)
        .collect()
}

fn best(logits: &[f32]) -> u32 {
    (0..logits.len() as u32)
        .max_by(|&a, &b| logits[a as usize].total_cmp(&logits[b as usize]))
        .expect("a token")
}

fn relative(out: &[f32], reference: &[f32]) -> f64 {
    let norm = |x: &mut dyn Iterator<Item = f64>| x.map(|v| v * v).sum::<f64>().sqrt();
    let difference = norm(&mut out.iter().zip(reference).map(|(a, b)| f64::from(a - b)));
    difference / norm(&mut reference.iter().map(|&v| f64::from(v)))
}

/// A prompt, and at every step behind it the two best tokens with their probabilities.
pub type Greedy = (Vec<u32>, Vec<[(u32, f64); 2]>);

/// Greedy text of llama.cpp: tokens of the prompt, and at every step its two best tokens with probabilities.
pub fn greedy(name: &str) -> Vec<Greedy> {
    let text = std::fs::read(Path::new(PEERS).join("greedy").join(name)).expect("recorded text");
    let peer: Value = serde_json::from_slice(&text).expect("JSON");
    let id = |v: &Value| v.as_u64().expect("an id") as u32;
    let pair = |v: &Value| (id(&v[0]), v[1].as_f64().expect("a probability"));
    let step = |v: &Value| [pair(&v["best"][0]), pair(&v["best"][1])];
    let list = |v: &Value| v.as_array().expect("a list").clone();
    let run = |v: &Value| {
        (
            list(&v["prompt"]).iter().map(id).collect(),
            list(&v["steps"]).iter().map(step).collect(),
        )
    };
    list(&peer["runs"]).iter().map(run).collect()
}

fn check_against_llama_cpp(model: &str, recorded: &str) {
    let mut backend = backend(model);
    let mut steps = 0;
    for (prompt, said) in greedy(recorded) {
        let tokens: Vec<u32> = prompt
            .iter()
            .copied()
            .chain(said.iter().map(|s| s[0].0))
            .collect();
        let tokens = &tokens[..tokens.len() - 1];
        let logits = exact(&mut *backend, tokens, prompt.len() - 1);
        for (i, ([(first, p1), (_, p2)], ours)) in said.iter().zip(logits.iter().map(|l| best(l))).enumerate()
        {
            steps += 1;
            if ours != *first && p1 - p2 > CLEAR {
                let until = &tokens[..prompt.len() + i];
                let f32_best = best(reference(model, until).last().expect("logits"));
                assert_eq!(ours, f32_best, "step {i}: llama.cpp says {first} by {}", p1 - p2);
            }
        }
    }
    assert!(steps >= 1000, "only {steps} steps are recorded");
}

fn check_against_f32(model: &str, recorded: &str) {
    let (prompt, said) = greedy(recorded).swap_remove(1);
    let tokens: Vec<u32> = prompt
        .iter()
        .copied()
        .chain(said.iter().map(|s| s[0].0))
        .take(200)
        .collect();
    let ours = exact(&mut *backend(model), &tokens, 0);
    let theirs = reference(model, &tokens);
    assert_eq!(ours.len(), theirs.len());
    for (i, (a, b)) in ours.iter().zip(&theirs).enumerate() {
        let distance = relative(a, b);
        assert!(distance < TOLERANCE, "position {i}: {distance}");
    }
}

#[test]
fn llama_logits_equal_an_f32_computation() {
    check_against_f32(SMALL, "smollm2-135m.json");
}

#[test]
fn qwen2_logits_equal_an_f32_computation() {
    check_against_f32(SECOND, "qwen2.5-coder-0.5b.json");
}

#[test]
fn llama_follows_llama_cpp() {
    check_against_llama_cpp(SMALL, "smollm2-135m.json");
}

#[test]
fn qwen2_follows_llama_cpp() {
    check_against_llama_cpp(SECOND, "qwen2.5-coder-0.5b.json");
}
