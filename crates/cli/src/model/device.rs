//! Which device computes.

use medley_backend_mistralrs::{ComputeDevice, check_cuda};

use crate::config::Device;

/// The device that is meant. `auto` is the first CUDA device if it can be used, else the processor; why not is logged
/// where CUDA is built in.
pub fn resolve(device: Device) -> ComputeDevice {
    match device {
        Device::Cpu => ComputeDevice::Cpu,
        Device::Cuda(number) => ComputeDevice::Cuda(number),
        Device::Auto => match check_cuda(0) {
            Ok(()) => ComputeDevice::Cuda(0),
            Err(error) => {
                if cfg!(feature = "cuda") {
                    let reason = format!("{:#}", anyhow::Error::from(error));
                    tracing::warn!(reason, "CUDA can't be used, so the processor computes");
                }
                ComputeDevice::Cpu
            }
        },
    }
}
