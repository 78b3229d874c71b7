//! `GET /tokenizer_info`: what the model's tokenizer is.

use axum::{Json, extract::State};
use medley_kv::TokenId;
use medley_openai::{AddedToken, ErrorResponse, TokenizerInfo};

use crate::{AppState, Engine, error::ApiError};

/// What the model's tokenizer is, in the words of its configuration.
#[utoipa::path(
    get,
    path = "/tokenizer_info",
    tag = "tokens",
    responses(
        (status = 200, description = "The tokenizer", body = TokenizerInfo),
        (status = 503, description = "`loading`", body = ErrorResponse),
    ),
)]
pub(crate) async fn tokenizer_info(State(state): State<AppState>) -> Result<Json<TokenizerInfo>, ApiError> {
    let engine = state.readiness().engine().ok_or(ApiError::Loading)?;
    Ok(Json(info(engine)))
}

/// The same as `/tokenizer_info`.
#[utoipa::path(
    get,
    path = "/v1/tokenizer_info",
    tag = "tokens",
    responses(
        (status = 200, description = "The tokenizer", body = TokenizerInfo),
        (status = 503, description = "`loading`", body = ErrorResponse),
    ),
)]
pub(crate) async fn under_v1(state: State<AppState>) -> Result<Json<TokenizerInfo>, ApiError> {
    tokenizer_info(state).await
}

fn info(engine: &Engine) -> TokenizerInfo {
    let (tokenizer, card) = (engine.composer.tokenizer(), engine.generate.model());
    let spelled = |token: TokenId| tokenizer.token_text(token).to_owned();
    let added = |(token, text): (TokenId, &str)| {
        let content = text.to_owned();
        (
            token.0,
            AddedToken {
                content,
                special: true,
            },
        )
    };
    TokenizerInfo {
        tokenizer_class: tokenizer.class().to_owned(),
        vocab_size: tokenizer.vocab_size(),
        model_max_length: card.max_model_len,
        add_bos_token: tokenizer.adds_bos(),
        bos_token: tokenizer.bos().map(spelled),
        bos_token_id: tokenizer.bos().map(|token| token.0),
        eos_token: tokenizer.eos().map(spelled),
        eos_token_id: tokenizer.eos().map(|token| token.0),
        eos_token_ids: card.end_of_text.iter().map(|token| token.0).collect(),
        added_tokens_decoder: tokenizer.control_tokens().map(added).collect(),
        chat_template: tokenizer.chat_template().map(str::to_owned),
    }
}
