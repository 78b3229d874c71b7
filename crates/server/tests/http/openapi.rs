//! The description of the interface is the one in the repository.

use crate::{
    fake::Fake,
    setup::{get, server},
};

const SNAPSHOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../openapi/openapi.json");

/// `MEDLEY_UPDATE_SNAPSHOTS=1` rewrites the file instead.
#[tokio::test]
async fn the_description_matches_the_snapshot() {
    let reply = get(&server(&Fake::says(&["x"])), "/openapi.json").await;
    let served = String::from_utf8(reply.bytes.to_vec()).expect("UTF-8");
    if std::env::var_os("MEDLEY_UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(SNAPSHOT, &served).expect("the snapshot is writable");
    }
    let kept = std::fs::read_to_string(SNAPSHOT).unwrap_or_default();
    assert!(
        served == kept,
        "openapi/openapi.json is stale: run this test with MEDLEY_UPDATE_SNAPSHOTS=1"
    );
}

#[tokio::test]
async fn every_endpoint_is_described_without_wildcards() {
    let json = get(&server(&Fake::says(&["x"])), "/openapi.json").await.json();
    let paths: Vec<_> = json["paths"]
        .as_object()
        .expect("paths")
        .keys()
        .map(String::as_str)
        .collect();
    let expected = [
        "/detokenize",
        "/docs",
        "/health",
        "/live",
        "/metrics",
        "/openapi.json",
        "/ready",
        "/tokenize",
        "/tokenizer_info",
        "/v1/chat/completions",
        "/v1/completions",
        "/v1/detokenize",
        "/v1/models",
        "/v1/models/{id}",
        "/v1/tokenize",
        "/v1/tokenizer_info",
        "/version",
    ];
    assert_eq!(paths, expected);
}

/// Every `$ref` of the description leads somewhere.
#[tokio::test]
async fn every_reference_of_the_description_resolves() {
    let json = get(&server(&Fake::says(&["x"])), "/openapi.json").await.json();
    let text = json.to_string();
    let references = text
        .split("\"$ref\":\"#")
        .skip(1)
        .filter_map(|rest| rest.split('"').next());
    let missing: Vec<_> = references
        .filter(|pointer| json.pointer(pointer).is_none())
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert!(text.contains("\"$ref\""));
}
