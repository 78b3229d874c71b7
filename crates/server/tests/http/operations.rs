//! Models and the endpoints for those who run the server.

use std::sync::Arc;

use medley_server::{AppState, Readiness, router};
use serde_json::json;

use crate::{
    fake::{Fake, Play},
    setup::{config, get, server},
};

#[tokio::test]
async fn models_say_their_length_and_that_they_blend() {
    let server = server(&Fake::says(&["x"]));
    let model = json!({
        "id": "org/model", "object": "model", "created": 1_700_000_000, "owned_by": "medley", "max_model_len": 200,
        "medley": {"blends": true, "reason": null},
    });
    assert_eq!(
        get(&server, "/v1/models").await.json(),
        json!({"object": "list", "data": [model]})
    );
    assert_eq!(get(&server, "/v1/models/org/model").await.json(), model);
    assert_eq!(get(&server, "/v1/models/org%2Fmodel").await.json(), model);
    assert_eq!(get(&server, "/v1/models/default").await.json(), model);
}

#[tokio::test]
async fn a_model_that_does_not_blend_says_why() {
    let mut fake = Fake::bare(|_, _| Play::Events(vec![]));
    fake.card.unsupported = Some("sliding windows".into());
    let reply = get(&server(&Arc::new(fake)), "/v1/models/default").await;
    assert_eq!(
        reply.json()["medley"],
        json!({"blends": false, "reason": "sliding windows"})
    );
}

#[tokio::test]
async fn liveness_and_version_do_not_wait_for_the_model() {
    let server = router(AppState::new(config(), Readiness::loading()));
    assert_eq!(get(&server, "/live").await.json(), json!({"status": "live"}));
    assert_eq!(
        get(&server, "/version").await.json(),
        json!({"version": env!("CARGO_PKG_VERSION")})
    );
    assert_eq!(get(&server, "/metrics").await.status, 200);
    assert_eq!(get(&server, "/openapi.json").await.status, 200);
}

#[tokio::test]
async fn health_and_ready_are_200_once_the_model_is_there() {
    let server = server(&Fake::says(&["x"]));
    for path in ["/health", "/ready"] {
        assert_eq!(get(&server, path).await.json(), json!({"status": "ready"}));
    }
}
