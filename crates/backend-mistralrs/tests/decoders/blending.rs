//! Documents at offsets, repairs, probes and deviations against the reference.

use std::sync::Arc;

use medley_backend::{
    Backend, Batch, Depth, Deviation, Mask, Part, PartKind, Probe, ProbeRow, Scores, Sequence,
};
use medley_kv::{PageId, Position, SlotId};

use crate::reference::{self, Kv, Seen};
use crate::sequences::{Pages, batch, distance, document, overlay, placed, prefill, prefix, rows, tokens};
use crate::tiny::{LAYERS, Tiny, loaded};

const ANCHOR: [u32; 2] = [7, 8];
const TOLERANCE: f64 = 1e-4;

/// A model, and documents whose canonical KV stands in the pool and in the reference.
struct Scene {
    model: Tiny,
    backend: Box<dyn Backend>,
    pages: Pages,
    documents: Vec<Canonical>,
}

struct Canonical {
    tokens: Vec<u32>,
    pages: Arc<[PageId]>,
    kv: Vec<Kv>,
}

impl Scene {
    fn new(family: &'static str, lengths: &[usize]) -> Self {
        let model = Tiny::new(family, true, 31);
        let backend = loaded(&model).backend;
        let pages = Pages::of(backend.pages());
        let mut scene = Self {
            model,
            backend,
            pages,
            documents: Vec::new(),
        };
        for (i, &length) in lengths.iter().enumerate() {
            scene.add(tokens(100 + i as u64, length));
        }
        scene
    }

    /// Computes a document alone behind the anchor.
    fn add(&mut self, tokens: Vec<u32>) {
        let (anchor, pages) = (self.pages.take(ANCHOR.len()), self.pages.take(tokens.len()));
        let local = ANCHOR.len() as u32;
        let mut alone = batch(
            vec![
                prefix(&anchor, ANCHOR.len()),
                document(&pages, tokens.len(), local, local),
            ],
            [
                rows(0, &anchor, 0, &placed(&ANCHOR, 0)),
                rows(0, &pages, 0, &placed(&tokens, local)),
            ]
            .concat(),
        );
        alone.logits.clear();
        self.backend.run(&alone).unwrap();
        let results = reference::prefill(&self.model, &[&ANCHOR[..], &tokens].concat());
        let kv = results
            .into_iter()
            .skip(ANCHOR.len())
            .map(|result| result.kv)
            .collect();
        self.documents.push(Canonical { tokens, pages, kv });
    }

    /// A document as it stands in a prompt, for the backend and for the reference.
    fn place(&self, index: usize, start: u32, hidden: &[usize]) -> (Part, Vec<Seen>) {
        let canonical = &self.documents[index];
        let len = canonical.tokens.len();
        let mut mask = Mask::none(len);
        hidden.iter().for_each(|&slot| mask.hide(slot));
        let kind = PartKind::Document {
            start: Position(start),
            local: Position(ANCHOR.len() as u32),
            hidden: mask,
        };
        let visible = canonical
            .kv
            .iter()
            .zip(start..)
            .enumerate()
            .filter(|(slot, _)| !hidden.contains(slot));
        let seen = visible
            .map(|(_, (kv, position))| Seen {
                position,
                kv: kv.clone(),
            })
            .collect();
        (
            Part {
                pages: Arc::clone(&canonical.pages),
                len,
                kind,
            },
            seen,
        )
    }
}

#[test]
fn documents_are_seen_at_any_offset_as_if_their_keys_were_rotated_there() {
    for family in ["llama", "qwen2"] {
        let mut scene = Scene::new(family, &[70, 9, 64]);
        let (a, seen_a) = scene.place(1, 0, &[]);
        let (b, seen_b) = scene.place(0, 9, &[]);
        let (c, seen_c) = scene.place(2, 300, &[]);
        let question = placed(&tokens(1, 5), 364);
        let own = scene.pages.take(5);
        let positions: Vec<_> = question.iter().map(|row| row.1).collect();
        let rows = rows(0, &own, 0, &question);
        let found = scene
            .backend
            .run(&batch(vec![a, b, c, overlay(&own, &positions)], rows))
            .unwrap();
        let expected = reference::run(&scene.model, &[seen_a, seen_b, seen_c].concat(), &question);
        for (found, expected) in found.logits.iter().zip(&expected) {
            let distance = distance(found, &expected.logits);
            assert!(distance < TOLERANCE, "{family}: {distance}");
        }
    }
}

#[test]
fn one_document_may_stand_twice_and_each_occurrence_has_its_own_mask() {
    let mut scene = Scene::new("llama", &[70]);
    let hidden = [0, 13, 63, 64, 69];
    let (a, seen_a) = scene.place(0, 20, &hidden);
    let (b, seen_b) = scene.place(0, 90, &[]);
    // Rows inside and behind the occurrences: none may see what comes after it.
    let question = [(5, 30), (6, 100), (7, 160)];
    let own = scene.pages.take(3);
    let rows = rows(0, &own, 0, &question);
    let found = scene
        .backend
        .run(&batch(vec![a, b, overlay(&own, &[30, 100, 160])], rows))
        .unwrap();
    let expected = reference::run(&scene.model, &[seen_a, seen_b].concat(), &question);
    for (found, expected) in found.logits.iter().zip(&expected) {
        assert!(distance(found, &expected.logits) < TOLERANCE);
    }
}

