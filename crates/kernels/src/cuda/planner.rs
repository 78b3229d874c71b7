//! From parts and rows to blocks and tiles.
//!
//! How a row's keys are cut into partial results depends on its own sequence's blocks and on its pass's [`Class`]. So its
//! sums have one order whatever shares the step, and however a pass is spread over steps.

use std::ops::Range;

use super::Staging;
use super::attention::{Block, DECODE_ROWS, MassPlan, MassRow, MassTile, Merge, Plan, Tile, Tiles, Tiling};
use crate::cpu::attention::{PAGE_TOKENS, PartView, Positions};

/// Most blocks of a tile of few rows: two for each warp.
const FEW_CHUNK: usize = 8;

/// Least blocks of a tile of a sequence with some rows: enough tiles to keep a device busy with a question over long parts.
const SOME_CHUNK: usize = 16;

/// Most partial results of a tile: with longer parts its chunks grow.
const MOST_CHUNKS: usize = 16;

/// Rows of a pass up to which they are some and not many.
const SOME_ROWS: usize = 96;

/// How the rows of a pass are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// By the memory-bound kernel: one row, of whose heads a group has at most [`DECODE_ROWS`].
    Few,
    /// In tiles that are cut by blocks too, where the device's kernel can.
    Some,
    /// In tiles over all blocks.
    Many,
}

impl Class {
    /// Few rows, or else some.
    pub fn or_some(self) -> Self {
        match self {
            Self::Few => Self::Few,
            Self::Some | Self::Many => Self::Some,
        }
    }
}

impl Tiling {
    /// The class of a pass of so many rows. Only a row that is alone counts as few: in what order its kernel sums depends
    /// on which pages all rows of a tile see, and rows of a pass may run apart.
    pub fn class(&self, rows: usize) -> Class {
        match rows {
            1 if self.group <= DECODE_ROWS => Class::Few,
            rows if rows <= SOME_ROWS => Class::Some,
            _ => Class::Many,
        }
    }
}

/// Collects what a step's rows attend to. Rows are numbered in the order in which they are added.
#[derive(Debug)]
pub struct Planner {
    tiling: Tiling,
    positions: Vec<i32>,
    blocks: Vec<Block>,
    slot_positions: Vec<i32>,
    many: Cut,
    few: Cut,
    mass_rows: Vec<MassRow>,
    mass_tiles: Vec<MassTile>,
    masses: usize,
}

/// Tiles for one kernel.
#[derive(Debug, Default)]
struct Cut {
    tiles: Vec<Tile>,
    merges: Vec<Merge>,
    partials: usize,
}

impl Cut {
    /// Adds a tile, cut into chunks of at most `chunk` blocks.
    fn add(&mut self, tile: Tile, chunk: usize) {
        let (begin, end) = (tile.block_begin as usize, tile.block_end as usize);
        let chunks = (end - begin).div_ceil(chunk);
        if chunks <= 1 {
            self.tiles.push(tile);
            return;
        }
        // Chunks of nearly one size: processors take turns, and a size that repeats would leave some of them idle.
        let chunk = (end - begin).div_ceil(chunks);
        let chunks = (end - begin).div_ceil(chunk);
        self.merges.push(Merge {
            first_row: tile.first_row,
            rows: tile.rows,
            partial_begin: self.partials as i32,
            partial_count: chunks as i32,
        });
        for begin in (begin..end).step_by(chunk) {
            self.tiles.push(Tile {
                block_begin: begin as i32,
                block_end: (begin + chunk).min(end) as i32,
                partial: self.partials as i32,
                ..tile
            });
            self.partials += 1;
        }
    }

    fn stage(&self, tiles: &[Tile], group: usize, staging: &mut Staging) -> Tiles {
        let most = |rows: &mut dyn Iterator<Item = i32>| rows.max().unwrap_or(0) as usize;
        Tiles {
            most_rows: most(&mut tiles.iter().map(|tile| tile.rows)) * group,
            tiles: staging.add(tiles),
            merge_rows: most(&mut self.merges.iter().map(|merge| merge.rows)),
            merges: staging.add(&self.merges),
            partials: self.partials,
        }
    }
}

