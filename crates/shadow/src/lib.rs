//! The shadow check: a sample of blended requests is also run exactly, once their answers have ended.
//!
//! [`Shadow`] stands before another [`Generate`]. Of the requests that pass, it draws a sample and has a witness told
//! their first tokens. A blended answer that has ended by itself goes into a short queue; one thread takes it from
//! there and feeds its tokens twice: to the same request once more, and to a full prefill of the prompt. How far the
//! distributions are apart goes to a recorder.
//!
//! **Invariants**
//! - Nothing of it stands between a request and its events, and a check runs in the background
//!   ([`medley_generate::Priority::Background`]): it delays no answer, and leaves nothing resident.
//! - Every sampled answer that was blended and has ended by itself is recorded exactly once, as long as the engine lives.
//!   One whose listener went away is not checked.
//!
//! What is compared is the request run again, not the answer itself: a request depends on nothing but itself, so the
//! distributions are those that the answer was drawn from, and the answer need not bring its logits along.

mod check;
mod rate;
mod sample;

use std::{
    sync::{Arc, mpsc},
    thread,
};

pub use check::Outcome;
use medley_generate::{EventStream, Gauges, Generate, ModelCard, Request, SubmitError};
pub use rate::{Rate, RateOutOfRange};
pub use sample::COMPARED_TOKENS;

use crate::{
    check::Check,
    rate::Draw,
    sample::{Line, Recorder},
};

/// Answers that wait for their check; more are dropped.
pub const MOST_WAITING: usize = 8;

/// Another [`Generate`] some of whose blended answers are checked.
pub struct Shadow {
    inner: Arc<dyn Generate>,
    draw: Draw,
    line: Line,
}

impl Shadow {
    /// Checks a share of the blended answers of `inner`. What comes of each is told to `record`, on any thread; it must
    /// return at once. The check that runs when this is dropped holds `inner` until it is done; the others are forgotten.
    ///
    /// # Errors
    /// If the system can't start a thread.
    pub fn start(
        inner: Arc<dyn Generate>,
        rate: Rate,
        record: impl Fn(Outcome) + Send + Sync + 'static,
    ) -> std::io::Result<Self> {
        let record: Recorder = Arc::new(record);
        let (line, answers) = mpsc::sync_channel(MOST_WAITING);
        let check = Check::new(Arc::downgrade(&inner), record.clone());
        thread::Builder::new()
            .name("medley-shadow".to_owned())
            .spawn(move || check.run(&answers))?;
        Ok(Self {
            inner,
            draw: Draw::new(rate),
            line: Line::new(line, record),
        })
    }

    fn sampled(&self, request: Request) -> Request {
        if !sample::may_be_checked(&request) || !self.draw.next() {
            return request;
        }
        let witness = self.line.witness(&request);
        Request {
            witness: Some(Arc::new(witness)),
            ..request
        }
    }
}

impl Generate for Shadow {
    fn submit_all(&self, requests: Vec<Request>) -> Result<Vec<EventStream>, SubmitError> {
        let requests = requests.into_iter().map(|request| self.sampled(request));
        self.inner.submit_all(requests.collect())
    }

    fn model(&self) -> &ModelCard {
        self.inner.model()
    }

    fn gauges(&self) -> Gauges {
        self.inner.gauges()
    }
}
