//! The calibration tells a model that blends as it should from one whose rule or positions are broken.

use std::{sync::Arc, time::Duration};

use medley_backend::{Backend, BackendError, Batch, Outcome, PartKind};
use medley_backend_mistralrs::ComputeDevice;
use medley_bench::{
    Subject,
    calibration::{Calibration, Target, levels},
};
use medley_kv::{BlendOptions, KvGeometry, PageId, Position, Ratio};
use medley_prompt::{Anchor, Body, CompletionInput, Composer, DocumentInput, PromptInput};
use medley_shadow::{Outcome as Checked, Rate, Shadow};

use crate::harness::{Ask, SECOND, SMALL, ask, loaded, others, with_words};

/// A way to be broken.
#[derive(Clone, Copy, Debug)]
enum Fault {
    None,
    /// What the question attends to is not looked at.
    RandomSelection,
    /// Documents stand some positions away from where they are.
    WrongOffsets,
}

/// A backend with a fault.
struct Faulty {
    inner: Box<dyn Backend>,
    fault: Fault,
    random: fastrand::Rng,
}

impl Backend for Faulty {
    fn geometry(&self) -> KvGeometry {
        self.inner.geometry()
    }

    fn vocab(&self) -> usize {
        self.inner.vocab()
    }

    fn pages(&self) -> usize {
        self.inner.pages()
    }

    fn copy_pages(&mut self, pairs: &[(PageId, PageId)]) -> Result<(), BackendError> {
        self.inner.copy_pages(pairs)
    }

    fn run(&mut self, batch: &Batch) -> Result<Outcome, BackendError> {
        match self.fault {
            Fault::None => self.inner.run(batch),
            Fault::RandomSelection => {
                let mut outcome = self.inner.run(batch)?;
                let slots = outcome
                    .scores
                    .iter_mut()
                    .flat_map(|scores| scores.0.iter_mut().flatten());
                slots.for_each(|mass| *mass = self.random.u64(..1 << 40));
                Ok(outcome)
            }
            Fault::WrongOffsets => self.inner.run(&displaced(batch)),
        }
    }
}

/// The batch with documents of prompts, not those in computation, rotated for a place sixteen positions further on.
fn displaced(batch: &Batch) -> Batch {
    let mut batch = batch.clone();
    for sequence in &mut batch.sequences {
        let prompt = sequence
            .parts
            .iter()
            .any(|part| matches!(part.kind, PartKind::Overlay { .. }));
        for part in sequence.parts.iter_mut().filter(|_| prompt) {
            if let PartKind::Document { local, .. } = &mut part.kind {
                *local = Position(local.0 + 16);
            }
        }
    }
    batch
}

/// A model with a fault.
fn subject(model: &str, device: ComputeDevice, fault: Fault) -> Subject {
    let mut loaded = loaded(model, device, 1200);
    loaded.backend = Box::new(Faulty {
        inner: loaded.backend,
        fault,
        random: fastrand::Rng::with_seed(1),
    });
    let (engine, tokenizer) = with_words(loaded, 600, 512);
    Subject {
        name: model.to_owned(),
        anchor: "bos".to_owned(),
        engine: Arc::new(engine),
        composer: Arc::new(Composer::new(tokenizer, &Anchor::Bos, None).expect("a composer")),
    }
}

fn measured(model: &str, device: ComputeDevice, fault: Fault) -> Calibration {
    let subject = subject(model, device, fault);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let default = f64::from(BlendOptions::default().ratio.get());
    let levels = runtime.block_on(levels(&subject, BlendOptions::default(), &[0.0, default, 0.3]));
    let found = Calibration::new(String::new(), levels.expect("measured"));
    println!("{model}, {fault:?}:\n{found}");
    found
}

/// The sound model is found sound. With a fault it is found unsound, or to need more than it does.
pub fn tells_faults(model: &str, device: ComputeDevice) {
    let needed = |found: &Calibration| found.needed(Target::default()).map_or(1.0, Ratio::get);
    let healthy = measured(model, device, Fault::None);
    assert!(!healthy.is_useless(), "{model}");
    for fault in [Fault::RandomSelection, Fault::WrongOffsets] {
        let broken = measured(model, device, fault);
        let caught = broken.is_useless() || needed(&broken) > needed(&healthy);
        assert!(caught, "{model}, {fault:?}");
    }
}

#[test]
fn a_broken_rule_and_wrong_offsets_are_found() {
    tells_faults(SMALL, ComputeDevice::Cpu);
}

#[test]
#[ignore = "larger models on the CPU: many minutes"]
fn a_broken_rule_and_wrong_offsets_are_found_on_larger_models() {
    others()
        .into_iter()
        .for_each(|model| tells_faults(model, ComputeDevice::Cpu));
}

/// Pages of text, and what is asked of them.
const TEXTS: [&str; 4] = [
    include_str!("../../docs/documents.md"),
    include_str!("../../docs/limits.md"),
    include_str!("../../docs/report.md"),
    include_str!("../../docs/ratio.md"),
];
const QUESTIONS: [&str; 3] = [
    "Which document forms does the server take?",
    "What happens to a request that is too long?",
    "What does a larger ratio cost?",
];

/// Mean KL that shadow checks of some answers found.
fn seen_by_shadow(model: &str, device: ComputeDevice, fault: Fault) -> f64 {
    // What is enough for the small model, or near it for the other ones.
    let ratio = if model == SECOND { 0.3 } else { 0.15 };
    let subject = subject(model, device, fault);
    let (sender, outcomes) = std::sync::mpsc::channel();
    let record = move |outcome| sender.send(outcome).expect("the test listens");
    let shadow = Shadow::start(subject.engine.clone(), Rate::ALL, record).expect("a thread");
    let document = |text: &&str| DocumentInput {
        id: None,
        title: None,
        body: Body::Text(text.chars().take(700).collect()),
        context: None,
    };
    let mut sum = 0.0;
    for question in QUESTIONS {
        let input = CompletionInput {
            prompt: PromptInput::Text(format!("Question: {question}\nAnswer:")),
            instructions: Some("Answer from the texts.".to_owned()),
            documents: Some(TEXTS.iter().map(document).collect()),
            add_special_tokens: true,
        };
        let prompt = subject.composer.compose(input).expect("composed").prompt;
        ask(&shadow, &Ask::of(prompt).max_tokens(16).ratio(ratio));
        match outcomes.recv_timeout(Duration::from_secs(300)).expect("checked") {
            Checked::Done(divergence) => sum += divergence.kl,
            other => panic!("{question}: {other:?}"),
        }
    }
    println!(
        "{model}, {fault:?}: the shadow check sees {}",
        sum / QUESTIONS.len() as f64
    );
    sum / QUESTIONS.len() as f64
}

/// What is seen with a fault is well above what is seen without.
pub fn shadow_tells_faults(model: &str, device: ComputeDevice) {
    let healthy = seen_by_shadow(model, device, Fault::None);
    for fault in [Fault::RandomSelection, Fault::WrongOffsets] {
        let broken = seen_by_shadow(model, device, fault);
        assert!(
            broken > 1.2 * healthy,
            "{model}, {fault:?}: {broken} beside {healthy}"
        );
    }
}

#[test]
fn the_shadow_check_sees_a_broken_rule_and_wrong_offsets() {
    shadow_tells_faults(SMALL, ComputeDevice::Cpu);
}

#[test]
#[ignore = "larger models on the CPU: many minutes"]
fn the_shadow_check_sees_a_broken_rule_and_wrong_offsets_on_larger_models() {
    others()
        .into_iter()
        .for_each(|model| shadow_tells_faults(model, ComputeDevice::Cpu));
}
