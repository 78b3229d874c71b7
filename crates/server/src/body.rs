//! Reads a body that is a JSON object and says exactly what is wrong with a bad one.

use axum::{
    body::Bytes,
    extract::{
        FromRequest, Request,
        rejection::{BytesRejection, FailedToBufferBody},
    },
    http::{HeaderMap, header},
};
use medley_openai::Object;
use serde::de::DeserializeOwned;
use serde_json::error::Category;
use serde_path_to_error::Track;
use tokio::time::timeout;

use crate::{
    AppState,
    error::{ApiError, shorten},
};

/// A body that was a JSON object of the right shape. Unknown fields were ignored and their names logged.
pub(crate) struct JsonBody<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<AppState> for JsonBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &AppState) -> Result<Self, ApiError> {
        if !is_json(request.headers()) {
            return Err(ApiError::MediaType);
        }
        let (limit, time) = (state.config().body_limit, state.config().body_timeout);
        if announced(request.headers()).is_some_and(|length| length > limit as u64) {
            return Err(ApiError::BodyTooLarge(limit));
        }
        let bytes = timeout(time, Bytes::from_request(request, state))
            .await
            .map_err(|_| ApiError::BodyTimeout(time))?
            .map_err(|error| unread(&error, limit))?;
        parse(&bytes).map(Self)
    }
}

/// `application/json` or `application/…+json`, with or without parameters.
fn is_json(headers: &HeaderMap) -> bool {
    let value = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let essence = value
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase();
    essence == "application/json" || (essence.starts_with("application/") && essence.ends_with("+json"))
}

/// The length that the head gives the body.
fn announced(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

fn unread(error: &BytesRejection, limit: usize) -> ApiError {
    match error {
        BytesRejection::FailedToBufferBody(FailedToBufferBody::LengthLimitError(_)) => {
            ApiError::BodyTooLarge(limit)
        }
        _ => ApiError::UnreadableBody,
    }
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    let text = std::str::from_utf8(bytes).map_err(|error| not_utf8(error.valid_up_to()))?;
    let mut json = serde_json::Deserializer::from_str(text);
    let mut track = Track::new();
    let mut unknown = Unknown::default();
    let tracked = serde_path_to_error::Deserializer::new(&mut json, &mut track);
    let value: Result<Object<T>, _> = serde_ignored::deserialize(tracked, |path| unknown.add(&path));
    let Object(value) = value.map_err(|error| malformed(&track.path().to_string(), &error))?;
    json.end().map_err(|error| malformed(".", &error))?;
    unknown.log();
    Ok(value)
}

fn not_utf8(offset: usize) -> ApiError {
    ApiError::Json {
        message: format!("the body is not UTF-8 at byte {offset}"),
        param: None,
    }
}

/// The failure at `path`. Where a value breaks off between its fields, the path ends with `?`; at the root it is `.`.
fn malformed(path: &str, error: &serde_json::Error) -> ApiError {
    let (line, column) = (error.line(), error.column());
    let whole = error.to_string();
    let what = whole
        .strip_suffix(&format!(" at line {line} column {column}"))
        .unwrap_or(&whole);
    let (path, what) = (blamed(path, what), in_json_terms(what));
    let what = format!("{} at line {line} column {column}", shorten(&what, 300));
    let (message, param) = match path.trim_end_matches(".?") {
        "." | "?" => (what, None),
        path => {
            let path = shorten(path, 200);
            (format!("`{path}`: {what}"), Some(path))
        }
    };
    match fault(error, &whole) {
        Some(code) => ApiError::Shape { code, message, param },
        None => ApiError::Json { message, param },
    }
}

/// The name of what is wrong with JSON that is well-formed; `None` if it is not.
fn fault(error: &serde_json::Error, what: &str) -> Option<&'static str> {
    if error.classify() != Category::Data {
        return None;
    }
    let named = [
        ("invalid type", "invalid_type"),
        ("unknown field", "unknown_parameter"),
    ];
    let found = named.iter().find(|(start, _)| what.starts_with(start));
    Some(found.map_or("invalid_value", |(_, code)| code))
}

