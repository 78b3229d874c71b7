//! Matrix products through cuBLASLt.
//!
//! Weights are `[outputs, inputs]`. The library chooses algorithms once for every shape, at first use, and they stay.
//! There are two ways ([`Order`]): one algorithm for any number of rows, so that a row has the same bits whatever shares
//! the product, or the fastest one for the number of rows.

use std::collections::HashMap;
use std::ffi::c_void;

use cudarc::cublaslt::{result, sys};
use cudarc::driver::{CudaSlice, DevicePtr};

use super::buffer::holds;
use super::{Buffer, CudaError, Device, bf16};

/// Bytes that algorithms may use; what the library's makers advise for Hopper.
const WORKSPACE: usize = 32 << 20;

/// Weights of a linear layer on a device.
pub struct Weight {
    /// `[outputs, inputs]`
    pub values: Buffer<bf16>,
    /// Elements of a result row.
    pub outputs: usize,
    /// Elements of an input row.
    pub inputs: usize,
}

/// What was measured of an algorithm.
#[derive(Clone, Debug)]
pub struct Surveyed {
    /// What tells it from others.
    pub algorithm: String,
    /// Milliseconds for each number of rows; `None` where it does not run.
    pub times: Vec<Option<f32>>,
}

/// Matrix products on one device.
pub struct Products {
    handle: sys::cublasLtHandle_t,
    workspace: CudaSlice<u8>,
    plans: HashMap<Shape, Plan>,
    order: Order,
}

// SAFETY: the handle may be used by any thread, one at a time.
unsafe impl Send for Products {}

/// `CUBLAS_OP_T`: the weights' rows are outputs.
const TRANSPOSED: i32 = 1;

/// Whether the order of a row's sums may depend on how many rows share the product.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Order {
    /// It does not: one algorithm for any number of rows, and none that cuts the inputs into parts.
    #[default]
    Fixed,
    /// It may: the fastest algorithm for each power of two of rows.
    Fastest,
}

/// Numbers of rows for which the library is asked for the algorithm that serves any number, in this order.
const FIXED_ROWS: [usize; 2] = [1024, 4096];

/// `CUBLASLT_MATMUL_TILE_128x128`: within 5 % of the best of all for 500 rows and more, and still quick for few, where
/// larger tiles leave most of a device idle (`examples/products.rs` on an H200).
const FIXED_TILE: u32 = 20;

/// Algorithms that the library is asked for.
const CHOICES: usize = 32;

/// What an algorithm is chosen by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Shape {
    order: Order,
    bucket: usize,
    outputs: usize,
    inputs: usize,
    result: Output,
    bias: bool,
}

/// Type of a product's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Output {
    F32,
    Bf16,
}

#[derive(Clone, Copy)]
struct Plan {
    operation: sys::cublasLtMatmulDesc_t,
    weight: sys::cublasLtMatrixLayout_t,
    algorithm: sys::cublasLtMatmulAlgo_t,
}

impl Products {
    /// Products on this device's stream.
    pub fn new(device: &Device) -> Result<Self, CudaError> {
        device.context().bind_to_thread()?;
        // SAFETY: algorithms write their workspace before they read it.
        let workspace = unsafe { device.stream().alloc(WORKSPACE)? };
        Ok(Self {
            handle: result::create_handle()?,
            workspace,
            plans: HashMap::new(),
            order: Order::default(),
        })
    }

    /// How products are computed from now on.
    pub fn set_order(&mut self, order: Order) {
        self.order = order;
    }

    /// `out = x · weightᵀ + bias`: `x: [rows, inputs]`, `out: [rows, outputs]`, `bias: [outputs]`.
    pub fn multiply(
        &mut self,
        device: &Device,
        (weight, bias): (&Weight, Option<&Buffer<bf16>>),
        x: &Buffer<bf16>,
        rows: usize,
        out: &mut Buffer<bf16>,
    ) -> Result<(), CudaError> {
        holds(x, rows * weight.inputs);
        holds(out, rows * weight.outputs);
        self.run(
            device,
            (weight, bias),
            x.address(),
            rows,
            (out.address(), Output::Bf16),
            0.0,
        )
    }

    /// The same with a result in f32.
    pub fn multiply_f32(
        &mut self,
        device: &Device,
        weight: &Weight,
        x: &Buffer<bf16>,
        rows: usize,
        out: &mut Buffer<f32>,
    ) -> Result<(), CudaError> {
        holds(x, rows * weight.inputs);
        holds(out, rows * weight.outputs);
        self.run(
            device,
            (weight, None),
            x.address(),
            rows,
            (out.address(), Output::F32),
            0.0,
        )
    }

    /// `sum += x · weightᵀ`.
    pub fn accumulate(
        &mut self,
        device: &Device,
        weight: &Weight,
        x: &Buffer<bf16>,
        rows: usize,
        sum: &mut Buffer<f32>,
    ) -> Result<(), CudaError> {
        holds(x, rows * weight.inputs);
        holds(sum, rows * weight.outputs);
        self.run(
            device,
            (weight, None),
            x.address(),
            rows,
            (sum.address(), Output::F32),
            1.0,
        )
    }

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

