//! The engine's one task: it owns the backend and the resident KV, and turns its inbox into steps.
//!
//! A step is one call to the backend, up to a budget of rows: one of every stream first; then prefixes, probes and
//! repairs in order of admission, which leave a quarter to documents in computation; then those documents. So a warm
//! request does not wait for other requests' cold documents, and these always advance. Rows that stop at a layer's
//! keys run in calls of their own. Background requests run in steps of their own, while nothing else is there.

mod background;
mod forks;
mod queue;

use std::{
    collections::{HashSet, VecDeque},
    ops::ControlFlow,
    panic::{self, AssertUnwindSafe},
    sync::Arc,
};

use medley_backend::{Backend, BackendError, Batch, Depth, Outcome};
use medley_generate::{Event, GenerateError, Priority, TokenText};
use medley_kv::DocumentKey;
use medley_store::{PagePool, Residency};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::{
    EngineConfig,
    admission::{self, Admitted, Queued, Room},
    canonical::Computation,
    chunk::{Assembly, Chunk, Results},
    sequence::Sequence,
    shared::Shared,
};

/// Rows of prompts whose logits a step brings at most: each has the length of the vocabulary, and takes about a millisecond.
const SCORED_ROWS: usize = 128;

/// The same beside streams, which wait for it.
const MIXED_SCORED_ROWS: usize = 8;

/// Whose rows are in a batch.
#[derive(Clone, Copy)]
enum Owner {
    /// Index into the running sequences.
    Sequence(usize),
    Document(DocumentKey),
}

/// The task's state.
pub(crate) struct Worker {
    backend: Box<dyn Backend>,
    config: EngineConfig,
    residency: Residency,
    text: Arc<dyn TokenText>,
    inbox: UnboundedReceiver<Queued>,
    shared: Arc<Shared>,
    waiting: VecDeque<Queued>,
    /// Background requests that wait.
    background: VecDeque<Queued>,
    running: Vec<Sequence>,
    computing: Vec<Computation>,
    /// What was running and free when the queue's head last did not fit: it is tried again when that has changed.
    stuck: Option<(usize, usize)>,
    /// Whether the backend's device is gone.
    lost: bool,
}

impl Worker {
    /// A worker with nothing to do.
    pub(crate) fn new(
        backend: Box<dyn Backend>,
        config: EngineConfig,
        text: Arc<dyn TokenText>,
        inbox: UnboundedReceiver<Queued>,
        shared: Arc<Shared>,
    ) -> Self {
        let residency = Residency::new(PagePool::new(backend.pages()), config.resident_pages);
        let (waiting, running, computing) = (VecDeque::new(), Vec::new(), Vec::new());
        Self {
            backend,
            config,
            residency,
            text,
            inbox,
            shared,
            waiting,
            background: VecDeque::new(),
            running,
            computing,
            stuck: None,
            lost: false,
        }
    }

    /// Works until nobody can submit any more and everything submitted is done.
    pub(crate) fn run(mut self) {
        while self.receive() {
            self.sweep();
            self.admit();
            self.step();
            if self.lost {
                return self.give_up();
            }
            self.running.retain(|s| !s.ended());
            self.forget_unawaited();
            self.publish_gauges();
        }
    }

    /// The device is gone, and what was resident with it: fails all requests and takes no more.
    fn give_up(mut self) {
        tracing::error!("the device is lost; no requests are taken any more");
        self.shared.fail();
        while let Ok(queued) = self.inbox.try_recv() {
            self.take(queued);
        }
        let failure = GenerateError::Engine("the device was lost".to_owned());
        let running = self.running.iter_mut().filter(|s| !s.ended());
        running.for_each(|s| s.fail(failure.clone()));
        for queued in self.waiting.drain(..).chain(self.background.drain(..)) {
            queued.events.send(Event::Failed(failure.clone()));
        }
        self.running.clear();
        self.computing.clear();
        self.shared.set_waiting(0);
        self.publish_gauges();
    }

    /// Empties the inbox, waiting for it if there is nothing else to do. False: there never will be.
    fn receive(&mut self) -> bool {
        if self.running.is_empty() && self.waiting.is_empty() && self.background.is_empty() {
            match self.inbox.blocking_recv() {
                Some(queued) => self.take(queued),
                None => return false,
            }
        }
        while let Ok(queued) = self.inbox.try_recv() {
            self.take(queued);
        }
        true
    }

