//! Matrix products through cuBLASLt.
//!
//! Weights are `[outputs, inputs]`. The library chooses an algorithm once for every shape and bucket of rows (a power
//! of two), at first use, and it stays: a product of the same number of rows always has the same bits.

use std::collections::HashMap;
use std::ffi::c_void;
use std::mem::MaybeUninit;

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

/// Matrix products on one device.
pub struct Products {
    handle: sys::cublasLtHandle_t,
    workspace: CudaSlice<u8>,
    plans: HashMap<Shape, Plan>,
}

// SAFETY: the handle may be used by any thread, one at a time.
unsafe impl Send for Products {}

/// `CUBLAS_OP_T`: the weights' rows are outputs.
const TRANSPOSED: i32 = 1;

/// What an algorithm is chosen by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Shape {
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
        })
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
            bucket: rows.next_power_of_two().max(16),
            outputs: weight.outputs,
            inputs: weight.inputs,
            result,
            bias: bias.is_some(),
        };
        if !self.plans.contains_key(&shape) {
            let plan = self.plan(shape)?;
            self.plans.insert(shape, plan);
        }
        let plan = &self.plans[&shape];
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
        use sys::cublasLtMatmulDescAttributes_t as Attribute;
        let compute = sys::cublasComputeType_t::CUBLAS_COMPUTE_32F;
        let operation = result::create_matmul_desc(compute, sys::cudaDataType::CUDA_R_32F)?;
        set(operation, Attribute::CUBLASLT_MATMUL_DESC_TRANSA, &TRANSPOSED)?;
        if shape.bias {
            let epilogue = sys::cublasLtEpilogue_t::CUBLASLT_EPILOGUE_BIAS;
            set(operation, Attribute::CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue)?;
        }
        let weight = layout(sys::cudaDataType::CUDA_R_16BF, shape.inputs, shape.outputs)?;
        let algorithm = self.algorithm(operation, weight.0, shape)?;
        Ok(Plan {
            operation,
            weight: weight.keep(),
            algorithm,
        })
    }

    /// The library's first choice.
    fn algorithm(
        &self,
        operation: sys::cublasLtMatmulDesc_t,
        weight: sys::cublasLtMatrixLayout_t,
        shape: Shape,
    ) -> Result<sys::cublasLtMatmulAlgo_t, CudaError> {
        let input = layout(sys::cudaDataType::CUDA_R_16BF, shape.inputs, shape.bucket)?;
        let output = layout(shape.result.data_type(), shape.outputs, shape.bucket)?;
        let preference = result::create_matmul_pref()?;
        let most = WORKSPACE;
        let mut found = MaybeUninit::<sys::cublasLtMatmulHeuristicResult_t>::uninit();
        let mut count = 0;
        // SAFETY: all descriptors are alive; one result fits where it is written.
        let status = unsafe {
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
                1,
                found.as_mut_ptr(),
                &mut count,
            );
            result::destroy_matmul_pref(preference)?;
            status
        };
        if count == 0 || status.result().is_err() {
            return Err(CudaError::NoAlgorithm {
                rows: shape.bucket,
                outputs: shape.outputs,
                inputs: shape.inputs,
            });
        }
        // SAFETY: the library wrote one result.
        Ok(unsafe { found.assume_init() }.algo)
    }
}

impl Drop for Products {
    fn drop(&mut self) {
        // SAFETY: nothing uses the descriptors and the handle after this; errors at the end have no one to tell.
        unsafe {
            for plan in self.plans.values() {
                let _ = result::destroy_matmul_desc(plan.operation);
                let _ = result::destroy_matrix_layout(plan.weight);
            }
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