    fn run(
        &mut self,
        device: &Device,
        (weight, bias): (&Weight, Option<&Buffer<bf16>>),
        x: u64,
        rows: usize,
        (out, result): (u64, Output),
        beta: f32,
    ) -> Result<(), CudaError> {
        if rows == 0 {
            return Ok(());
        }
        let shape = Shape {
            order: self.order,
            bucket: match self.order {
                Order::Fixed => 0,
                Order::Fastest => rows.next_power_of_two().max(16),
            },
            outputs: weight.outputs,
            inputs: weight.inputs,
            result,
            bias: bias.is_some(),
        };
        if !self.plans.contains_key(&shape) {
            let plan = self.plan(shape)?;
            self.plans.insert(shape, plan);
        }
        let plan = self.plans[&shape];
        self.launch(device, (weight, bias), x, rows, (out, result), beta, &plan)
    }

    #[expect(clippy::too_many_arguments, reason = "a product has this many operands")]
    fn launch(
        &self,
        device: &Device,
        (weight, bias): (&Weight, Option<&Buffer<bf16>>),
        x: u64,
        rows: usize,
        (out, result): (u64, Output),
        beta: f32,
        plan: &Plan,
    ) -> Result<(), CudaError> {
        let input = layout(sys::cudaDataType::CUDA_R_16BF, weight.inputs, rows)?;
        let output = layout(result.data_type(), weight.outputs, rows)?;
        if let Some(bias) = bias {
            let attribute = sys::cublasLtMatmulDescAttributes_t::CUBLASLT_MATMUL_DESC_BIAS_POINTER;
            set(plan.operation, attribute, &bias.address())?;
        }
        let (alpha, stream) = (1.0f32, device.stream().cu_stream());
        // SAFETY: the descriptors describe buffers that hold at least as much (checked by the callers); the scalars
        // live until the call returns, as host scalars must.
        let done = unsafe {
            result::matmul(
                self.handle,
                plan.operation,
                (&raw const alpha).cast(),
                (&raw const beta).cast(),
                weight.values.address() as *const c_void,
                plan.weight,
                x as *const c_void,
                input.0,
                out as *const c_void,
                output.0,
                out as *mut c_void,
                output.0,
                &raw const plan.algorithm,
                self.workspace.device_ptr(device.stream()).0 as *mut c_void,
                WORKSPACE,
                stream.cast(),
            )
        };
        Ok(done?)
    }

    fn plan(&self, shape: Shape) -> Result<Plan, CudaError> {
        let plan = self.describe(shape)?;
        let algorithm = self.algorithm(plan.operation, plan.weight, shape)?;
        Ok(Plan { algorithm, ..plan })
    }

    fn plan_with(&self, shape: Shape, algorithm: sys::cublasLtMatmulAlgo_t) -> Result<Plan, CudaError> {
        Ok(Plan {
            algorithm,
            ..self.describe(shape)?
        })
    }

    /// A plan without its algorithm.
    fn describe(&self, shape: Shape) -> Result<Plan, CudaError> {
        use sys::cublasLtMatmulDescAttributes_t as Attribute;
        let compute = sys::cublasComputeType_t::CUBLAS_COMPUTE_32F;
        let operation = result::create_matmul_desc(compute, sys::cudaDataType::CUDA_R_32F)?;
        set(operation, Attribute::CUBLASLT_MATMUL_DESC_TRANSA, &TRANSPOSED)?;
        if shape.bias {
            let epilogue = sys::cublasLtEpilogue_t::CUBLASLT_EPILOGUE_BIAS;
            set(operation, Attribute::CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue)?;
        }
        let weight = layout(sys::cudaDataType::CUDA_R_16BF, shape.inputs, shape.outputs)?;
        Ok(Plan {
            operation,
            weight: weight.keep(),
            algorithm: sys::cublasLtMatmulAlgo_t { data: [0; 8] },
        })
    }

    /// The library's first choice that keeps the order.
    fn algorithm(
        &self,
        operation: sys::cublasLtMatmulDesc_t,
        weight: sys::cublasLtMatrixLayout_t,
        shape: Shape,
    ) -> Result<sys::cublasLtMatmulAlgo_t, CudaError> {
        let asked = match shape.order {
            Order::Fixed => &FIXED_ROWS[..],
            Order::Fastest => &[shape.bucket],
        };
        let mut found = Vec::new();
        for &bucket in asked {
            found.extend(self.heuristics(operation, weight, Shape { bucket, ..shape })?);
        }
        let algorithms = found.iter().map(|choice| &choice.algo);
        let chosen = match shape.order {
            Order::Fastest => algorithms.clone().next(),
            Order::Fixed => {
                let in_one = || algorithms.clone().filter(|algorithm| sums_in_one(algorithm));
                in_one()
                    .find(|algorithm| has_fixed_tile(algorithm))
                    .or_else(|| in_one().next())
            }
        };
        chosen.copied().ok_or(CudaError::NoAlgorithm {
            rows: shape.bucket,
            outputs: shape.outputs,
            inputs: shape.inputs,
        })
    }

