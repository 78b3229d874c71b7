//! Probes: how much attention chosen rows pay to every document token.

use medley_backend::{Batch, PartKind, Probe, ProbeRow, Scores};
use medley_kernels::cpu::attention::Attention;

use super::rows::Rows;

/// Scores of zero for every probe: a mass for each slot of each document part.
pub(super) fn empty_scores(batch: &Batch) -> Vec<Scores> {
    let zeros = |probe: &Probe| {
        let parts = batch.sequences[probe.sequence].parts.iter();
        Scores(
            parts
                .map(|part| vec![0; if is_document(&part.kind) { part.len } else { 0 }])
                .collect(),
        )
    };
    batch.probes.iter().map(zeros).collect()
}

/// Adds one layer's masses. `attention` holds the rows `rows`, and `lse` their log-sum-exp, `[rows, heads]`.
pub(super) fn add_layer(
    batch: &Batch,
    rows: &Rows,
    attention: &Attention<'_>,
    lse: &[f32],
    scores: &mut [Scores],
) {
    for (probe, scores) in batch.probes.iter().zip(scores) {
        for probed in &probe.rows {
            let Some(row) = rows.place(probed.row) else {
                continue;
            };
            let lse = &lse[row * attention.heads..(row + 1) * attention.heads];
            add_row(attention, probed, row, lse, scores);
        }
    }
}

fn add_row(attention: &Attention<'_>, probed: &ProbeRow, row: usize, lse: &[f32], scores: &mut Scores) {
    let parts = scores.0.iter_mut().enumerate();
    let scored = parts.filter(|(part, masses)| probed.except != Some(*part) && !masses.is_empty());
    scored.for_each(|(part, masses)| attention.masses(row, probed.weight, lse, part, masses));
}

fn is_document(kind: &PartKind) -> bool {
    matches!(kind, PartKind::Document { .. })
}
