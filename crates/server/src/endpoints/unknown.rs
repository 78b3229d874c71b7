//! Paths that are not there: what stands in their place.

use axum::http::Uri;

use crate::error::ApiError;

/// Answers 404, with advice where it is known what was looked for.
pub(crate) async fn unknown(uri: Uri) -> ApiError {
    ApiError::UnknownPath(advice(uri.path().trim_end_matches('/')))
}

fn advice(path: &str) -> &'static str {
    let below = |prefix: &str| path == prefix || path.starts_with(&format!("{prefix}/"));
    match path.trim_start_matches("/v1") {
        "/responses" | "/messages" => {
            "this is not in this version: send the conversation to /v1/chat/completions"
        }
        _ if below("/v1/documents") => {
            "documents can't be put ahead of use in this version: send them as `documents` of /v1/completions, which \
             keeps them"
        }
        "/completions" | "/chat/completions" | "/models" => {
            "nothing is at this path: base URLs end with one /v1"
        }
        _ => "nothing is at this path: /openapi.json lists those that there are",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_says_what_to_do_instead() {
        for (path, part) in [
            ("/chat/completions", "one /v1"),
            ("/v1/responses", "/v1/chat/completions"),
            ("/v1/documents", "`documents`"),
            ("/v1/documents/doc_5f", "`documents`"),
            ("/completions", "/v1"),
            ("/v1/v1/completions", "one /v1"),
            ("/v1/embeddings", "/openapi.json"),
            ("", "/openapi.json"),
        ] {
            assert!(advice(path).contains(part), "{path}: {}", advice(path));
        }
    }
}
