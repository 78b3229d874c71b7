//! Prompts for tests.

use medley_kv::{Document, Prompt, Segment, TokenId};

fn tokens(ids: &[u32]) -> Vec<TokenId> {
    ids.iter().copied().map(TokenId).collect()
}

pub(crate) fn text(ids: &[u32]) -> Segment {
    Segment::Text(tokens(ids).into())
}

pub(crate) fn document(anchor: &[u32], ids: &[u32]) -> Segment {
    Segment::Document(Document {
        name: None,
        anchor: tokens(anchor).into(),
        tokens: tokens(ids).into(),
    })
}

/// A prompt of texts and documents in any order, some of them empty, some documents exact, with any question row.
pub(crate) fn random(seed: u64) -> Prompt {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut segments = vec![text(&[1])];
    for _ in 0..rng.usize(..7) {
        let ids: Vec<u32> = (0..rng.usize(..12)).map(|_| rng.u32(1..50)).collect();
        let anchor = if rng.u8(..4) == 0 { vec![1] } else { vec![1, 2] };
        segments.push(if rng.u8(..3) == 0 {
            text(&ids)
        } else {
            document(&anchor, &ids)
        });
    }
    let len: usize = segments.iter().map(|s| s.tokens().len()).sum();
    let question = if rng.bool() { len - 1 } else { rng.usize(..len) };
    Prompt::with_question(segments, question).expect("a prompt")
}
