//! Plain causal prefill and decode against the reference.

use crate::reference;
use crate::sequences::{self, Pages, batch, distance, placed, prefix, rows};
use crate::tiny::{Tiny, loaded};

const TOLERANCE: f64 = 1e-4;

fn check(family: &'static str, tied: bool) {
    let model = Tiny::new(family, tied, 11);
    let tokens = sequences::tokens(3, 150);
    let mut backend = loaded(&model).backend;
    let pages = Pages::of(backend.pages()).take(tokens.len());
    let outcome = backend.run(&sequences::prefill(&pages, &tokens)).unwrap();
    for (i, (found, expected)) in outcome
        .logits
        .iter()
        .zip(reference::prefill(&model, &tokens))
        .enumerate()
    {
        let distance = distance(found, &expected.logits);
        assert!(distance < TOLERANCE, "{family}, tied {tied}, row {i}: {distance}");
    }
}

#[test]
fn a_tied_llama_gives_the_reference_logits() {
    check("llama", true);
}

#[test]
fn an_untied_llama_gives_the_reference_logits() {
    check("llama", false);
}

#[test]
fn qwen2_with_its_biases_gives_the_reference_logits() {
    check("qwen2", false);
    check("qwen2", true);
}

#[test]
fn qwen3_with_its_head_norms_gives_the_reference_logits() {
    check("qwen3", true);
}

#[test]
fn decoding_row_by_row_gives_the_bits_of_prefill() {
    let model = Tiny::new("llama", true, 11);
    let tokens = sequences::tokens(4, 90);
    let mut backend = loaded(&model).backend;
    let mut pages = Pages::of(backend.pages());
    let whole = backend
        .run(&sequences::prefill(&pages.take(90), &tokens))
        .unwrap();
    let own = pages.take(90);
    for (i, expected) in whole.logits.iter().enumerate() {
        let row = rows(0, &own, i, &placed(&tokens[i..=i], i as u32));
        let found = backend.run(&batch(vec![prefix(&own, i + 1)], row)).unwrap();
        assert_eq!(found.logits[0], *expected, "row {i}");
    }
}
