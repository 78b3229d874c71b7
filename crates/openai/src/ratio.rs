//! How much is recomputed.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{
        RefOr, Schema, Type,
        schema::{ObjectBuilder, OneOfBuilder},
    },
};

/// A share, or what the model was found to need.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected a number from 0 to 1 or \"auto\"")]
pub enum RatioParam {
    /// 0 to 1.
    Number(f64),
    /// By name.
    Named(AutoParam),
}

impl ToSchema for RatioParam {
    fn name() -> Cow<'static, str> {
        "RatioParam".into()
    }
}

impl PartialSchema for RatioParam {
    fn schema() -> RefOr<Schema> {
        let number = ObjectBuilder::new().schema_type(Type::Number);
        let named = ObjectBuilder::new().schema_type(Type::String);
        OneOfBuilder::new()
            .item(number.minimum(Some(0)).maximum(Some(1)))
            .item(named.enum_values(Some(["auto"])))
            .description(Some("A share, or what the model was found to need."))
            .into()
    }
}

/// What the model was found to need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AutoParam {
    /// The least ratio at which the model's calibration meets the target.
    Auto,
}
