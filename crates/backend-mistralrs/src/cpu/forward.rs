//! The pass over the layers.
//!
//! In the last layer only rows that something is asked of go on: all rows write their keys and values, rows with
//! logits or probes attend, rows with logits run the MLP. What is left out has no influence on what remains.

use medley_backend::{BackendError, Batch, Depth, Outcome, Scores, draw};
use medley_kernels::cpu::attention::PartView;
use medley_kv::TokenId;

use super::CpuBackend;
use super::scratch::keep_rows;
use crate::rows::{self, Rows};
use crate::views::PartNumbers;

impl CpuBackend {
    /// Runs a checked batch.
    pub(super) fn forward(&mut self, batch: &Batch) -> Result<Outcome, BackendError> {
        let scores = batch.empty_scores();
        if batch.rows.is_empty() {
            return Ok(Outcome {
                scores,
                ..Outcome::default()
            });
        }
        self.embed(batch)?;
        let numbers = PartNumbers::new(batch);
        let views = numbers.views();
        Ok(Pass {
            model: self,
            batch,
            views: &views,
            scores,
        }
        .run())
    }

    fn embed(&mut self, batch: &Batch) -> Result<(), BackendError> {
        self.scratch.hidden.clear();
        let tokens = batch.rows.iter().map(|row| row.token.0);
        let gathered = self.decoder.embedding.gather(tokens, &mut self.scratch.hidden);
        gathered.map_err(|error| BackendError::Device(error.to_string()))
    }
}

/// One batch on its way through the layers. The scratch's `hidden` holds what enters the next layer.
struct Pass<'a> {
    model: &'a mut CpuBackend,
    batch: &'a Batch,
    views: &'a [Vec<PartView<'a>>],
    scores: Vec<Scores>,
}

impl Pass<'_> {
    fn run(mut self) -> Outcome {
        let rows = Rows::all(self.batch);
        match self.batch.depth {
            Depth::Full => {
                let last = self.model.decoder.layers.len() - 1;
                (0..last).for_each(|layer| self.layer(layer, &rows));
                let (logits, drawn) = self.last_layer(last, &rows);
                Outcome {
                    logits,
                    drawn,
                    scores: self.scores,
                    deviations: Vec::new(),
                }
            }
            Depth::Keys(layer) => {
                (0..layer).for_each(|layer| self.layer(layer, &rows));
                let deviations = self.model.deviations(self.batch, &rows, layer);
                Outcome {
                    deviations,
                    ..Outcome::default()
                }
            }
        }
    }

    fn layer(&mut self, layer: usize, rows: &Rows) {
        self.model.store(layer, rows);
        self.attend(layer, rows);
        self.model.finish_layer(layer, rows.len());
    }

    /// Logits and drawn tokens, of the rows for which they are wanted.
    fn last_layer(&mut self, layer: usize, rows: &Rows) -> (Vec<Vec<f32>>, Vec<TokenId>) {
        self.model.store(layer, rows);
        let (width, heads) = (
            self.model.decoder.config.width,
            self.model.decoder.config.query_width(),
        );
        let attending = Rows::of(self.batch, rows::attending_last(self.batch));
        if attending.len() == 0 {
            return (Vec::new(), Vec::new());
        }
        let kept = rows.places(&attending.index);
        keep_rows(&mut self.model.scratch.queries, heads, &kept);
        keep_rows(&mut self.model.scratch.hidden, width, &kept);
        self.attend(layer, &attending);
        let wanted = Rows::of(self.batch, rows::that_go_on(self.batch));
        let kept = attending.places(&wanted.index);
        keep_rows(&mut self.model.scratch.attended, heads, &kept);
        keep_rows(&mut self.model.scratch.hidden, width, &kept);
        self.model.finish_layer(layer, wanted.len());
        let logits = self.model.logits(wanted.len());
        let vocab = self.model.decoder.config.vocab;
        let of = |row: &usize| {
            wanted
                .place(*row)
                .map(|place| &logits[place * vocab..(place + 1) * vocab])
        };
        let all = self.batch.logits.iter().filter_map(of).map(<[f32]>::to_vec);
        let drawn = self.batch.draws.iter().filter_map(|d| Some(draw(of(&d.row)?, d)));
        (all.collect(), drawn.collect())
    }

    /// Attention of `rows`, whose queries are in the scratch, and what probes want of it.
    fn attend(&mut self, layer: usize, rows: &Rows) {
        let probed = !self.batch.probes.is_empty();
        let attended = self.model.attend(layer, rows, self.views, probed);
        if probed {
            attended.add_masses(self.batch, rows, &mut self.scores);
        }
    }
}
