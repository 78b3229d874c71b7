//! The vocabulary of Medley: tokens, positions, keys, prompts, options and reports.
//!
//! Plain values without behaviour beyond their own invariants. This crate knows no tensors, no I/O and no
//! HTTP; every other crate speaks in its types.

mod geometry;
mod key;
mod options;
mod page;
mod prompt;
mod report;
mod token;

pub use geometry::{KvDtype, KvGeometry};
pub use key::{BlendedKey, DocumentKey, Namespace, NamespaceBuilder, PrefixKey};
pub use options::{BlendMode, BlendOptions, Ratio, RatioOutOfRange, ReportDetail, Strategy, UnknownName};
pub use page::{PAGE_TOKENS, PageId, SlotId, pages_for};
pub use prompt::{Document, Prompt, PromptError, Segment};
pub use report::{DocumentReport, Plan, Report, Source, Timing, TokenCounts};
pub use token::{Position, Span, TokenId};
