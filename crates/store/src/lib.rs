//! Resident documents and prefixes: pages, leases, eviction.
