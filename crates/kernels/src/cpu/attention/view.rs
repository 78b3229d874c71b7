//! One part of a sequence, and which of its slots a row sees.

/// Tokens a page; a page's mask is one `u64`.
pub const PAGE_TOKENS: usize = 64;

/// Absolute positions of a part's slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Positions<'a> {
    /// Slot `i` holds position `from + i`.
    From(u32),
    /// Slot `i` holds position `list[i]`, in any order.
    List(&'a [u32]),
}

/// Pages that the rows of a sequence attend to.
#[derive(Clone, Copy, Debug)]
pub struct PartView<'a> {
    /// Pages in the pool; the last one may be partly used.
    pub pages: &'a [u32],
    /// Slots in use.
    pub len: usize,
    /// What the slots hold.
    pub positions: Positions<'a>,
    /// Queries are turned back by this before they meet the part's keys: absolute position of slot 0 minus the
    /// position at which its key was rotated.
    pub turn: i64,
    /// Slots that the sequence does not see: bit `i` of word `j` is slot `64j + i`.
    pub hidden: Option<&'a [u64]>,
}

impl PartView<'_> {
    /// Slots of page `page` that a row at `position` sees: bit `i` is slot `64 · page + i`.
    pub fn visible(&self, page: usize, position: u32) -> u64 {
        let first = page * PAGE_TOKENS;
        let used = lowest(self.len.saturating_sub(first));
        let hidden = self.hidden.map_or(0, |words| words[page]);
        used & !hidden & self.reached(first, position)
    }

    /// Slots from `first` on whose position is at most `position`.
    fn reached(&self, first: usize, position: u32) -> u64 {
        match self.positions {
            Positions::From(start) => {
                let slots = (u64::from(position) + 1).saturating_sub(u64::from(start));
                lowest((slots as usize).saturating_sub(first))
            }
            Positions::List(list) => {
                let list = &list[first.min(list.len())..];
                let bits = list.iter().take(PAGE_TOKENS).enumerate();
                bits.fold(0, |word, (i, &held)| word | u64::from(held <= position) << i)
            }
        }
    }
}

/// A word whose lowest `count` bits are set.
fn lowest(count: usize) -> u64 {
    if count >= PAGE_TOKENS {
        u64::MAX
    } else {
        (1 << count) - 1
    }
}
