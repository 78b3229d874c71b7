//! Finding the fastest algorithm for every number of rows.

use cudarc::cublaslt::sys;
use cudarc::driver::sys::CUevent_flags;

use super::plan::{Algorithm, BUCKETS, Output, Plan, attribute};
use super::{Operands, PADDED, Products, Weight};
use crate::cuda::{Buffer, CudaError, Device, bf16};

/// Algorithms that are timed for a number of rows, as the library advises them.
const TIMED: usize = 8;

/// Rows at the beginning and at the end of a product whose bits are compared.
const COMPARED: usize = 32;

/// Where products that are tuned leave their results; what stands there is lost.
pub enum Target<'a> {
    /// As [`Products::multiply`] does.
    Bf16(&'a mut Buffer<bf16>),
    /// As [`Products::multiply_f32`] does.
    F32(&'a mut Buffer<f32>),
    /// As [`Products::accumulate`] does.
    Sum(&'a mut Buffer<f32>),
}

/// An algorithm that was tried.
#[derive(Clone, Debug)]
pub struct Tried {
    /// For so many rows.
    pub rows: usize,
    /// What tells it from others.
    pub algorithm: String,
    /// Time of a product.
    pub microseconds: f32,
    /// Whether its bits were compared and are those of all others.
    pub same: Option<bool>,
}

/// What is tried for one number of rows.
struct Trial<'a> {
    device: &'a Device,
    plan: &'a Plan,
    layers: Vec<Operands<'a>>,
}

impl Products {
    /// Finds the fastest algorithms for products with weights of one shape, for up to as many rows as `x` and `target`
    /// have room for. `weights` with their biases are used in turn, as layers are, so that caches hold what they hold in
    /// a pass. `x` is overwritten with random numbers. Returns everything that was tried, for each number of rows the
    /// fastest first.
    pub fn tune(
        &mut self,
        device: &Device,
        weights: &[(&Weight, Option<&Buffer<bf16>>)],
        x: &mut Buffer<bf16>,
        target: Target<'_>,
    ) -> Result<Vec<Tried>, CudaError> {
        device.fill(x, 1, 1.0)?;
        let x = &*x;
        let (out, room, result, beta) = match &target {
            Target::Bf16(out) => (out.address(), out.len(), Output::Bf16, 0.0),
            Target::F32(out) => (out.address(), out.len(), Output::F32, 0.0),
            Target::Sum(out) => (out.address(), out.len(), Output::F32, 1.0),
        };
        let operands = weights.iter().map(|&(weight, bias)| Operands {
            weight,
            bias,
            x,
            rows: 0,
            out,
            room: room / weight.outputs,
            beta,
        });
        let layers: Vec<_> = operands.collect();
        let Some(first) = layers.first() else {
            return Ok(Vec::new());
        };
        let (shape, room) = (first.shape(result), first.room.min(x.len() / first.weight.inputs));
        let mut plan = self.plan(shape)?;
        let mut tried = Vec::new();
        for rows in BUCKETS.into_iter().take_while(|&rows| rows <= room) {
            let layers = layers.iter().map(|&layer| Operands { rows, ..layer }).collect();
            let trial = Trial {
                device,
                plan: &plan,
                layers,
            };
            let tuned = self.fastest(&trial, rows, &mut tried);
            match tuned {
                Ok(algorithm) => plan.tuned.push(algorithm),
                Err(error) => {
                    plan.destroy();
                    return Err(error);
                }
            }
        }
        if let Some(before) = self.plans.insert(shape, plan) {
            before.destroy();
        }
        Ok(tried)
    }

    fn fastest(
        &self,
        trial: &Trial<'_>,
        rows: usize,
        tried: &mut Vec<Tried>,
    ) -> Result<Algorithm, CudaError> {
        let mut timed = Vec::new();
        for algorithm in self.candidates(trial.plan, rows)? {
            // What the library advises for other numbers of rows may refuse this one.
            if let Ok(time) = self.time(trial, &algorithm) {
                timed.push((time, algorithm));
            }
        }
        timed.sort_by(|a, b| a.0.total_cmp(&b.0));
        let any = &trial.plan.any;
        let wanted = (self.bits(trial, any)?, self.first_row(trial, any, rows)?);
        let mut chosen = None;
        for (time, algorithm) in timed {
            let same = match chosen {
                None => Some(
                    self.bits(trial, &algorithm)? == wanted.0
                        && self
                            .alone(trial, &algorithm, rows)
                            .is_ok_and(|bits| bits == wanted.1),
                ),
                Some(_) => None,
            };
            if same == Some(true) {
                chosen = Some(algorithm);
            }
            tried.push(Tried {
                rows,
                algorithm: describe(&algorithm),
                microseconds: time * 1e3,
                same,
            });
        }
        Ok(chosen.unwrap_or(trial.plan.any))
    }

    /// What may be fastest. For few rows the library often has nothing to advise but sums in parts, and what it advises
    /// for more rows does best.
    fn candidates(&self, plan: &Plan, rows: usize) -> Result<Vec<Algorithm>, CudaError> {
        let mut found: Vec<Algorithm> = Vec::new();
        let more = [32, 64, 128, 256]
            .into_iter()
            .filter(|&more| rows <= 128 && more != rows);
        for (asked, most) in std::iter::once((rows, TIMED)).chain(more.map(|more| (more, TIMED / 2))) {
            for id in self.advised(plan, asked)?.into_iter().take(most) {
                if found.iter().all(|algorithm| algorithm.id.data != id.data) {
                    found.push(Algorithm { id, least_rows: 0 });
                }
            }
        }
        if rows < PADDED {
            let filled = |algorithm: &Algorithm| Algorithm {
                least_rows: PADDED,
                ..*algorithm
            };
            found.extend(found.iter().map(filled).collect::<Vec<_>>());
        }
        Ok(found)
    }

    /// Milliseconds of a product.
    fn time(&self, trial: &Trial<'_>, algorithm: &Algorithm) -> Result<f32, CudaError> {
        let stream = trial.device.stream();
        let repeats = if trial.layers[0].rows < 1024 { 5 } else { 2 };
        let run = |count: usize| {
            let layers = trial.layers.iter().cycle().take(count);
            layers
                .into_iter()
                .try_for_each(|layer| self.launch(trial.device, layer, trial.plan, algorithm))
        };
        run(1)?;
        let timing = Some(CUevent_flags::CU_EVENT_DEFAULT);
        let begin = stream.record_event(timing)?;
        run(repeats)?;
        let end = stream.record_event(timing)?;
        Ok(begin.elapsed_ms(&end)? / repeats as f32)
    }

    /// The first row of a product of as few rows as the algorithm for so many will serve.
    fn alone(&self, trial: &Trial<'_>, algorithm: &Algorithm, rows: usize) -> Result<Vec<u8>, CudaError> {
        let before = BUCKETS.iter().rev().find(|&&bucket| bucket < rows);
        self.first_row(trial, algorithm, before.map_or(1, |bucket| bucket + 1))
    }

    fn first_row(&self, trial: &Trial<'_>, algorithm: &Algorithm, rows: usize) -> Result<Vec<u8>, CudaError> {
        let layer = Operands {
            rows,
            ..trial.layers[0]
        };
        self.compute(trial, &layer, algorithm)?;
        let mut bits = vec![0; layer.weight.outputs * trial.plan.shape.result.bytes()];
        // SAFETY: the result has room for all rows.
        unsafe { trial.device.download_bytes(layer.out, &mut bits)? };
        Ok(bits)
    }

    /// The product as it will be used: where it is added to something, added to itself as the untuned algorithm has it.
    fn compute(
        &self,
        trial: &Trial<'_>,
        layer: &Operands<'_>,
        algorithm: &Algorithm,
    ) -> Result<(), CudaError> {
        if layer.beta != 0.0 {
            let fresh = Operands { beta: 0.0, ..*layer };
            self.launch(trial.device, &fresh, trial.plan, &trial.plan.any)?;
        }
        self.launch(trial.device, layer, trial.plan, algorithm)
    }

    /// Some rows of a product, as they lie in memory.
    fn bits(&self, trial: &Trial<'_>, algorithm: &Algorithm) -> Result<Vec<u8>, CudaError> {
        let (device, layer) = (trial.device, &trial.layers[0]);
        self.compute(trial, layer, algorithm)?;
        let width = layer.weight.outputs * trial.plan.shape.result.bytes();
        let some = layer.rows.min(COMPARED);
        let mut bits = vec![0; 2 * some * width];
        let (front, back) = bits.split_at_mut(some * width);
        // SAFETY: the result has room for all rows.
        unsafe {
            device.download_bytes(layer.out, front)?;
            device.download_bytes(layer.out + ((layer.rows - some) * width) as u64, back)?;
        }
        Ok(bits)
    }
}

/// What tells an algorithm from another.
fn describe(algorithm: &Algorithm) -> String {
    use sys::cublasLtMatmulAlgoConfigAttributes_t as Attribute;
    let of = |name| attribute(&algorithm.id, name).map_or_else(|| "?".to_owned(), |value| value.to_string());
    let filled = match algorithm.least_rows {
        0 => String::new(),
        rows => format!(" filled up to {rows} rows"),
    };
    format!(
        "id {} tile {} stages {} custom {}{filled}",
        of(Attribute::CUBLASLT_ALGO_CONFIG_ID),
        of(Attribute::CUBLASLT_ALGO_CONFIG_TILE_ID),
        of(Attribute::CUBLASLT_ALGO_CONFIG_STAGES_ID),
        of(Attribute::CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION),
    )
}
