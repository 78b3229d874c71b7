//! Measurements of a running engine: quality of blended answers, time to first token, speed on a GPU.
//!
//! Everything runs through the [`medley_generate::Generate`] port and the product's own composition of prompts,
//! so what is measured is what is served. Results are files that can be compared later, with the machine and the
//! commit in them. Nothing here loads a model: the caller brings a [`Subject`]. Only [`load`] speaks HTTP, to any server.

pub mod calibration;
pub mod evaluation;
pub mod gpu;
pub mod load;
mod machine;
mod progress;
mod run;
mod statistics;
mod subject;
pub mod ttft;
mod words;

pub use machine::{Date, Machine};
pub use run::{Run, RunError};
pub use statistics::{Interval, mean, median, percentile};
pub use subject::Subject;
