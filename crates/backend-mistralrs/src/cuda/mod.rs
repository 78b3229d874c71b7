//! The row backend on an NVIDIA device.
//!
//! The same pass as on the CPU, with weights and KV in bf16 and sums in f32. Everything runs on one stream; a call sends
//! one copy of numbers, launches all layers, and waits once for what was asked.
//!
//! A row has the same bits whatever shares the call, products included ([`medley_kernels::cuda::gemm`]).

mod forward;
mod scratch;
mod step;
mod weights;

use std::sync::Arc;

use medley_backend::{Backend, BackendError, Batch, Draw, Outcome, Part, PartKind, Row, Sequence};
use medley_kernels::cuda::attention::Attention;
use medley_kernels::cuda::gemm::{Products, Target, Weight};
use medley_kernels::cuda::ops::{Angles, Heads};
use medley_kernels::cuda::{Buffer, CudaError, Device, Memory, Pages, Staging, bf16, page_len};
use medley_kv::{KvDtype, KvGeometry, PAGE_TOKENS, PageId, Position, SlotId, TokenId};

use crate::config::Config;
use crate::decoder::{Layer, attention_scale};
use crate::tensors::Tensors;
use crate::{LoadError, PoolSize, Progress};
use scratch::Scratch;
use weights::{OnDevice, Weights};

/// Rows that a step of the engine has at most; larger batches run too, with more memory.
const STEP_ROWS: usize = 8192;

/// Query heads a key head that every kernel takes.
const MOST_GROUP: usize = 64;

/// Bytes that are left to the driver and the libraries beside the pool.
const MARGIN: usize = 512 << 20;

/// A decoder with its page pool on a device.
pub struct CudaBackend {
    device: Arc<Device>,
    config: Config,
    weights: Weights,
    pages: Vec<Pages>,
    angles: Angles,
    attention: Attention,
    products: Products,
    staging: Staging,
    scratch: Scratch,
}

/// Weights of a product, and its bias.
type Product<'a> = (&'a Weight, Option<&'a Buffer<bf16>>);

/// Where a backend's weights come from.
pub(crate) enum Origin<'a> {
    /// A file's tensors.
    Tensors(&'a mut dyn Tensors, &'a dyn Fn(Progress)),
    /// Random numbers from this seed.
    Random(u64),
}

impl CudaBackend {
    /// Opens device `ordinal`, loads the weights and fills what memory is left, as far as `pool` allows, with pages.
    /// `length` is the longest sequence that will run.
    pub(crate) fn new(
        ordinal: usize,
        config: Config,
        origin: Origin<'_>,
        pool: PoolSize,
        length: usize,
    ) -> Result<Self, LoadError> {
        check_shape(&config)?;
        let device = Arc::new(Device::open(ordinal)?);
        let weights = match origin {
            Origin::Tensors(tensors, report) => Weights::read(&config, tensors, &device, report)?,
            Origin::Random(seed) => Weights::random(&config, &device, seed)?,
        };
        let rope = config.rope.table(config.head_dim, 0);
        let heads = Heads {
            query: config.heads,
            kv: config.kv_heads,
            dim: config.head_dim,
        };
        let scale = attention_scale(&rope, config.head_dim);
        let attention = Attention::new(&device, heads, scale)?.ok_or_else(|| head_size(config.head_dim))?;
        // A query is turned back to where a document's keys were rotated: behind an anchor that may be as long as a
        // sequence.
        let angles = device.angles(&rope, 2 * length + 1)?;
        let products = Products::new(&device)?;
        let scratch = Scratch::new(&device, &config, STEP_ROWS)?;
        let staging = Staging::new(&device, 1 << 20)?;
        let page_bytes = page_len(heads) * size_of::<bf16>() * config.layers;
        let count = pages_within(pool, page_bytes, device.memory()?)?;
        let pages = (0..config.layers)
            .map(|_| device.pages(count, heads))
            .collect::<Result<_, _>>()?;
        let mut backend = Self {
            device,
            config,
            weights,
            pages,
            angles,
            attention,
            products,
            staging,
            scratch,
        };
        backend.tune()?;
        backend.warm()?;
        Ok(backend)
    }

    /// Bytes of the weights on the device.
    pub fn weights_bytes(&self) -> u64 {
        self.weights.bytes()
    }

    /// The numerical recipe: number format and the device's compute capability.
    pub fn recipe(&self) -> String {
        let (major, minor) = self.device.capability();
        format!("cuda bf16 sm_{major}{minor} v1")
    }

    /// Chooses algorithms for the matrix products.
    fn tune(&mut self) -> Result<(), CudaError> {
        let (device, layers, scratch) = (&self.device, &self.weights.layers, &mut self.scratch);
        let of = |weight: fn(&Layer<OnDevice>) -> Product<'_>| layers.iter().map(weight).collect::<Vec<_>>();
        let (qkv, output) = (of(|l| (&l.qkv, l.qkv_bias.as_ref())), of(|l| (&l.output, None)));
        let (gate_up, down) = (of(|l| (&l.gate_up, None)), of(|l| (&l.down, None)));
        let products = &mut self.products;
        products.tune(
            device,
            &qkv,
            scratch.normed.get_mut(),
            Target::Bf16(scratch.qkv.get_mut()),
        )?;
        products.tune(
            device,
            &output,
            scratch.attended.get_mut(),
            Target::Sum(scratch.hidden.get_mut()),
        )?;
        products.tune(
            device,
            &gate_up,
            scratch.normed.get_mut(),
            Target::Bf16(scratch.gate_up.get_mut()),
        )?;
        products.tune(
            device,
            &down,
            scratch.inner.get_mut(),
            Target::Sum(scratch.hidden.get_mut()),
        )?;
        let head = [(self.weights.head(), None)];
        products.tune(
            device,
            &head,
            scratch.normed.get_mut(),
            Target::F32(scratch.logits.get_mut()),
        )?;
        Ok(())
    }

