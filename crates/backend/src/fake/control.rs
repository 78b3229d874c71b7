//! Counters and faults of a fake backend, for whoever has given it away.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use medley_kv::{PageId, SlotId};

use crate::{BackendError, Batch, Depth, PartKind, Sequence};

/// Rows that a backend was asked to run, by kind. Rows of calls that failed count too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowCounts {
    /// Calls.
    pub calls: usize,
    /// Calls that failed, injected faults included.
    pub failures: usize,
    /// All rows.
    pub rows: usize,
    /// Rows of the largest call.
    pub largest_call: usize,
    /// Rows that fill a prefix part.
    pub prefix: usize,
    /// Rows that fill a document part.
    pub document: usize,
    /// Rows that fill an overlay.
    pub overlay: usize,
    /// Rows that run up to some layer's keys only.
    pub keys: usize,
    /// Rows whose logits were asked for.
    pub logits: usize,
    /// Rows whose attention was added up.
    pub observed: usize,
    /// Rows whose keys were compared.
    pub compared: usize,
    /// Pages that were copied.
    pub copies: usize,
}

/// A handle on a [`super::FakeBackend`]. Cheap to clone; usable from any thread.
#[derive(Clone, Debug, Default)]
pub struct FakeControl(Arc<Mutex<Shared>>);

#[derive(Debug, Default)]
struct Shared {
    counts: RowCounts,
    failing: usize,
    lost: bool,
    poisoned: Vec<PageId>,
}

impl FakeControl {
    /// Lets the next `n` calls fail with [`BackendError::Device`].
    pub fn fail_next(&self, n: usize) {
        self.shared().failing = n;
    }

    /// Lets every further call fail with [`BackendError::Lost`].
    pub fn lose(&self) {
        self.shared().lost = true;
    }

    /// Ends the life of what `pages` hold: from the next call on, reading it is an error until it is written again.
    pub fn poison(&self, pages: impl IntoIterator<Item = PageId>) {
        self.shared().poisoned.extend(pages);
    }

    /// What has been run so far.
    pub fn counts(&self) -> RowCounts {
        self.shared().counts
    }

    /// Counts a call; an error if it is to fail.
    pub(super) fn begin(&self, batch: &Batch) -> Result<(), BackendError> {
        let mut shared = self.shared();
        shared.counts.add(batch);
        if shared.lost {
            return Err(BackendError::Lost("an injected fault".to_owned()));
        }
        if shared.failing == 0 {
            return Ok(());
        }
        shared.failing -= 1;
        Err(BackendError::Device("an injected fault".to_owned()))
    }

    /// Counts copies; an error if the device is lost.
    pub(super) fn begin_copies(&self, pages: usize) -> Result<(), BackendError> {
        let mut shared = self.shared();
        shared.counts.copies += pages;
        match shared.lost {
            true => Err(BackendError::Lost("an injected fault".to_owned())),
            false => Ok(()),
        }
    }

    pub(super) fn count_failure(&self) {
        self.shared().counts.failures += 1;
    }

    pub(super) fn take_poisoned(&self) -> Vec<PageId> {
        std::mem::take(&mut self.shared().poisoned)
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RowCounts {
    fn add(&mut self, batch: &Batch) {
        self.calls += 1;
        self.rows += batch.rows.len();
        self.largest_call = self.largest_call.max(batch.rows.len());
        self.logits += batch.logits.len();
        self.observed += batch.probes.iter().map(|probe| probe.rows.len()).sum::<usize>();
        self.compared += batch.deviations.len();
        if matches!(batch.depth, Depth::Keys(_)) {
            self.keys += batch.rows.len();
        }
        for row in &batch.rows {
            match batch
                .sequences
                .get(row.sequence)
                .and_then(|sequence| filled(sequence, row.slot))
            {
                Some(PartKind::Prefix) => self.prefix += 1,
                Some(PartKind::Document { .. }) => self.document += 1,
                Some(PartKind::Overlay { .. }) => self.overlay += 1,
                None => {}
            }
        }
    }
}

/// The kind of the part that `slot` belongs to; new rows usually stand in the last part.
fn filled(sequence: &Sequence, slot: SlotId) -> Option<&PartKind> {
    sequence
        .parts
        .iter()
        .rev()
        .find(|part| part.pages.contains(&slot.page()))
        .map(|part| &part.kind)
}
