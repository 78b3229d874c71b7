//! Tenants share nothing: what one key has put into the cache is not there for another.

use medley_server::ServerConfig;
use medley_shadow::Rate;
use serde_json::{Value, json};

use crate::harness::{Engines, Server, config};

fn server() -> Server {
    let config = ServerConfig {
        api_keys: ["key-a", "key-b"].into_iter().collect(),
        ..config()
    };
    Server::fake_as(&Engines::default().with(|e| e.pages = 1500), Rate::NONE, config)
}

fn ask(server: &Server, key: &str, body: &Value) -> Value {
    let request = server.client.post(format!("{}/v1/completions", server.address));
    let response = request.bearer_auth(key).json(body).send().expect("a response");
    assert_eq!(response.status(), 200);
    response.json().expect("JSON")
}

/// A request whose document and text before it both fill pages.
fn request(salt: Option<&str>) -> Value {
    json!({
        "prompt": "Question?", "instructions": "i".repeat(200), "documents": ["d".repeat(300)],
        "temperature": 0, "max_tokens": 4, "cache_salt": salt,
    })
}

/// What was in the cache for this request: tokens of the prefix, and those of documents.
fn found(answer: &Value) -> (u64, u64) {
    let count = |kind: &str| answer["medley"]["tokens"][kind].as_u64().expect("a count");
    (count("exact_prefix"), count("reused"))
}

#[test]
fn keys_share_neither_documents_nor_prefixes_nor_ids() {
    let server = server();
    let first = ask(&server, "key-a", &request(None));
    assert_eq!(found(&first), (0, 0));
    let again = ask(&server, "key-a", &request(None));
    assert!(found(&again).0 > 0 && found(&again).1 > 0, "{again}");
    let other = ask(&server, "key-b", &request(None));
    assert_eq!(found(&other), (0, 0), "another key found something");
    assert_eq!(first["choices"], other["choices"]);
    let id = |answer: &Value| answer["medley"]["documents"][0]["document_id"].clone();
    assert_eq!(id(&first), id(&again));
    assert_ne!(id(&first), id(&other));
}

#[test]
fn a_salt_subdivides_its_key_alone() {
    let server = server();
    for key in ["key-a", "key-b"] {
        assert_eq!(
            found(&ask(&server, key, &request(Some("user-7")))),
            (0, 0),
            "{key}"
        );
        assert!(found(&ask(&server, key, &request(Some("user-7")))).1 > 0, "{key}");
        assert_eq!(found(&ask(&server, key, &request(None))), (0, 0), "{key}");
    }
}
