//! Ranges that values must lie in.

use std::{fmt::Display, ops::RangeInclusive};

use crate::error::ApiError;

/// Refuses a value outside `range`; NaN is outside every range.
pub(super) fn within<T: PartialOrd + Display>(
    param: &str,
    value: Option<T>,
    range: RangeInclusive<T>,
) -> Result<(), ApiError> {
    match value {
        Some(value) if !range.contains(&value) => {
            let (low, high) = range.into_inner();
            Err(ApiError::invalid(
                param,
                format!("`{param}` must be from {low} to {high}, not {value}"),
            ))
        }
        _ => Ok(()),
    }
}
