//! Buffers of a pass, kept between calls. Contents do not outlive the step that wrote them.

use medley_kernels::cuda::{Buffer, CudaError, Device, bf16};

use crate::config::Config;

/// Rows whose logits are in memory at a time.
pub(super) const LOGIT_ROWS: usize = 256;

/// A buffer that grows.
pub(super) struct Room<T>(Buffer<T>);

/// What a device's memory can hold.
pub(super) trait Element: Copy + 'static {
    fn zeros(device: &Device, len: usize) -> Result<Buffer<Self>, CudaError>;
}

macro_rules! element {
    ($($kind:ty),+) => {$(
        impl Element for $kind {
            fn zeros(device: &Device, len: usize) -> Result<Buffer<Self>, CudaError> {
                device.zeros(len)
            }
        }
    )+};
}

element!(f32, bf16, u32, u64);

impl<T: Element> Room<T> {
    pub fn new(device: &Device, len: usize) -> Result<Self, CudaError> {
        T::zeros(device, len).map(Self)
    }

    /// The buffer, with room for `len` elements. What it held is lost if it grows.
    pub fn of(&mut self, device: &Device, len: usize) -> Result<&mut Buffer<T>, CudaError> {
        if self.0.len() < len {
            // The old memory goes first: both may not fit.
            self.0 = T::zeros(device, 0)?;
            self.0 = T::zeros(device, len)?;
        }
        Ok(&mut self.0)
    }

    pub fn get(&self) -> &Buffer<T> {
        &self.0
    }

    pub fn get_mut(&mut self) -> &mut Buffer<T> {
        &mut self.0
    }
}

/// All buffers of a pass; `[rows, ..]` each.
pub(super) struct Scratch {
    /// Rows that all buffers have room for.
    rows: usize,
    /// The residual stream, `[rows, width]`.
    pub hidden: Room<f32>,
    /// The residual stream of the rows that go on to the end.
    pub hidden_last: Room<f32>,
    /// Input of a projection, `[rows, width]`.
    pub normed: Room<bf16>,
    /// Output of the joint projection, `[rows, q | k | v]`.
    pub qkv: Room<bf16>,
    /// The same of the rows that attend in the last layer.
    pub qkv_last: Room<bf16>,
    /// Output of attention, `[rows, heads, head_dim]`.
    pub attended: Room<bf16>,
    /// The same of the rows that go on to the end.
    pub attended_last: Room<bf16>,
    /// Log-sum-exp of attention logits, `[rows, heads]`.
    pub lse: Room<f32>,
    /// `[rows, gate | up]`
    pub gate_up: Room<bf16>,
    /// `[rows, inner]`
    pub inner: Room<bf16>,
    /// `[rows of a chunk, vocab]`
    pub logits: Room<f32>,
    /// Drawn tokens.
    pub drawn: Room<u32>,
    /// Attention masses.
    pub masses: Room<u64>,
    /// Key distances.
    pub distances: Room<f32>,
}

impl Scratch {
    /// Room for `rows` rows; some of the buffers grow when they are first needed.
    pub fn new(device: &Device, config: &Config, rows: usize) -> Result<Self, CudaError> {
        let mut scratch = Self {
            rows: 0,
            hidden: Room::new(device, 0)?,
            hidden_last: Room::new(device, 0)?,
            normed: Room::new(device, 0)?,
            qkv: Room::new(device, 0)?,
            qkv_last: Room::new(device, 0)?,
            attended: Room::new(device, 0)?,
            attended_last: Room::new(device, 0)?,
            lse: Room::new(device, 0)?,
            gate_up: Room::new(device, 0)?,
            inner: Room::new(device, 0)?,
            logits: Room::new(device, 0)?,
            drawn: Room::new(device, 0)?,
            masses: Room::new(device, 0)?,
            distances: Room::new(device, 0)?,
        };
        scratch.reserve(device, config, rows)?;
        scratch.logits.of(device, LOGIT_ROWS * config.vocab)?;
        Ok(scratch)
    }

    /// Makes room for a batch of `rows` rows.
    pub fn reserve(&mut self, device: &Device, config: &Config, rows: usize) -> Result<(), CudaError> {
        if rows <= self.rows {
            return Ok(());
        }
        let (width, queries) = (config.width, config.query_width());
        let joint = queries + 2 * config.key_width();
        self.hidden.of(device, rows * width)?;
        self.normed.of(device, rows * width)?;
        self.qkv.of(device, rows * joint)?;
        self.attended.of(device, rows * queries)?;
        self.lse.of(device, rows * config.heads)?;
        self.gate_up.of(device, rows * 2 * config.inner)?;
        self.inner.of(device, rows * config.inner)?;
        self.rows = rows;
        Ok(())
    }
}
