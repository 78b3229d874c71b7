//! Servers on a free port, and a client.

use std::{
    io::{BufRead, BufReader},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use medley_backend::fake::{FakeBackend, FakeConfig};
use medley_chat::{Dialect, Specials, Template};
use medley_engine::Engine;
use medley_generate::TokenText;
use medley_kv::TokenId;
use medley_prompt::{Anchor, Composer, GgufVocabulary, Tokenizer};
use medley_server::{AppState, Patience, Readiness, ServerConfig, router, serve};
use medley_shadow::{Rate, Shadow};
use reqwest::blocking::{Client, Response};
use serde_json::Value;
use tokio::{net::TcpListener, sync::oneshot};

use super::{fake::Engines, real};

/// The separator that every server of the tests splits prompts at.
pub const SEPARATOR: &str = " # # ";

/// A tokenizer's words for an engine.
pub struct Words(pub Tokenizer);

impl TokenText for Words {
    fn bytes(&self, token: TokenId) -> &[u8] {
        self.0.token_bytes(token)
    }
}

/// A running server. Dropping it shuts it down.
pub struct Server {
    pub address: String,
    pub client: Client,
    pub tokenizer: Tokenizer,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Server {
    /// On the fake backend: a token is a byte, and only printable ASCII is generated.
    pub fn fake(engines: &Engines) -> Self {
        Self::fake_with(engines, Rate::NONE)
    }

    /// The same with shadow checks.
    pub fn fake_with(engines: &Engines, shadow_rate: Rate) -> Self {
        Self::fake_as(engines, shadow_rate, config())
    }

    /// The same under a configuration.
    pub fn fake_as(engines: &Engines, shadow_rate: Rate, config: ServerConfig) -> Self {
        let tokenizer = Tokenizer::from_gguf(byte_vocabulary()).expect("a tokenizer");
        let printable = |id: u32| (0x20..0x7f).contains(&id);
        let muted = (0..258).filter(|&id| !printable(id)).map(TokenId).collect();
        let backend = FakeConfig {
            vocab: 258,
            pages: engines.pages,
            muted,
            ..FakeConfig::default()
        };
        let backend = Box::new(FakeBackend::new(backend));
        let words = Arc::new(Words(tokenizer.clone()));
        let engine = Engine::start(backend, engines.config.clone(), words).expect("a thread");
        Self::start(engine, tokenizer, shadow_rate, config)
    }

    /// On the small real model.
    pub fn small_model() -> Self {
        let (engine, tokenizer) = real::small_model_with_words(400, 300, 512);
        Self::start(engine, tokenizer, Rate::NONE, config())
    }

    fn start(engine: Engine, tokenizer: Tokenizer, shadow_rate: Rate, config: ServerConfig) -> Self {
        let chat = tokenizer
            .chat_template()
            .map(|template| Arc::new(dialect(template, &tokenizer)));
        let composer = Composer::new(tokenizer.clone(), &Anchor::Bos, Some(SEPARATOR)).expect("a composer");
        let readiness = Readiness::loading();
        let state = AppState::new(config, readiness.clone());
        let shadow = Shadow::start(Arc::new(engine), shadow_rate, state.shadow_recorder());
        readiness.ready(medley_server::Engine {
            generate: Arc::new(shadow.expect("a thread")),
            composer: Arc::new(composer),
            chat,
            quality: medley_server::Quality::default(),
        });
        let app = router(state);
        let (stop, stopped) = oneshot::channel::<()>();
        let (bound, address) = std::sync::mpsc::channel();
        let run = async move {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
            bound
                .send(listener.local_addr().expect("an address"))
                .expect("somebody waits");
            let shutdown = async {
                let _ = stopped.await;
            };
            let patience = Patience {
                head: Duration::from_secs(60),
                shutdown: Duration::from_secs(5),
            };
            serve(listener, app, readiness, patience, shutdown).await;
        };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build();
        let runtime = runtime.expect("a runtime");
        let thread = thread::spawn(move || runtime.block_on(run));
        let address = format!("http://{}", address.recv().expect("an address"));
        let client = Client::builder()
            .timeout(Duration::from_secs(120))
            .build()
            .expect("a client");
        Self {
            address,
            client,
            tokenizer,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    /// Posts a completion request.
    pub fn post(&self, body: &Value) -> Response {
        self.post_raw(body.to_string())
    }

    /// The answer to a chat request that must succeed.
    pub fn chat(&self, body: &Value) -> Value {
        let response = self.post_to("/v1/chat/completions", body.to_string());
        let (status, text) = (response.status(), response.text().expect("a body"));
        assert_eq!(status, 200, "{text}");
        serde_json::from_str(&text).expect("JSON")
    }

    /// Posts any bytes as a completion request.
    pub fn post_raw(&self, body: impl Into<reqwest::blocking::Body>) -> Response {
        self.post_to("/v1/completions", body)
    }

    fn post_to(&self, path: &str, body: impl Into<reqwest::blocking::Body>) -> Response {
        let request = self.client.post(format!("{}{path}", self.address));
        request
            .header("content-type", "application/json")
            .body(body)
            .send()
            .expect("a response")
    }

    /// The answer to a request that must succeed.
    pub fn complete(&self, body: &Value) -> Value {
        let response = self.post(body);
        let (status, text) = (response.status(), response.text().expect("a body"));
        assert_eq!(status, 200, "{text}");
        serde_json::from_str(&text).expect("JSON")
    }

    /// Reads the text of a stream to its end, or hangs up after `patience` events.
    pub fn stream(&self, body: &Value, patience: Option<usize>) -> String {
        let response = self.post(body);
        assert_eq!(response.status(), 200);
        let (mut text, mut done) = (String::new(), false);
        let lines = BufReader::new(response).lines().map_while(Result::ok);
        for (event, line) in lines.filter(|l| !l.is_empty()).enumerate() {
            if patience.is_some_and(|patience| event >= patience) {
                return text;
            }
            let data = line.strip_prefix("data: ").expect("an event");
            if data == "[DONE]" {
                done = true;
                continue;
            }
            let event: Value = serde_json::from_str(data).expect("JSON");
            text += event["choices"][0]["text"].as_str().expect("a text");
        }
        assert!(done, "the stream broke off");
        text
    }

    /// Waits until no gauge shows anything of any request.
    pub fn settle(&self) {
        let patience = Instant::now() + Duration::from_secs(20);
        let held = [
            "vllm:num_requests_running",
            "vllm:num_requests_waiting",
            "medley_background_requests",
            "medley_private_pages",
            "medley_leases",
            "medley_computing_documents",
        ];
        while held.iter().any(|name| self.metric(name) != 0.0) {
            assert!(Instant::now() < patience, "{}", self.get("/metrics"));
        }
    }

    /// What a path says.
    pub fn get(&self, path: &str) -> String {
        let response = self
            .client
            .get(format!("{}{path}", self.address))
            .send()
            .expect("a response");
        response.text().expect("text")
    }

    /// The value of a metric without labels, or the sum over its labels.
    pub fn metric(&self, name: &str) -> f64 {
        let metrics = self.get("/metrics");
        let lines = metrics
            .lines()
            .filter(|l| l.starts_with(name) && l[name.len()..].starts_with(['{', ' ']));
        let values: Vec<f64> = lines
            .map(|l| {
                l.rsplit(' ')
                    .next()
                    .and_then(|v| v.parse().ok())
                    .expect("a value")
            })
            .collect();
        assert!(!values.is_empty(), "there is no metric {name}");
        values.iter().sum()
    }
}

/// How a model with this template and tokenizer chats.
fn dialect(template: &str, tokenizer: &Tokenizer) -> Dialect {
    let named = |token: Option<TokenId>| token.map(|token| tokenizer.token_text(token).to_owned());
    let specials = Specials {
        all: tokenizer
            .control_tokens()
            .map(|(_, text)| text.to_owned())
            .collect(),
        bos: named(tokenizer.bos()),
        eos: named(tokenizer.end_of_text().first().copied()),
    };
    Dialect::new(Template::new(template, specials).expect("a template"), None)
}

/// What `clients` threads return that run at the same time, each with its number.
pub fn at_once<T: Send>(clients: usize, run: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let run = &run;
    thread::scope(|scope| {
        let started: Vec<_> = (0..clients).map(|i| scope.spawn(move || run(i))).collect();
        started
            .into_iter()
            .map(|client| client.join().expect("no panic"))
            .collect()
    })
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        let ended = self.thread.take().map(thread::JoinHandle::join);
        assert!(
            thread::panicking() || matches!(ended, Some(Ok(()))),
            "the server panicked"
        );
    }
}

/// What servers of the tests are told unless a test says otherwise.
pub fn config() -> ServerConfig {
    ServerConfig::new("test-model")
}

/// One token for every byte, BOS (256) and end of text (257).
fn byte_vocabulary() -> GgufVocabulary {
    let mut next = 256;
    let mut spell = |byte: u8| match byte {
        b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff => char::from(byte),
        _ => {
            next += 1;
            char::from_u32(next - 1).expect("a character")
        }
    };
    let mut tokens: Vec<String> = (0..=255).map(|b| spell(b).to_string()).collect();
    tokens.extend(["<|bos|>".to_owned(), "<|end|>".to_owned()]);
    let token_types = (0..258).map(|id| if id < 256 { 1 } else { 3 }).collect();
    GgufVocabulary {
        model: "gpt2".to_owned(),
        pre: "gpt-2".to_owned(),
        tokens,
        token_types,
        bos: Some(256),
        eos: Some(257),
        ..GgufVocabulary::default()
    }
}
