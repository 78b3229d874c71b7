//! Sections of tasks over worker threads.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

use medley_kernels::cpu::pool::Threads;

fn counts(threads: &Threads, tasks: usize) -> Vec<usize> {
    let counts: Vec<_> = (0..tasks).map(|_| AtomicUsize::new(0)).collect();
    threads.run(tasks, &|task| {
        counts[task].fetch_add(1, Ordering::Relaxed);
    });
    counts.into_iter().map(AtomicUsize::into_inner).collect()
}

#[test]
fn every_task_runs_once_before_the_section_returns() {
    for n in [1, 2, 5] {
        let threads = Threads::new(n);
        assert_eq!(threads.count(), n);
        for tasks in (0..2000).map(|i| i % 17) {
            assert!(
                counts(&threads, tasks).iter().all(|&count| count == 1),
                "{n} threads, {tasks} tasks"
            );
        }
    }
}

#[test]
fn a_section_within_a_section_runs_to_its_end() {
    let threads = Threads::new(3);
    let done = AtomicUsize::new(0);
    threads.run(4, &|_| {
        let inner = counts(&threads, 5).iter().sum::<usize>();
        done.fetch_add(inner, Ordering::Relaxed);
    });
    assert_eq!(done.into_inner(), 20);
}

#[test]
fn several_callers_share_a_pool() {
    let threads = Threads::new(3);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                (0..500).for_each(|i| assert!(counts(&threads, i % 9).iter().all(|&count| count == 1)));
            });
        }
    });
}

#[test]
fn a_panic_in_a_task_reaches_the_caller_and_leaves_the_pool_usable() {
    let threads = Threads::new(2);
    for bad in 0..8 {
        let section = || threads.run(8, &|task| assert!(task != bad, "task {task} fails"));
        let panic = catch_unwind(AssertUnwindSafe(section)).expect_err("the section panics");
        assert_eq!(panic.downcast_ref::<String>(), Some(&format!("task {bad} fails")));
        assert_eq!(counts(&threads, 8), [1; 8]);
    }
}
