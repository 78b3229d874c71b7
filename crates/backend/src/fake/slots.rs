//! The pool: one value a slot, and how much of it has been written in this life.

use medley_kv::{PAGE_TOKENS, PageId, Position, SlotId};

use super::hash;
use crate::{Part, PartKind};

/// How many layers of a slot are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct State(u32);

impl State {
    /// Nothing in this life.
    pub const UNWRITTEN: Self = Self(0);
    /// All layers.
    pub const FULL: Self = Self(u32::MAX);

    /// The layers below `layer`.
    pub fn below(layer: usize) -> Self {
        Self(u32::try_from(layer).unwrap_or(u32::MAX - 1).min(u32::MAX - 1))
    }
}

/// What a slot holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub value: u64,
    pub rotated_at: Position,
    pub state: State,
}

const EMPTY: Slot = Slot {
    value: 0,
    rotated_at: Position(0),
    state: State::UNWRITTEN,
};

pub(super) struct Slots(Vec<Slot>);

impl Slots {
    pub fn new(pages: usize) -> Self {
        Self(vec![EMPTY; pages * PAGE_TOKENS])
    }

    pub fn get(&self, slot: SlotId) -> Slot {
        self.0.get(slot.0 as usize).copied().unwrap_or(EMPTY)
    }

    pub fn write(&mut self, slot: SlotId, value: u64, rotated_at: Position, state: State) {
        self.0[slot.0 as usize] = Slot {
            value,
            rotated_at,
            state,
        };
    }

    pub fn clear_slot(&mut self, slot: SlotId) {
        if let Some(slot) = self.0.get_mut(slot.0 as usize) {
            *slot = EMPTY;
        }
    }

    pub fn clear_page(&mut self, page: PageId) {
        (0..PAGE_TOKENS).for_each(|offset| self.clear_slot(page.slot(offset)));
    }

    pub fn copy_page(&mut self, from: PageId, to: PageId) {
        let first = |page: PageId| page.slot(0).0 as usize;
        let (from, to) = (first(from), first(to));
        self.0.copy_within(from..from + PAGE_TOKENS, to);
    }

    /// What slot `index` of a part adds to a row that sees it.
    pub fn seen(&self, part: &Part, index: usize) -> u64 {
        let slot = self.get(SlotId::of(&part.pages, index));
        let turned = match &part.kind {
            PartKind::Document { start, local, .. } => i64::from(start.0) - i64::from(local.0),
            _ => 0,
        };
        hash::seen(
            slot.value,
            part.position(index),
            i64::from(slot.rotated_at.0) + turned,
        )
    }
}
