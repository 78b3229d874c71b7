//! Random sequences of parts in a pool.

use medley_kernels::cpu::attention::{Attention, PAGE_TOKENS, PartView, PoolShape, Positions};
use medley_kernels::cpu::pool::Threads;
use medley_kernels::cpu::rope::{RopeLayout, RopeScaling, RopeTable};

/// A part that owns what its view borrows.
#[derive(Clone, Debug)]
pub struct OwnedPart {
    pub pages: Vec<u32>,
    pub len: usize,
    pub from: u32,
    pub list: Option<Vec<u32>>,
    pub turn: i64,
    pub hidden: Option<Vec<u64>>,
}

impl OwnedPart {
    fn view(&self) -> PartView<'_> {
        let positions = self
            .list
            .as_deref()
            .map_or(Positions::From(self.from), Positions::List);
        PartView {
            pages: &self.pages,
            len: self.len,
            positions,
            turn: self.turn,
            hidden: self.hidden.as_deref(),
        }
    }

    pub fn position(&self, slot: usize) -> u32 {
        self.list
            .as_ref()
            .map_or(self.from + slot as u32, |list| list[slot])
    }

    fn hides(&self, slot: usize) -> bool {
        self.hidden
            .as_ref()
            .is_some_and(|words| words[slot / PAGE_TOKENS] >> (slot % PAGE_TOKENS) & 1 == 1)
    }

    /// The pool's slots that a row at `position` sees.
    pub fn seen(&self, position: u32) -> impl Iterator<Item = u32> {
        let slots = (0..self.len).filter(move |&slot| !self.hides(slot) && self.position(slot) <= position);
        slots.map(|slot| self.pages[slot / PAGE_TOKENS] * PAGE_TOKENS as u32 + (slot % PAGE_TOKENS) as u32)
    }
}

/// Everything that one call needs.
#[derive(Clone, Debug)]
pub struct Scene {
    pub shape: PoolShape,
    pub heads: usize,
    pub pool: Vec<f32>,
    pub rope: RopeTable,
    pub queries: Vec<f32>,
    pub positions: Vec<u32>,
    pub sequence: Vec<u32>,
    pub parts: Vec<Vec<OwnedPart>>,
}

pub fn random(rng: &mut fastrand::Rng, len: usize) -> Vec<f32> {
    (0..len).map(|_| rng.f32() * 4.0 - 2.0).collect()
}

impl Scene {
    /// Two or three sequences of a prefix, documents (some twice, on the same pages) and an overlay, and rows
    /// anywhere in them in any order.
    pub fn new(seed: u64, kv_heads: usize, group: usize, head_dim: usize, rows: usize) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let shape = PoolShape {
            pages: 24,
            kv_heads,
            head_dim,
        };
        let parts: Vec<_> = (0..rng.usize(2..=3))
            .map(|_| sequence(&mut rng, shape.pages as u32))
            .collect();
        let layout = if rng.bool() {
            RopeLayout::Halves
        } else {
            RopeLayout::Interleaved
        };
        let heads = kv_heads * group;
        Self {
            shape,
            heads,
            pool: random(&mut rng, shape.len()),
            rope: RopeTable::new(head_dim - head_dim % 2, 10_000.0, layout, RopeScaling::None, 512),
            queries: random(&mut rng, rows * heads * head_dim),
            positions: (0..rows).map(|_| rng.u32(0..900)).collect(),
            sequence: (0..rows).map(|_| rng.u32(0..parts.len() as u32)).collect(),
            parts,
        }
    }

    pub fn views(&self) -> Vec<Vec<PartView<'_>>> {
        self.parts
            .iter()
            .map(|parts| parts.iter().map(OwnedPart::view).collect())
            .collect()
    }

    pub fn call<'a>(&'a self, views: &'a [Vec<PartView<'a>>]) -> Attention<'a> {
        Attention {
            shape: self.shape,
            pool: &self.pool,
            heads: self.heads,
            scale: 1.0 / (self.shape.head_dim as f32).sqrt(),
            rope: &self.rope,
            queries: &self.queries,
            positions: &self.positions,
            sequence: &self.sequence,
            sequences: views,
        }
    }

    /// The same call with some of the rows, in this order.
    pub fn only(&self, rows: &[usize]) -> Self {
        let width = self.row_len();
        Self {
            queries: rows
                .iter()
                .flat_map(|row| &self.queries[row * width..(row + 1) * width])
                .copied()
                .collect(),
            positions: rows.iter().map(|&row| self.positions[row]).collect(),
            sequence: rows.iter().map(|&row| self.sequence[row]).collect(),
            ..self.clone()
        }
    }

    pub fn rows(&self) -> usize {
        self.positions.len()
    }

    pub fn row_len(&self) -> usize {
        self.heads * self.shape.head_dim
    }

    /// Output and log-sum-exp.
    pub fn run(&self, threads: &Threads) -> (Vec<f32>, Vec<f32>) {
        let views = self.views();
        let (mut out, mut lse) = (
            vec![f32::NAN; self.queries.len()],
            vec![f32::NAN; self.rows() * self.heads],
        );
        self.call(&views).run(&mut out, Some(&mut lse), threads);
        (out, lse)
    }

    /// Output and log-sum-exp of one row of a result.
    pub fn row<'a>(&self, row: usize, (out, lse): &'a (Vec<f32>, Vec<f32>)) -> (&'a [f32], &'a [f32]) {
        let width = self.row_len();
        (
            &out[row * width..(row + 1) * width],
            &lse[row * self.heads..(row + 1) * self.heads],
        )
    }
}

fn sequence(rng: &mut fastrand::Rng, pages: u32) -> Vec<OwnedPart> {
    let prefix = document(rng, pages, 0);
    let mut parts = vec![OwnedPart {
        turn: 0,
        hidden: None,
        ..prefix
    }];
    let mut from = parts[0].len as u32;
    for _ in 0..rng.usize(0..4) {
        let mut part = document(rng, pages, from);
        if rng.bool() {
            // The same document again: the same pages and length, at another place.
            part.pages.clone_from(&parts[parts.len() - 1].pages);
            part.len = parts[parts.len() - 1].len;
            part.hidden = None;
        }
        from += part.len as u32 + rng.u32(0..30);
        parts.push(part);
    }
    let len = rng.usize(1..200);
    let list = (0..len).map(|_| rng.u32(0..900)).collect();
    parts.push(OwnedPart {
        list: Some(list),
        turn: 0,
        hidden: None,
        len,
        ..document_of(rng, pages, len, 0)
    });
    parts
}

fn document(rng: &mut fastrand::Rng, pages: u32, from: u32) -> OwnedPart {
    let len = if rng.bool() {
        rng.usize(1..300)
    } else {
        64 * rng.usize(1..4)
    };
    document_of(rng, pages, len, from)
}

fn document_of(rng: &mut fastrand::Rng, pages: u32, len: usize, from: u32) -> OwnedPart {
    let count = len.div_ceil(PAGE_TOKENS);
    let kinds = [0, u64::MAX];
    let word = |rng: &mut fastrand::Rng| *rng.choice(&kinds).unwrap_or(&0) & rng.u64(..) & rng.u64(..);
    OwnedPart {
        pages: (0..count).map(|_| rng.u32(0..pages)).collect(),
        len,
        from,
        list: None,
        turn: i64::from(rng.i32(-400..400)),
        hidden: rng.bool().then(|| {
            (0..count)
                .map(|_| if rng.u8(..) < 30 { u64::MAX } else { word(rng) })
                .collect()
        }),
    }
}
