//! Plans of products: descriptors of the library, and its algorithm.

use cudarc::cublaslt::{result, sys};

use super::{Order, Products, WORKSPACE};
use crate::cuda::CudaError;

/// `CUBLAS_OP_T`: the weights' rows are outputs.
const TRANSPOSED: i32 = 1;

/// Numbers of rows for which the library is asked for the algorithm that serves any number, in this order.
const FIXED_ROWS: [usize; 2] = [1024, 4096];

/// `CUBLASLT_MATMUL_TILE_128x128`: within 5 % of the best of all for 500 rows and more, and still quick for few, where
/// larger tiles leave most of a device idle (`examples/products.rs` on an H200).
const FIXED_TILE: u32 = 20;

/// Algorithms that the library is asked for.
const CHOICES: usize = 32;

/// What an algorithm is chosen by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Shape {
    pub order: Order,
    pub bucket: usize,
    pub outputs: usize,
    pub inputs: usize,
    pub result: Output,
    pub bias: bool,
}

/// Type of a product's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Output {
    F32,
    Bf16,
}

/// Descriptors of a product, and its algorithm.
#[derive(Clone, Copy)]
pub(super) struct Plan {
    pub operation: sys::cublasLtMatmulDesc_t,
    pub weight: sys::cublasLtMatrixLayout_t,
    pub algorithm: sys::cublasLtMatmulAlgo_t,
}

impl Output {
    pub fn data_type(self) -> sys::cudaDataType {
        match self {
            Self::F32 => sys::cudaDataType::CUDA_R_32F,
            Self::Bf16 => sys::cudaDataType::CUDA_R_16BF,
        }
    }
}

/// A matrix of the library: column by column, so ours with rows and columns exchanged.
pub(super) struct Layout(pub sys::cublasLtMatrixLayout_t);

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
pub(super) fn layout(kind: sys::cudaDataType, width: usize, rows: usize) -> Result<Layout, CudaError> {
    Ok(Layout(result::create_matrix_layout(
        kind,
        width as u64,
        rows as u64,
        width as i64,
    )?))
}

pub(super) fn set<T>(
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

impl Products {
    pub(super) fn plan(&self, shape: Shape) -> Result<Plan, CudaError> {
        let plan = self.describe(shape)?;
        let algorithm = self.algorithm(plan.operation, plan.weight, shape)?;
        Ok(Plan { algorithm, ..plan })
    }

    pub(super) fn plan_with(
        &self,
        shape: Shape,
        algorithm: sys::cublasLtMatmulAlgo_t,
    ) -> Result<Plan, CudaError> {
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
    pub(super) fn heuristics(
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
pub(super) fn sums_in_one(algorithm: &sys::cublasLtMatmulAlgo_t) -> bool {
    use sys::cublasLtMatmulAlgoConfigAttributes_t as Attribute;
    let parts = attribute(algorithm, Attribute::CUBLASLT_ALGO_CONFIG_SPLITK_NUM);
    let reduction = attribute(algorithm, Attribute::CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME);
    parts.is_some_and(|parts| parts <= 1) && reduction == Some(0)
}

fn has_fixed_tile(algorithm: &sys::cublasLtMatmulAlgo_t) -> bool {
    use sys::cublasLtMatmulAlgoConfigAttributes_t as Attribute;
    attribute(algorithm, Attribute::CUBLASLT_ALGO_CONFIG_TILE_ID) == Some(FIXED_TILE)
}

pub(super) fn attribute(
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
    pub fn destroy(&self) {
        // SAFETY: made by `describe`, and nothing uses the plan after this.
        unsafe {
            let _ = result::destroy_matmul_desc(self.operation);
            let _ = result::destroy_matrix_layout(self.weight);
        }
    }
}