#[test]
fn repairing_every_document_row_is_exact_prefill() {
    for family in ["llama", "qwen2"] {
        let mut scene = Scene::new(family, &[70, 30]);
        let instructions = tokens(50, 6);
        let question = tokens(51, 4);
        let documents = [
            scene.documents[0].tokens.clone(),
            scene.documents[1].tokens.clone(),
        ]
        .concat();
        let text = [instructions.clone(), documents, question].concat();
        let start = scene.pages.take(6);
        scene.backend.run(&prefill(&start, &instructions)).unwrap();

        let (a, _) = scene.place(0, 6, &(0..70).collect::<Vec<_>>());
        let (b, _) = scene.place(1, 76, &(0..30).collect::<Vec<_>>());
        let repaired = placed(&text[6..], 6);
        let own = scene.pages.take(repaired.len());
        let positions: Vec<_> = repaired.iter().map(|row| row.1).collect();
        let parts = vec![prefix(&start, 6), a, b, overlay(&own, &positions)];
        let found = scene
            .backend
            .run(&batch(parts, rows(0, &own, 0, &repaired)))
            .unwrap();

        let whole = scene.pages.take(text.len());
        let exact = scene.backend.run(&prefill(&whole, &text)).unwrap();
        for (found, exact) in found.logits.iter().zip(&exact.logits[6..]) {
            let exact: Vec<_> = exact.iter().map(|&x| f64::from(x)).collect();
            assert!(distance(found, &exact) < TOLERANCE, "{family}");
        }
    }
}

#[test]
fn deviations_are_distances_between_true_and_canonical_keys() {
    for family in ["llama", "qwen2", "qwen3"] {
        let mut scene = Scene::new(family, &[70]);
        let instructions = tokens(60, 40);
        let document = scene.documents[0].tokens.clone();
        let text = [instructions, document].concat();
        let truth = reference::prefill(&scene.model, &text);
        for layer in 0..LAYERS {
            let pages = scene.pages.take(text.len());
            let rows = rows(0, &pages, 0, &placed(&text, 0));
            let canonical = &scene.documents[0];
            let slots = [0usize, 3, 64, 69, 3];
            let deviation = |&slot: &usize| Deviation {
                row: 40 + slot,
                reference: SlotId::of(&canonical.pages, slot),
                rotated_at: Position((ANCHOR.len() + slot) as u32),
            };
            let outcome = scene
                .backend
                .run(&Batch {
                    sequences: vec![Sequence::new(vec![prefix(&pages, text.len())])],
                    rows,
                    deviations: slots.iter().map(deviation).collect(),
                    depth: Depth::Keys(layer),
                    ..Batch::default()
                })
                .unwrap();
            for (&slot, found) in slots.iter().zip(&outcome.deviations) {
                let (true_key, canonical_key) = (
                    &truth[40 + slot].kv.layers[layer].0,
                    &canonical.kv[slot].layers[layer].0,
                );
                let expected: f64 = true_key
                    .iter()
                    .zip(canonical_key)
                    .map(|(a, b)| (a - b).powi(2))
                    .sum();
                let close = (f64::from(*found) - expected).abs() < 1e-4 * (1.0 + expected);
                assert!(
                    close,
                    "{family}, layer {layer}, slot {slot}: {found} for {expected}"
                );
            }
        }
    }
}

#[test]
fn probes_add_up_attention_to_documents_over_heads_and_layers() {
    let mut scene = Scene::new("llama", &[70, 20]);
    let (a, seen_a) = scene.place(0, 4, &[2, 65]);
    let (b, seen_b) = scene.place(1, 74, &[]);
    let question = placed(&tokens(70, 3), 94);
    let own = scene.pages.take(3);
    let mut asked = batch(
        vec![a, b, overlay(&own, &[94, 95, 96])],
        rows(0, &own, 0, &question),
    );
    let row = |row, weight, except| ProbeRow { row, weight, except };
    asked.probes = vec![Probe {
        sequence: 0,
        rows: vec![row(2, 1.0, None), row(0, 0.5, Some(1))],
    }];
    asked.logits = vec![1];
    let outcome = scene.backend.run(&asked).unwrap();
    let expected = reference::run(&scene.model, &[seen_a.clone(), seen_b].concat(), &question);

    let Scores(masses) = &outcome.scores[0];
    assert_eq!(masses.iter().map(Vec::len).collect::<Vec<_>>(), [70, 20, 0]);
    let visible: Vec<_> = (0..70).filter(|slot| ![2, 65].contains(slot)).collect();
    for (index, &slot) in visible.iter().enumerate() {
        check_mass(
            masses[0][slot],
            expected[2].masses[index] + 0.5 * expected[0].masses[index],
        );
    }
    for (mass, expected) in masses[1].iter().zip(&expected[2].masses[seen_a.len()..]).take(20) {
        check_mass(*mass, *expected);
    }
    assert_eq!((masses[0][2], masses[0][65]), (0, 0), "hidden slots have no mass");
    assert!(distance(&outcome.logits[0], &expected[1].logits) < TOLERANCE);
}

fn check_mass(found: u64, expected: f64) {
    let found = found as f64 / Scores::ONE;
    assert!((found - expected).abs() < 1e-5, "{found} for {expected}");
}
