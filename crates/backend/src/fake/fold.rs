//! What the rows of one sequence see besides each other.
//!
//! Slots are summed into buckets, one a row: a bucket holds what its row sees and the row before it does not. So a
//! call costs a step a slot and not a step for every pair of row and slot.

use std::collections::{HashMap, HashSet};

use medley_kv::{PAGE_TOKENS, PageId, Position, SlotId};

use super::slots::{Slots, State};
use crate::{BackendError, Batch, Part, PartKind};

/// The rows of a sequence in ascending order of their positions.
pub(super) struct SequenceRows {
    /// Indices into the batch.
    rows: Vec<usize>,
    buckets: Vec<Bucket>,
}

#[derive(Clone, Copy, Default)]
struct Bucket {
    fold: u64,
    /// A slot that can't be read.
    unreadable: Option<SlotId>,
}

impl SequenceRows {
    /// Sums what the rows of `sequence` see, from the slots as they are now.
    pub fn gather(batch: &Batch, sequence: usize, slots: &Slots) -> Result<Self, BackendError> {
        let mut rows: Vec<usize> = (0..batch.rows.len())
            .filter(|&i| batch.rows[i].sequence == sequence)
            .collect();
        rows.sort_by_key(|&i| batch.rows[i].position);
        let positions: Vec<Position> = rows.iter().map(|&i| batch.rows[i].position).collect();
        if let Some(pair) = positions.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(BackendError::Invalid(format!(
                "sequence {sequence} has two rows at position {}",
                pair[0]
            )));
        }
        let own = rows
            .iter()
            .map(|&i| (batch.rows[i].slot, (batch.rows[i].position, false)))
            .collect();
        let pages = rows.iter().map(|&i| batch.rows[i].slot.page()).collect();
        let buckets = vec![Bucket::default(); positions.len()];
        let mut gather = Gather {
            slots,
            needed: State::of(batch.depth),
            own,
            pages,
            positions,
            buckets,
        };
        batch.sequences[sequence]
            .parts
            .iter()
            .try_for_each(|part| gather.add(part))?;
        match gather.own.iter().find(|(_, (_, met))| !met) {
            Some((slot, _)) => Err(BackendError::Invalid(format!(
                "row slot {} is in no visible place",
                slot.0
            ))),
            None => Ok(Self {
                rows,
                buckets: gather.buckets,
            }),
        }
    }

    /// Each row with what it sees and the row before it does not, that row excepted.
    pub fn iter(&self) -> impl Iterator<Item = (usize, Result<u64, BackendError>)> {
        self.rows.iter().zip(&self.buckets).map(|(&row, bucket)| {
            let unwritten =
                |slot: SlotId| BackendError::Invalid(format!("row {row} reads unwritten slot {}", slot.0));
            (
                row,
                bucket
                    .unreadable
                    .map_or(Ok(bucket.fold), |slot| Err(unwritten(slot))),
            )
        })
    }
}

struct Gather<'a> {
    slots: &'a Slots,
    /// What must be written of a slot that is read.
    needed: State,
    /// Slots of the rows: where the row stands, and whether the slot has been met in a part.
    own: HashMap<SlotId, (Position, bool)>,
    /// Their pages.
    pages: HashSet<PageId>,
    positions: Vec<Position>,
    buckets: Vec<Bucket>,
}

impl Gather<'_> {
    fn add(&mut self, part: &Part) -> Result<(), BackendError> {
        for first in (0..part.len).step_by(PAGE_TOKENS) {
            let own = self.pages.contains(&part.pages[first / PAGE_TOKENS]);
            for index in first..part.len.min(first + PAGE_TOKENS) {
                let hidden = matches!(&part.kind, PartKind::Document { hidden, .. } if hidden.hides(index));
                let met = !hidden && own && self.meet(part, index)?;
                if !hidden && !met {
                    self.read(part, index);
                }
            }
        }
        Ok(())
    }

    /// Checks a slot that may be a row's own; whether it is.
    fn meet(&mut self, part: &Part, index: usize) -> Result<bool, BackendError> {
        let slot = SlotId::of(&part.pages, index);
        let Some((position, met)) = self.own.get_mut(&slot) else {
            return Ok(false);
        };
        let placed = match &part.kind {
            PartKind::Document { start, local, .. } => start == local,
            _ => true,
        };
        if std::mem::replace(met, true) || !placed || part.position(index) != *position {
            let what = format!(
                "row slot {} at position {position} stands at another position too",
                slot.0
            );
            return Err(BackendError::Invalid(what));
        }
        Ok(true)
    }

    /// Adds a slot to the first row that sees it.
    fn read(&mut self, part: &Part, index: usize) {
        let position = part.position(index);
        let row = self.positions.partition_point(|row| *row < position);
        let Some(bucket) = self.buckets.get_mut(row) else {
            return;
        };
        let slot = SlotId::of(&part.pages, index);
        if self.slots.get(slot).state < self.needed {
            bucket.unreadable = Some(slot);
        }
        bucket.fold = bucket.fold.wrapping_add(self.slots.seen(part, index));
    }
}
