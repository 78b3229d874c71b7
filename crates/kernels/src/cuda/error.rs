//! What can go wrong with a device.

use cudarc::cublaslt::result::CublasError;
use cudarc::driver::DriverError;
use cudarc::driver::sys::CUresult;

impl CudaError {
    /// Whether every further call on the device fails too: an illegal access, a hardware fault, a device that is gone.
    pub fn is_lost(&self) -> bool {
        use CUresult::{CUDA_ERROR_INVALID_HANDLE, CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_OUT_OF_MEMORY};
        match self {
            Self::Driver(DriverError(code)) => !matches!(
                code,
                CUDA_ERROR_OUT_OF_MEMORY | CUDA_ERROR_INVALID_VALUE | CUDA_ERROR_INVALID_HANDLE
            ),
            _ => false,
        }
    }
}

/// A device that can't be used, or a call that failed on it.
#[derive(Debug, thiserror::Error)]
pub enum CudaError {
    /// No driver, or none that can be loaded.
    #[error(
        "no NVIDIA driver was found (libcuda.so.1); is the driver installed and visible to this process?"
    )]
    NoDriver,
    /// A library of the CUDA toolkit is missing.
    #[error(
        "{0} was not found; install the CUDA 13 run-time libraries or put their folder on LD_LIBRARY_PATH"
    )]
    NoLibrary(&'static str),
    /// There is no such device.
    #[error("there is no CUDA device {asked}; devices found: {found}")]
    NoDevice {
        /// The number asked for.
        asked: usize,
        /// How many there are.
        found: usize,
    },
    /// The device is too old.
    #[error("{name} has compute capability {major}.{minor}; 8.0 or newer is needed")]
    TooOld {
        /// The device's name.
        name: String,
        /// Compute capability, before the dot.
        major: i32,
        /// Compute capability, after the dot.
        minor: i32,
    },
    /// An allocation does not fit.
    #[error("the device is out of memory: {asked} bytes were asked for, {free} of {total} are free")]
    OutOfMemory {
        /// Bytes asked for.
        asked: usize,
        /// Bytes free.
        free: usize,
        /// Bytes of the device.
        total: usize,
    },
    /// No algorithm for a matrix product.
    #[error("cuBLASLt has no algorithm for a product of {rows} rows, {outputs} outputs and {inputs} inputs")]
    NoAlgorithm {
        /// Rows.
        rows: usize,
        /// Outputs.
        outputs: usize,
        /// Inputs.
        inputs: usize,
    },
    /// The driver refused a call or a launch failed.
    #[error("the CUDA driver reports an error")]
    Driver(#[from] DriverError),
    /// cuBLASLt refused a call.
    #[error("cuBLASLt reports {0}")]
    Products(#[from] CublasError),
}
