//! From a request's texts and documents to a prompt of token segments.
