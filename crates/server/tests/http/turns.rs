//! How many requests are prepared at once.

use std::{
    sync::{Arc, Condvar, Mutex},
    time::Duration,
};

use medley_generate::{EventStream, Gauges, Generate, ModelCard, Request, SubmitError};
use medley_server::{AppState, Engine, Quality, Readiness, router};
use serde_json::json;

use crate::{
    fake::Fake,
    setup::{composer, config, post},
};

/// An engine that keeps whoever asks for its model, which preparing does once, until more than `most` ask at once or a
/// while has passed.
struct Crowd {
    fake: Arc<Fake>,
    most: usize,
    inside: Mutex<Inside>,
    changed: Condvar,
}

#[derive(Default)]
struct Inside {
    now: usize,
    peak: usize,
}

impl Generate for Crowd {
    fn submit_all(&self, requests: Vec<Request>) -> Result<Vec<EventStream>, SubmitError> {
        self.fake.submit_all(requests)
    }

    fn model(&self) -> &ModelCard {
        let mut inside = self.inside.lock().expect("lock");
        inside.now += 1;
        inside.peak = inside.peak.max(inside.now);
        self.changed.notify_all();
        let while_few = |inside: &mut Inside| inside.peak <= self.most;
        let patience = Duration::from_millis(50);
        let waited = self.changed.wait_timeout_while(inside, patience, while_few);
        waited.expect("lock").0.now -= 1;
        self.fake.model()
    }

    fn gauges(&self) -> Gauges {
        self.fake.gauges()
    }
}

#[tokio::test]
async fn no_more_requests_are_prepared_at_once_than_configured() {
    let mut config = config();
    config.max_preparing = 2;
    let crowd = Arc::new(Crowd {
        fake: Fake::says(&["x"]),
        most: 2,
        inside: Mutex::default(),
        changed: Condvar::new(),
    });
    let readiness = Readiness::loading();
    readiness.ready(Engine {
        generate: Arc::clone(&crowd) as _,
        composer: composer(),
        chat: None,
        quality: Quality::default(),
    });
    let server = router(AppState::new(config, readiness));
    let replies = (0..8).map(|_| post(&server, json!({"prompt": "Hi"})));
    for reply in futures::future::join_all(replies).await {
        assert_eq!(reply.status, 200);
    }
    assert_eq!(crowd.inside.lock().expect("lock").peak, 2);
}
