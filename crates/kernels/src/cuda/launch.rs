//! Launches of kernels.

use std::ffi::c_void;

use cudarc::driver::result::launch_kernel;
use cudarc::driver::{CudaFunction, DeviceRepr, LaunchConfig};

use super::{CudaError, Device};

/// A grid of blocks of threads, with `shared` bytes of dynamic shared memory a block.
pub(super) fn grid(blocks: (usize, usize, usize), threads: usize, shared: usize) -> LaunchConfig {
    LaunchConfig {
        grid_dim: (blocks.0 as u32, blocks.1 as u32, blocks.2 as u32),
        block_dim: (threads as u32, 1, 1),
        shared_mem_bytes: shared as u32,
    }
}

/// Lets blocks of a kernel have more shared memory than by default.
pub(super) fn allow_shared(function: &CudaFunction, bytes: usize) -> Result<(), CudaError> {
    use cudarc::driver::sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    function.set_attribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, bytes as i32)?;
    Ok(())
}

/// An argument as the driver takes it: its address.
pub(super) fn argument<T: DeviceRepr>(value: &T) -> *mut c_void {
    std::ptr::from_ref(value).cast_mut().cast()
}

/// Blocks that a grid can have in its second and its third dimension.
const MOST_YZ: u32 = 65_535;

/// Launches on the device's stream. A grid without blocks is no launch.
///
/// # Safety
/// The arguments are what the kernel declares, and every address in them reaches as far as the kernel goes.
pub(super) unsafe fn start(
    device: &Device,
    function: &CudaFunction,
    grid: LaunchConfig,
    arguments: &mut [*mut c_void],
) -> Result<(), CudaError> {
    let (x, y, z) = grid.grid_dim;
    if x == 0 || y == 0 || z == 0 {
        return Ok(());
    }
    assert!(
        y <= MOST_YZ && z <= MOST_YZ,
        "a grid of {y} x {z} in its second and third dimension"
    );
    // SAFETY: as promised by the caller; the context is current on threads that have called `Device::enter`.
    unsafe {
        launch_kernel(
            function.cu_function(),
            grid.grid_dim,
            grid.block_dim,
            grid.shared_mem_bytes,
            device.stream().cu_stream(),
            arguments,
        )?;
    }
    Ok(())
}

/// Launches `$function` with arguments in the kernel's order: scalars, structures, or addresses as `u64`.
macro_rules! launch {
    ($device:expr, $function:expr, $grid:expr, $($argument:expr),+ $(,)?) => {
        // SAFETY: callers pass what the kernel's comment asks for, and have checked that buffers are large enough.
        unsafe {
            $crate::cuda::launch::start(
                $device,
                $function,
                $grid,
                &mut [$($crate::cuda::launch::argument(&$argument)),+],
            )
        }?
    };
}

pub(super) use launch;