    fn take(&mut self, queued: Queued) {
        let priority = queued.request.priority;
        self.shared.arrived(priority);
        match priority {
            Priority::Normal => self.line_up(queued),
            Priority::Background => self.background.push_back(queued),
        }
        self.shared.set_waiting(self.waiting.len());
    }

    /// Lets go of requests that nobody listens to.
    fn sweep(&mut self) {
        let before = self.waiting.len() + self.foreground();
        self.waiting.retain(|q| !q.events.is_closed());
        self.background.retain(|q| !q.events.is_closed());
        self.running.retain_mut(Sequence::keep_listeners);
        let gone = before - self.waiting.len() - self.foreground();
        if gone > 0 {
            self.stuck = None;
        }
        self.shared.cancelled(gone);
        self.forget_unawaited();
        self.shared.set_waiting(self.waiting.len());
    }

    /// Lets go of computations that nobody waits for.
    fn forget_unawaited(&mut self) {
        let awaited: HashSet<_> = self.running.iter().flat_map(Sequence::awaited).collect();
        self.computing.retain(|c| awaited.contains(&c.key));
    }

    /// Admits waiting requests in order, as many as fit.
    fn admit(&mut self) {
        while self.foreground() < self.config.max_sequences && self.stuck != Some(self.held()) {
            let Some(queued) = self.waiting.pop_front() else {
                break;
            };
            match self.admit_foreground(queued) {
                Ok(()) => {}
                Err(queued) if !self.running.is_empty() => {
                    self.waiting.push_front(queued);
                    self.stuck = Some(self.held());
                }
                // What is kept for others that wait may be in the way.
                Err(queued) if self.forget_trunks(&queued) => self.waiting.push_front(queued),
                Err(queued) => fail_unfit(&queued),
            }
        }
        self.admit_background();
        self.shared.set_waiting(self.waiting.len());
    }

    /// Starts a request, or gives it back untouched.
    #[expect(clippy::result_large_err, reason = "the request is given back")]
    fn reserve(&mut self, queued: Queued, room: Room) -> Result<(), Queued> {
        let queued = match self.fork_or_join(queued, room) {
            ControlFlow::Break(result) => return result,
            ControlFlow::Continue(alone) => alone,
        };
        let computing = |key: &DocumentKey| self.computing.iter().any(|c| c.key == *key);
        let (config, residency) = (&self.config, &mut self.residency);
        let layers = self.backend.geometry().layers as usize;
        let admitted = admission::admit(queued, config, residency, &self.text, room, layers, computing)?;
        self.start(admitted);
        Ok(())
    }

    /// Changes whenever a request that did not fit might fit.
    fn held(&self) -> (usize, usize) {
        (self.foreground(), self.residency.pool().free())
    }

    fn start(&mut self, admitted: Admitted) {
        self.shared.missed(&admitted.misses);
        self.computing.extend(admitted.computations);
        let pair = admitted.copy.as_ref().map(|(copy, _)| (copy.from, copy.to));
        self.run_copied(vec![admitted.sequence], pair.as_slice());
        self.shared.update(|g| g.running = self.foreground());
    }

    /// Runs what fits into one step.
    fn step(&mut self) {
        let batches = self.assemble();
        if batches.is_empty() && !self.running.iter().all(Sequence::ended) {
            // Can't happen: whoever runs has rows or waits for somebody who has. Never spin on a mistake.
            let error = GenerateError::Engine("no progress".to_owned());
            self.running.iter_mut().for_each(|s| s.fail(error.clone()));
        }
        for assembly in batches {
            match run(&mut *self.backend, &assembly.batch) {
                Ok(outcome) => {
                    let dealt = assembly.deal(outcome);
                    dealt
                        .into_iter()
                        .for_each(|(owner, rows, results)| self.accept(owner, rows, results));
                }
                Err(error) => {
                    self.fail(assembly.owners(), &error);
                    self.lost |= matches!(error, BackendError::Lost(_));
                }
            }
            self.shared.stepped();
            if self.lost {
                break;
            }
        }
        self.fork();
    }

    fn assemble(&self) -> Vec<Assembly<Owner>> {
        let turn = self.turn();
        let streams = self.running_in(turn).filter(|(_, s)| s.decoding()).count();
        // Whoever comes while a background step runs waits no longer than a token of a stream would.
        let budget = if streams > 0 || turn == Priority::Background {
            self.config.mixed_step_rows
        } else {
            self.config.step_rows
        };
        let mut draft = Draft {
            left: streams,
            scored: if streams > 0 {
                MIXED_SCORED_ROWS
            } else {
                SCORED_ROWS
            },
            batches: vec![Assembly::new(Depth::Full)],
        };
        self.add_sequences(&mut draft, true);
        let documents = if self.computing.is_empty() {
            0
        } else {
            budget.div_ceil(4)
        };
        draft.left = budget - documents;
        self.add_sequences(&mut draft, false);
        draft.left += documents;
        for computation in &self.computing {
            draft.add(Owner::Document(computation.key), |room| computation.offer(room));
        }
        draft.batches.retain(|b| b.rows() > 0);
        draft.batches
    }

