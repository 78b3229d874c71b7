//! A deterministic backend without a model: its logits are a function of everything that a row sees.
//!
//! Every slot stores one 64-bit value in place of keys and values. The value of a row is
//! `hash(token, position, fold)`, where `fold` sums `hash(value, position)` over all other slots that the row sees;
//! the logits are a function of `fold` and of the row itself. So the text changes when
//!
//! - a mask hides a slot too many or too few, or a superseded slot stays visible beside its repair;
//! - a document stands at a wrong offset, occurs once too often, or its keys were rotated elsewhere;
//! - a row sees a position behind its own;
//! - a page holds what another life has left in it.
//!
//! **What holds as for a model:** a row's results depend on its sequence's parts and nothing else: not on the other
//! rows of the call, nor on how ascending rows are split over calls. Rows of one call see each other, in ascending
//! order of their positions and across sequences. A repair of everything equals a plain prefill, bit by bit. A
//! document computed alone has other values than in its context, unless it stands behind exactly its anchor.
//!
//! **What it adds:** reading a slot that was never written since the start or since [`FakeControl::poison`] is
//! [`BackendError::Invalid`], and so is reading in full what [`Depth::Keys`] or a failed call has left. A row must
//! have its slot in exactly one visible place of its sequence, at its own position.
//!
//! **What it does not have:** an order of sums (the order of parts changes nothing), rounding, or meaning: scores
//! and deviations are pseudo-random, so no selection rule is better than another.

mod config;
mod control;
mod fold;
mod hash;
mod order;
mod slots;
#[cfg(test)]
mod tests;

pub use config::FakeConfig;
pub use control::{FakeControl, RowCounts};

use medley_kv::{KvGeometry, PageId};

use crate::{Backend, BackendError, Batch, Depth, Deviation, Outcome, Probe, Scores, Sequence};
use fold::SequenceRows;
use hash::mix;
use slots::{Slots, State};

/// The deterministic backend.
pub struct FakeBackend {
    config: FakeConfig,
    slots: Slots,
    control: FakeControl,
}

/// What a row of the current call has become.
#[derive(Clone, Copy, Debug, Default)]
struct Computed {
    /// What its slot stores.
    value: u64,
    /// Of everything that it sees, itself included.
    seen: u64,
}

impl FakeBackend {
    /// A backend whose pool has never been written.
    pub fn new(config: FakeConfig) -> Self {
        let slots = Slots::new(config.pages);
        Self {
            config,
            slots,
            control: FakeControl::default(),
        }
    }

    /// A handle on its counters and faults that outlives the move of the backend into its owner.
    pub fn control(&self) -> FakeControl {
        self.control.clone()
    }

    fn run_checked(&mut self, batch: &Batch) -> Result<Outcome, BackendError> {
        batch.check(self.config.pages, self.config.vocab)?;
        let mut computed = vec![Computed::default(); batch.rows.len()];
        for sequence in order::sequences(batch)? {
            self.run_sequence(batch, sequence, &mut computed)?;
        }
        let scores = batch
            .probes
            .iter()
            .map(|probe| self.score(batch, probe, &computed));
        let deviations = batch
            .deviations
            .iter()
            .map(|deviation| self.deviate(deviation, &computed));
        let logits = |&row: &usize| self.logits(computed[row].seen);
        Ok(Outcome {
            logits: batch.logits.iter().map(logits).collect(),
            drawn: batch
                .draws
                .iter()
                .map(|draw| crate::draw(&logits(&draw.row), draw))
                .collect(),
            scores: scores.collect::<Result<_, _>>()?,
            deviations: deviations.collect::<Result<_, _>>()?,
        })
    }

    /// Computes and writes the rows of one sequence in ascending order of their positions.
    fn run_sequence(
        &mut self,
        batch: &Batch,
        sequence: usize,
        computed: &mut [Computed],
    ) -> Result<(), BackendError> {
        let rows = SequenceRows::gather(batch, sequence, &self.slots)?;
        let mut fold = 0u64;
        for (index, others) in rows.iter() {
            fold = fold.wrapping_add(others?);
            let row = &batch.rows[index];
            let position = u64::from(row.position.0);
            let value = mix(mix(u64::from(row.token.0), position), fold);
            fold = fold.wrapping_add(hash::seen(value, row.position, i64::from(row.position.0)));
            computed[index] = Computed { value, seen: fold };
            self.slots
                .write(row.slot, value, row.position, State::of(batch.depth));
        }
        Ok(())
    }

