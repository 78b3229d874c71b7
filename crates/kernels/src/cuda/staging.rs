//! Many small arrays in one copy: a step's row numbers, blocks and tiles reach the device together.

use cudarc::driver::result::memcpy_htod_async;
use cudarc::driver::{CudaSlice, DevicePtr, DeviceRepr, PinnedHostSlice};

use super::{CudaError, Device};

/// Sections begin at multiples of this.
const ALIGN: usize = 256;

/// Arrays that travel together. Filled, sent, then read by kernels until the next [`Staging::clear`].
pub struct Staging {
    host: PinnedHostSlice<u8>,
    device: CudaSlice<u8>,
    address: u64,
    bytes: Vec<u8>,
}

/// An array in a [`Staging`].
#[derive(Debug)]
pub struct Section<T> {
    offset: usize,
    len: usize,
    element: std::marker::PhantomData<T>,
}

impl<T> Clone for Section<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Section<T> {}

impl<T> Section<T> {
    /// Elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Some of the elements.
    pub fn range(&self, range: std::ops::Range<usize>) -> Self {
        assert!(
            range.start <= range.end && range.end <= self.len,
            "a range beyond a section"
        );
        Self {
            offset: self.offset + range.start * size_of::<T>(),
            len: range.len(),
            element: self.element,
        }
    }
}

/// Plain numbers without padding.
///
/// # Safety
/// Every byte of a value is initialised.
pub unsafe trait Plain: DeviceRepr + Copy {}

// SAFETY: numbers have no padding.
unsafe impl Plain for u32 {}
// SAFETY: as above.
unsafe impl Plain for i32 {}

impl Staging {
    /// With room for `bytes`, and more when they are needed.
    pub fn new(device: &Device, bytes: usize) -> Result<Self, CudaError> {
        let (host, slice) = room(device, bytes)?;
        let address = slice.device_ptr(device.stream()).0;
        Ok(Self {
            host,
            device: slice,
            address,
            bytes: Vec::with_capacity(bytes),
        })
    }

    /// Forgets all arrays.
    pub fn clear(&mut self) {
        self.bytes.clear();
    }

    /// Adds an array.
    pub fn add<T: Plain>(&mut self, values: &[T]) -> Section<T> {
        let offset = self.bytes.len().next_multiple_of(ALIGN);
        self.bytes.resize(offset, 0);
        // SAFETY: `Plain` values are bytes, all of them initialised.
        let bytes = unsafe { std::slice::from_raw_parts(values.as_ptr().cast::<u8>(), size_of_val(values)) };
        self.bytes.extend_from_slice(bytes);
        Section {
            offset,
            len: values.len(),
            element: std::marker::PhantomData,
        }
    }

    /// Starts the copy of everything added. What was sent before must have been used: the device was waited for.
    pub fn send(&mut self, device: &Device) -> Result<(), CudaError> {
        if self.bytes.len() > self.host.len() {
            (self.host, self.device) = room(device, self.bytes.len().next_power_of_two())?;
            self.address = self.device.device_ptr(device.stream()).0;
        }
        if self.bytes.is_empty() {
            return Ok(());
        }
        let used = &mut self.host.as_mut_slice()?[..self.bytes.len()];
        used.copy_from_slice(&self.bytes);
        // SAFETY: the device has as much room, and the page-locked source lives until the copy has run: callers wait
        // before they send again.
        unsafe { memcpy_htod_async(self.address, used, device.stream().cu_stream())? };
        Ok(())
    }

    pub(super) fn address<T>(&self, section: Section<T>) -> u64 {
        self.address + section.offset as u64
    }
}

fn room(device: &Device, bytes: usize) -> Result<(PinnedHostSlice<u8>, CudaSlice<u8>), CudaError> {
    // SAFETY: both are written before they are read.
    unsafe {
        let host = device.context().alloc_pinned_with_flags(bytes, 0)?;
        Ok((host, device.stream().alloc(bytes)?))
    }
}