    fn add_sequences(&self, draft: &mut Draft, decoding: bool) {
        let kind = self
            .running_in(self.turn())
            .filter(|(_, s)| s.decoding() == decoding);
        for (index, sequence) in kind {
            let most = if sequence.scores() {
                draft.scored
            } else {
                usize::MAX
            };
            draft.add(Owner::Sequence(index), |room| sequence.offer(room.min(most)));
        }
    }

    fn accept(&mut self, owner: Owner, rows: usize, results: Results) {
        match owner {
            Owner::Sequence(index) => self.running[index].accept(rows, results, &mut self.residency),
            Owner::Document(key) => {
                let Some(at) = self.computing.iter().position(|c| c.key == key) else {
                    return;
                };
                if self.computing[at].accept(rows) {
                    self.complete(at);
                }
            }
        }
    }

    /// Keeps a finished document and hands it to everybody who waits.
    fn complete(&mut self, at: usize) {
        let done = self.computing.remove(at);
        let (key, anchor, tokens) = (done.key, done.anchor.clone(), done.tokens.clone());
        let lease = self
            .residency
            .keep_document(key, anchor, tokens, done.into_pages());
        self.running.iter_mut().for_each(|s| s.deliver(key, &lease));
    }

    /// Fails whoever had rows in a batch that did not run, and whoever waits for them.
    fn fail(&mut self, owners: impl Iterator<Item = Owner>, error: &BackendError) {
        tracing::error!(error = error as &dyn std::error::Error, "a step failed");
        let failure = GenerateError::Engine("the model failed in a step".to_owned());
        for owner in owners {
            match owner {
                Owner::Sequence(index) => self.running[index].fail(failure.clone()),
                Owner::Document(key) => {
                    self.computing.retain(|c| c.key != key);
                    let waiting = self.running.iter_mut().filter(|s| s.awaited().any(|k| k == key));
                    waiting.for_each(|s| s.fail(failure.clone()));
                }
            }
        }
    }

    fn publish_gauges(&self) {
        let pool = self.residency.pool();
        let held = pool.total() - pool.free();
        let leases = self.running.iter().map(|s| s.holdings().leases()).sum();
        let stats = self.residency.stats();
        self.shared.update(|gauges| {
            gauges.running = self.foreground();
            gauges.private_pages = held - stats.resident_pages;
            gauges.leases = leases;
            gauges.computing = self.computing.len();
            gauges.pool_pages = self.residency.pool().total();
            gauges.resident_pages = stats.resident_pages;
            gauges.documents = stats.documents;
            gauges.prefixes = stats.prefixes;
            gauges.evictions = stats.evictions;
        });
    }
}

/// Runs a batch. A panic in the backend fails the batch and nothing else.
fn run(backend: &mut dyn Backend, batch: &Batch) -> Result<Outcome, BackendError> {
    let run = panic::catch_unwind(AssertUnwindSafe(|| backend.run(batch)));
    run.unwrap_or_else(|_| Err(BackendError::Device("it panicked".to_owned())))
}

/// Batches in the making.
struct Draft {
    left: usize,
    /// Rows of prompts whose logits may still be asked for.
    scored: usize,
    batches: Vec<Assembly<Owner>>,
}

impl Draft {
    fn add(&mut self, owner: Owner, offer: impl FnOnce(usize) -> Option<Chunk>) {
        if self.left == 0 {
            return;
        }
        let Some(chunk) = offer(self.left) else { return };
        self.left -= chunk.rows.len();
        self.scored -= chunk.scored.min(self.scored);
        match self.batches.iter_mut().find(|b| b.batch.depth == chunk.depth) {
            Some(batch) => batch.add(owner, chunk),
            None => {
                let mut batch = Assembly::new(chunk.depth);
                batch.add(owner, chunk);
                self.batches.push(batch);
            }
        }
    }
}

fn fail_unfit(queued: &Queued) {
    // Submission refused what can't fit into an empty pool, so this is a mistake of ours.
    let error = GenerateError::Engine("the request does not fit".to_owned());
    queued.events.send(Event::Failed(error));
}
