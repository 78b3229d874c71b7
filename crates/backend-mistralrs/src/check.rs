//! Checks of a batch that need the model's numbers, beyond those of every backend.

use medley_backend::{BackendError, Batch, Depth, Probe};

/// Refuses layers, slots, probes and parts that do not exist.
pub(crate) fn against_model(batch: &Batch, pages: usize, layers: usize) -> Result<(), BackendError> {
    if let Depth::Keys(layer) = batch.depth
        && layer >= layers
    {
        return invalid(format!("keys of layer {layer} of {layers}"));
    }
    if let Some(slot) = batch
        .deviations
        .iter()
        .map(|d| d.reference)
        .find(|s| s.page().0 as usize >= pages)
    {
        return invalid(format!("reference slot {} is outside the pool", slot.0));
    }
    batch
        .probes
        .iter()
        .try_for_each(|probe| check_probe(batch, probe))
}

fn check_probe(batch: &Batch, probe: &Probe) -> Result<(), BackendError> {
    let Some(sequence) = batch.sequences.get(probe.sequence) else {
        return invalid(format!(
            "a probe of sequence {} of {}",
            probe.sequence,
            batch.sequences.len()
        ));
    };
    for row in &probe.rows {
        if batch.rows[row.row].sequence != probe.sequence {
            return invalid(format!(
                "row {} is not of the probed sequence {}",
                row.row, probe.sequence
            ));
        }
        if row.except.is_some_and(|part| part >= sequence.parts.len()) {
            return invalid(format!("row {} excepts a part that its sequence lacks", row.row));
        }
        if !(0.0..=1.0).contains(&row.weight) {
            return invalid(format!("row {} has the weight {}", row.row, row.weight));
        }
    }
    Ok(())
}

fn invalid<T>(message: String) -> Result<T, BackendError> {
    Err(BackendError::Invalid(message))
}
