//! A device with its stream, its kernels and its memory.

use std::sync::Arc;

use cudarc::driver::sys::{self, CUdevice_attribute};
use cudarc::driver::{
    CudaContext, CudaFunction, CudaModule, CudaSlice, CudaStream, DeviceRepr, ValidAsZeroBits, result,
};
use cudarc::nvrtc::Ptx;

use super::{Buffer, CudaError};

/// Bytes of a device's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Not in use by anyone.
    pub free: usize,
    /// All.
    pub total: usize,
}

/// An opened device.
pub struct Device {
    context: Arc<CudaContext>,
    stream: Arc<CudaStream>,
    pub(super) kernels: Kernels,
    capability: (i32, i32),
    processors: u32,
}

impl Device {
    /// Whether device number `ordinal` can be opened, and if not, why. Opens nothing.
    pub fn check(ordinal: usize) -> Result<(), CudaError> {
        check_libraries()?;
        let found = usize::try_from(CudaContext::device_count()?).unwrap_or(0);
        if ordinal >= found {
            return Err(CudaError::NoDevice {
                asked: ordinal,
                found,
            });
        }
        let device = result::device::get(ordinal as i32)?;
        let attribute = |attribute| {
            // SAFETY: the device exists.
            unsafe { result::device::get_attribute(device, attribute) }
        };
        let major = attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
        let minor = attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
        if major < 8 {
            let name = result::device::get_name(device)?;
            return Err(CudaError::TooOld { name, major, minor });
        }
        Ok(())
    }

    /// Opens device number `ordinal` and loads all kernels.
    pub fn open(ordinal: usize) -> Result<Self, CudaError> {
        Self::check(ordinal)?;
        let context = CudaContext::new(ordinal)?;
        let capability = context.compute_capability()?;
        // SAFETY: everything runs on one stream, so no event needs to order it.
        unsafe { context.disable_event_tracking() };
        let stream = context.new_stream()?;
        let kernels = Kernels::load(&context, capability)?;
        let processors =
            context.attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)? as u32;
        Ok(Self {
            context,
            stream,
            kernels,
            capability,
            processors,
        })
    }

    /// The product name.
    pub fn name(&self) -> Result<String, CudaError> {
        Ok(self.context.name()?)
    }

    /// Compute capability: major and minor version.
    pub fn capability(&self) -> (i32, i32) {
        self.capability
    }

    /// Multiprocessors.
    pub fn processors(&self) -> u32 {
        self.processors
    }

    /// Memory at this moment.
    pub fn memory(&self) -> Result<Memory, CudaError> {
        let (free, total) = self.context.mem_get_info()?;
        Ok(Memory { free, total })
    }

    /// Memory of zeros.
    pub fn zeros<T: DeviceRepr + ValidAsZeroBits>(&self, len: usize) -> Result<Buffer<T>, CudaError> {
        let slice = self.stream.alloc_zeros(len.max(1));
        Ok(Buffer::new(slice.map_err(|error| self.explain::<T>(error, len))?))
    }

    /// Memory of any content.
    ///
    /// # Safety
    /// It is written before it is read.
    pub(super) unsafe fn uninitialised<T: DeviceRepr>(&self, len: usize) -> Result<CudaSlice<T>, CudaError> {
        // SAFETY: as promised by the caller.
        let slice = unsafe { self.stream.alloc(len) };
        slice.map_err(|error| self.explain::<T>(error, len))
    }

    /// A copy of `values` on the device.
    pub fn upload<T: DeviceRepr>(&self, values: &[T]) -> Result<Buffer<T>, CudaError> {
        let slice = self.stream.clone_htod(values);
        Ok(Buffer::new(
            slice.map_err(|error| self.explain::<T>(error, values.len()))?,
        ))
    }

    /// Copies the first elements of `buffer` into `to` and waits for them.
    pub fn download<T: DeviceRepr>(&self, buffer: &Buffer<T>, to: &mut [T]) -> Result<(), CudaError> {
        self.download_from(buffer, 0, to)
    }

    /// The same from element `first` on.
    pub fn download_from<T: DeviceRepr>(
        &self,
        buffer: &Buffer<T>,
        first: usize,
        to: &mut [T],
    ) -> Result<(), CudaError> {
        if to.is_empty() {
            return Ok(());
        }
        let from = buffer.slice().slice(first..first + to.len());
        self.stream.memcpy_dtoh(&from, to)?;
        self.wait()
    }

    /// Copies bytes from an address of the device and waits for them.
    ///
    /// # Safety
    /// So many bytes of one allocation begin there.
    pub(super) unsafe fn download_bytes(&self, from: u64, to: &mut [u8]) -> Result<(), CudaError> {
        // SAFETY: as promised by the caller; the copy has ended before `to` is used again.
        unsafe { result::memcpy_dtoh_async(to, from, self.stream.cu_stream())? };
        self.wait()
    }

    /// Copies bytes on the device, in the order of launches.
    ///
    /// # Safety
    /// So many bytes of an allocation begin at either address, the allocations outlive the copy, and the two do not
    /// overlap.
    pub(super) unsafe fn copy_bytes(&self, from: u64, to: u64, bytes: usize) -> Result<(), CudaError> {
        self.enter()?;
        // SAFETY: as promised by the caller.
        unsafe { result::memcpy_dtod_async(to, from, bytes, self.stream.cu_stream())? };
        Ok(())
    }

    /// Waits until everything launched so far has run.
    pub fn wait(&self) -> Result<(), CudaError> {
        self.stream.synchronize()?;
        Ok(())
    }

    /// Sets all elements to zero.
    pub fn clear<T: DeviceRepr + ValidAsZeroBits>(&self, buffer: &mut Buffer<T>) -> Result<(), CudaError> {
        self.stream.memset_zeros(buffer.slice_mut())?;
        Ok(())
    }

    /// Makes this device current for the calling thread. Before anything else on a thread that did not open it.
    pub fn enter(&self) -> Result<(), CudaError> {
        self.context.bind_to_thread()?;
        Ok(())
    }

    pub(super) fn context(&self) -> &Arc<CudaContext> {
        &self.context
    }

    pub(super) fn stream(&self) -> &Arc<CudaStream> {
        &self.stream
    }

    fn explain<T>(&self, error: cudarc::driver::DriverError, len: usize) -> CudaError {
        let memory = self.memory();
        match memory {
            Ok(Memory { free, total }) if error.0 == sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY => {
                CudaError::OutOfMemory {
                    asked: len * size_of::<T>(),
                    free,
                    total,
                }
            }
            _ => error.into(),
        }
    }
}

