//! A batch as the device reads it.
//!
//! Rows run in the order of their sequences and positions, so that rows of one sequence are neighbours. In the last layer
//! only rows that something is asked of go on.

use std::collections::HashMap;

use medley_backend::{BackendError, Batch, Depth, PartKind};
use medley_kernels::cuda::attention::{MassPlan, Plan, Tiling};
use medley_kernels::cuda::ops::Draw;
use medley_kernels::cuda::{Class, Planner, Section, SequenceBlocks, Staging};

use crate::rows;
use crate::views::PartNumbers;

/// A batch on its way to the device.
pub(super) struct Step {
    pub rows: usize,
    pub tokens: Section<u32>,
    pub positions: Section<i32>,
    pub slots: Section<u32>,
    /// All rows, all layers but the last.
    pub all: Attending,
    /// The last layer, if not all rows attend in it.
    pub last: Option<Last>,
    /// Rows that go on behind the last layer's attention, among those that attend; `None` if all do.
    pub going_on: Option<GoingOn>,
    /// Batch rows behind the last layer's attention, in their order.
    pub wanted: Vec<usize>,
    /// 0, 1, 2, .. as many as there are of those.
    pub numbers: Section<u32>,
    /// One for each of those; greedy where none is asked for.
    pub draws: Section<Draw>,
    /// Where each probe's masses stand: for every part the place of its first slot.
    pub masses: Vec<Vec<usize>>,
    /// Places of masses in use.
    pub mass_slots: usize,
    pub compared: Compared,
}

/// What rows attend to.
#[derive(Clone, Copy)]
pub(super) struct Attending {
    pub plan: Plan,
    pub masses: MassPlan,
}

/// Rows that attend in the last layer.
pub(super) struct Last {
    /// Among all rows.
    pub rows: Section<u32>,
    pub attending: Attending,
}

/// Rows that go on behind the last layer's attention.
pub(super) struct GoingOn {
    /// Among those that attend in the last layer.
    pub of_attending: Section<u32>,
    /// Among all rows.
    pub of_all: Section<u32>,
}

/// Keys to compare.
pub(super) struct Compared {
    pub rows: Section<u32>,
    pub slots: Section<u32>,
    pub rotated_at: Section<i32>,
}

impl Step {
    /// Plans a checked batch and puts its numbers into the staging area. Positions below `longest` have angles.
    pub fn plan(
        batch: &Batch,
        staging: &mut Staging,
        tiling: Tiling,
        longest: usize,
    ) -> Result<Self, BackendError> {
        check_positions(batch, longest)?;
        let order = Order::of(batch);
        let parts = PartNumbers::new(batch);
        let picture = Picture {
            batch,
            numbers: &parts,
            order: &order,
            tiling,
        };
        let running = |of: fn(&medley_backend::Row) -> u32| -> Vec<u32> {
            order.rows.iter().map(|&row| of(&batch.rows[row])).collect()
        };
        let tokens = staging.add(&running(|row| row.token.0));
        let slots = staging.add(&running(|row| row.slot.0));
        let positions: Vec<i32> = order
            .rows
            .iter()
            .map(|&row| batch.rows[row].position.0 as i32)
            .collect();
        let positions = staging.add(&positions);

        let every: Vec<_> = (0..order.rows.len()).collect();
        let (all, masses, mass_slots) = picture.attending(&every, |class| class, staging);
        let (last, going_on, wanted) = match batch.depth {
            Depth::Full => picture.last(staging),
            Depth::Keys(_) => (None, None, Vec::new()),
        };
        let numbers: Vec<u32> = (0..wanted.len() as u32).collect();
        Ok(Self {
            numbers: staging.add(&numbers),
            draws: staging.add(&draws(batch, &wanted)),
            rows: order.rows.len(),
            tokens,
            positions,
            slots,
            all,
            last,
            going_on,
            wanted,
            masses,
            mass_slots,
            compared: picture.compared(staging),
        })
    }

    /// What rows attend to in the last layer.
    pub fn last_attending(&self) -> &Attending {
        self.last.as_ref().map_or(&self.all, |last| &last.attending)
    }
}

/// Refuses positions without angles: of rows, as documents see them too, and of compared keys.
fn check_positions(batch: &Batch, positions: usize) -> Result<(), BackendError> {
    let mut furthest = vec![0; batch.sequences.len()];
    for row in &batch.rows {
        furthest[row.sequence] = row.position.0.max(furthest[row.sequence]);
    }
    let as_documents_see = batch
        .sequences
        .iter()
        .zip(&furthest)
        .flat_map(|(sequence, &last)| {
            sequence.parts.iter().map(move |part| match &part.kind {
                PartKind::Document { start, local, .. } => {
                    i64::from(last) - i64::from(start.0) + i64::from(local.0)
                }
                PartKind::Prefix | PartKind::Overlay { .. } => i64::from(last),
            })
        });
    let compared = batch.deviations.iter().map(|d| i64::from(d.rotated_at.0));
    match as_documents_see
        .chain(compared)
        .find(|&position| position >= positions as i64)
    {
        Some(position) => Err(BackendError::Invalid(format!(
            "position {position} is beyond the {positions} that have angles"
        ))),
        None => Ok(()),
    }
}

/// The order in which rows run.
struct Order {
    /// Batch rows.
    rows: Vec<usize>,
    /// Place of each batch row.
    places: Vec<usize>,
}

