//! The pass over the layers.

use std::collections::{HashMap, HashSet};

use medley_backend::{BackendError, Batch, Depth, Outcome, Scores};
use medley_kernels::cuda::CudaError;
use medley_kernels::cuda::attention::Layer as AttentionLayer;
use medley_kernels::cuda::gemm::PADDED;
use medley_kv::TokenId;

use super::CudaBackend;
use super::scratch::LOGIT_ROWS;
use super::step::{Attending, Step};

impl CudaBackend {
    /// Runs a checked batch.
    pub(super) fn forward(&mut self, batch: &Batch) -> Result<Outcome, BackendError> {
        let scores = batch.empty_scores();
        if batch.rows.is_empty() {
            return Ok(Outcome {
                scores,
                ..Outcome::default()
            });
        }
        // A call that panicked may have left work behind that still reads the staging area.
        self.device
            .enter()
            .and_then(|()| self.device.wait())
            .map_err(|error| failure(&error))?;
        self.staging.clear();
        let (tiling, longest) = (self.attention.tiling(), self.angles.positions());
        let step = Step::plan(batch, &mut self.staging, tiling, longest)?;
        let computed = self.compute(batch, &step, scores);
        // Not every batch asks for something that is waited for, but the staging area is used again.
        let waited = self.device.wait();
        computed
            .and_then(|outcome| waited.map(|()| outcome))
            .map_err(|error| failure(&error))
    }

    fn compute(&mut self, batch: &Batch, step: &Step, scores: Vec<Scores>) -> Result<Outcome, CudaError> {
        let device = std::sync::Arc::clone(&self.device);
        self.staging.send(&device)?;
        self.scratch.reserve(&device, &self.config, step.rows)?;
        if !batch.probes.is_empty() {
            let masses = self.scratch.masses.of(&device, step.mass_slots)?;
            device.clear(masses)?;
        }
        let hidden = self.scratch.hidden.get_mut();
        let tokens = (&self.staging, step.tokens);
        device.embed(hidden, &self.weights.embedding.values, tokens, self.config.width)?;
        match batch.depth {
            Depth::Full => {
                let last = self.config.layers - 1;
                (0..last).try_for_each(|layer| self.layer(layer, step))?;
                let (logits, drawn) = self.last_layer(batch, step)?;
                Ok(Outcome {
                    logits,
                    drawn,
                    scores: self.scores(step, scores)?,
                    deviations: Vec::new(),
                })
            }
            Depth::Keys(layer) => {
                (0..layer).try_for_each(|layer| self.layer(layer, step))?;
                Ok(Outcome {
                    deviations: self.deviations(layer, step)?,
                    ..Outcome::default()
                })
            }
        }
    }

    fn layer(&mut self, layer: usize, step: &Step) -> Result<(), CudaError> {
        self.project(layer, step.rows)?;
        self.store(layer, step)?;
        self.attend(layer, &step.all, false)?;
        self.finish(layer, step.rows, false)
    }

    /// Queries, keys and values of all rows, not rotated.
    fn project(&mut self, layer: usize, rows: usize) -> Result<(), CudaError> {
        let (device, config, scratch) = (&*self.device, &self.config, &mut self.scratch);
        let layer = &self.weights.layers[layer];
        let normed = scratch.normed.get_mut();
        device.rms_norm(
            normed,
            scratch.hidden.get(),
            &layer.attention_norm,
            config.epsilon,
            rows,
            None,
        )?;
        let qkv = scratch.qkv.get_mut();
        self.products
            .multiply(device, (&layer.qkv, layer.qkv_bias.as_ref()), normed, rows, qkv)?;
        if let Some(norms) = &layer.head_norms {
            let heads = self.attention.heads();
            device.head_norms(qkv, [&norms.query, &norms.key], config.epsilon, rows, heads)?;
        }
        Ok(())
    }

