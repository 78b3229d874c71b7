//! The calibration tells a model that blends as it should from one whose rule or positions are broken.

use std::{sync::Arc, time::Duration};

use medley_backend::{Backend, BackendError, Batch, Outcome, PartKind};
use medley_backend_mistralrs::ComputeDevice;
use medley_bench::{
    Subject,
    calibration::{Level, Target, levels},
};
use medley_kv::{BlendOptions, KvGeometry, Position};
use medley_prompt::{Anchor, Body, CompletionInput, Composer, DocumentInput, PromptInput};
use medley_shadow::{Outcome as Checked, Rate, Shadow};

use crate::harness::{Ask, SMALL, ask, loaded, with_words};

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

fn measured(model: &str, device: ComputeDevice, fault: Fault) -> Level {
    let subject = subject(model, device, fault);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let ratio = f64::from(BlendOptions::default().ratio.get());
    let level = runtime.block_on(levels(&subject, BlendOptions::default(), &[ratio]));
    let level = level.expect("measured")[0];
    println!("{model}, {fault:?}: {level:?}");
    level
}

/// The default ratio is enough, and would not be with a fault.
pub fn tells_faults(model: &str, device: ComputeDevice) {
    let healthy = measured(model, device, Fault::None);
    assert!(Target::default().meets(&healthy), "{model}: {healthy:?}");
    for fault in [Fault::RandomSelection, Fault::WrongOffsets] {
        let level = measured(model, device, fault);
        assert!(!Target::default().meets(&level), "{model}, {fault:?}: {level:?}");
    }
}

#[test]
fn a_broken_rule_and_wrong_offsets_miss_the_target() {
    tells_faults(SMALL, ComputeDevice::Cpu);
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
fn seen_by_shadow(fault: Fault) -> f64 {
    let subject = subject(SMALL, ComputeDevice::Cpu, fault);
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
        ask(&shadow, &Ask::of(prompt).max_tokens(16).ratio(0.15));
        match outcomes.recv_timeout(Duration::from_secs(300)).expect("checked") {
            Checked::Done(divergence) => sum += divergence.kl,
            other => panic!("{question}: {other:?}"),
        }
    }
    println!(
        "{fault:?}: the shadow check sees {}",
        sum / QUESTIONS.len() as f64
    );
    sum / QUESTIONS.len() as f64
}

#[test]
fn the_shadow_check_sees_a_broken_rule_and_wrong_offsets() {
    let healthy = seen_by_shadow(Fault::None);
    for fault in [Fault::RandomSelection, Fault::WrongOffsets] {
        let broken = seen_by_shadow(fault);
        assert!(broken > 1.2 * healthy, "{fault:?}: {broken} beside {healthy}");
    }
}