/// Where the fault is: a field that is there twice or does not belong there is at fault itself, not the object at
/// `path` around it.
fn blamed(path: &str, what: &str) -> String {
    let starts = ["duplicate field `", "unknown field `"];
    let field = starts
        .iter()
        .find_map(|start| what.strip_prefix(start))
        .and_then(|rest| rest.split('`').next());
    match (field, path.trim_end_matches('?').trim_end_matches('.')) {
        (Some(field), "") => field.to_owned(),
        (Some(field), object) if object.rsplit('.').next() == Some(field) => object.to_owned(),
        (Some(field), object) => format!("{object}.{field}"),
        (None, _) => path.to_owned(),
    }
}

/// What was expected, said of JSON numbers and not of types here.
fn in_json_terms(what: &str) -> String {
    let names = [
        (", expected u8", "an integer from 0 to 255"),
        (", expected u32", "an integer from 0 to 4294967295"),
        (", expected u64", "a non-negative integer"),
        (", expected i64", "an integer"),
        (", expected f64", "a number"),
    ];
    let found = names
        .iter()
        .find_map(|(end, name)| Some((what.strip_suffix(end)?, name)));
    found.map_or_else(
        || what.to_owned(),
        |(start, name)| format!("{start}, expected {name}"),
    )
}

/// Names of fields that nobody reads; a bounded number of bounded names.
#[derive(Default)]
struct Unknown(Vec<String>);

impl Unknown {
    fn add(&mut self, path: &serde_ignored::Path<'_>) {
        if self.0.len() < 16 && tracing::enabled!(tracing::Level::DEBUG) {
            self.0.push(shorten(&path.to_string(), 64));
        }
    }

    fn log(&self) {
        if !self.0.is_empty() {
            tracing::debug!(fields = ?self.0, "unknown fields of a request are ignored");
        }
    }
}

#[cfg(test)]
mod tests {
    use medley_openai::CompletionRequest;

    use super::*;

    /// The failure of a body as (param, message).
    fn failure(body: &[u8]) -> (Option<String>, String) {
        match parse::<CompletionRequest>(body) {
            Err(ApiError::Json { message, param } | ApiError::Shape { message, param, .. }) => {
                (param, message)
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_wrong_field_is_named_with_its_path_line_and_column() {
        let cases: [(&[u8], &str, &str); 5] = [
            (
                b"{\n \"documents\": [\"a\", {\"title\": 7}]}",
                "documents[1].title",
                "at line 2 column 31",
            ),
            (
                br#"{"blend":{"mode":"fast"}}"#,
                "blend.mode",
                "`auto`, `exact`, `off`",
            ),
            (
                br#"{"prompt":[1,"a"]}"#,
                "prompt[1]",
                "an integer from 0 to 4294967295",
            ),
            (
                br#"{"max_tokens":-1}"#,
                "max_tokens",
                "expected a non-negative integer",
            ),
            (
                br#"{"documents":[{"data":{"snippet":1}}]}"#,
                "documents[0].data.snippet",
                "a string",
            ),
        ];
        for (body, path, part) in cases {
            let (param, message) = failure(body);
            assert_eq!(param.as_deref(), Some(path), "{message}");
            assert!(message.contains(part) && message.contains(path), "{message}");
        }
    }

    #[test]
    fn syntax_errors_have_a_line_and_no_param() {
        for (body, place) in [
            ("{\n\"a\" 1}", "line 2 column 5"),
            ("{", "line 1 column 1"),
            ("{} x", "line 1 column 4"),
        ] {
            let (param, message) = failure(body.as_bytes());
            assert_eq!(param, None, "{message}");
            assert!(message.contains(place), "{message}");
        }
    }

    #[test]
    fn bytes_that_are_not_utf8_are_located_and_not_repeated() {
        assert_eq!(
            failure(b"{\"prompt\":\"\xff\xfe\"}"),
            (None, "the body is not UTF-8 at byte 11".to_owned())
        );
    }

    #[test]
    fn a_long_wrong_value_is_not_repeated_at_length() {
        let (_, message) = failure(format!(r#"{{"n":"{}"}}"#, "x".repeat(100_000)).as_bytes());
        assert!(message.len() < 500 && message.contains("line 1"), "{message}");
    }

    #[test]
    fn null_and_unknown_fields_are_absent() {
        let read = |body: &str| parse::<CompletionRequest>(body.as_bytes()).expect(body);
        let full = r#"{"n":null,"documents":null,"blend":null,"prompt":null,"foo":{"bar":[1]},"user":7}"#;
        assert_eq!(read(full), read("{}"));
    }
}
