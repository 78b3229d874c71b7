//! The promises on a CUDA device, beside the CPU. They need a device, so they run only when they are asked for:
//! `cargo test --release --workspace --features medley-tests/cuda --test behaviour cuda -- --ignored --test-threads 1`.

use std::sync::Arc;

use medley_backend::{Backend, Batch, Draw, Part, PartKind, Row, Sequence};
use medley_backend_mistralrs::ComputeDevice;
use medley_engine::Engine;
use medley_kv::{BlendMode, PageId, Position, Segment, SlotId, Strategy, TokenId, pages_for};

use crate::calibration::{shadow_tells_faults, tells_faults};
use crate::exactness::{exact, greedy};
use crate::harness::{Ask, SMALL, ask, distance, document, live, loaded, model_on, others, text};

/// Two best tokens closer than this say nothing about who is right.
const CLEAR: f64 = 0.1;

/// Largest difference of logits over the largest logit, where bf16 rounds at other places.
const ROUNDING: f32 = 3e-2;

fn backend(model: &str, device: ComputeDevice) -> Box<dyn Backend> {
    loaded(model, device, 40).backend
}

/// Rows of one sequence on its own pages, which begin at `page`.
fn sequence(batch: &mut Batch, page: usize, tokens: &[u32]) {
    let pages: Arc<[PageId]> = (page..page + pages_for(tokens.len()))
        .map(|page| PageId(page as u32))
        .collect();
    let sequence = batch.sequences.len();
    let first = batch.rows.len();
    batch
        .rows
        .extend(tokens.iter().enumerate().map(|(i, &token)| Row {
            sequence,
            token: TokenId(token),
            position: Position(i as u32),
            slot: SlotId::of(&pages, i),
        }));
    batch.logits.extend(first..batch.rows.len());
    batch.sequences.push(Sequence::new(vec![Part {
        pages,
        len: tokens.len(),
        kind: PartKind::Prefix,
    }]));
}

fn random(seed: u64, count: usize, vocab: usize) -> Vec<u32> {
    let mut rng = fastrand::Rng::with_seed(seed);
    (0..count).map(|_| rng.u32(10..vocab as u32)).collect()
}

/// The best tokens with their probabilities, best first.
fn best(logits: &[f32]) -> [(usize, f64); 2] {
    let most = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = logits.iter().map(|&l| f64::from(l - most).exp()).sum();
    let mut order: Vec<usize> = (0..logits.len()).collect();
    order.select_nth_unstable_by(1, |&a, &b| logits[b].total_cmp(&logits[a]));
    order.truncate(2);
    order.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]));
    [order[0], order[1]].map(|token| (token, f64::from(logits[token] - most).exp() / sum))
}

/// Largest difference over the largest logit.
fn difference(a: &[f32], b: &[f32]) -> f32 {
    distance(a, b) / b.iter().fold(0.0, |most: f32, l| most.max(l.abs()))
}

/// Teacher-forced on recorded greedy text: of two models of one family the same, as their tokens are the same.
fn follows_the_cpu(model: &str, recorded: &str) {
    let mut cpu = backend(model, ComputeDevice::Cpu);
    let mut gpu = backend(model, ComputeDevice::Cuda(0));
    let (mut clear, mut worst) = (0, 0.0f32);
    for (text, (prompt, said)) in greedy(recorded).into_iter().enumerate() {
        let said = said.iter().map(|step| step[0].0);
        let tokens: Vec<u32> = prompt.into_iter().chain(said).collect();
        let (ours, theirs) = (exact(&mut *gpu, &tokens, 0), exact(&mut *cpu, &tokens, 0));
        for (i, (a, b)) in ours.iter().zip(&theirs).enumerate() {
            worst = worst.max(difference(a, b));
            let [(token, p1), (_, p2)] = best(b);
            if p1 - p2 > CLEAR {
                clear += 1;
                assert_eq!(
                    best(a)[0].0,
                    token,
                    "{model}, text {text}, token {i}: {p1} to {p2}"
                );
            }
        }
    }
    println!("{model}: {clear} clear tokens, logits at most {worst:.1e} of the largest away");
    assert!(clear > 500, "only {clear} clear tokens");
}

#[test]
#[ignore = "needs a CUDA device"]
fn the_device_chooses_the_cpu_s_tokens() {
    follows_the_cpu(SMALL, "smollm2-135m.json");
    for model in others() {
        follows_the_cpu(model, "qwen2.5-coder-0.5b.json");
    }
}

#[test]
#[ignore = "needs a CUDA device"]
fn a_sequence_has_the_same_bits_whatever_shares_the_call() {
    let mut gpu = backend(SMALL, ComputeDevice::Cuda(0));
    let vocab = gpu.vocab();
    for len in [1, 3, 64, 65, 200, 513] {
        let tokens = random(len as u64, len, vocab);
        let alone = exact(&mut *gpu, &tokens, 0);
        for others in [1, 40, 300, 1200] {
            let mut batch = Batch::default();
            sequence(&mut batch, 12, &random(99, others, vocab));
            let first = batch.rows.len();
            sequence(&mut batch, 0, &tokens);
            batch.logits.retain(|&row| row >= first);
            let together = gpu.run(&batch).expect("it runs").logits;
            assert!(alone == together, "{len} tokens beside {others} others");
        }
    }
}

