//! Timing the library's algorithms, to choose the one for any number of rows.

use cudarc::cublaslt::sys;

use super::plan::{Output, Plan, Shape, attribute, sums_in_one};
use super::{Order, Products, Weight};
use crate::cuda::{Buffer, CudaError, Device, bf16};

/// What was measured of an algorithm.
#[derive(Clone, Debug)]
pub struct Surveyed {
    /// What tells it from others.
    pub algorithm: String,
    /// Milliseconds for each number of rows; `None` where it does not run.
    pub times: Vec<Option<f32>>,
}

impl Products {
    /// Times every algorithm that the library advises for `advised` rows and that sums in one go, best advised first, for
    /// each number of rows.
    pub fn survey(
        &mut self,
        device: &Device,
        weight: &Weight,
        advised: usize,
        rows: &[usize],
    ) -> Result<Vec<Surveyed>, CudaError> {
        let most = rows.iter().copied().max().unwrap_or(1);
        let x = device.zeros(most * weight.inputs)?;
        let out = device.zeros::<bf16>(most * weight.outputs)?;
        let shape = Shape {
            order: Order::Fastest,
            bucket: advised,
            outputs: weight.outputs,
            inputs: weight.inputs,
            result: Output::Bf16,
            bias: false,
        };
        let plan = self.plan(shape)?;
        let choices = self.heuristics(plan.operation, plan.weight, shape)?;
        self.plans.insert(shape, plan);
        let mut survey = Vec::new();
        for choice in choices.iter().filter(|choice| sums_in_one(&choice.algo)) {
            let mut times = Vec::new();
            for &rows in rows {
                let shape = Shape {
                    bucket: rows,
                    ..shape
                };
                let plan = self.plan_with(shape, choice.algo)?;
                times.push(self.time(device, weight, (&x, &out), rows, &plan));
                plan.destroy();
            }
            survey.push(Surveyed {
                algorithm: describe(&choice.algo),
                times,
            });
        }
        Ok(survey)
    }

    fn time(
        &mut self,
        device: &Device,
        weight: &Weight,
        (x, out): (&Buffer<bf16>, &Buffer<bf16>),
        rows: usize,
        plan: &Plan,
    ) -> Option<f32> {
        const REPEATS: usize = 20;
        let run = || {
            self.launch(
                device,
                (weight, None),
                x.address(),
                rows,
                (out.address(), Output::Bf16),
                0.0,
                plan,
            )
        };
        run().ok()?;
        device.wait().ok()?;
        let start = std::time::Instant::now();
        (0..REPEATS).try_for_each(|_| run()).ok()?;
        device.wait().ok()?;
        Some(start.elapsed().as_secs_f32() * 1e3 / REPEATS as f32)
    }
}

/// What tells an algorithm from another.
fn describe(algorithm: &sys::cublasLtMatmulAlgo_t) -> String {
    use sys::cublasLtMatmulAlgoConfigAttributes_t as Attribute;
    let of = |name| attribute(algorithm, name).map_or_else(|| "?".to_owned(), |value| value.to_string());
    format!(
        "id {} tile {} stages {} custom {} swizzle {}",
        of(Attribute::CUBLASLT_ALGO_CONFIG_ID),
        of(Attribute::CUBLASLT_ALGO_CONFIG_TILE_ID),
        of(Attribute::CUBLASLT_ALGO_CONFIG_STAGES_ID),
        of(Attribute::CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION),
        of(Attribute::CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING),
    )
}