    fn store(&mut self, layer: usize, step: &Step) -> Result<(), CudaError> {
        let qkv = self.scratch.qkv.get();
        let (pages, heads) = (&mut self.pages[layer], self.attention.heads());
        let places = (step.positions, step.slots);
        self.device
            .store_kv(pages, qkv, &self.angles, &self.staging, places, heads)
    }

    /// Attention of the rows whose projection is in the scratch, and what probes want of it.
    fn attend(&mut self, layer: usize, attending: &Attending, last: bool) -> Result<(), CudaError> {
        let probed = !attending.masses.tiles.is_empty();
        let scratch = &mut self.scratch;
        let call = AttentionLayer {
            qkv: if last {
                scratch.qkv_last.get()
            } else {
                scratch.qkv.get()
            },
            pages: &self.pages[layer],
            angles: &self.angles,
        };
        let out = scratch.attended.get_mut();
        let lse = probed.then(|| scratch.lse.get_mut());
        self.attention
            .run(&self.device, &call, (&self.staging, &attending.plan), out, lse)?;
        if probed {
            let plan = (&self.staging, &attending.plan, &attending.masses);
            let (lse, masses) = (scratch.lse.get(), scratch.masses.get_mut());
            self.attention.masses(&self.device, &call, plan, lse, masses)?;
        }
        Ok(())
    }

    /// From attention's output to the hidden states that leave the layer.
    fn finish(&mut self, layer: usize, rows: usize, last: bool) -> Result<(), CudaError> {
        let (device, config, scratch) = (&*self.device, &self.config, &mut self.scratch);
        let (layer, products) = (&self.weights.layers[layer], &mut self.products);
        let (attended, hidden) = match last {
            true => (scratch.attended_last.get(), scratch.hidden_last.get_mut()),
            false => (scratch.attended.get(), scratch.hidden.get_mut()),
        };
        products.accumulate(device, &layer.output, attended, rows, hidden)?;
        let normed = scratch.normed.get_mut();
        device.rms_norm(normed, hidden, &layer.mlp_norm, config.epsilon, rows, None)?;
        let gate_up = scratch.gate_up.get_mut();
        products.multiply(device, (&layer.gate_up, None), normed, rows, gate_up)?;
        let inner = scratch.inner.get_mut();
        device.silu_mul(inner, gate_up, rows, config.inner)?;
        products.accumulate(device, &layer.down, inner, rows, hidden)
    }

    fn last_layer(&mut self, batch: &Batch, step: &Step) -> Result<(Vec<Vec<f32>>, Vec<TokenId>), CudaError> {
        let layer = self.config.layers - 1;
        self.project(layer, step.rows)?;
        self.store(layer, step)?;
        let device = std::sync::Arc::clone(&self.device);
        let queries = self.config.query_width();
        if let Some(last) = &step.last {
            if last.rows.is_empty() {
                return Ok((Vec::new(), Vec::new()));
            }
            let joint = self.attention.heads().width();
            let picked = self.scratch.qkv_last.of(&device, last.rows.len() * joint)?;
            device.gather(picked, self.scratch.qkv.get(), (&self.staging, last.rows), joint)?;
        }
        self.attend(layer, step.last_attending(), step.last.is_some())?;
        let wanted = step.wanted.len();
        if let Some(going_on) = &step.going_on {
            if wanted == 0 {
                return Ok((Vec::new(), Vec::new()));
            }
            let (width, scratch) = (self.config.width, &mut self.scratch);
            let attended = scratch.attended_last.of(&device, wanted.max(PADDED) * queries)?;
            device.gather(
                attended,
                scratch.attended.get(),
                (&self.staging, going_on.of_attending),
                queries,
            )?;
            let hidden = scratch.hidden_last.of(&device, wanted.max(PADDED) * width)?;
            device.gather(
                hidden,
                scratch.hidden.get(),
                (&self.staging, going_on.of_all),
                width,
            )?;
        }
        self.finish(layer, wanted, step.going_on.is_some())?;
        self.heads(batch, step)
    }