#[test]
#[ignore = "needs a CUDA device"]
fn the_device_draws_the_tokens_that_its_logits_give() {
    let mut gpu = backend(SMALL, ComputeDevice::Cuda(0));
    let vocab = gpu.vocab();
    let mut rng = fastrand::Rng::with_seed(3);
    let (mut drawn, mut other) = (0, 0);
    for (temperature, top_k, top_p) in [
        (0.0, 0, 1.0),
        (1.0, 0, 1.0),
        (0.3, 0, 1.0),
        (5.0, 0, 1.0),
        (1.0, 1, 1.0),
        (1.5, 40, 1.0),
        (1.0, 0, 0.9),
        (2.0, 0, 0.5),
        (1.0, 50, 0.95),
        (1.0, 0, 0.0),
        (3.0, vocab as u32 - 1, 0.999),
    ] {
        let mut batch = Batch::default();
        sequence(&mut batch, 0, &random(7, 40, vocab));
        let draw = |row| Draw {
            row,
            temperature,
            top_k,
            top_p,
            at: rng.f64(),
        };
        batch.draws = (0..batch.rows.len()).map(draw).collect();
        let outcome = gpu.run(&batch).expect("it runs");
        for ((draw, logits), token) in batch.draws.iter().zip(&outcome.logits).zip(&outcome.drawn) {
            drawn += 1;
            // Masses are rounded from f32 on the device: a draw at the very edge of a token may go to the next one.
            other += usize::from(medley_backend::draw(logits, draw) != *token);
        }
    }
    assert!(drawn == 440 && other <= 2, "{other} of {drawn} draws differ");
}

fn prompt(order: &[u64]) -> Vec<Segment> {
    behind(21, order)
}

/// Documents behind instructions of so many tokens.
fn behind(instructions: usize, order: &[u64]) -> Vec<Segment> {
    let documents = order.iter().map(|&seed| document(seed, 40 + 90 * seed as usize));
    [text(100, instructions)]
        .into_iter()
        .chain(documents)
        .chain([text(101, 12)])
        .collect()
}

fn engine(pages: usize, resident: usize, step_rows: usize) -> Engine {
    model_on(SMALL, ComputeDevice::Cuda(0), pages, resident, step_rows)
}

#[test]
#[ignore = "needs a CUDA device"]
fn ratio_one_equals_exact_within_rounding_for_every_rule() {
    let engine = engine(200, 100, 512);
    let mut worst = 0.0f32;
    for order in [[1, 2, 3], [5, 1, 1]] {
        let asked = Ask::new(prompt(&order)).max_tokens(1);
        let exact = ask(&engine, &asked.clone().mode(BlendMode::Exact));
        for strategy in [
            Strategy::Auto,
            Strategy::Heads,
            Strategy::Deviation,
            Strategy::Query,
        ] {
            let blended = ask(&engine, &asked.clone().strategy(strategy).ratio(1.0));
            let distance = difference(blended.first_logits(), exact.first_logits());
            assert!(distance < ROUNDING, "{strategy}: logits differ by {distance}");
            worst = worst.max(distance);
        }
        let unrepaired = ask(&engine, &asked.clone().ratio(0.0));
        assert!(difference(unrepaired.first_logits(), exact.first_logits()) > ROUNDING);
    }
    println!("ratio 1 and exact: logits at most {worst:.1e} of the largest apart");
}

#[test]
#[ignore = "needs a CUDA device"]
fn prefill_has_the_same_bits_after_any_history() {
    let targets = [
        Ask::new(prompt(&[1, 2, 3])),
        // Instructions of which all but a few tokens are resident the second time, and so long that sums are cut.
        Ask::new(behind(130, &[2, 1])),
        Ask::new(behind(1100, &[3])),
        Ask::new(prompt(&[2, 3])).strategy(Strategy::Deviation),
        Ask::new(prompt(&[3, 2, 1]))
            .strategy(Strategy::Query)
            .refined(1, 2)
            .ratio(0.3),
        // More rows than a step has room for, and hundreds that are observed.
        Ask::new(prompt(&[6, 5, 4]))
            .strategy(Strategy::Query)
            .refined(2, 1)
            .ratio(0.7),
        Ask::new(prompt(&[6, 5, 4, 3])).mode(BlendMode::Exact),
    ]
    .map(|target| target.max_tokens(1));
    let expected: Vec<_> = targets
        .iter()
        .map(|target| ask(&engine(400, 200, 8192), target).first_logits().to_vec())
        .collect();
    let mut seed = 0;
    for (pages, resident, step_rows) in [(400, 200, 8192), (200, 20, 8192), (400, 0, 8192), (400, 200, 130)] {
        let engine = engine(pages, resident, step_rows);
        for _ in 0..21 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let at = seed as usize % targets.len();
            let logits = live(&engine, &mut rng, &targets[at], prompt);
            let apart = difference(&logits, &expected[at]);
            assert!(logits == expected[at], "seed {seed}, target {at}: {apart} apart");
            seed += 1;
        }
    }
}

#[test]
#[ignore = "needs a CUDA device"]
fn the_calibration_and_the_shadow_check_tell_faults() {
    for model in others().into_iter().chain([SMALL]) {
        tells_faults(model, ComputeDevice::Cuda(0));
        shadow_tells_faults(model, ComputeDevice::Cuda(0));
    }
}
