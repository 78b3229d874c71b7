//! Attention of rows over paged parts.
//!
//! A sequence's parts are a list of [`Block`]s, one a page, in the order of the parts. Rows of one sequence are cut into
//! [`Tile`]s. Tiles with few rows go to the kernel that is bound by memory, tiles with many to one that is bound by
//! arithmetic. Tiles may be cut by blocks too; their partial results are then merged in a fixed order ([`Merge`]). See
//! `cuda/parts.cuh` for the meaning of every field.

use cudarc::driver::{CudaSlice, DevicePtr, DeviceRepr};

use super::buffer::holds;
use super::device::HEAD_DIMS;
use super::launch::{allow_shared, grid, launch};
use super::ops::{Angles, Heads};
use super::staging::Plain;
use super::{Buffer, CudaError, Device, Pages, Section, Staging, bf16};
use crate::cpu::attention::PAGE_TOKENS;

/// Tile rows (rows × heads of a group) that the memory-bound kernel takes at a time.
pub const DECODE_ROWS: usize = 8;

/// One page of a sequence.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// The page.
    pub page: u32,
    /// Queries are rotated at their position less this.
    pub turn: i32,
    /// Position of slot 0, or the place of its position in the list.
    pub first: i32,
    /// Whether positions are listed.
    pub listed: i32,
    /// Bit *i*: slot *i* is not visible, or beyond the end.
    pub hidden: u64,
    /// Least position of a slot that is not hidden.
    pub low: i32,
    /// Greatest position of a slot that is not hidden.
    pub high: i32,
    /// Place of slot 0 among the masses, -1 if it is not scored.
    pub mass: i32,
    /// Always 0.
    pub reserved: i32,
}

/// Rows of one sequence, ascending in position.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tile {
    /// Index of the first row.
    pub first_row: i32,
    /// How many.
    pub rows: i32,
    /// First block.
    pub block_begin: i32,
    /// Block behind the last.
    pub block_end: i32,
    /// Position of the first row.
    pub low: i32,
    /// Position of the last row.
    pub high: i32,
    /// Number of the partial result, -1 if the tile has all blocks.
    pub partial: i32,
    /// Always 0.
    pub reserved: i32,
}

/// Partial results of the same rows.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Merge {
    /// Index of the first row.
    pub first_row: i32,
    /// How many.
    pub rows: i32,
    /// First partial result.
    pub partial_begin: i32,
    /// How many.
    pub partial_count: i32,
}

/// A row whose attention is added up.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MassRow {
    /// The row.
    pub row: i32,
    /// Factor on its attention.
    pub weight: f32,
    /// First of the blocks that it does not score.
    pub except_begin: i32,
    /// Block behind the last of them.
    pub except_end: i32,
}

/// Mass rows of one sequence against its blocks.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MassTile {
    /// First mass row.
    pub first: i32,
    /// How many.
    pub count: i32,
    /// First block.
    pub block_begin: i32,
    /// Block behind the last.
    pub block_end: i32,
}

/// `AttentionArgs` of `cuda/parts.cuh`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Args {
    q: u64,
    out: u64,
    lse: u64,
    pool: u64,
    angles: u64,
    positions: u64,
    blocks: u64,
    slot_positions: u64,
    tiles: u64,
    partial_out: u64,
    partial_sums: u64,
    q_stride: i32,
    heads: i32,
    kv_heads: i32,
    interleaved: i32,
    scale_log2: f32,
    tiles_count: i32,
    partial_rows: i32,
}

// SAFETY: structures of numbers, laid out as the kernels declare them.
unsafe impl DeviceRepr for Block {}
// SAFETY: as above.
unsafe impl DeviceRepr for Tile {}
// SAFETY: as above.
unsafe impl DeviceRepr for Merge {}
// SAFETY: as above.
unsafe impl DeviceRepr for MassRow {}
// SAFETY: as above.
unsafe impl DeviceRepr for MassTile {}
// SAFETY: as above.
unsafe impl DeviceRepr for Args {}
// SAFETY: no padding: the fields' sizes add up to the structure's.
unsafe impl Plain for Block {}
// SAFETY: as above.
unsafe impl Plain for Tile {}
// SAFETY: as above.
unsafe impl Plain for Merge {}
// SAFETY: as above.
unsafe impl Plain for MassRow {}
// SAFETY: as above.
unsafe impl Plain for MassTile {}

