//! Routes as a table, and what wraps them.

use axum::{
    Extension, Router,
    extract::DefaultBodyLimit,
    http::{HeaderValue, Method, header},
    middleware::{from_fn, from_fn_with_state},
};
use tower_http::cors::{AllowHeaders, AllowOrigin, CorsLayer};
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    AppState,
    completion::PLAN_HEADERS,
    config::CorsOrigins,
    endpoints::{
        chat_completions, completions, detokenize, docs, health, live, metrics, models, openapi, tokenize,
        tokenizer_info, unknown, version,
    },
    error::ApiError,
    middleware,
    openapi::{encode, frame},
    request_id::{X_REQUEST_ID, identify},
};

/// Everything the server answers. The handlers' attributes name methods and paths.
fn table() -> OpenApiRouter<AppState> {
    OpenApiRouter::with_openapi(frame())
        .routes(routes!(completions::create))
        .routes(routes!(chat_completions::create))
        .routes(routes!(models::list))
        .routes(routes!(models::get))
        .routes(routes!(tokenize::tokenize))
        .routes(routes!(tokenize::under_v1))
        .routes(routes!(detokenize::detokenize))
        .routes(routes!(detokenize::under_v1))
        .routes(routes!(tokenizer_info::tokenizer_info))
        .routes(routes!(tokenizer_info::under_v1))
        .routes(routes!(health::health))
        .routes(routes!(health::ready))
        .routes(routes!(live::live))
        .routes(routes!(version::version))
        .routes(routes!(metrics::metrics))
        .routes(routes!(openapi::openapi))
        .routes(routes!(docs::docs))
}

/// The server as a service: the table with everything around it.
pub fn router(state: AppState) -> Router {
    let (routes, description) = table().split_for_parts();
    let json = encode(description).unwrap_or_default();
    let routes = routes
        .fallback(unknown::unknown)
        .method_not_allowed_fallback(|| async { ApiError::Method })
        .layer(Extension(openapi::Document(json.into())));
    wrapped(routes, &state).with_state(state)
}

/// The middleware. A layer that is added later stands further out, so read this from the bottom up: a request passes
/// the last layer first.
fn wrapped(routes: Router<AppState>, state: &AppState) -> Router<AppState> {
    routes
        // Innermost, at the handlers' own extractors: how much of a body is read.
        .layer(DefaultBodyLimit::max(state.config().body_limit))
        // Answers that take too long are given up, inside of what counts and logs.
        .layer(from_fn_with_state(state.clone(), middleware::limit))
        // Only those who have a key get further, where one is wanted: nothing of a body has been read yet.
        .layer(from_fn_with_state(state.clone(), middleware::require))
        // Panics end here, inside of what counts and logs, so that they are counted and logged as 500.
        .layer(from_fn(middleware::catch))
        // Counts and logs every response that a handler or a fallback made. Preflights never get here.
        .layer(from_fn_with_state(state.clone(), middleware::record))
        // Answers preflights, and marks all other responses, failures included.
        .layer(cors(&state.config().cors))
        // Outermost: everything inside can name the request, and every response carries its id.
        .layer(from_fn(identify))
}

fn cors(origins: &CorsOrigins) -> CorsLayer {
    let origins = match origins {
        CorsOrigins::Any => AllowOrigin::any(),
        CorsOrigins::List(list) => AllowOrigin::list(list.iter().map(HeaderValue::clone)),
    };
    let exposed = PLAN_HEADERS
        .into_iter()
        .chain([X_REQUEST_ID, header::RETRY_AFTER]);
    CorsLayer::new()
        .allow_origin(origins)
        .allow_methods([Method::GET, Method::POST, Method::DELETE])
        .allow_headers(AllowHeaders::mirror_request())
        .expose_headers(exposed.collect::<Vec<_>>())
}
