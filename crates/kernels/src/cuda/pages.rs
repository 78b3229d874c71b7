//! Pages of one layer on a device, and how the copy engine finds them.

use std::ffi::c_void;
use std::mem::MaybeUninit;

use cudarc::driver::DeviceRepr;
use cudarc::driver::sys;

use super::ops::Heads;
use super::{Buffer, CudaError, Device, bf16};
use crate::cpu::attention::PAGE_TOKENS;

/// Keys and values of one layer, `[page, k | v, kv_head, 64, dim]`. Zeros at first: slots that are not visible are read
/// and multiplied by 0, so they must hold finite numbers.
pub struct Pages {
    values: Buffer<bf16>,
    map: Option<Map>,
    page_len: usize,
}

/// A tensor map of the pages: boxes of 64 slots and 64 elements.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
pub(super) struct Map(sys::CUtensorMap);

// SAFETY: the driver's own structure, which kernels take by value.
unsafe impl DeviceRepr for Map {}

impl Pages {
    /// Pages.
    pub fn count(&self) -> usize {
        self.values.len() / self.page_len
    }

    pub(super) fn address(&self) -> u64 {
        self.values.address()
    }

    pub(super) fn map(&self) -> Option<&Map> {
        self.map.as_ref()
    }
}

impl Device {
    /// `count` pages of zeros for heads of this shape.
    pub fn pages(&self, count: usize, heads: Heads) -> Result<Pages, CudaError> {
        let page_len = page_len(heads);
        self.wrap_pages(self.zeros(count * page_len)?, heads)
    }

    /// Pages with these values.
    pub fn pages_of(&self, values: &[bf16], heads: Heads) -> Result<Pages, CudaError> {
        self.wrap_pages(self.upload(values)?, heads)
    }

    /// Copies page `from` to page `to`, before whatever is launched later.
    pub fn copy_page(&self, pages: &mut Pages, from: usize, to: usize) -> Result<(), CudaError> {
        assert!(from.max(to) < pages.count(), "page {from} or {to} is none");
        let bytes = (pages.page_len * size_of::<bf16>()) as u64;
        let at = |page: usize| pages.address() + page as u64 * bytes;
        // SAFETY: both pages lie inside the buffer, which is held for as long as the stream runs.
        unsafe { self.copy_bytes(at(from), at(to), bytes as usize) }
    }

    fn wrap_pages(&self, values: Buffer<bf16>, heads: Heads) -> Result<Pages, CudaError> {
        let map = match self.kernels.hopper {
            Some(_) => Some(map(&values, heads.dim)?),
            None => None,
        };
        Ok(Pages {
            values,
            map,
            page_len: page_len(heads),
        })
    }
}

/// Elements of a page of one layer.
pub fn page_len(heads: Heads) -> usize {
    2 * heads.kv * PAGE_TOKENS * heads.dim
}

fn map(values: &Buffer<bf16>, dim: usize) -> Result<Map, CudaError> {
    let sizes = [dim as u64, (values.len() / dim) as u64];
    let strides = [(dim * size_of::<bf16>()) as u64];
    let (box_sizes, steps) = ([64u32, PAGE_TOKENS as u32], [1u32, 1]);
    let mut map = MaybeUninit::uninit();
    // SAFETY: all arrays have two elements (strides one), as the rank says; the map is written if the call succeeds.
    unsafe {
        sys::cuTensorMapEncodeTiled(
            map.as_mut_ptr(),
            sys::CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
            2,
            values.address() as *mut c_void,
            sizes.as_ptr(),
            strides.as_ptr(),
            box_sizes.as_ptr(),
            steps.as_ptr(),
            sys::CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
            sys::CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_128B,
            sys::CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
            sys::CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )
        .result()?;
        Ok(Map(map.assume_init()))
    }
}
