//! Rows that are taken through their sequence's pages together.

use super::Attention;
use super::scores::Scores;
use super::softmax::Softmax;
use super::values::Values;
use crate::cpu::disjoint::Disjoint;
use crate::cpu::lanes::{Kernel, Lanes};

/// Queries (rows times the heads of a group) of a tile. More read the pages less often; queries, logits and sums
/// of a tile have to stay in the second-level cache.
pub const TILE_QUERIES: usize = 96;

/// All rows, in tiles of one sequence each, neighbours in position together. A row's bits do not depend on its
/// tile.
pub fn of_rows(call: &Attention<'_>) -> Vec<Vec<usize>> {
    let mut rows: Vec<usize> = (0..call.positions.len()).collect();
    rows.sort_by_key(|&row| (call.sequence[row], call.positions[row]));
    let most = (TILE_QUERIES / call.group()).max(1);
    let sequences = rows.chunk_by(|&a, &b| call.sequence[a] == call.sequence[b]);
    let even = |rows: &[usize]| rows.len().div_ceil(rows.len().div_ceil(most));
    sequences
        .flat_map(|rows| rows.chunks(even(rows)).map(<[usize]>::to_vec))
        .collect()
}

/// A task: the rows of a tile and the query heads of one head of keys.
pub struct Tile<'a> {
    pub call: &'a Attention<'a>,
    pub rows: &'a [usize],
    pub kv_head: usize,
    pub out: &'a Disjoint<'a, f32>,
    pub lse: Option<&'a Disjoint<'a, f32>>,
}

impl Kernel for Tile<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self) {
        let mut scores = Scores::new(self.call, self.rows, self.kv_head);
        let mut softmax = Softmax::new(scores.queries());
        let mut values = Values::new(self.call, self.kv_head, scores.queries());
        for part in &self.call.sequences[self.call.sequence[self.rows[0]] as usize] {
            for page in 0..part.used_pages() {
                let Some(seen) = scores.page::<L>(part, page) else {
                    continue;
                };
                softmax.weigh::<L>(&mut scores, &seen, &mut values);
                values.add::<L>(&scores, &seen, part.pages[page]);
            }
        }
        self.write::<L>(&softmax, &values);
    }
}

impl Tile<'_> {
    #[inline(always)]
    fn write<L: Lanes>(&self, softmax: &Softmax, values: &Values<'_>) {
        let (group, dim) = (self.call.group(), self.call.shape.head_dim);
        for (i, row) in self.rows.iter().enumerate() {
            let first = row * self.call.heads + self.kv_head * group;
            for query in 0..group {
                let at = first + query;
                // SAFETY: a row and a head belong to one task.
                let out = unsafe { self.out.part(at * dim..(at + 1) * dim) };
                values.mean(i * group + query, softmax.sum(i * group + query), out);
                if let Some(lse) = self.lse {
                    // SAFETY: as above.
                    let lse = unsafe { lse.part(at..at + 1) };
                    lse[0] = softmax.log_sum(i * group + query);
                }
            }
        }
    }
}
