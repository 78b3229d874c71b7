//! The rows of a batch as the kernels read them, and which of them go on to the end.

use medley_backend::Batch;

/// Numbers of the rows that are running, one element a row.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rows {
    /// Index into the batch's rows, ascending.
    pub index: Vec<usize>,
    pub positions: Vec<u32>,
    pub sequence: Vec<u32>,
    pub slots: Vec<u32>,
}

impl Rows {
    pub fn all(batch: &Batch) -> Self {
        Self::of(batch, (0..batch.rows.len()).collect())
    }

    /// The rows with these indices, which ascend.
    pub fn of(batch: &Batch, index: Vec<usize>) -> Self {
        let rows = || index.iter().map(|&row| batch.rows[row]);
        Self {
            positions: rows().map(|row| row.position.0).collect(),
            sequence: rows().map(|row| row.sequence as u32).collect(),
            slots: rows().map(|row| row.slot.0).collect(),
            index,
        }
    }

    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Place of a batch row among the running ones.
    pub fn place(&self, row: usize) -> Option<usize> {
        self.index.binary_search(&row).ok()
    }

    /// Places of the rows that are in `wanted` (ascending batch indices).
    pub fn places(&self, wanted: &[usize]) -> Vec<usize> {
        wanted.iter().filter_map(|&row| self.place(row)).collect()
    }
}

/// Rows whose next token is asked for, ascending, each once.
pub(crate) fn that_go_on(batch: &Batch) -> Vec<usize> {
    let drawn = batch.draws.iter().map(|draw| draw.row);
    ascending(batch.logits.iter().copied().chain(drawn).collect())
}

/// Rows that must attend in the last layer: those that go on and the probed ones.
pub(crate) fn attending_last(batch: &Batch) -> Vec<usize> {
    let probed = batch
        .probes
        .iter()
        .flat_map(|probe| probe.rows.iter().map(|row| row.row));
    let mut rows = that_go_on(batch);
    rows.extend(probed);
    ascending(rows)
}

fn ascending(mut rows: Vec<usize>) -> Vec<usize> {
    rows.sort_unstable();
    rows.dedup();
    rows
}
