//! The waker of an orchestration, and the question whether it is this orchestration's turn right now.
//!
//! A wake is legitimate only on the thread that is polling or delivering at that moment. Asking "is it now?" and not
//! "who is it?" lets channels and combinators inside the orchestration work, and catches timers, threads and spawned
//! tasks, which wake at their own times.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};

thread_local! {
    /// The address of the signal whose orchestration this thread is running; 0 for none.
    static CURRENT: Cell<usize> = const { Cell::new(0) };
}

/// What the waker leaves behind. Wakers may be used on any thread at any time, so these are atomics.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    woken: AtomicBool,
    foreign: AtomicBool,
}

impl Signal {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    pub(crate) fn waker(self: &Arc<Self>) -> Waker {
        Waker::from(Arc::clone(self))
    }

    /// Marks this thread as the one that runs the orchestration, until the guard is dropped.
    pub(crate) fn enter(self: &Arc<Self>) -> Running {
        Running { outer: CURRENT.replace(self.address()) }
    }

    /// Whether this thread is the one that runs the orchestration.
    pub(crate) fn is_running_here(self: &Arc<Self>) -> bool {
        CURRENT.get() == self.address()
    }

    /// Asks for a poll.
    pub(crate) fn request_poll(&self) {
        self.woken.store(true, Ordering::Release);
    }

    /// Whether a poll was asked for since the last question.
    pub(crate) fn take_woken(&self) -> bool {
        self.woken.swap(false, Ordering::AcqRel)
    }

    /// Whether there was a wake that nothing durable explains.
    pub(crate) fn was_foreign(&self) -> bool {
        self.foreign.load(Ordering::Acquire)
    }

    fn address(self: &Arc<Self>) -> usize {
        Arc::as_ptr(self).addr()
    }
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.is_running_here() {
            self.request_poll();
        } else {
            self.foreign.store(true, Ordering::Release);
        }
    }
}

/// While it lives, this thread runs the orchestration. Restores what was before, also when a panic passes through.
#[derive(Debug)]
pub(crate) struct Running {
    outer: usize,
}

impl Drop for Running {
    fn drop(&mut self) {
        CURRENT.set(self.outer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wake_counts_only_inside_and_on_the_same_thread() {
        let signal = Signal::new();
        {
            let _running = signal.enter();
            signal.waker().wake_by_ref();
            assert!(signal.take_woken());
            assert!(!signal.was_foreign());
            std::thread::scope(|scope| {
                let waker = signal.waker();
                scope.spawn(move || waker.wake());
            });
            assert!(signal.was_foreign());
            assert!(!signal.take_woken(), "a foreign wake must not cause a poll");
        }
        let outside = Signal::new();
        outside.waker().wake();
        assert!(outside.was_foreign());
    }

    #[test]
    fn a_signal_inside_another_gives_the_thread_back() {
        let (outer, inner) = (Signal::new(), Signal::new());
        let _outer = outer.enter();
        {
            let _inner = inner.enter();
            assert!(inner.is_running_here() && !outer.is_running_here());
        }
        assert!(outer.is_running_here());
    }
}
