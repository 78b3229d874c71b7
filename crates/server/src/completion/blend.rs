//! `blend` over the server's defaults.

use medley_kv::{BlendMode, BlendOptions, Ratio, ReportDetail, Strategy};
use medley_openai::{AutoParam, BlendModeParam, BlendParam, RatioParam, ReportParam, StrategyParam};

use super::limits::within;
use crate::{Gate, Quality, ServerConfig, error::ApiError};

/// The options of a request, every default resolved.
pub(super) fn options(
    param: Option<BlendParam>,
    config: &ServerConfig,
    quality: &Quality,
) -> Result<BlendOptions, ApiError> {
    let (param, defaults) = (param.unwrap_or_default(), config.blend_defaults);
    within("blend.hops", param.hops, 0..=BlendOptions::MOST_PASSES)?;
    within("blend.rounds", param.rounds, 1..=BlendOptions::MOST_PASSES)?;
    within("blend.check_layer", param.check_layer, 1..=u32::MAX)?;
    let ratio = match param.recompute_ratio {
        Some(RatioParam::Number(number)) => Ratio::new(number).map_err(|error| refused(error.to_string()))?,
        Some(RatioParam::Named(AutoParam::Auto)) => quality.auto(defaults.ratio),
        None if config.auto_ratio => quality.auto(defaults.ratio),
        None => defaults.ratio,
    };
    Ok(BlendOptions {
        mode: param.mode.map_or(defaults.mode, mode),
        ratio,
        strategy: param.strategy.map_or(defaults.strategy, strategy),
        hops: param.hops.unwrap_or(defaults.hops),
        rounds: param.rounds.unwrap_or(defaults.rounds),
        check_layer: param.check_layer.unwrap_or(defaults.check_layer),
        report: param.report.map_or(defaults.report, detail),
    })
}

/// Whether a prompt with documents falls short of what the model needs; an error where that is refused.
pub(super) fn falls_short(blend: &BlendOptions, quality: &Quality) -> Result<bool, ApiError> {
    match quality.missed(blend) {
        Some(needed) if quality.gate == Gate::Refuse => Err(refused(format!(
            "this model needs at least {} for answers that are good enough, not {}; send more, \"auto\", or mode \"exact\"",
            needed.get(),
            blend.ratio.get()
        ))),
        missed => Ok(missed.is_some()),
    }
}

fn refused(message: String) -> ApiError {
    ApiError::invalid("blend.recompute_ratio", message)
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
