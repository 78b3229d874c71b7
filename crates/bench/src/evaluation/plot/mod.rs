//! A plot of tables: KL against what it costs, a panel for each set, a line for each rule.

mod draw;
mod figure;
mod ticks;

use std::str::FromStr;

use anyhow::Result;

use super::table::Table;
use figure::Figure;

/// What KL is plotted against.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Axis {
    /// The ratio that was asked for.
    #[default]
    Ratio,
    /// The rows that ran for the first token; results that do not know them are left out.
    Rows,
}

/// A text that names no axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownAxis;

impl std::fmt::Display for UnknownAxis {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("expected ratio or rows")
    }
}

impl std::error::Error for UnknownAxis {}

impl FromStr for Axis {
    type Err = UnknownAxis;

    fn from_str(text: &str) -> Result<Self, UnknownAxis> {
        match text {
            "ratio" => Ok(Self::Ratio),
            "rows" => Ok(Self::Rows),
            _ => Err(UnknownAxis),
        }
    }
}

/// The plot as SVG. Bars are 95 % intervals. What has no KL (a full prefill) has no place on the logarithmic axis.
pub fn plot(tables: &[Table], axis: Axis) -> Result<String> {
    draw::svg(&Figure::new(tables, axis)?, axis)
}