    /// One strong arg-max over cheap noise between 0 and 1.
    fn logits(&self, seen: u64) -> Vec<f32> {
        let mut logits: Vec<f32> = (0..self.config.vocab as u64)
            .map(|id| hash::noise(seen, id))
            .collect();
        let allowed = |id: &usize| !self.config.muted.iter().any(|token| token.0 as usize == *id);
        let start = (mix(seen, 1) % self.config.vocab.max(1) as u64) as usize;
        let ids = (start..self.config.vocab).chain(0..start);
        if let Some(best) = ids.into_iter().find(allowed) {
            logits[best] += FakeConfig::MARGIN;
        }
        for token in &self.config.muted {
            if let Some(logit) = logits.get_mut(token.0 as usize) {
                *logit = -FakeConfig::MARGIN;
            }
        }
        logits
    }

    fn score(&self, batch: &Batch, probe: &Probe, computed: &[Computed]) -> Result<Scores, BackendError> {
        let Some(Sequence { parts, .. }) = batch.sequences.get(probe.sequence) else {
            return Err(BackendError::Invalid(format!(
                "a probe of sequence {}",
                probe.sequence
            )));
        };
        let mut scores = Scores::zeros(parts);
        for asker in &probe.rows {
            let (row, value) = (&batch.rows[asker.row], computed[asker.row].value);
            if row.sequence != probe.sequence {
                return Err(BackendError::Invalid(format!(
                    "a probe of row {} of another sequence",
                    asker.row
                )));
            }
            for (p, part) in parts.iter().enumerate().filter(|(p, _)| Some(*p) != asker.except) {
                for (slot, score) in scores.0[p].iter_mut().enumerate() {
                    if part.visible(slot, row.position) {
                        let key = self.slots.seen(part, slot);
                        *score += (((mix(value, key) >> 32) as f64) * f64::from(asker.weight)) as u64;
                    }
                }
            }
        }
        Ok(scores)
    }

    /// 0 when the row's value equals the reference, else between 0 and 1.
    fn deviate(&self, deviation: &Deviation, computed: &[Computed]) -> Result<f32, BackendError> {
        let reference = self.slots.get(deviation.reference);
        if reference.state != State::FULL {
            return Err(BackendError::Invalid(format!(
                "reference slot {} is unwritten",
                deviation.reference.0
            )));
        }
        let value = computed[deviation.row].value;
        let turn = u64::from(reference.rotated_at.0.abs_diff(deviation.rotated_at.0));
        let equal = value == reference.value && turn == 0;
        Ok(if equal {
            0.0
        } else {
            hash::noise(mix(value, reference.value), turn).max(f32::EPSILON)
        })
    }

    /// Whatever the rows were to fill holds nothing of use.
    fn spoil(&mut self, batch: &Batch) {
        batch.rows.iter().for_each(|row| self.slots.clear_slot(row.slot));
    }
}

impl Backend for FakeBackend {
    fn geometry(&self) -> KvGeometry {
        self.config.geometry
    }

    fn vocab(&self) -> usize {
        self.config.vocab
    }

    fn pages(&self) -> usize {
        self.config.pages
    }

    fn copy_pages(&mut self, pairs: &[(PageId, PageId)]) -> Result<(), BackendError> {
        self.control.begin_copies(pairs.len())?;
        crate::check_copies(pairs, self.config.pages)?;
        pairs
            .iter()
            .for_each(|&(from, to)| self.slots.copy_page(from, to));
        Ok(())
    }

    fn run(&mut self, batch: &Batch) -> Result<Outcome, BackendError> {
        self.control
            .take_poisoned()
            .into_iter()
            .for_each(|page| self.slots.clear_page(page));
        let outcome = match self.control.begin(batch) {
            Ok(()) => self.run_checked(batch),
            Err(error) => Err(error),
        };
        if outcome.is_err() {
            self.control.count_failure();
            self.spoil(batch);
        }
        outcome
    }
}

impl State {
    fn of(depth: Depth) -> Self {
        match depth {
            Depth::Full => Self::FULL,
            Depth::Keys(layer) => Self::below(layer),
        }
    }
}
