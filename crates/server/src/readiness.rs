//! Whether requests are taken: loading, then ready, then draining.
//!
//! The listener may be up before the model is loaded; the engine arrives here once. Draining is final: requests that
//! were admitted finish, no others are. A request is counted before the phase is looked at, so that whoever waits
//! for idleness after [`Readiness::drain`] can't miss one.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicBool, Ordering},
};

use medley_chat::Dialect;
use medley_generate::Generate;
use medley_prompt::Composer;
use tokio::sync::watch;

use crate::Quality;

/// What runs requests.
#[derive(Clone)]
pub struct Engine {
    /// Runs prepared requests.
    pub generate: Arc<dyn Generate>,
    /// Prepares them.
    pub composer: Arc<Composer>,
    /// How the model chats, if it does.
    pub chat: Option<Arc<Dialect>>,
    /// What is known of the model's quality.
    pub quality: Quality,
}

/// Whether requests are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The model is not loaded yet.
    Loading,
    /// Requests are taken.
    Ready,
    /// Admitted requests finish, no others are taken.
    Draining,
}

/// The handle by which the server learns its phase. Clones share it.
#[derive(Clone)]
pub struct Readiness(Arc<Inner>);

struct Inner {
    engine: OnceLock<Engine>,
    draining: AtomicBool,
    in_flight: watch::Sender<usize>,
    cut_off: watch::Sender<bool>,
}

/// Tells a request that its time is up.
pub(crate) struct CutOff(watch::Receiver<bool>);

impl CutOff {
    /// Resolves when requests may run no longer.
    pub(crate) async fn passed(&mut self) {
        if self.0.wait_for(|passed| *passed).await.is_err() {
            // A server that is gone cuts nobody off.
            std::future::pending::<()>().await;
        }
    }
}

/// Counts a request as long as it lives.
pub(crate) struct InFlight(Readiness);

impl Default for Readiness {
    fn default() -> Self {
        Self::loading()
    }
}

impl Readiness {
    /// No engine yet.
    pub fn loading() -> Self {
        let in_flight = watch::Sender::new(0);
        Self(Arc::new(Inner {
            engine: OnceLock::new(),
            draining: AtomicBool::new(false),
            in_flight,
            cut_off: watch::Sender::new(false),
        }))
    }

    /// The engine is there; a second one is ignored.
    pub fn ready(&self, engine: Engine) {
        if self.0.engine.set(engine).is_err() {
            tracing::warn!("a second engine was offered and ignored");
        }
    }

    /// No more requests.
    pub fn drain(&self) {
        self.0.draining.store(true, Ordering::SeqCst);
    }

    /// Ends the requests that still run: their answers end with `shutting_down`.
    pub fn cut_off(&self) {
        self.0.cut_off.send_replace(true);
    }

    /// Hears of [`Readiness::cut_off`].
    pub(crate) fn cut_off_signal(&self) -> CutOff {
        CutOff(self.0.cut_off.subscribe())
    }

    /// The phase right now.
    pub fn phase(&self) -> Phase {
        match (self.0.draining.load(Ordering::SeqCst), self.0.engine.get()) {
            (true, _) => Phase::Draining,
            (false, Some(_)) => Phase::Ready,
            (false, None) => Phase::Loading,
        }
    }

    /// Generation requests that are being answered.
    pub fn in_flight(&self) -> usize {
        *self.0.in_flight.borrow()
    }

    /// Resolves when no generation request is being answered.
    pub async fn idle(&self) {
        let mut count = self.0.in_flight.subscribe();
        // The sender lives in `self`, so waiting can't fail.
        let _ = count.wait_for(|count| *count == 0).await;
    }

    /// The engine, whatever the phase.
    pub(crate) fn engine(&self) -> Option<&Engine> {
        self.0.engine.get()
    }

    /// Counts a request in, or says in which phase it came.
    pub(crate) fn admit(&self) -> Result<(Engine, InFlight), Phase> {
        self.0.in_flight.send_modify(|count| *count += 1);
        let guard = InFlight(self.clone());
        match (self.phase(), self.engine()) {
            (Phase::Ready, Some(engine)) => Ok((engine.clone(), guard)),
            (phase, _) => Err(phase),
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.0.in_flight.send_modify(|count| *count -= 1);
    }
}
