//! Ways to write sequences and batches.

use std::sync::Arc;

use medley_backend::{Batch, Mask, Part, PartKind, Row, Sequence};
use medley_kv::{PageId, Position, SlotId, TokenId, pages_for};

use crate::tiny::VOCAB;

/// Hands out pages, never the same twice, not in order.
pub struct Pages(Vec<u32>);

impl Pages {
    pub fn of(pool: usize) -> Self {
        let mut pages: Vec<u32> = (0..pool as u32).collect();
        fastrand::Rng::with_seed(5).shuffle(&mut pages);
        Self(pages)
    }

    pub fn take(&mut self, tokens: usize) -> Arc<[PageId]> {
        (0..pages_for(tokens))
            .map(|_| PageId(self.0.pop().expect("a page")))
            .collect()
    }
}

pub fn tokens(seed: u64, count: usize) -> Vec<u32> {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..count).map(|_| random.u32(0..VOCAB as u32)).collect()
}

pub fn prefix(pages: &Arc<[PageId]>, len: usize) -> Part {
    Part {
        pages: Arc::clone(pages),
        len,
        kind: PartKind::Prefix,
    }
}

pub fn document(pages: &Arc<[PageId]>, len: usize, start: u32, local: u32) -> Part {
    let hidden = Mask::none(len);
    Part {
        pages: Arc::clone(pages),
        len,
        kind: PartKind::Document {
            start: Position(start),
            local: Position(local),
            hidden,
        },
    }
}

pub fn overlay(pages: &Arc<[PageId]>, positions: &[u32]) -> Part {
    let positions: Vec<_> = positions.iter().map(|&p| Position(p)).collect();
    Part {
        pages: Arc::clone(pages),
        len: positions.len(),
        kind: PartKind::Overlay { positions },
    }
}

/// Rows of sequence `sequence` for slots `first..` of `pages`.
pub fn rows(sequence: usize, pages: &[PageId], first: usize, tokens: &[(u32, u32)]) -> Vec<Row> {
    let row = |(i, &(token, position)): (usize, &(u32, u32))| Row {
        sequence,
        token: TokenId(token),
        position: Position(position),
        slot: SlotId::of(pages, first + i),
    };
    tokens.iter().enumerate().map(row).collect()
}

/// `tokens` at consecutive positions from `first`.
pub fn placed(tokens: &[u32], first: u32) -> Vec<(u32, u32)> {
    tokens
        .iter()
        .zip(first..)
        .map(|(&token, position)| (token, position))
        .collect()
}

/// One sequence's rows, with logits for all of them.
pub fn batch(parts: Vec<Part>, rows: Vec<Row>) -> Batch {
    let logits = (0..rows.len()).collect();
    Batch {
        sequences: vec![Sequence::new(parts)],
        rows,
        logits,
        ..Batch::default()
    }
}

/// Plain causal prefill of `tokens`, with logits for all of them.
pub fn prefill(pages: &Arc<[PageId]>, tokens: &[u32]) -> Batch {
    batch(
        vec![prefix(pages, tokens.len())],
        rows(0, pages, 0, &placed(tokens, 0)),
    )
}

/// Largest difference, relative to the largest expected magnitude.
pub fn distance(found: &[f32], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let scale = expected.iter().fold(0.0f64, |max, x| max.max(x.abs()));
    found
        .iter()
        .zip(expected)
        .map(|(f, e)| (f64::from(*f) - e).abs())
        .fold(0.0, f64::max)
        / scale
}
