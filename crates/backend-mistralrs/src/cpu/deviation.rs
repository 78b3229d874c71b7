//! Key deviations: how far a row's key at one layer lies from the key that stands in a slot.
//!
//! The row's key is rotated at the reference's position, so both are in one frame: rotations keep distances.

use medley_backend::{Batch, Deviation};

use super::CpuBackend;
use super::scratch::keep_rows;
use crate::rows::Rows;

impl CpuBackend {
    /// Squared distances over all key heads, for each of the batch's deviations. The scratch holds the hidden
    /// states that enter `layer`.
    pub(super) fn deviations(&mut self, batch: &Batch, rows: &Rows, layer: usize) -> Vec<f32> {
        let mut compared: Vec<_> = batch.deviations.iter().map(|d| d.row).collect();
        compared.sort_unstable();
        compared.dedup();
        keep_rows(
            &mut self.scratch.hidden,
            self.decoder.config.width,
            &rows.places(&compared),
        );
        let rows = Rows::of(batch, compared);
        self.project(layer, rows.len());
        let distances = batch
            .deviations
            .iter()
            .map(|deviation| self.distance(&rows, layer, deviation));
        distances.collect()
    }

    fn distance(&self, rows: &Rows, layer: usize, deviation: &Deviation) -> f32 {
        let Some(place) = rows.place(deviation.row) else {
            return 0.0;
        };
        let config = &self.decoder.config;
        let width = config.key_width();
        let mut key = self.scratch.keys[place * width..(place + 1) * width].to_vec();
        for head in key.chunks_exact_mut(config.head_dim) {
            self.decoder.rope.rotate(head, i64::from(deviation.rotated_at.0));
        }
        let heads = key
            .chunks_exact(config.head_dim)
            .zip(self.pool.keys(layer, deviation.reference.0));
        let squares = heads
            .flat_map(|(new, old)| new.iter().zip(old))
            .map(|(new, old)| f64::from(new - old).powi(2));
        squares.sum::<f64>() as f32
    }
}
