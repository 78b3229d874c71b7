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

/// One page of a part.
pub(super) struct PageView<'a> {
    /// Slots in use and not hidden.
    open: u64,
    positions: Positions<'a>,
    /// Rows before this position see nothing.
    first: u64,
    /// Rows from this position on see all open slots.
    last: u64,
}

impl<'a> PartView<'a> {
    /// Pages that hold slots in use.
    pub(super) fn used_pages(&self) -> usize {
        self.len.div_ceil(PAGE_TOKENS)
    }

    pub(super) fn page(&self, page: usize) -> PageView<'a> {
        let start = page * PAGE_TOKENS;
        let used = (self.len - start).min(PAGE_TOKENS);
        let hidden = self.hidden.map_or(0, |words| words[page]);
        let open = lowest(used as u64) & !hidden;
        match self.positions {
            Positions::From(from) => {
                let first = u64::from(from) + start as u64;
                let positions = Positions::From(from + start as u32);
                PageView {
                    open,
                    positions,
                    first,
                    last: first + used as u64 - 1,
                }
            }
            Positions::List(list) => {
                let list = &list[start..start + used];
                let (first, last) = list.iter().fold((u32::MAX, 0), |(a, b), &p| (a.min(p), b.max(p)));
                PageView {
                    open,
                    positions: Positions::List(list),
                    first: first.into(),
                    last: last.into(),
                }
            }
        }
    }
}

impl PageView<'_> {
    /// Slots that a row at `position` sees: bit `i` is the page's slot `i`.
    pub fn visible(&self, position: u32) -> u64 {
        let at = u64::from(position);
        if at >= self.last {
            return self.open;
        }
        if at < self.first {
            return 0;
        }
        let reached = match self.positions {
            Positions::From(first) => lowest(at - u64::from(first) + 1),
            Positions::List(list) => list
                .iter()
                .enumerate()
                .fold(0, |word, (i, &held)| word | u64::from(held <= position) << i),
        };
        self.open & reached
    }
}

/// A word whose lowest `count` bits are set.
pub(super) fn lowest(count: u64) -> u64 {
    if count >= PAGE_TOKENS as u64 {
        u64::MAX
    } else {
        (1 << count) - 1
    }
}
