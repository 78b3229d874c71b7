//! Probes: how much attention chosen rows pay to every document token.

use medley_backend::{Batch, Probe, Scores};
use medley_kernels::cpu::attention::{Attention, MassRow};
use medley_kernels::cpu::pool::Threads;

use crate::rows::Rows;

/// Attention that has run, and what of it probes read.
pub(super) struct Attended<'a> {
    pub attention: Attention<'a>,
    /// Log-sum-exp of every row and head, `[rows, heads]`; empty if nothing is probed.
    pub lse: &'a [f32],
    pub threads: &'a Threads,
}

impl Attended<'_> {
    /// Adds this layer's masses to the scores of the batch's probes. `rows` are those that attended.
    pub fn add_masses(&self, batch: &Batch, rows: &Rows, scores: &mut [Scores]) {
        for (probe, scores) in batch.probes.iter().zip(scores) {
            let scored = scores
                .0
                .iter_mut()
                .enumerate()
                .filter(|(_, masses)| !masses.is_empty());
            for (part, masses) in scored {
                let probing = self.probing_rows(probe, part, rows);
                self.attention
                    .masses_of_rows(&probing, part, masses, self.threads);
            }
        }
    }

    /// The probe's rows that score `part`.
    fn probing_rows(&self, probe: &Probe, part: usize, rows: &Rows) -> Vec<MassRow<'_>> {
        let heads = self.attention.heads;
        let scoring = probe.rows.iter().filter(|row| row.except != Some(part));
        let placed = scoring.filter_map(|row| Some((row.weight, rows.place(row.row)?)));
        let mass_row = |(weight, row): (f32, usize)| {
            let lse = &self.lse[row * heads..(row + 1) * heads];
            MassRow { row, weight, lse }
        };
        placed.map(mass_row).collect()
    }
}