    /// Runs every size of step once, so that kernels are loaded and algorithms chosen before the first request. The pages
    /// that it writes are not in use yet.
    fn warm(&mut self) -> Result<(), LoadError> {
        let most = (self.pages() * PAGE_TOKENS)
            .min(STEP_ROWS)
            .min(self.angles.positions());
        let sizes = std::iter::successors(Some(1), |size| Some(size * 2)).take_while(|&size| size < most);
        let mut stream = warming(1);
        stream.sequences[0].pass_rows = 1;
        for batch in sizes.chain([most]).map(warming).chain([stream]) {
            self.run(&batch)
                .map_err(|error| LoadError::Device(error.to_string()))?;
        }
        Ok(())
    }
}

/// A prefill of `rows` tokens.
fn warming(rows: usize) -> Batch {
    let row = |i: usize| Row {
        sequence: 0,
        token: TokenId(0),
        position: Position(i as u32),
        slot: SlotId(i as u32),
    };
    let pages: Vec<_> = (0..rows.div_ceil(PAGE_TOKENS) as u32).map(PageId).collect();
    let part = Part {
        pages: pages.into(),
        len: rows,
        kind: PartKind::Prefix,
    };
    Batch {
        sequences: vec![Sequence::new(vec![part])],
        rows: (0..rows).map(row).collect(),
        draws: vec![Draw::greedy(rows - 1)],
        ..Batch::default()
    }
}

impl Backend for CudaBackend {
    fn geometry(&self) -> KvGeometry {
        KvGeometry {
            dtype: KvDtype::Bf16,
            ..self.config.geometry()
        }
    }

    fn vocab(&self) -> usize {
        self.config.vocab
    }

    fn pages(&self) -> usize {
        self.pages.first().map_or(0, Pages::count)
    }

    fn copy_pages(&mut self, pairs: &[(PageId, PageId)]) -> Result<(), BackendError> {
        medley_backend::check_copies(pairs, self.pages())?;
        for pages in &mut self.pages {
            for &(from, to) in pairs {
                self.device
                    .copy_page(pages, from.0 as usize, to.0 as usize)
                    .map_err(|error| forward::failure(&error))?;
            }
        }
        Ok(())
    }

    fn run(&mut self, batch: &Batch) -> Result<Outcome, BackendError> {
        batch.check(self.pages(), self.vocab())?;
        crate::check::against_model(batch, self.pages(), self.config.layers)?;
        self.forward(batch)
    }
}

/// Refuses what the kernels are not made for.
fn check_shape(config: &Config) -> Result<(), LoadError> {
    let sizes = [("hidden size", config.width), ("feed-forward size", config.inner)];
    let group = config.heads / config.kv_heads;
    if group > MOST_GROUP {
        return Err(LoadError::unsupported(
            format!("{group} query heads a key head on CUDA"),
            format!("at most {MOST_GROUP}; or run on the CPU"),
        ));
    }
    for (name, size) in sizes {
        if !size.is_multiple_of(8) {
            return Err(LoadError::config(name, format!("{size} is no multiple of 8")));
        }
    }
    Ok(())
}

fn head_size(found: usize) -> LoadError {
    LoadError::unsupported(
        format!("heads of {found} elements on CUDA"),
        "heads of 64 or 128 elements; or run on the CPU",
    )
}

/// Pages of a pool of this size, given the memory that is free once everything else is there.
fn pages_within(pool: PoolSize, page_bytes: usize, memory: Memory) -> Result<usize, LoadError> {
    let free = memory.free.saturating_sub(MARGIN);
    let pages = match pool {
        PoolSize::Pages(pages) => pages,
        PoolSize::Bytes(bytes) => usize::try_from(bytes).unwrap_or(usize::MAX) / page_bytes,
        PoolSize::Utilization(share) => {
            let allowed = (memory.total as f64 * f64::from(share)) as usize;
            let used = memory.total - memory.free;
            allowed.saturating_sub(used).min(free) / page_bytes
        }
    };
    let most = u32::MAX as usize / PAGE_TOKENS;
    if let (PoolSize::Utilization(share), 0) = (pool, pages) {
        return Err(LoadError::Pool(format!(
            "no page of {page_bytes} bytes fits: of {} bytes of memory a share of {share} may be taken, and {} are in use already, \
             weights included",
            memory.total,
            memory.total - memory.free
        )));
    }
    if pages == 0 || pages.saturating_mul(page_bytes) > free {
        return Err(LoadError::Pool(format!(
            "{pages} pages of {page_bytes} bytes do not fit: {free} of {} bytes are free behind the weights",
            memory.total
        )));
    }
    Ok(pages.min(most))
}

impl From<CudaError> for LoadError {
    fn from(error: CudaError) -> Self {
        Self::Cuda(error)
    }
}
