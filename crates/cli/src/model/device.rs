//! Which device computes.

use medley_backend_mistralrs::ComputeDevice;

use crate::config::Device;

/// The device that is meant, `auto` resolved.
pub fn resolve(device: Device) -> ComputeDevice {
    match device {
        Device::Cpu => ComputeDevice::Cpu,
        Device::Cuda(number) => ComputeDevice::Cuda(number),
        Device::Auto => match medley_backend_mistralrs::cuda_devices() {
            0 => ComputeDevice::Cpu,
            _ => ComputeDevice::Cuda(0),
        },
    }
}