    /// Logits and drawn tokens, of the rows for which they are wanted, in the order in which they are asked for.
    fn heads(&mut self, batch: &Batch, step: &Step) -> Result<(Vec<Vec<f32>>, Vec<TokenId>), CudaError> {
        let (device, config, scratch) = (&*self.device, &self.config, &mut self.scratch);
        let vocab = config.vocab;
        let hidden = match step.going_on {
            Some(_) => scratch.hidden_last.get(),
            None => scratch.hidden.get(),
        };
        let mut all = HashMap::new();
        let mut drawn = HashMap::new();
        let asked: HashSet<usize> = batch.logits.iter().copied().collect();
        for (chunk, wanted) in step.wanted.chunks(LOGIT_ROWS).enumerate() {
            let first = chunk * LOGIT_ROWS;
            let picked = step.numbers.range(first..first + wanted.len());
            let normed = scratch.normed.of(device, wanted.len() * config.width)?;
            let weight = &self.weights.output_norm;
            let picked = Some((&self.staging, picked));
            device.rms_norm(normed, hidden, weight, config.epsilon, wanted.len(), picked)?;
            let logits = scratch.logits.of(device, wanted.len() * vocab)?;
            let head = self.weights.head();
            self.products
                .multiply_f32(device, head, normed, wanted.len(), logits)?;
            if !batch.draws.is_empty() {
                let found = scratch.drawn.of(device, wanted.len())?;
                let draws = (&self.staging, step.draws.range(first..first + wanted.len()));
                device.sample(found, logits, draws, vocab)?;
                let mut tokens = vec![0; wanted.len()];
                device.download(found, &mut tokens)?;
                drawn.extend(wanted.iter().copied().zip(tokens));
            }
            for (place, &row) in wanted.iter().enumerate().filter(|(_, row)| asked.contains(row)) {
                let mut values = vec![0.0; vocab];
                device.download_from(logits, place * vocab, &mut values)?;
                all.insert(row, values);
            }
        }
        let logits = batch.logits.iter().filter_map(|row| all.get(row).cloned());
        let drawn = batch
            .draws
            .iter()
            .filter_map(|draw| drawn.get(&draw.row).copied().map(TokenId));
        Ok((logits.collect(), drawn.collect()))
    }

    /// The masses of the batch's probes.
    fn scores(&mut self, step: &Step, mut scores: Vec<Scores>) -> Result<Vec<Scores>, CudaError> {
        if scores.is_empty() {
            return Ok(scores);
        }
        let mut masses = vec![0; step.mass_slots];
        self.device.download(self.scratch.masses.get(), &mut masses)?;
        for (score, places) in scores.iter_mut().zip(&step.masses) {
            for (part, &first) in score.0.iter_mut().zip(places) {
                let len = part.len();
                part.copy_from_slice(&masses[first..first + len]);
            }
        }
        Ok(scores)
    }

    /// Squared distances of keys at `layer`, whose input is in the scratch.
    fn deviations(&mut self, layer: usize, step: &Step) -> Result<Vec<f32>, CudaError> {
        let compared = &step.compared;
        let mut found = vec![0.0; compared.rows.len()];
        if found.is_empty() {
            return Ok(found);
        }
        self.project(layer, step.rows)?;
        let distances = self.scratch.distances.of(&self.device, found.len())?;
        let held = (self.scratch.qkv.get(), &self.pages[layer], &self.angles);
        let keys = (compared.rows, compared.slots, compared.rotated_at);
        self.device
            .key_distance(distances, held, &self.staging, keys, self.attention.heads())?;
        self.device.download(distances, &mut found)?;
        Ok(found)
    }
}

pub(super) fn failure(error: &CudaError) -> BackendError {
    match error.is_lost() {
        true => BackendError::Lost(explain(error)),
        false => BackendError::Device(explain(error)),
    }
}

/// An error with its sources, in one line.
fn explain(error: &dyn std::error::Error) -> String {
    let sources = std::iter::successors(error.source(), |&source| source.source());
    sources.fold(error.to_string(), |text, source| format!("{text}: {source}"))
}
