//! What a request changes about logits: bias, penalties, min-p and the least length.

use std::{collections::BTreeMap, sync::Arc};

use medley_generate::{Adjustments, ModelCard};
use medley_kv::TokenId;
use medley_openai::CompletionRequest;

use super::limits::within;
use crate::error::{ApiError, shorten};

/// Adjustments, checked; `max_tokens` are generated at most.
pub(super) fn adjustments(
    request: &CompletionRequest,
    card: &ModelCard,
    max_tokens: usize,
) -> Result<Adjustments, ApiError> {
    within("presence_penalty", request.presence_penalty, -2.0..=2.0)?;
    within("frequency_penalty", request.frequency_penalty, -2.0..=2.0)?;
    within("min_p", request.min_p, 0.0..=1.0)?;
    let single = |value: Option<f64>, neutral: f32| value.map_or(neutral, |value| value as f32);
    Ok(Adjustments {
        bias: bias(request.logit_bias.as_ref(), card.vocab)?,
        repetition_penalty: repetition_penalty(request)?,
        frequency_penalty: single(request.frequency_penalty, 0.0),
        presence_penalty: single(request.presence_penalty, 0.0),
        min_p: single(request.min_p, 0.0),
        min_tokens: min_tokens(request, max_tokens)?,
    })
}

fn repetition_penalty(request: &CompletionRequest) -> Result<f32, ApiError> {
    let penalty = request.repetition_penalty.map_or(1.0, |value| value as f32);
    if penalty.is_normal() && penalty > 0.0 {
        return Ok(penalty);
    }
    let message = "`repetition_penalty` must be a number above 0; 1 changes nothing";
    Err(ApiError::invalid("repetition_penalty", message))
}

fn min_tokens(request: &CompletionRequest, max_tokens: usize) -> Result<usize, ApiError> {
    let least = usize::try_from(request.min_tokens.unwrap_or(0)).unwrap_or(usize::MAX);
    if least > max_tokens {
        let message = format!("`min_tokens` may not be above `max_tokens`, {max_tokens}, and is {least}");
        return Err(ApiError::invalid("min_tokens", message));
    }
    Ok(least)
}

/// The biases in the order of their tokens.
fn bias(given: Option<&BTreeMap<String, f64>>, vocab: usize) -> Result<Arc<[(TokenId, f32)]>, ApiError> {
    let mut by_token = BTreeMap::new();
    for (name, &bias) in given.into_iter().flatten() {
        let param = format!("logit_bias.{}", shorten(name, 40));
        within(&param, Some(bias), -100.0..=100.0)?;
        let id = token(name, vocab).map_err(|message| ApiError::invalid(&param, message))?;
        if by_token.insert(id, bias as f32).is_some() {
            let message = format!("`logit_bias` names token {id} twice");
            return Err(ApiError::invalid(&param, message));
        }
    }
    Ok(by_token
        .into_iter()
        .map(|(id, bias)| (TokenId(id), bias))
        .collect())
}

fn token(name: &str, vocab: usize) -> Result<u32, String> {
    match name.parse::<u32>() {
        Ok(id) if (id as usize) < vocab => Ok(id),
        Ok(id) => Err(format!(
            "token id {id} is outside the vocabulary of {vocab} tokens"
        )),
        Err(_) => Err("the keys of `logit_bias` are token ids".to_owned()),
    }
}
