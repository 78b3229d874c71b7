//! How tokens are chosen and what ends a text.

use std::sync::Arc;

use medley_generate::{ModelCard, Sampling};
use medley_kv::TokenId;
use medley_openai::{CompletionRequest, StopParam};

use super::limits::within;
use crate::error::ApiError;

/// Most strings that may end a text.
const MOST_STOPS: usize = 4;
/// Longest stop string, in bytes: as many of every text are held back and searched.
const LONGEST_STOP: usize = 4096;

/// Sampling parameters, checked.
pub(super) fn sampling(request: &CompletionRequest) -> Result<Sampling, ApiError> {
    within("temperature", request.temperature, 0.0..=2.0)?;
    within("top_p", request.top_p, 0.0..=1.0)?;
    within("top_k", request.top_k, -1..=i64::from(u32::MAX))?;
    if request.top_p == Some(0.0) {
        return Err(ApiError::invalid("top_p", "`top_p` must be more than 0"));
    }
    Ok(Sampling {
        temperature: request.temperature.map_or(1.0, |value| value as f32),
        top_p: request.top_p.map_or(1.0, |value| value as f32),
        top_k: request.top_k.and_then(|k| u32::try_from(k).ok()).unwrap_or(0),
        seed: request.seed.map(i64::cast_unsigned),
    })
}

/// Strings that end the text.
pub(super) fn stop_strings(stop: Option<&StopParam>) -> Result<Vec<String>, ApiError> {
    let stop = match stop {
        None => Vec::new(),
        Some(StopParam::One(one)) => vec![one.clone()],
        Some(StopParam::Many(many)) => many.clone(),
    };
    if stop.len() > MOST_STOPS {
        let message = format!(
            "`stop` holds {} strings, at most {MOST_STOPS} are allowed",
            stop.len()
        );
        return Err(ApiError::invalid("stop", message));
    }
    if stop.iter().any(String::is_empty) {
        return Err(ApiError::invalid("stop", "a stop string must not be empty"));
    }
    if let Some(long) = stop.iter().find(|text| text.len() > LONGEST_STOP) {
        let message = format!("a stop string may have {LONGEST_STOP} bytes, not {}", long.len());
        return Err(ApiError::invalid("stop", message));
    }
    Ok(stop)
}

/// Tokens that end the text: those asked for, and the model's own unless they are to be ignored.
pub(super) fn stop_tokens(request: &CompletionRequest, card: &ModelCard) -> Result<Arc<[TokenId]>, ApiError> {
    let asked = request.stop_token_ids.as_deref().unwrap_or_default();
    if let Some(index) = asked.iter().position(|id| *id as usize >= card.vocab) {
        let message = format!(
            "token id {} is outside the vocabulary of {} tokens",
            asked[index], card.vocab
        );
        return Err(ApiError::invalid(format!("stop_token_ids[{index}]"), message));
    }
    let own = if request.ignore_eos == Some(true) {
        &[][..]
    } else {
        &card.end_of_text
    };
    Ok(asked
        .iter()
        .copied()
        .map(TokenId)
        .chain(own.iter().copied())
        .collect())
}
