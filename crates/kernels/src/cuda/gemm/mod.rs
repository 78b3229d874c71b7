//! Matrix products through cuBLASLt.
//!
//! Weights are `[outputs, inputs]`. The library chooses algorithms once for every shape, at first use, and they stay.
//! There are two ways ([`Order`]): one algorithm for any number of rows, so that a row has the same bits whatever shares
//! the product, or the fastest one for the number of rows.

mod plan;
mod survey;

use std::collections::HashMap;
use std::ffi::c_void;

use cudarc::cublaslt::{result, sys};
use cudarc::driver::{CudaSlice, DevicePtr};

use super::buffer::holds;
use super::{Buffer, CudaError, Device, bf16};
use plan::{Output, Plan, Shape, layout, set};

pub use survey::Surveyed;

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
    order: Order,
}

// SAFETY: the handle may be used by any thread, one at a time.
unsafe impl Send for Products {}

/// Whether the order of a row's sums may depend on how many rows share the product.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Order {
    /// It does not: one algorithm for any number of rows, and none that cuts the inputs into parts.
    #[default]
    Fixed,
    /// It may: the fastest algorithm for each power of two of rows.
    Fastest,
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
        weight: (&Weight, Option<&Buffer<bf16>>),
        x: &Buffer<bf16>,
        rows: usize,
        out: &mut Buffer<bf16>,
    ) -> Result<(), CudaError> {
        holds(out, rows * weight.0.outputs);
        self.run(device, weight, x, rows, (out.address(), Output::Bf16), 0.0)
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
        holds(out, rows * weight.outputs);
        self.run(device, (weight, None), x, rows, (out.address(), Output::F32), 0.0)
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
        holds(sum, rows * weight.outputs);
        self.run(device, (weight, None), x, rows, (sum.address(), Output::F32), 1.0)
    }

    fn run(
        &mut self,
        device: &Device,
        (weight, bias): (&Weight, Option<&Buffer<bf16>>),
        x: &Buffer<bf16>,
        rows: usize,
        (out, result): (u64, Output),
        beta: f32,
    ) -> Result<(), CudaError> {
        holds(x, rows * weight.inputs);
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
        self.launch(
            device,
            (weight, bias),
            x.address(),
            rows,
            (out, result),
            beta,
            &plan,
        )
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
