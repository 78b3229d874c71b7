//! Full attention of one row and head at a time over the list of all slots it sees.

use std::ops::Range;

use super::rotate;
use crate::cpu::attention::{Attention, PAGE_TOKENS, PartView, Positions};

/// Output `[rows, heads, head_dim]` and log-sum-exp `[rows, heads]`.
pub fn attention(call: &Attention<'_>) -> (Vec<f32>, Vec<f32>) {
    let heads = (0..call.positions.len()).flat_map(|row| (0..call.heads).map(move |head| (row, head)));
    let results: Vec<_> = heads.map(|(row, head)| attend(call, row, head)).collect();
    let lse = results.iter().map(|(_, lse)| *lse).collect();
    (results.into_iter().flat_map(|(out, _)| out).collect(), lse)
}

/// See [`Attention::masses`].
pub fn masses(call: &Attention<'_>, row: usize, weight: f32, lse: &[f32], part: usize, masses: &mut [u64]) {
    for (head, lse) in lse.iter().enumerate() {
        for (slot, logit) in logits(call, row, head, part) {
            let share = (logit - f64::from(*lse)).exp();
            masses[slot] += (f64::from(weight) * share * 2f64.powi(32)).round() as u64;
        }
    }
}

/// Output and log-sum-exp of one head.
fn attend(call: &Attention<'_>, row: usize, head: usize) -> (Vec<f32>, f32) {
    let parts = 0..call.sequences[call.sequence[row] as usize].len();
    let seen: Vec<(f64, Range<usize>)> = parts
        .flat_map(|part| {
            logits(call, row, head, part)
                .into_iter()
                .map(move |(slot, s)| (part, slot, s))
        })
        .map(|(part, slot, s)| (s, value(call, row, head, part, slot)))
        .collect();
    let max = seen.iter().map(|(s, _)| *s).fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = seen.iter().map(|(s, _)| (s - max).exp()).sum();
    let mut out = vec![0.0; call.shape.head_dim];
    for (s, value) in seen {
        let share = (s - max).exp() / sum;
        out.iter_mut()
            .zip(&call.pool[value])
            .for_each(|(out, v)| *out += share * f64::from(*v));
    }
    (
        out.into_iter().map(|x| x as f32).collect(),
        (max + sum.ln()) as f32,
    )
}

/// Slots of a part that the row sees, with their scaled logits.
fn logits(call: &Attention<'_>, row: usize, head: usize, part: usize) -> Vec<(usize, f64)> {
    let dim = call.shape.head_dim;
    let view = &call.sequences[call.sequence[row] as usize][part];
    let start = (row * call.heads + head) * dim;
    let query = rotate(call.rope, &call.queries[start..start + dim], -view.turn);
    let logit = |slot| {
        let key = &call.pool[call.shape.key_range(place(view, slot), kv_head(call, head))];
        let dot: f64 = query.iter().zip(key).map(|(q, k)| q * f64::from(*k)).sum();
        (slot, dot * f64::from(call.scale))
    };
    let slots = (0..view.len).filter(|&slot| sees(view, slot, call.positions[row]));
    slots.map(logit).collect()
}

fn value(call: &Attention<'_>, row: usize, head: usize, part: usize, slot: usize) -> Range<usize> {
    let view = &call.sequences[call.sequence[row] as usize][part];
    call.shape.value_range(place(view, slot), kv_head(call, head))
}

fn kv_head(call: &Attention<'_>, head: usize) -> usize {
    head / (call.heads / call.shape.kv_heads)
}

/// The pool's slot of a part's slot.
fn place(view: &PartView<'_>, slot: usize) -> u32 {
    view.pages[slot / PAGE_TOKENS] * PAGE_TOKENS as u32 + (slot % PAGE_TOKENS) as u32
}

fn sees(view: &PartView<'_>, slot: usize, position: u32) -> bool {
    let held = match view.positions {
        Positions::From(from) => from as usize + slot,
        Positions::List(list) => list[slot] as usize,
    };
    let hidden = view
        .hidden
        .is_some_and(|words| words[slot / PAGE_TOKENS] >> (slot % PAGE_TOKENS) & 1 == 1);
    !hidden && held <= position as usize
}
