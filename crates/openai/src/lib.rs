//! Wire types of the HTTP interface and their schema.
