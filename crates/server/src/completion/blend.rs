//! `blend` over the server's defaults.

use medley_kv::{BlendMode, BlendOptions, Ratio, ReportDetail, Strategy};
use medley_openai::{BlendModeParam, BlendParam, ReportParam, StrategyParam};

use super::limits::within;
use crate::error::ApiError;

/// The options of a request, every default resolved.
pub(super) fn options(param: Option<BlendParam>, defaults: BlendOptions) -> Result<BlendOptions, ApiError> {
    let param = param.unwrap_or_default();
    within("blend.hops", param.hops, 0..=BlendOptions::MOST_PASSES)?;
    within("blend.rounds", param.rounds, 1..=BlendOptions::MOST_PASSES)?;
    within("blend.check_layer", param.check_layer, 1..=u32::MAX)?;
    let ratio = param.recompute_ratio.map(Ratio::new).transpose();
    let ratio = ratio.map_err(|error| ApiError::invalid("blend.recompute_ratio", error.to_string()))?;
    Ok(BlendOptions {
        mode: param.mode.map_or(defaults.mode, mode),
        ratio: ratio.unwrap_or(defaults.ratio),
        strategy: param.strategy.map_or(defaults.strategy, strategy),
        hops: param.hops.unwrap_or(defaults.hops),
        rounds: param.rounds.unwrap_or(defaults.rounds),
        check_layer: param.check_layer.unwrap_or(defaults.check_layer),
        report: param.report.map_or(defaults.report, detail),
    })
}

fn mode(param: BlendModeParam) -> BlendMode {
    match param {
        BlendModeParam::Auto => BlendMode::Auto,
        BlendModeParam::Exact => BlendMode::Exact,
        BlendModeParam::Off => BlendMode::Off,
    }
}

fn strategy(param: StrategyParam) -> Strategy {
    match param {
        StrategyParam::Auto => Strategy::Auto,
        StrategyParam::Heads => Strategy::Heads,
        StrategyParam::Deviation => Strategy::Deviation,
        StrategyParam::Query => Strategy::Query,
    }
}

fn detail(param: ReportParam) -> ReportDetail {
    match param {
        ReportParam::Summary => ReportDetail::Summary,
        ReportParam::Tokens => ReportDetail::Tokens,
    }
}