    /// What the library advises, best first.
    fn heuristics(
        &self,
        operation: sys::cublasLtMatmulDesc_t,
        weight: sys::cublasLtMatrixLayout_t,
        shape: Shape,
    ) -> Result<Vec<sys::cublasLtMatmulHeuristicResult_t>, CudaError> {
        let input = layout(sys::cudaDataType::CUDA_R_16BF, shape.inputs, shape.bucket)?;
        let output = layout(shape.result.data_type(), shape.outputs, shape.bucket)?;
        let preference = result::create_matmul_pref()?;
        let most = WORKSPACE;
        let mut found = Vec::<sys::cublasLtMatmulHeuristicResult_t>::with_capacity(CHOICES);
        let mut count = 0;
        // SAFETY: all descriptors are alive; as many results fit where they are written as are asked for, and as many
        // are there as the library says.
        unsafe {
            let attribute =
                sys::cublasLtMatmulPreferenceAttributes_t::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
            result::set_matmul_pref_attribute(
                preference,
                attribute,
                (&raw const most).cast(),
                size_of_val(&most),
            )?;
            let status = sys::cublasLtMatmulAlgoGetHeuristic(
                self.handle,
                operation,
                weight,
                input.0,
                output.0,
                output.0,
                preference,
                CHOICES as i32,
                found.as_mut_ptr(),
                &mut count,
            );
            result::destroy_matmul_pref(preference)?;
            status.result()?;
            found.set_len(count as usize);
        }
        found.retain(|choice| choice.state.result().is_ok());
        Ok(found)
    }
}

/// Whether an algorithm sums over all inputs in one go.
fn sums_in_one(algorithm: &sys::cublasLtMatmulAlgo_t) -> bool {
    use sys::cublasLtMatmulAlgoConfigAttributes_t as Attribute;
    let parts = attribute(algorithm, Attribute::CUBLASLT_ALGO_CONFIG_SPLITK_NUM);
    let reduction = attribute(algorithm, Attribute::CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME);
    parts.is_some_and(|parts| parts <= 1) && reduction == Some(0)
}

fn has_fixed_tile(algorithm: &sys::cublasLtMatmulAlgo_t) -> bool {
    use sys::cublasLtMatmulAlgoConfigAttributes_t as Attribute;
    attribute(algorithm, Attribute::CUBLASLT_ALGO_CONFIG_TILE_ID) == Some(FIXED_TILE)
}

fn attribute(
    algorithm: &sys::cublasLtMatmulAlgo_t,
    attribute: sys::cublasLtMatmulAlgoConfigAttributes_t,
) -> Option<u32> {
    let (mut value, mut written) = (0u32, 0usize);
    // SAFETY: both attributes are 32-bit numbers, and there is room for one.
    let status = unsafe {
        sys::cublasLtMatmulAlgoConfigGetAttribute(
            algorithm,
            attribute,
            (&raw mut value).cast(),
            size_of::<u32>(),
            &mut written,
        )
    };
    status.result().ok().map(|()| value)
}

impl Plan {
    fn destroy(&self) {
        // SAFETY: made by `describe`, and nothing uses the plan after this.
        unsafe {
            let _ = result::destroy_matmul_desc(self.operation);
            let _ = result::destroy_matrix_layout(self.weight);
        }
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

impl Drop for Products {
    fn drop(&mut self) {
        // SAFETY: nothing uses the descriptors and the handle after this; errors at the end have no one to tell.
        unsafe {
            self.plans.values().for_each(Plan::destroy);
            let _ = result::destroy_handle(self.handle);
        }
    }
}

impl Output {
    fn data_type(self) -> sys::cudaDataType {
        match self {
            Self::F32 => sys::cudaDataType::CUDA_R_32F,
            Self::Bf16 => sys::cudaDataType::CUDA_R_16BF,
        }
    }
}

/// A matrix of the library: column by column, so ours with rows and columns exchanged.
struct Layout(sys::cublasLtMatrixLayout_t);

impl Layout {
    fn keep(self) -> sys::cublasLtMatrixLayout_t {
        let layout = self.0;
        std::mem::forget(self);
        layout
    }
}

impl Drop for Layout {
    fn drop(&mut self) {
        // SAFETY: made by `layout` and not yet destroyed.
        let _ = unsafe { result::destroy_matrix_layout(self.0) };
    }
}

/// `[rows, width]` without gaps.
fn layout(kind: sys::cudaDataType, width: usize, rows: usize) -> Result<Layout, CudaError> {
    Ok(Layout(result::create_matrix_layout(
        kind,
        width as u64,
        rows as u64,
        width as i64,
    )?))
}

fn set<T>(
    operation: sys::cublasLtMatmulDesc_t,
    attribute: sys::cublasLtMatmulDescAttributes_t,
    value: &T,
) -> Result<(), CudaError> {
    // SAFETY: the value has the attribute's type and is copied.
    unsafe {
        result::set_matmul_desc_attribute(
            operation,
            attribute,
            std::ptr::from_ref(value).cast(),
            size_of::<T>(),
        )?;
    }
    Ok(())
}
