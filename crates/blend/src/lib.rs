//! Plan and selection: which tokens of reused documents are repaired.
