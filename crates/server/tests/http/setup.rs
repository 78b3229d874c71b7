//! A server on a vocabulary of bytes, and requests to it.

use std::sync::Arc;

use axum::{
    Router,
    body::{Body, Bytes},
    http::{HeaderMap, Method, Request, StatusCode},
};
use http_body_util::BodyExt;
use medley_chat::{Dialect, Specials, Template};
use medley_prompt::{Anchor, Composer, GgufVocabulary, Tokenizer};
use medley_server::{AppState, Engine, Quality, Readiness, ServerConfig, router};
use serde_json::Value;
use tower::ServiceExt;

use crate::fake::Fake;

/// An answer.
pub struct Reply {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub bytes: Bytes,
}

impl Reply {
    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes).unwrap_or_else(|error| panic!("{error}: {:?}", self.bytes))
    }

    /// The text of choice `index`.
    pub fn text(&self, index: usize) -> String {
        self.json()["choices"][index]["text"]
            .as_str()
            .expect("a text")
            .to_owned()
    }

    /// The data of every server-sent event.
    pub fn events(&self) -> Vec<String> {
        let text = std::str::from_utf8(&self.bytes).expect("UTF-8");
        assert!(text.ends_with("\n\n"), "the last event is cut: {text}");
        let frames = text.split_terminator("\n\n");
        frames
            .map(|frame| frame.strip_prefix("data: ").expect("only data").to_owned())
            .collect()
    }

    /// The chunks of a stream that ended well.
    pub fn chunks(&self) -> Vec<Value> {
        let mut events = self.events();
        assert_eq!(events.pop().as_deref(), Some("[DONE]"));
        events
            .iter()
            .map(|event| serde_json::from_str(event).expect("JSON"))
            .collect()
    }

    /// A header as text.
    pub fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .unwrap_or_else(|| panic!("no {name}"))
            .to_str()
            .expect("text")
    }

    /// Checks status, `code` and `param` of an error, and its shape.
    pub fn is_error(&self, status: u16, code: &str, param: Option<&str>) -> String {
        let json = self.json();
        let error = &json["error"];
        assert_eq!(self.status.as_u16(), status, "{json}");
        assert_eq!(error["code"], code, "{json}");
        assert_eq!(error["param"].as_str(), param, "{json}");
        assert_eq!(json.as_object().map(|object| object.len()), Some(1));
        assert_eq!(error.as_object().map(|object| object.len()), Some(4), "{json}");
        assert!(error["type"].is_string(), "{json}");
        error["message"].as_str().expect("a message").to_owned()
    }
}

/// One token a byte; 256 is BOS, which prompts get, and 257 ends a text.
pub fn composer() -> Arc<Composer> {
    let mut tokens: Vec<String> = (0..=255).map(|byte| spelling(byte).to_string()).collect();
    tokens.extend(["<|bos|>".to_owned(), "<|endoftext|>".to_owned()]);
    let mut token_types = vec![1; 256];
    token_types.extend([3, 3]);
    let vocabulary = GgufVocabulary {
        model: "gpt2".into(),
        pre: "llama3".into(),
        tokens,
        token_types,
        bos: Some(256),
        eos: Some(257),
        ..GgufVocabulary::default()
    };
    let tokenizer = Tokenizer::from_gguf(vocabulary).expect("a tokenizer");
    Arc::new(Composer::new(tokenizer, &Anchor::Bos, None).expect("a composer"))
}

/// A template with turns, tools in the format of Hermes, and nothing else.
pub const TEMPLATE: &str = "{{ bos_token }}{% if tools %}{{ tools | tojson }}{# <tool_call> #}{% endif %}\
    {% for m in messages %}{% if m.content == 'refuse' %}{{ raise_exception('no, ' + bos_token) }}{% endif %}\
    {{ m.role }}:{{ m.content }}{{ eos_token }}{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}";

/// How a model with this template chats.
pub fn dialect(template: &str) -> Dialect {
    let tokenizer = composer().tokenizer().clone();
    let specials = Specials {
        all: tokenizer
            .control_tokens()
            .map(|(_, text)| text.to_owned())
            .collect(),
        bos: Some("<|bos|>".to_owned()),
        eos: Some("<|endoftext|>".to_owned()),
    };
    Dialect::new(Template::new(template, specials).expect("a template"), None)
}

/// The printable character that a byte-level vocabulary spells a byte with.
fn spelling(byte: u8) -> char {
    let is_printable = |byte| matches!(byte, 0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF);
    if is_printable(byte) {
        return char::from(byte);
    }
    let others_before = (0..byte).filter(|other| !is_printable(*other)).count();
    char::from_u32(256 + others_before as u32).expect("a character")
}

pub fn config() -> ServerConfig {
    ServerConfig::new("org/model")
}

pub fn server(fake: &Arc<Fake>) -> Router {
    server_with(fake, config())
}

pub fn server_with(fake: &Arc<Fake>, config: ServerConfig) -> Router {
    let readiness = Readiness::loading();
    readiness.ready(engine(fake));
    router(AppState::new(config, readiness))
}

/// A server on this engine.
pub fn server_of(engine: Engine) -> Router {
    let readiness = Readiness::loading();
    readiness.ready(engine);
    router(AppState::new(config(), readiness))
}

pub fn engine(fake: &Arc<Fake>) -> Engine {
    Engine {
        generate: Arc::clone(fake) as _,
        composer: composer(),
        chat: Some(Arc::new(dialect(TEMPLATE))),
        quality: Quality::default(),
    }
}

/// A request with a JSON body.
pub fn completion(body: &Value) -> Request<Body> {
    completion_of(body.to_string())
}

pub fn completion_of(body: impl Into<Body>) -> Request<Body> {
    let request = Request::post("/v1/completions").header("content-type", "application/json");
    request.body(body.into()).expect("a request")
}

pub fn request(method: Method, path: &str) -> Request<Body> {
    Request::builder()
        .method(method)
        .uri(path)
        .body(Body::empty())
        .expect("a request")
}

pub async fn send(server: &Router, request: Request<Body>) -> Reply {
    let response = server.clone().oneshot(request).await.expect("infallible");
    let (parts, body) = response.into_parts();
    let bytes = body.collect().await.expect("a body").to_bytes();
    Reply {
        status: parts.status,
        headers: parts.headers,
        bytes,
    }
}

pub async fn post(server: &Router, body: Value) -> Reply {
    send(server, completion(&body)).await
}

/// Asks the chat endpoint.
pub async fn chat(server: &Router, body: Value) -> Reply {
    let request = Request::post("/v1/chat/completions").header("content-type", "application/json");
    send(server, request.body(body.to_string().into()).expect("a request")).await
}

pub async fn get(server: &Router, path: &str) -> Reply {
    send(server, request(Method::GET, path)).await
}
