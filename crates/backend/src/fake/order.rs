//! In which order the sequences of a call are computed.
//!
//! The port writes every row's slot before any row attends, so a sequence may read what another one writes in the
//! same call. Here the writer is computed first. Sequences that read each other have no such order.

use std::collections::{HashMap, HashSet};

use medley_kv::{PAGE_TOKENS, PageId, SlotId};

use crate::{BackendError, Batch};

/// The sequences that have rows, writers before their readers.
pub(super) fn sequences(batch: &Batch) -> Result<Vec<usize>, BackendError> {
    let writers = Writers::new(batch);
    let mut waiting: Vec<usize> = batch.rows.iter().map(|row| row.sequence).collect();
    waiting.sort_unstable();
    waiting.dedup();
    let needs: HashMap<usize, HashSet<usize>> =
        waiting.iter().map(|&s| (s, writers.read_by(batch, s))).collect();
    let mut order = Vec::with_capacity(waiting.len());
    while !waiting.is_empty() {
        let ready = |s: &usize| needs[s].iter().all(|writer| order.contains(writer));
        let (mut now, later): (Vec<_>, Vec<_>) = waiting.iter().partition(|s| ready(s));
        if now.is_empty() {
            return Err(BackendError::Invalid(
                "sequences read each other's rows".to_owned(),
            ));
        }
        order.append(&mut now);
        waiting = later;
    }
    Ok(order)
}

/// Which sequence writes which slot.
struct Writers {
    slots: HashMap<SlotId, usize>,
    pages: HashSet<PageId>,
}

impl Writers {
    fn new(batch: &Batch) -> Self {
        let slots = batch.rows.iter().map(|row| (row.slot, row.sequence)).collect();
        Self {
            slots,
            pages: batch.rows.iter().map(|row| row.slot.page()).collect(),
        }
    }

    /// Other sequences whose rows `sequence` sees.
    fn read_by(&self, batch: &Batch, sequence: usize) -> HashSet<usize> {
        let rows = batch.rows.iter().filter(|row| row.sequence == sequence);
        let Some(last) = rows.map(|row| row.position).max() else {
            return HashSet::new();
        };
        let mut read = HashSet::new();
        for part in &batch.sequences[sequence].parts {
            for first in (0..part.len).step_by(PAGE_TOKENS) {
                if !self.pages.contains(&part.pages[first / PAGE_TOKENS]) {
                    continue;
                }
                let slots = first..part.len.min(first + PAGE_TOKENS);
                let seen = slots
                    .filter(|&slot| part.visible(slot, last))
                    .map(|slot| SlotId::of(&part.pages, slot));
                read.extend(
                    seen.filter_map(|slot| self.slots.get(&slot))
                        .filter(|&&writer| writer != sequence),
                );
            }
        }
        read
    }
}
