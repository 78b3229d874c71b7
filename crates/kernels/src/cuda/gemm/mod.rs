//! Matrix products through cuBLASLt.
//!
//! Weights are `[outputs, inputs]`. Only algorithms that sum over all inputs in one go are used. They add the same terms
//! in the same order whatever their tiles are, so a row has the same bits whatever shares the product and whichever of
//! them computes it. [`Products::tune`] finds the fastest for every number of rows, and takes none without having seen
//! that its bits are those of the others.

mod plan;
mod tune;

use std::collections::HashMap;
use std::ffi::c_void;

use cudarc::cublaslt::{result, sys};
use cudarc::driver::{CudaSlice, DevicePtr};

use super::buffer::holds;
use super::{Buffer, CudaError, Device, bf16};
use plan::{Algorithm, Output, Plan, Shape, layout, set};

pub use tune::{Target, Tried};

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

/// Operands of a product: weights with their bias, inputs with how many rows they have, and where the result goes.
#[derive(Clone, Copy)]
struct Operands<'a> {
    weight: &'a Weight,
    bias: Option<&'a Buffer<bf16>>,
    x: &'a Buffer<bf16>,
    rows: usize,
    /// Address of the result.
    out: u64,
    /// Rows that the result has room for.
    room: usize,
    /// Factor on what stands in the result before.
    beta: f32,
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
    ///
    /// Here and below: where both buffers have room for more, [`PADDED`] rows at most, rows behind the last one are
    /// computed from whatever stands there.
    pub fn multiply(
        &mut self,
        device: &Device,
        (weight, bias): (&Weight, Option<&Buffer<bf16>>),
        x: &Buffer<bf16>,
        rows: usize,
        out: &mut Buffer<bf16>,
    ) -> Result<(), CudaError> {
        let operands = Operands {
            bias,
            ..Operands::new(weight, x, rows, out, 0.0)
        };
        self.run(device, &operands, Output::Bf16)
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
        self.run(device, &Operands::new(weight, x, rows, out, 0.0), Output::F32)
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
        self.run(device, &Operands::new(weight, x, rows, sum, 1.0), Output::F32)
    }

    fn run(&mut self, device: &Device, operands: &Operands<'_>, output: Output) -> Result<(), CudaError> {
        if operands.rows == 0 {
            return Ok(());
        }
        let shape = operands.shape(output);
        if !self.plans.contains_key(&shape) {
            let plan = self.plan(shape)?;
            self.plans.insert(shape, plan);
        }
        let plan = &self.plans[&shape];
        self.launch(device, operands, plan, plan.algorithm(operands.rows))
    }

    /// Starts a product by this algorithm.
    fn launch(
        &self,
        device: &Device,
        operands: &Operands<'_>,
        plan: &Plan,
        algorithm: &Algorithm,
    ) -> Result<(), CudaError> {
        let Operands { weight, x, rows, .. } = *operands;
        let room = operands.room.min(x.len() / weight.inputs);
        let rows = if algorithm.least_rows <= room {
            rows.max(algorithm.least_rows)
        } else {
            rows
        };
        let input = layout(sys::cudaDataType::CUDA_R_16BF, weight.inputs, rows)?;
        let output = layout(plan.shape.result.data_type(), weight.outputs, rows)?;
        if let Some(bias) = operands.bias {
            let attribute = sys::cublasLtMatmulDescAttributes_t::CUBLASLT_MATMUL_DESC_BIAS_POINTER;
            set(plan.operation, attribute, &bias.address())?;
        }
        let (alpha, stream) = (1.0f32, device.stream().cu_stream());
        // SAFETY: the descriptors describe buffers that hold at least as much (checked by `Operands::new`); the scalars
        // live until the call returns, as host scalars must.
        let done = unsafe {
            result::matmul(
                self.handle,
                plan.operation,
                (&raw const alpha).cast(),
                (&raw const operands.beta).cast(),
                weight.values.address() as *const c_void,
                plan.weight,
                x.address() as *const c_void,
                input.0,
                operands.out as *const c_void,
                output.0,
                operands.out as *mut c_void,
                output.0,
                &raw const algorithm.id,
                self.workspace.device_ptr(device.stream()).0 as *mut c_void,
                WORKSPACE,
                stream.cast(),
            )
        };
        Ok(done?)
    }
}

/// Most rows that a product of fewer is filled up to: tiles of so many are read faster than thinner ones.
pub const PADDED: usize = 64;

impl<'a> Operands<'a> {
    #[track_caller]
    fn new<T: cudarc::driver::DeviceRepr>(
        weight: &'a Weight,
        x: &'a Buffer<bf16>,
        rows: usize,
        out: &Buffer<T>,
        beta: f32,
    ) -> Self {
        holds(x, rows * weight.inputs);
        holds(out, rows * weight.outputs);
        Self {
            weight,
            bias: None,
            x,
            rows,
            out: out.address(),
            room: out.len() / weight.outputs,
            beta,
        }
    }

    fn shape(&self, result: Output) -> Shape {
        Shape {
            outputs: self.weight.outputs,
            inputs: self.weight.inputs,
            result,
            bias: self.bias.is_some(),
        }
    }
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