const _: () = assert!(size_of::<Block>() == 40 && size_of::<Tile>() == 32 && size_of::<Args>() == 120);

/// What a step's rows attend to, on its way to the device.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// `[rows]`
    pub positions: Section<i32>,
    /// Blocks of all sequences.
    pub blocks: Section<Block>,
    /// Positions of listed slots.
    pub slot_positions: Section<i32>,
    /// Tiles of many rows.
    pub many: Tiles,
    /// Tiles of few rows.
    pub few: Tiles,
}

/// Tiles for one kernel.
#[derive(Clone, Copy, Debug)]
pub struct Tiles {
    /// The tiles.
    pub tiles: Section<Tile>,
    /// Largest number of tile rows (rows × heads of a group) of one.
    pub most_rows: usize,
    /// Merges of their partial results.
    pub merges: Section<Merge>,
    /// Largest number of rows of a merge.
    pub merge_rows: usize,
    /// Partial results.
    pub partials: usize,
}

/// Masses that a step asks for.
#[derive(Clone, Copy, Debug)]
pub struct MassPlan {
    /// Rows.
    pub rows: Section<MassRow>,
    /// Tiles.
    pub tiles: Section<MassTile>,
    /// Most blocks of a tile.
    pub blocks: usize,
    /// Scored slots.
    pub slots: usize,
}

/// Attention for one model: its shape, and room for partial results.
pub struct Attention {
    heads: Heads,
    /// Place of the head size among those that kernels exist for.
    size: usize,
    scale: f32,
    hopper: bool,
    many: Partials,
    few: Partials,
}

/// How rows are cut into tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tiling {
    /// Query heads a key head.
    pub group: usize,
    /// Most rows of a tile of many.
    pub rows: usize,
    /// Whether tiles of many may be cut by blocks.
    pub splits: bool,
}

/// Room for partial results of tiles of `rows` tile rows.
struct Partials {
    rows: usize,
    count: usize,
    out: CudaSlice<f32>,
    sums: CudaSlice<f32>,
}

impl Partials {
    fn new(device: &Device, heads: Heads, rows: usize, count: usize) -> Result<Self, CudaError> {
        let all = count * heads.kv * rows;
        // SAFETY: every element that is read was written by the same plan.
        let (out, sums) = unsafe {
            (
                device.uninitialised(all * heads.dim)?,
                device.uninitialised(all * 2)?,
            )
        };
        Ok(Self {
            rows,
            count,
            out,
            sums,
        })
    }

    fn reserve(&mut self, device: &Device, heads: Heads, count: usize) -> Result<(), CudaError> {
        if count > self.count {
            *self = Self::new(device, heads, self.rows, count.next_power_of_two())?;
        }
        Ok(())
    }
}

/// Buffers of one layer's attention.
pub struct Layer<'a> {
    /// `[rows, query heads | key heads | value heads, dim]`, queries not rotated.
    pub qkv: &'a Buffer<bf16>,
    /// The layer's pages.
    pub pages: &'a Pages,
    /// Rotary angles.
    pub angles: &'a Angles,
}

impl Attention {
    /// For heads of a size that kernels exist for: 64 or 128. `scale` is the factor on logits.
    pub fn new(device: &Device, heads: Heads, scale: f32) -> Result<Option<Self>, CudaError> {
        let Some(size) = HEAD_DIMS.iter().position(|&dim| dim == heads.dim) else {
            return Ok(None);
        };
        allow_shared(&device.kernels.prefill[size], prefill_shared(heads.dim))?;
        if let Some(kernels) = &device.kernels.hopper {
            allow_shared(&kernels.prefill[size], HOPPER_SHARED[size])?;
            allow_shared(&kernels.decode[size], HOPPER_DECODE_SHARED[size])?;
        }
        Ok(Some(Self {
            heads,
            size,
            scale,
            hopper: device.kernels.hopper.is_some() && heads.query / heads.kv <= HOPPER_GROUP,
            many: Partials::new(device, heads, HOPPER_ROWS, 1)?,
            few: Partials::new(device, heads, PARTIAL_FEW, 1)?,
        }))
    }