/// The bindings end the process when a library is missing, so look first.
fn check_libraries() -> Result<(), CudaError> {
    // SAFETY: these only try to open libraries.
    let (driver, products) = unsafe { (sys::is_culib_present(), cudarc::cublaslt::sys::is_culib_present()) };
    match (driver, products) {
        (false, _) => Err(CudaError::NoDriver),
        (true, false) => Err(CudaError::NoLibrary("libcublasLt.so.13")),
        (true, true) => Ok(()),
    }
}

/// One image of machine code a source file.
macro_rules! image {
    ($name:literal) => {
        include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".fatbin"))
    };
}

/// Functions of every image. Those for head sizes stand in the order of [`HEAD_DIMS`].
pub(super) struct Kernels {
    pub embed: CudaFunction,
    pub rms_norm: CudaFunction,
    pub gather: CudaFunction,
    pub silu_mul: CudaFunction,
    pub head_norms: CudaFunction,
    pub store_kv: CudaFunction,
    pub key_distance: CudaFunction,
    pub sample_token: CudaFunction,
    pub fill: CudaFunction,
    pub prefill: [CudaFunction; 2],
    pub decode: [CudaFunction; 2],
    pub masses: [CudaFunction; 2],
    pub merge: CudaFunction,
    /// Only where the device has the instructions.
    pub hopper: Option<Hopper>,
}

/// Kernels for Hopper.
pub(super) struct Hopper {
    pub prefill: [CudaFunction; 2],
    pub decode: [CudaFunction; 2],
}

/// Head sizes that attention is compiled for.
pub const HEAD_DIMS: [usize; 2] = [64, 128];

impl Kernels {
    fn load(context: &Arc<CudaContext>, capability: (i32, i32)) -> Result<Self, CudaError> {
        let ops = module(context, image!("ops"))?;
        let attention = module(context, image!("attention"))?;
        let decode = module(context, image!("decode"))?;
        let hopper = match capability {
            (9, 0) => Some(Hopper {
                prefill: by_head_dim(&module(context, image!("attention_sm90"))?, "attention_sm90")?,
                decode: by_head_dim(&module(context, image!("decode_sm90"))?, "attention_decode_sm90")?,
            }),
            _ => None,
        };
        Ok(Self {
            embed: ops.load_function("embed")?,
            rms_norm: ops.load_function("rms_norm")?,
            gather: ops.load_function("gather")?,
            silu_mul: ops.load_function("silu_mul")?,
            head_norms: ops.load_function("head_norms")?,
            store_kv: ops.load_function("store_kv")?,
            key_distance: ops.load_function("key_distance")?,
            sample_token: module(context, image!("sample"))?.load_function("sample_token")?,
            fill: ops.load_function("fill")?,
            prefill: by_head_dim(&attention, "attention_prefill")?,
            decode: by_head_dim(&decode, "attention_decode")?,
            masses: by_head_dim(&decode, "attention_masses")?,
            merge: decode.load_function("attention_merge")?,
            hopper,
        })
    }
}

fn module(context: &Arc<CudaContext>, image: &[u8]) -> Result<Arc<CudaModule>, CudaError> {
    Ok(context.load_module(Ptx::from_binary(image.to_vec()))?)
}

fn by_head_dim(module: &Arc<CudaModule>, name: &str) -> Result<[CudaFunction; 2], CudaError> {
    let load = |dim| module.load_function(&format!("{name}_d{dim}"));
    Ok([load(HEAD_DIMS[0])?, load(HEAD_DIMS[1])?])
}
