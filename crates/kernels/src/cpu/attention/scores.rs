//! Logits of a tile's queries and the keys of a page.
//!
//! A logit is one chain of fused multiply-adds over the head's elements ascending, of the query (turned back,
//! then scaled) and the key. Keys are transposed once a page, so that a vector holds neighbouring slots.

use super::view::lowest;
use super::{Attention, PAGE_TOKENS, PartView};
use crate::cpu::lanes::{LANES, Lanes};
use crate::cpu::tile::{Operands, WIDTH, tile_rows};

/// Queries of a tile, and their logits for one page at a time.
pub struct Scores<'a> {
    call: &'a Attention<'a>,
    kv_head: usize,
    /// Absolute position of every row.
    positions: Vec<u32>,
    /// `[row, head of the group, head_dim]`, as the call has them.
    queries: Vec<f32>,
    /// The same, turned back by `turn` and scaled.
    turned: Vec<f32>,
    turn: Option<i64>,
    /// `[panel of 16 slots, head_dim, 16]`
    keys: Vec<f32>,
    /// `[query, 64]`; what stands in slots that a row does not see has no meaning.
    pub logits: Vec<f32>,
    /// What each row sees of the page.
    pub visible: Vec<u64>,
}

/// What a tile sees of a page.
#[derive(Clone, Copy)]
pub struct Seen {
    /// Panels of 16 slots up to the last slot that a row sees.
    pub panels: usize,
    /// Slots up to the last one that a row sees.
    pub slots: usize,
    /// Whether every row sees all of `slots`.
    pub all: bool,
}

impl<'a> Scores<'a> {
    pub fn new(call: &'a Attention<'a>, rows: &[usize], kv_head: usize) -> Self {
        let (group, dim) = (call.group(), call.shape.head_dim);
        let start = |row: &usize| (row * call.heads + kv_head * group) * dim;
        let queries: Vec<f32> = rows
            .iter()
            .flat_map(|row| &call.queries[start(row)..start(row) + group * dim])
            .copied()
            .collect();
        Self {
            call,
            kv_head,
            positions: rows.iter().map(|&row| call.positions[row]).collect(),
            turned: vec![0.0; queries.len()],
            turn: None,
            keys: vec![0.0; PAGE_TOKENS * dim],
            logits: vec![0.0; queries.len() / dim * PAGE_TOKENS],
            visible: vec![0; rows.len()],
            queries,
        }
    }

    /// Queries of the tile.
    pub fn queries(&self) -> usize {
        self.positions.len() * self.call.group()
    }

    /// Fills `visible` and `logits`, unless no row sees any slot of the page.
    #[inline(always)]
    pub fn page<L: Lanes>(&mut self, part: &PartView<'_>, page: usize) -> Option<Seen> {
        let seen = self.look(part, page)?;
        self.turn_back(part.turn);
        let keys = &self.call.pool[self.call.shape.keys(part.pages[page], self.kv_head)];
        transpose::<L>(keys, self.call.shape.head_dim, seen.panels, &mut self.keys);
        self.multiply::<L>(seen.panels);
        Some(seen)
    }

    fn look(&mut self, part: &PartView<'_>, page: usize) -> Option<Seen> {
        let view = part.page(page);
        let (mut any, mut all) = (0, u64::MAX);
        for (word, &position) in self.visible.iter_mut().zip(&self.positions) {
            *word = view.visible(position);
            any |= *word;
            all &= *word;
        }
        let slots = PAGE_TOKENS - any.leading_zeros() as usize;
        let complete = all == lowest(slots as u64);
        (any != 0).then_some(Seen {
            panels: slots.div_ceil(WIDTH),
            slots,
            all: complete,
        })
    }

    fn turn_back(&mut self, turn: i64) {
        if self.turn == Some(turn) {
            return;
        }
        self.turn = Some(turn);
        self.turned.copy_from_slice(&self.queries);
        if turn != 0 {
            let angles = self.call.rope.turn(-turn);
            let heads = self.turned.chunks_exact_mut(self.call.shape.head_dim);
            heads.for_each(|head| self.call.rope.apply(&angles, head));
        }
        self.turned.iter_mut().for_each(|x| *x *= self.call.scale);
    }

    #[inline(always)]
    fn multiply<L: Lanes>(&mut self, panels: usize) {
        let dim = self.call.shape.head_dim;
        let operands = Operands {
            k: dim,
            a: self.turned.as_ptr(),
            a_stride: dim,
            b: self.keys.as_ptr(),
            b_stride: WIDTH,
            panel_stride: dim * WIDTH,
            c: self.logits.as_mut_ptr(),
            c_stride: PAGE_TOKENS,
            resume: false,
        };
        // SAFETY: `turned` is [queries, dim], `keys` has at least `panels` panels, `logits` is [queries, 64].
        unsafe { tile_rows::<L>(self.queries(), panels, operands) }
    }
}

/// Brings `panels * 16` keys `[slot, dim]` into panels `[dim, 16]`.
#[inline(always)]
fn transpose<L: Lanes>(keys: &[f32], dim: usize, panels: usize, out: &mut [f32]) {
    for (panel, keys) in out
        .chunks_exact_mut(dim * WIDTH)
        .zip(keys.chunks_exact(dim * WIDTH))
        .take(panels)
    {
        for half in 0..WIDTH / LANES {
            let keys = &keys[half * LANES * dim..(half + 1) * LANES * dim];
            eight_slots::<L>(keys, dim, &mut panel[half * LANES..]);
        }
    }
}

/// Writes element `e` of eight keys to `out[16 e..]`.
#[inline(always)]
fn eight_slots<L: Lanes>(keys: &[f32], dim: usize, out: &mut [f32]) {
    let whole = dim - dim % LANES;
    for first in (0..whole).step_by(LANES) {
        let mut rows = [L::zero(); LANES];
        for (slot, row) in rows.iter_mut().enumerate() {
            // The slice is long enough; the conversion can't fail.
            *row = L::from_array(keys[slot * dim + first..].first_chunk().unwrap_or(&[0.0; LANES]));
        }
        for (i, column) in L::transpose(rows).into_iter().enumerate() {
            out[(first + i) * WIDTH..][..LANES].copy_from_slice(&column.to_array());
        }
    }
    for element in whole..dim {
        (0..LANES).for_each(|slot| out[element * WIDTH + slot] = keys[slot * dim + element]);
    }
}
