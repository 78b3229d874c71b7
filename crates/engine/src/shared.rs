//! What the engine's handle and its task both see.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::AtomicBool, atomic::Ordering},
    time::{SystemTime, UNIX_EPOCH},
};

use medley_generate::{Gauges, Priority, SubmitError};
use medley_store::Miss;

use crate::events::Place;

/// Gauges and the bound of the queue. One lock, never held across anything slow.
pub(crate) struct Shared {
    gauges: Mutex<Queue>,
    closed: AtomicBool,
    max_queue: usize,
    max_sequences: usize,
}

struct Queue {
    gauges: Gauges,
    /// Submitted and not yet seen by the task.
    arriving: usize,
    /// Submitted and without an end that anybody could know of.
    places: usize,
}

impl Shared {
    /// Nothing waits, nothing runs.
    pub(crate) fn new(gauges: Gauges, max_queue: usize, max_sequences: usize) -> Self {
        let queue = Queue {
            gauges,
            arriving: 0,
            places: 0,
        };
        Self {
            gauges: Mutex::new(queue),
            closed: AtomicBool::new(false),
            max_queue,
            max_sequences,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        // Plain numbers can't be left half-written.
        self.gauges.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes places in the queue, all or none. Background requests are counted and bounded by nothing here.
    pub(crate) fn enqueue(self: &Arc<Self>, priorities: &[Priority]) -> Result<Vec<Place>, SubmitError> {
        if self.closed.load(Ordering::Acquire) {
            return Err(SubmitError::ShuttingDown);
        }
        let requests = priorities.iter().filter(|p| **p == Priority::Normal).count();
        let most = self.max_queue.saturating_add(self.max_sequences);
        if requests > most {
            return Err(SubmitError::TooMany { requests, most });
        }
        let mut queue = self.lock();
        // What can start at once does not wait, even if it has to pass through the queue.
        if queue.places + requests > most {
            return Err(SubmitError::QueueFull);
        }
        queue.arriving += requests;
        queue.places += requests;
        queue.gauges.background += priorities.len() - requests;
        let place = |priority: &Priority| Place::new(self.clone(), *priority);
        Ok(priorities.iter().map(place).collect())
    }

    /// A place is free again.
    pub(crate) fn leave(&self, priority: Priority) {
        let mut queue = self.lock();
        match priority {
            Priority::Normal => queue.places -= 1,
            Priority::Background => queue.gauges.background -= 1,
        }
    }

    /// A queued request has reached the task, or never will.
    pub(crate) fn arrived(&self, priority: Priority) {
        if priority == Priority::Normal {
            self.lock().arriving -= 1;
        }
    }

    /// The task is gone.
    pub(crate) fn fail(&self) {
        self.close();
        self.update(|g| g.failed = true);
    }

    /// Takes no further requests.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    pub(crate) fn set_waiting(&self, waiting: usize) {
        self.update(|g| g.waiting = waiting);
    }

    pub(crate) fn cancelled(&self, requests: usize) {
        self.update(|g| g.cancelled += requests as u64);
    }

    pub(crate) fn missed(&self, misses: &[Miss]) {
        self.update(|g| {
            for miss in misses {
                match miss {
                    Miss::Absent => g.misses_absent += 1,
                    Miss::Evicted => g.misses_evicted += 1,
                    Miss::Mismatch => g.misses_mismatch += 1,
                }
            }
        });
    }

    pub(crate) fn stepped(&self) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.update(|g| {
            g.steps += 1;
            g.last_step_ms = now.as_millis() as u64;
        });
    }

    pub(crate) fn update(&self, change: impl FnOnce(&mut Gauges)) {
        change(&mut self.lock().gauges);
    }

    pub(crate) fn gauges(&self) -> Gauges {
        let queue = self.lock();
        Gauges {
            waiting: queue.gauges.waiting + queue.arriving,
            ..queue.gauges
        }
    }
}