/// Blocks of a sequence that was added.
#[derive(Clone, Debug, Default)]
pub struct SequenceBlocks {
    /// Blocks of each part.
    pub parts: Vec<Range<usize>>,
}

impl SequenceBlocks {
    /// Blocks of all parts.
    pub fn all(&self) -> Range<usize> {
        let start = self.parts.first().map_or(0, |part| part.start);
        start..self.parts.last().map_or(start, |part| part.end)
    }
}

impl Planner {
    /// Nothing yet, to be cut like this.
    pub fn new(tiling: Tiling) -> Self {
        Self {
            tiling,
            positions: Vec::new(),
            blocks: Vec::new(),
            slot_positions: Vec::new(),
            many: Cut::default(),
            few: Cut::default(),
            mass_rows: Vec::new(),
            mass_tiles: Vec::new(),
            masses: 0,
        }
    }

    /// Adds the parts of a sequence. With `scored`, every slot of those parts gets a place among the masses.
    pub fn parts(&mut self, parts: &[PartView<'_>], scored: &[bool]) -> SequenceBlocks {
        let mut ranges = Vec::with_capacity(parts.len());
        for (index, part) in parts.iter().enumerate() {
            let start = self.blocks.len();
            let scored = scored.get(index).copied().unwrap_or(false);
            let base = self.masses;
            (0..part.len.div_ceil(PAGE_TOKENS)).for_each(|page| {
                let mass = if scored {
                    (base + page * PAGE_TOKENS) as i32
                } else {
                    -1
                };
                let block = self.block(part, page, mass);
                self.blocks.push(block);
            });
            if scored {
                self.masses += part.len.next_multiple_of(PAGE_TOKENS);
            }
            ranges.push(start..self.blocks.len());
        }
        SequenceBlocks { parts: ranges }
    }

    fn block(&mut self, part: &PartView<'_>, page: usize, mass: i32) -> Block {
        let start = page * PAGE_TOKENS;
        let used = (part.len - start).min(PAGE_TOKENS);
        let beyond = if used == PAGE_TOKENS { 0 } else { u64::MAX << used };
        let hidden = beyond | part.hidden.map_or(0, |words| words[page]);
        let open = !hidden;
        let (first, low, high) = match part.positions {
            Positions::From(from) => {
                let first = i64::from(from) + start as i64;
                let at = |slot: u32| (open != 0).then_some((first + i64::from(slot)) as i32);
                let last = u64::BITS - 1;
                (
                    first as i32,
                    at(open.trailing_zeros()),
                    at(last.saturating_sub(open.leading_zeros())),
                )
            }
            Positions::List(list) => {
                let first = self.slot_positions.len() as i32;
                let page = &list[start..start + used];
                self.slot_positions.extend(page.iter().map(|&p| p as i32));
                // Whole pages are read, so that the list must reach as far.
                self.slot_positions.resize(first as usize + PAGE_TOKENS, i32::MAX);
                let held = |slot: &usize| (open >> slot & 1 == 1).then(|| page[*slot] as i32);
                let held = || (0..used).filter_map(|slot| held(&slot));
                (first, held().min(), held().max())
            }
        };
        Block {
            page: part.pages[page],
            turn: part.turn.clamp(i32::MIN.into(), i32::MAX.into()) as i32,
            first,
            listed: i32::from(matches!(part.positions, Positions::List(_))),
            hidden,
            low: low.unwrap_or(i32::MAX),
            high: high.unwrap_or(i32::MIN),
            mass,
            reserved: 0,
        }
    }

    /// Adds rows of one sequence, ascending in position, against its blocks. They get the next numbers.
    pub fn rows(&mut self, positions: &[u32], blocks: &SequenceBlocks, class: Class) {
        let first = self.positions.len();
        self.positions.extend(positions.iter().map(|&p| p as i32));
        let blocks = blocks.all();
        if class == Class::Few {
            let tile = self.tile(first, positions.len(), &blocks);
            self.few.add(tile, FEW_CHUNK);
            return;
        }
        let size = self.tiling.rows.max(1);
        let chunk = match class == Class::Some && self.tiling.splits {
            true => SOME_CHUNK.max(blocks.len().div_ceil(MOST_CHUNKS)),
            false => usize::MAX,
        };
        let end = self.positions.len();
        for row in (first..end).step_by(size) {
            let tile = self.tile(row, size.min(end - row), &blocks);
            self.many.add(tile, chunk);
        }
    }

    fn tile(&self, first: usize, rows: usize, blocks: &Range<usize>) -> Tile {
        let position = |row: usize| self.positions.get(row).copied();
        Tile {
            first_row: first as i32,
            rows: rows as i32,
            block_begin: blocks.start as i32,
            block_end: blocks.end as i32,
            low: position(first).unwrap_or(0),
            high: position((first + rows).saturating_sub(1)).unwrap_or(-1),
            partial: -1,
            reserved: 0,
        }
    }

    /// Asks for the masses of rows (number, weight, part that it does not score) of a sequence.
    pub fn masses(
        &mut self,
        rows: impl Iterator<Item = (usize, f32, Option<usize>)>,
        blocks: &SequenceBlocks,
    ) {
        let first = self.mass_rows.len();
        self.mass_rows.extend(rows.map(|(row, weight, except)| {
            let except = except
                .and_then(|part| blocks.parts.get(part))
                .cloned()
                .unwrap_or(0..0);
            MassRow {
                row: row as i32,
                weight,
                except_begin: except.start as i32,
                except_end: except.end as i32,
            }
        }));
        let all = blocks.all();
        let each = (DECODE_ROWS / self.tiling.group).max(1);
        let end = self.mass_rows.len();
        self.mass_tiles
            .extend((first..end).step_by(each).map(|row| MassTile {
                first: row as i32,
                count: each.min(end - row) as i32,
                block_begin: all.start as i32,
                block_end: all.end as i32,
            }));
    }

    /// Places of masses in use.
    pub fn mass_slots(&self) -> usize {
        self.masses
    }

    /// Place of the first slot of a block among the masses.
    pub fn mass_of(&self, block: usize) -> usize {
        usize::try_from(self.blocks[block].mass).unwrap_or(0)
    }

    /// Puts everything into the staging area.
    pub fn stage(&self, staging: &mut Staging) -> (Plan, MassPlan) {
        let group = self.tiling.group;
        let plan = Plan {
            positions: staging.add(&self.positions),
            blocks: staging.add(&self.blocks),
            slot_positions: staging.add(&self.slot_positions),
            many: self.many.stage(&self.sorted(), group, staging),
            few: self.few.stage(&self.few.tiles, group, staging),
        };
        let blocks = self
            .mass_tiles
            .iter()
            .map(|tile| tile.block_end - tile.block_begin);
        let masses = MassPlan {
            rows: staging.add(&self.mass_rows),
            tiles: staging.add(&self.mass_tiles),
            blocks: blocks.max().unwrap_or(0) as usize,
            slots: self.masses,
        };
        (plan, masses)
    }

    /// Tiles of many rows, those with the most work first, so that none of them begins last.
    fn sorted(&self) -> Vec<Tile> {
        let mut tiles = self.many.tiles.clone();
        let work = |tile: &Tile| {
            let blocks = &self.blocks[tile.block_begin as usize..tile.block_end as usize];
            blocks.iter().filter(|block| block.low <= tile.high).count() * tile.rows as usize
        };
        tiles.sort_by_cached_key(|tile| std::cmp::Reverse(work(tile)));
        tiles
    }
}
