//! What is served and what is held.

/// What is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelCard {
    /// Tokens of prompt and answer together.
    pub max_model_len: usize,
    /// Token ids that exist are below this.
    pub vocab: usize,
    /// `None` if the model blends, otherwise why it does not.
    pub unsupported: Option<String>,
    /// Tokens that end a text.
    pub end_of_text: Vec<medley_kv::TokenId>,
    /// Start of the server's life as Unix time in seconds.
    pub created: u64,
}

/// What is held and waiting at one moment. All but the resident ones return to zero when no request is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gauges {
    /// Whether the engine's task has died: nothing will be answered any more.
    pub failed: bool,
    /// Requests that wait for admission, without background ones.
    pub waiting: usize,
    /// Admitted requests, without background ones.
    pub running: usize,
    /// Background requests, waiting or admitted.
    pub background: usize,
    /// Pages that are neither free nor resident: what requests hold for themselves and documents in computation.
    pub private_pages: usize,
    /// Document and prefix leases held by running sequences.
    pub leases: usize,
    /// Documents in computation.
    pub computing: usize,
    /// Pages in the pool.
    pub pool_pages: usize,
    /// Pages that resident documents and prefixes hold.
    pub resident_pages: usize,
    /// Bytes of one page over all layers.
    pub page_bytes: usize,
    /// Resident documents.
    pub documents: usize,
    /// Resident prefix pages.
    pub prefixes: usize,
    /// Bytes that resident documents and prefixes may hold.
    pub resident_capacity: usize,
    /// Look-ups of documents that were never there, since the start.
    pub misses_absent: u64,
    /// Look-ups of documents that had been evicted, since the start.
    pub misses_evicted: u64,
    /// Look-ups whose key led to other tokens, since the start.
    pub misses_mismatch: u64,
    /// Requests whose client went away before the end, since the start.
    pub cancelled: u64,
    /// Entries evicted since the start.
    pub evictions: u64,
    /// Steps run since the start.
    pub steps: u64,
    /// Unix time of the last step in milliseconds.
    pub last_step_ms: u64,
}