impl Order {
    fn of(batch: &Batch) -> Self {
        let mut rows: Vec<_> = (0..batch.rows.len()).collect();
        rows.sort_by_key(|&row| (batch.rows[row].sequence, batch.rows[row].position));
        let mut places = vec![0; rows.len()];
        rows.iter()
            .enumerate()
            .for_each(|(place, &row)| places[row] = place);
        Self { rows, places }
    }
}

struct Picture<'a> {
    batch: &'a Batch,
    numbers: &'a PartNumbers<'a>,
    order: &'a Order,
    tiling: Tiling,
}

impl Picture<'_> {
    /// Attention of the rows at `places` (ascending), which are numbered in this order; `class` from the class of a
    /// sequence's pass.
    fn attending(
        &self,
        places: &[usize],
        class: impl Fn(Class) -> Class,
        staging: &mut Staging,
    ) -> (Attending, Vec<Vec<usize>>, usize) {
        let mut planner = Planner::new(self.tiling);
        let views = self.numbers.views();
        let row_of = |place: usize| &self.batch.rows[self.order.rows[place]];
        for rows in places.chunk_by(|&a, &b| row_of(a).sequence == row_of(b).sequence) {
            let sequence = row_of(rows[0]).sequence;
            let blocks = planner.parts(&views[sequence], &[]);
            let positions: Vec<_> = rows.iter().map(|&place| row_of(place).position.0).collect();
            planner.rows(&positions, &blocks, class(self.class(sequence)));
        }
        let masses = self.batch.probes.iter().map(|probe| {
            let parts = &self.batch.sequences[probe.sequence].parts;
            let scored: Vec<_> = parts
                .iter()
                .map(|part| matches!(part.kind, PartKind::Document { .. }))
                .collect();
            let blocks = planner.parts(&views[probe.sequence], &scored);
            let number = |row: usize| places.binary_search(&self.order.places[row]).ok();
            let rows = probe.rows.iter();
            let rows = rows.filter_map(|row| Some((number(row.row)?, row.weight, row.except)));
            planner.masses(rows, &blocks);
            first_masses(&planner, &blocks)
        });
        let masses = masses.collect();
        let (plan, mass_plan) = planner.stage(staging);
        let attending = Attending {
            plan,
            masses: mass_plan,
        };
        (attending, masses, planner.mass_slots())
    }

    /// The class of a sequence's pass.
    fn class(&self, sequence: usize) -> Class {
        self.tiling.class(self.batch.sequences[sequence].pass_rows)
    }

    /// Who attends in the last layer and who goes on behind it.
    fn last(&self, staging: &mut Staging) -> (Option<Last>, Option<GoingOn>, Vec<usize>) {
        let places = |rows: Vec<usize>| {
            let mut places: Vec<_> = rows.into_iter().map(|row| self.order.places[row]).collect();
            places.sort_unstable();
            places
        };
        let attending = places(rows::attending_last(self.batch));
        let going_on = places(rows::that_go_on(self.batch));
        let wanted = going_on.iter().map(|&place| self.order.rows[place]).collect();
        // Mostly few rows of a pass attend in the last layer, so even those of a long pass are cut as some are: always,
        // as it depends on how the pass is split whether all rows of a call attend.
        let many =
            |&place: &usize| self.class(self.batch.rows[self.order.rows[place]].sequence) == Class::Many;
        let other = attending.len() < self.order.rows.len() || attending.iter().any(many);
        let last = other.then(|| Last {
            rows: staging.add(&words(&attending)),
            attending: self.attending(&attending, Class::or_some, staging).0,
        });
        let behind = (going_on.len() < self.order.rows.len()).then(|| {
            let of_attending = going_on
                .iter()
                .filter_map(|place| attending.binary_search(place).ok());
            GoingOn {
                of_attending: staging.add(&words(&of_attending.collect::<Vec<_>>())),
                of_all: staging.add(&words(&going_on)),
            }
        });
        (last, behind, wanted)
    }

    fn compared(&self, staging: &mut Staging) -> Compared {
        let deviations = || self.batch.deviations.iter();
        let rows: Vec<_> = deviations().map(|d| self.order.places[d.row] as u32).collect();
        let slots: Vec<_> = deviations().map(|d| d.reference.0).collect();
        let rotated_at: Vec<_> = deviations().map(|d| d.rotated_at.0 as i32).collect();
        Compared {
            rows: staging.add(&rows),
            slots: staging.add(&slots),
            rotated_at: staging.add(&rotated_at),
        }
    }
}

/// For every part the place of its first slot among the masses; 0 for parts that are not scored.
fn first_masses(planner: &Planner, blocks: &SequenceBlocks) -> Vec<usize> {
    let first = |part: &std::ops::Range<usize>| {
        if part.is_empty() {
            0
        } else {
            planner.mass_of(part.start)
        }
    };
    blocks.parts.iter().map(first).collect()
}

/// The draw of each wanted row.
fn draws(batch: &Batch, wanted: &[usize]) -> Vec<Draw> {
    let asked: HashMap<usize, &medley_backend::Draw> =
        batch.draws.iter().map(|draw| (draw.row, draw)).collect();
    let of = |row: &usize| {
        let greedy = medley_backend::Draw::greedy(*row);
        let draw = asked.get(row).copied().unwrap_or(&greedy);
        Draw {
            inverse_temperature: if draw.is_greedy() {
                0.0
            } else {
                draw.temperature.recip()
            },
            top_k: i32::try_from(draw.top_k).unwrap_or(i32::MAX),
            top_p: draw.top_p,
            reserved: 0,
            at: draw.at,
        }
    };
    wanted.iter().map(of).collect()
}

fn words(numbers: &[usize]) -> Vec<u32> {
    numbers.iter().map(|&n| n as u32).collect()
}