    /// The same by the kernels for every device, where it would take those for Hopper.
    pub fn portable(mut self) -> Self {
        self.hopper = false;
        self
    }

    /// Heads of the model.
    pub fn heads(&self) -> Heads {
        self.heads
    }

    /// How rows are to be cut.
    pub fn tiling(&self) -> Tiling {
        let group = self.heads.query / self.heads.kv;
        let rows = if self.hopper { HOPPER_ROWS } else { MANY_ROWS };
        Tiling {
            group,
            rows: rows / group,
            splits: self.hopper,
        }
    }

    /// Attention of all rows of a plan: `out: [rows, heads, dim]`, log-sum-exp `lse: [rows, heads]` if it is wanted.
    pub fn run(
        &mut self,
        device: &Device,
        layer: &Layer<'_>,
        (staging, plan): (&Staging, &Plan),
        out: &mut Buffer<bf16>,
        lse: Option<&mut Buffer<f32>>,
    ) -> Result<(), CudaError> {
        let rows = plan.positions.len();
        holds(layer.qkv, rows * self.heads.width());
        holds(out, rows * self.heads.query * self.heads.dim);
        let mut args = self.args(layer, (staging, plan));
        args.out = out.address();
        args.lse = lse.map_or(0, |lse| {
            holds(lse, rows * self.heads.query);
            lse.address()
        });
        self.many.reserve(device, self.heads, plan.many.partials)?;
        self.few.reserve(device, self.heads, plan.few.partials)?;
        self.launch_many(device, with(args, &self.many, device), layer, (staging, plan))?;
        self.launch_few(device, with(args, &self.few, device), layer, (staging, plan))
    }

    fn launch_many(
        &self,
        device: &Device,
        mut args: Args,
        layer: &Layer<'_>,
        (staging, plan): (&Staging, &Plan),
    ) -> Result<(), CudaError> {
        let tiles = &plan.many;
        if tiles.tiles.is_empty() {
            return Ok(());
        }
        args.tiles = staging.address(tiles.tiles);
        args.tiles_count = tiles.tiles.len() as i32;
        match (&device.kernels.hopper, layer.pages.map()) {
            (Some(kernels), Some(map)) if self.hopper => {
                let blocks = (tiles.tiles.len() * self.heads.kv).min(device.processors() as usize);
                let grid = grid((blocks, 1, 1), 384, HOPPER_SHARED[self.size]);
                launch!(device, &kernels.prefill[self.size], grid, args, *map);
            }
            _ => {
                let blocks = (tiles.tiles.len(), self.heads.kv, 1);
                let grid = grid(blocks, 128, prefill_shared(self.heads.dim));
                launch!(device, &device.kernels.prefill[self.size], grid, args);
            }
        }
        self.merge(device, args, staging, tiles)
    }

    fn launch_few(
        &self,
        device: &Device,
        mut args: Args,
        layer: &Layer<'_>,
        (staging, plan): (&Staging, &Plan),
    ) -> Result<(), CudaError> {
        let tiles = &plan.few;
        if tiles.tiles.is_empty() {
            return Ok(());
        }
        args.tiles = staging.address(tiles.tiles);
        args.tiles_count = tiles.tiles.len() as i32;
        assert!(tiles.most_rows <= DECODE_ROWS, "{} rows of few", tiles.most_rows);
        match (&device.kernels.hopper, layer.pages.map()) {
            (Some(kernels), Some(map)) if self.hopper => {
                let blocks = (tiles.tiles.len() * self.heads.kv).min(2 * device.processors() as usize);
                let grid = grid((blocks, 1, 1), 160, HOPPER_DECODE_SHARED[self.size]);
                launch!(device, &kernels.decode[self.size], grid, args, *map);
            }
            _ => {
                let grid = grid((tiles.tiles.len(), self.heads.kv, 1), 128, 0);
                launch!(device, &device.kernels.decode[self.size], grid, args);
            }
        }
        self.merge(device, args, staging, tiles)
    }

