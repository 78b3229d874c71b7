//! What a residency has and has done.

/// Lookups of documents that found nothing, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MissCounts {
    /// Never kept, or forgotten since.
    pub absent: u64,
    /// Evicted, and remembered so.
    pub evicted: u64,
    /// Another document under the same key.
    pub mismatch: u64,
}

/// A snapshot of a residency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResidencyStats {
    /// Resident documents.
    pub documents: usize,
    /// Resident prefix pages.
    pub prefixes: usize,
    /// Pages of all resident entries.
    pub resident_pages: usize,
    /// Most pages that entries may take.
    pub budget_pages: usize,
    /// Entries evicted so far.
    pub evictions: u64,
    /// Lookups of documents that found nothing so far.
    pub misses: MissCounts,
}
