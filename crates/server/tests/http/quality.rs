//! Ratios that follow the model's calibration, and those that fall short of it.

use std::sync::Arc;

use axum::Router;
use medley_kv::Ratio;
use medley_server::{AppState, Engine, Gate, Quality, Readiness, ServerConfig, router};
use serde_json::{Value, json};

use crate::{
    fake::Fake,
    setup::{config, engine, get, post},
};

/// A server whose model needs 0.3.
fn calibrated(fake: &Arc<Fake>, gate: Gate, config: ServerConfig) -> Router {
    let needed = Some(Ratio::new(0.3).expect("a ratio"));
    let readiness = Readiness::loading();
    readiness.ready(Engine {
        quality: Quality { needed, gate },
        ..engine(fake)
    });
    router(AppState::new(config, readiness))
}

fn with_document(blend: Value) -> Value {
    json!({"prompt": "q", "documents": ["a text"], "blend": blend})
}

#[tokio::test]
async fn auto_is_the_ratio_that_the_model_needs_for_a_request_and_as_a_default() {
    let auto_by_default = || ServerConfig {
        auto_ratio: true,
        ..config()
    };
    for (config, blend, ratio) in [
        (config(), json!({"recompute_ratio": "auto"}), 0.3),
        (config(), json!({}), 0.15),
        (auto_by_default(), json!({}), 0.3),
        (auto_by_default(), json!({"recompute_ratio": 0.1}), 0.1),
    ] {
        let fake = Fake::says(&["x"]);
        let server = calibrated(&fake, Gate::Off, config);
        let reply = post(&server, with_document(blend)).await;
        assert_eq!(reply.status, 200, "{}", reply.json());
        let asked = fake.requests()[0].blend.ratio.get();
        assert!((asked - ratio).abs() < 1e-6, "{asked} for {ratio}");
    }
}

#[tokio::test]
async fn less_than_the_model_needs_is_refused_where_the_gate_refuses() {
    let fake = Fake::says(&["x"]);
    let server = calibrated(&fake, Gate::Refuse, config());
    let reply = post(&server, with_document(json!({"recompute_ratio": 0.2}))).await;
    assert_eq!(reply.status, 400);
    let error = &reply.json()["error"];
    assert_eq!(error["param"], "blend.recompute_ratio");
    assert!(
        error["message"].as_str().is_some_and(|text| text.contains("0.3")),
        "{error}"
    );
    assert!(fake.requests().is_empty());
    for blend in [
        json!({"recompute_ratio": 0.3}),
        json!({"recompute_ratio": "auto"}),
        json!({"recompute_ratio": 0.0, "mode": "exact"}),
    ] {
        assert_eq!(post(&server, with_document(blend)).await.status, 200);
    }
    // Without documents nothing is blended.
    assert_eq!(post(&server, json!({"prompt": "q"})).await.status, 200);
}

#[tokio::test]
async fn less_than_the_model_needs_is_counted_where_the_gate_warns() {
    for (gate, count) in [(Gate::Warn, "1"), (Gate::Off, "0")] {
        let fake = Fake::says(&["x"]);
        let server = calibrated(&fake, gate, config());
        for ratio in [0.2, 0.3] {
            let reply = post(&server, with_document(json!({"recompute_ratio": ratio}))).await;
            assert_eq!(reply.status, 200);
        }
        let text = String::from_utf8(get(&server, "/metrics").await.bytes.to_vec()).expect("text");
        let line = text
            .lines()
            .find(|line| line.starts_with("medley_below_needed_ratio_total"));
        assert!(
            line.is_some_and(|line| line.ends_with(count)),
            "{gate:?}: {line:?}"
        );
    }
}

#[tokio::test]
async fn a_ratio_that_is_neither_a_number_nor_auto_is_refused_by_its_name() {
    let fake = Fake::says(&["x"]);
    let server = calibrated(&fake, Gate::Off, config());
    for bad in [json!("much"), json!("Auto"), json!(true), json!([0.1])] {
        let reply = post(&server, with_document(json!({"recompute_ratio": bad}))).await;
        assert_eq!(
            (reply.status.as_u16(), &reply.json()["error"]["param"]),
            (400, &json!("blend.recompute_ratio"))
        );
    }
}