    fn merge(&self, device: &Device, args: Args, staging: &Staging, tiles: &Tiles) -> Result<(), CudaError> {
        if tiles.merges.is_empty() {
            return Ok(());
        }
        let merges = staging.address(tiles.merges);
        let blocks = (tiles.merges.len(), tiles.merge_rows * self.heads.query, 1);
        launch!(
            device,
            &device.kernels.merge,
            grid(blocks, self.heads.dim / 2, 0),
            args,
            merges
        );
        Ok(())
    }

    /// Adds the masses that a step asks for to `sums`, in multiples of 2⁻³², with the log-sum-exp of this layer.
    pub fn masses(
        &self,
        device: &Device,
        layer: &Layer<'_>,
        (staging, plan, masses): (&Staging, &Plan, &MassPlan),
        lse: &Buffer<f32>,
        sums: &mut Buffer<u64>,
    ) -> Result<(), CudaError> {
        if masses.tiles.is_empty() {
            return Ok(());
        }
        holds(sums, masses.slots);
        holds(lse, plan.positions.len() * self.heads.query);
        let mut args = self.args(layer, (staging, plan));
        args.lse = lse.address();
        let (tiles, rows) = (staging.address(masses.tiles), staging.address(masses.rows));
        let blocks = (masses.tiles.len(), self.heads.kv, masses.blocks.div_ceil(4));
        launch!(
            device,
            &device.kernels.masses[self.size],
            grid(blocks, 128, 0),
            args,
            tiles,
            rows,
            sums.address()
        );
        Ok(())
    }

    fn args(&self, layer: &Layer<'_>, (staging, plan): (&Staging, &Plan)) -> Args {
        Args {
            q: layer.qkv.address(),
            out: 0,
            lse: 0,
            pool: layer.pages.address(),
            angles: layer.angles.values.address(),
            positions: staging.address(plan.positions),
            blocks: staging.address(plan.blocks),
            slot_positions: staging.address(plan.slot_positions),
            tiles: 0,
            partial_out: 0,
            partial_sums: 0,
            q_stride: self.heads.width() as i32,
            heads: self.heads.query as i32,
            kv_heads: self.heads.kv as i32,
            interleaved: i32::from(layer.angles.interleaved),
            scale_log2: self.scale * std::f32::consts::LOG2_E,
            tiles_count: 0,
            partial_rows: 0,
        }
    }
}

/// Tile rows of a tile of many, for the portable kernel.
const MANY_ROWS: usize = 64;

/// Tile rows of a tile of many, for Hopper's kernel.
const HOPPER_ROWS: usize = 128;

/// Most query heads a key head that Hopper's kernel takes.
const HOPPER_GROUP: usize = 16;

/// Tile rows that a partial result of few has room for.
const PARTIAL_FEW: usize = DECODE_ROWS;

/// Shared memory of a block of Hopper's kernel, by head size.
const HOPPER_SHARED: [usize; 2] = [171_520, 203_136];

/// The same of Hopper's kernel for decoding, of which two blocks run on a multiprocessor.
const HOPPER_DECODE_SHARED: [usize; 2] = [107_648, 115_584];

fn prefill_shared(dim: usize) -> usize {
    4 * PAGE_TOKENS * dim * size_of::<bf16>()
}

/// The arguments with room for partial results.
fn with(args: Args, partials: &Partials, device: &Device) -> Args {
    Args {
        partial_out: partials.out.device_ptr(device.stream()).0,
        partial_sums: partials.sums.device_ptr(device.stream()).0,
        partial_rows: partials.rows as i32,
        ..args
    }
}
