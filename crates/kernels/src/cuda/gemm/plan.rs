//! Plans of products: descriptors of the library, and its algorithms.

use cudarc::cublaslt::{result, sys};

use super::{Products, WORKSPACE};
use crate::cuda::CudaError;

/// `CUBLAS_OP_T`: the weights' rows are outputs.
const TRANSPOSED: i32 = 1;

/// Rows for which the library is asked where nothing was tuned: its answer serves for any number.
const UNTUNED_ROWS: usize = 1024;

/// Algorithms that the library is asked for.
const CHOICES: usize = 32;

/// Numbers of rows for which algorithms are tuned; one serves down to the number before it.
pub(super) const BUCKETS: [usize; 16] = [
    16, 32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 8192,
];

/// What an algorithm is chosen by, beside the number of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Shape {
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

/// Descriptors of a product, and its algorithms.
pub(super) struct Plan {
    pub shape: Shape,
    pub operation: sys::cublasLtMatmulDesc_t,
    pub weight: sys::cublasLtMatrixLayout_t,
    /// For any number of rows.
    pub any: Algorithm,
    /// For rows up to each of [`BUCKETS`], as far as they are tuned.
    pub tuned: Vec<Algorithm>,
}

/// How a product runs.
#[derive(Clone, Copy)]
pub(super) struct Algorithm {
    pub id: sys::cublasLtMatmulAlgo_t,
    /// Fewer rows are filled up to these where there is room.
    pub least_rows: usize,
}

impl Output {
    pub fn data_type(self) -> sys::cudaDataType {
        match self {
            Self::F32 => sys::cudaDataType::CUDA_R_32F,
            Self::Bf16 => sys::cudaDataType::CUDA_R_16BF,
        }
    }

    /// Bytes of an element.
    pub fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::Bf16 => 2,
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
    /// A plan that is not tuned.
    pub(super) fn plan(&self, shape: Shape) -> Result<Plan, CudaError> {
        use sys::cublasLtMatmulDescAttributes_t as Attribute;
        let compute = sys::cublasComputeType_t::CUBLAS_COMPUTE_32F;
        let operation = result::create_matmul_desc(compute, sys::cudaDataType::CUDA_R_32F)?;
        set(operation, Attribute::CUBLASLT_MATMUL_DESC_TRANSA, &TRANSPOSED)?;
        if shape.bias {
            let epilogue = sys::cublasLtEpilogue_t::CUBLASLT_EPILOGUE_BIAS;
            set(operation, Attribute::CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue)?;
        }
        let weight = layout(sys::cudaDataType::CUDA_R_16BF, shape.inputs, shape.outputs)?;
        let mut plan = Plan {
            shape,
            operation,
            weight: weight.keep(),
            any: Algorithm {
                id: sys::cublasLtMatmulAlgo_t { data: [0; 8] },
                least_rows: 0,
            },
            tuned: Vec::new(),
        };
        match self
            .advised(&plan, UNTUNED_ROWS)
            .map(|found| found.first().copied())
        {
            Ok(Some(algorithm)) => plan.any.id = algorithm,
            other => {
                plan.destroy();
                other?;
                return Err(CudaError::NoAlgorithm {
                    rows: UNTUNED_ROWS,
                    outputs: shape.outputs,
                    inputs: shape.inputs,
                });
            }
        }
        Ok(plan)
    }

    /// What the library advises for so many rows, best first, of what sums in one go.
    pub(super) fn advised(
        &self,
        plan: &Plan,
        rows: usize,
    ) -> Result<Vec<sys::cublasLtMatmulAlgo_t>, CudaError> {
        use sys::cublasLtMatmulPreferenceAttributes_t as Attribute;
        let input = layout(sys::cudaDataType::CUDA_R_16BF, plan.shape.inputs, rows)?;
        let output = layout(plan.shape.result.data_type(), plan.shape.outputs, rows)?;
        let preference = Preference(result::create_matmul_pref()?);
        preference.set(Attribute::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &WORKSPACE)?;
        // No way to reduce parts of a sum: no parts.
        preference.set(Attribute::CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &0u32)?;
        let mut found = Vec::<sys::cublasLtMatmulHeuristicResult_t>::with_capacity(CHOICES);
        let mut count = 0;
        // SAFETY: all descriptors are alive; as many results fit where they are written as are asked for, and as many
        // are there as the library says.
        unsafe {
            let status = sys::cublasLtMatmulAlgoGetHeuristic(
                self.handle,
                plan.operation,
                plan.weight,
                input.0,
                output.0,
                output.0,
                preference.0,
                CHOICES as i32,
                found.as_mut_ptr(),
                &mut count,
            );
            status.result()?;
            found.set_len(count as usize);
        }
        let works = |choice: &sys::cublasLtMatmulHeuristicResult_t| choice.state.result().is_ok();
        let algorithms = found
            .iter()
            .filter(|choice| works(choice))
            .map(|choice| choice.algo);
        Ok(algorithms.filter(sums_in_one).collect())
    }
}

/// What the library looks for.
struct Preference(sys::cublasLtMatmulPreference_t);

impl Preference {
    fn set<T>(
        &self,
        attribute: sys::cublasLtMatmulPreferenceAttributes_t,
        value: &T,
    ) -> Result<(), CudaError> {
        // SAFETY: the value has the attribute's type and is copied.
        unsafe {
            result::set_matmul_pref_attribute(
                self.0,
                attribute,
                std::ptr::from_ref(value).cast(),
                size_of::<T>(),
            )?;
        }
        Ok(())
    }
}

impl Drop for Preference {
    fn drop(&mut self) {
        // SAFETY: made with this value and not yet destroyed.
        let _ = unsafe { result::destroy_matmul_pref(self.0) };
    }
}

/// Whether an algorithm sums over all inputs in one go.
fn sums_in_one(algorithm: &sys::cublasLtMatmulAlgo_t) -> bool {
    use sys::cublasLtMatmulAlgoConfigAttributes_t as Attribute;
    let parts = attribute(algorithm, Attribute::CUBLASLT_ALGO_CONFIG_SPLITK_NUM);
    let reduction = attribute(algorithm, Attribute::CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME);
    parts.is_some_and(|parts| parts <= 1) && reduction == Some(0)
}

pub(super) fn attribute(
    algorithm: &sys::cublasLtMatmulAlgo_t,
    attribute: sys::cublasLtMatmulAlgoConfigAttributes_t,
) -> Option<u32> {
    let (mut value, mut written) = (0u32, 0usize);
    // SAFETY: all attributes that are asked for are 32-bit numbers, and there is room for one.
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
    /// The algorithm for so many rows.
    pub fn algorithm(&self, rows: usize) -> &Algorithm {
        let bucket = BUCKETS
            .partition_point(|&most| most < rows)
            .min(BUCKETS.len() - 1);
        self.tuned.get(bucket).unwrap_or(&self.any)
    }

    pub fn destroy(&self) {
        // SAFETY: made by `Products::plan`, and nothing uses the plan after this.
        unsafe {
            let _ = result::destroy_matmul_desc(self.operation);
            let _ = result::destroy_matrix_layout(self.weight);
        }
    }
}
