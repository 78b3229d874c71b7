//! Worker threads for fork-join sections of some tens of microseconds.
//!
//! A section is a number of tasks and a function of the task's index. The caller works too, and returns when all
//! tasks are done. Workers watch for the next section for a moment before they sleep, because a decode step is a
//! chain of hundreds of sections. A caller waits only for workers that have entered its section: one that is late,
//! or not scheduled, costs nothing but its help. A section within a section, or a second caller at the same
//! time, runs on its own thread alone.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Looks for the next section before a worker sleeps; tens of microseconds.
const LOOKS: usize = 2000;
/// Looks for the last worker to leave before the caller offers its core.
const LOOKS_AT_EXIT: usize = 500;

type Task = dyn Fn(usize) + Sync;

/// A pool of threads; the calling thread counts as one of them.
pub struct Threads {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    /// Held by the caller whose section runs.
    turn: Mutex<()>,
}

/// A section whose tasks and counter live on the caller's stack.
#[derive(Clone, Copy)]
struct Section {
    task: *const Task,
    next: *const AtomicUsize,
    tasks: usize,
}

// SAFETY: the pointers lead to `Sync` values that outlive the section: see `Threads::run`.
unsafe impl Send for Section {}

#[derive(Default)]
struct Door {
    open: Option<Section>,
    asleep: usize,
    closing: bool,
    panic: Option<Box<dyn Any + Send>>,
}

#[derive(Default)]
struct Shared {
    door: Mutex<Door>,
    wake: Condvar,
    /// Counts openings; watched without the lock.
    openings: AtomicUsize,
    /// Workers inside the section; raised only under the lock of an open door.
    inside: AtomicUsize,
}

impl Threads {
    /// A pool of `n` threads, the caller included; 0 means as many as the machine offers.
    pub fn new(n: usize) -> Self {
        let n = if n == 0 {
            std::thread::available_parallelism().map_or(1, usize::from)
        } else {
            n
        };
        let shared = Arc::<Shared>::default();
        let start = |i| {
            let shared = Arc::clone(&shared);
            std::thread::Builder::new()
                .name(format!("kernel-{i}"))
                .spawn(move || shared.work())
        };
        // A machine that refuses a thread gets a smaller pool, which computes the same bits.
        let workers = (1..n).map_while(|i| start(i).ok()).collect();
        Self {
            shared,
            workers,
            turn: Mutex::new(()),
        }
    }

    /// Threads that work on a section.
    pub fn count(&self) -> usize {
        self.workers.len() + 1
    }

    /// Calls `task` once with every index below `tasks`, on any thread and in any order, and returns when all
    /// calls have.
    ///
    /// # Panics
    /// When a task does.
    pub fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        let Some(_turn) = self.turn(tasks) else {
            return (0..tasks).for_each(task);
        };
        let next = AtomicUsize::new(0);
        let task: *const (dyn Fn(usize) + Sync + '_) = task;
        // SAFETY: only the lifetime changes. `close` returns after the last worker has left the section, so that
        // nobody holds the pointer when `run` returns.
        let task = unsafe { std::mem::transmute::<*const (dyn Fn(usize) + Sync + '_), *const Task>(task) };
        let section = Section {
            task,
            next: &raw const next,
            tasks,
        };
        self.shared.open(section);
        // SAFETY: `task` and `next` are alive here.
        let mine = catch_unwind(AssertUnwindSafe(|| unsafe { section.work() }));
        let theirs = self.shared.close();
        if let Some(panic) = mine.err().or(theirs) {
            resume_unwind(panic);
        }
    }

    /// The right to open a section, unless there is nothing to share or somebody else has it.
    fn turn(&self, tasks: usize) -> Option<MutexGuard<'_, ()>> {
        if tasks < 2 || self.workers.is_empty() {
            return None;
        }
        match self.turn.try_lock() {
            Ok(turn) => Some(turn),
            Err(std::sync::TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(std::sync::TryLockError::WouldBlock) => None,
        }
    }
}

impl Default for Threads {
    fn default() -> Self {
        Self::new(0)
    }
}

impl fmt::Debug for Threads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Threads").field("count", &self.count()).finish()
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.shared.door().closing = true;
        self.shared.openings.fetch_add(1, Ordering::Release);
        self.shared.wake.notify_all();
        for worker in self.workers.drain(..) {
            // A worker's panics are caught and handed to callers; there is none left to report here.
            let _ = worker.join();
        }
    }
}

impl Section {
    /// Takes tasks until none are left.
    ///
    /// # Safety
    /// The section's caller must be waiting in `run`.
    unsafe fn work(self) {
        // SAFETY: both live in the frame of `run`, which waits.
        let (task, next) = unsafe { (&*self.task, &*self.next) };
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= self.tasks {
                return;
            }
            task(index);
        }
    }
}

impl Shared {
    fn door(&self) -> MutexGuard<'_, Door> {
        self.door.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self, section: Section) {
        let mut door = self.door();
        door.open = Some(section);
        let asleep = door.asleep;
        self.openings.fetch_add(1, Ordering::Release);
        drop(door);
        if asleep > 0 {
            self.wake.notify_all();
        }
    }

    /// Lets nobody else in, waits for those inside, and returns a panic of one of them.
    fn close(&self) -> Option<Box<dyn Any + Send>> {
        self.door().open = None;
        let mut looks = 0;
        while self.inside.load(Ordering::Acquire) > 0 {
            looks += 1;
            if looks < LOOKS_AT_EXIT {
                std::hint::spin_loop();
            } else {
                std::thread::yield_now();
            }
        }
        self.door().panic.take()
    }

    /// A worker's life.
    fn work(&self) {
        let mut seen = 0;
        while self.await_opening(&mut seen) {
            let Some(section) = self.enter() else { continue };
            // SAFETY: the caller waits while `inside` counts this thread.
            let result = catch_unwind(AssertUnwindSafe(|| unsafe { section.work() }));
            if let Err(panic) = result {
                self.door().panic = Some(panic);
            }
            self.inside.fetch_sub(1, Ordering::Release);
        }
    }

    fn enter(&self) -> Option<Section> {
        let door = self.door();
        let section = door.open?;
        self.inside.fetch_add(1, Ordering::Relaxed);
        Some(section)
    }

    /// Returns at the next opening; false when the pool closes.
    fn await_opening(&self, seen: &mut usize) -> bool {
        for _ in 0..LOOKS {
            if self.openings.load(Ordering::Acquire) != *seen {
                break;
            }
            std::hint::spin_loop();
        }
        let mut door = self.door();
        door.asleep += 1;
        while self.openings.load(Ordering::Acquire) == *seen && !door.closing {
            door = self.wake.wait(door).unwrap_or_else(PoisonError::into_inner);
        }
        door.asleep -= 1;
        *seen = self.openings.load(Ordering::Acquire);
        !door.closing
    }
}
