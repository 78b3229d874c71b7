//! Memory on a device.

use cudarc::driver::{CudaSlice, CudaStream, DevicePtr, DeviceRepr};
use std::sync::Arc;

/// `len` elements on a device. Freed when dropped.
pub struct Buffer<T> {
    slice: CudaSlice<T>,
    address: u64,
}

impl<T> Buffer<T> {
    /// Elements.
    pub fn len(&self) -> usize {
        self.slice.len()
    }

    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T: DeviceRepr> Buffer<T> {
    pub(super) fn new(slice: CudaSlice<T>) -> Self {
        let stream: Arc<CudaStream> = Arc::clone(slice.stream());
        let address = slice.device_ptr(&stream).0;
        Self { slice, address }
    }

    pub(super) fn slice(&self) -> &CudaSlice<T> {
        &self.slice
    }

    pub(super) fn slice_mut(&mut self) -> &mut CudaSlice<T> {
        &mut self.slice
    }

    /// The device's address of element 0.
    pub(super) fn address(&self) -> u64 {
        self.address
    }
}

/// Panics if a kernel would reach beyond a buffer: a mistake of the caller, never of input.
#[track_caller]
pub(super) fn holds<T: DeviceRepr>(buffer: &Buffer<T>, len: usize) {
    assert!(
        buffer.len() >= len,
        "a buffer of {} elements for {len}",
        buffer.len()
    );
}
