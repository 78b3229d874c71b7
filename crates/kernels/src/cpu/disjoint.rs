//! A slice that several threads fill, each its own part.
//!
//! The borrow checker can't see that tasks of one section touch different elements; this type moves that claim
//! to the `unsafe` calls that make it. It checks bounds always, and overlap never.

use std::marker::PhantomData;
use std::ops::Range;

/// A mutable slice shared by the tasks of one section.
pub struct Disjoint<'a, T> {
    start: *mut T,
    len: usize,
    slice: PhantomData<&'a mut [T]>,
}

// SAFETY: elements are reached through `part` alone, whose callers hand out no element twice.
unsafe impl<T: Send> Send for Disjoint<'_, T> {}
// SAFETY: as above; `&Disjoint` gives access to nothing else.
unsafe impl<T: Send> Sync for Disjoint<'_, T> {}

impl<'a, T> Disjoint<'a, T> {
    /// Shares `slice` until the result is dropped.
    pub fn new(slice: &'a mut [T]) -> Self {
        Self {
            start: slice.as_mut_ptr(),
            len: slice.len(),
            slice: PhantomData,
        }
    }

    /// One task's part.
    ///
    /// # Safety
    /// While the returned slice lives, no other part that overlaps `range` may be alive.
    #[expect(
        clippy::mut_from_ref,
        reason = "the caller promises that parts do not overlap"
    )]
    pub unsafe fn part(&self, range: Range<usize>) -> &mut [T] {
        assert!(
            range.start <= range.end && range.end <= self.len,
            "{range:?} of {}",
            self.len
        );
        // SAFETY: in bounds (checked), valid for 'a by construction, unique by the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(range.start), range.end - range.start) }
    }

    /// The address of element `index`, for kernels that write strided tiles.
    ///
    /// Writing through it obeys the same promise as [`Disjoint::part`].
    pub fn address(&self, index: usize) -> *mut T {
        assert!(index <= self.len, "{index} of {}", self.len);
        self.start.wrapping_add(index)
    }
}
