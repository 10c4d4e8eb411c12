//! How far long work has come: a bar on stderr, for whoever looks at a terminal.

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::time::roughly;

/// Characters of the bar: with the words around it, it fits into any terminal.
const WIDTH: usize = 30;

/// A bar that is drawn again and again.
pub(crate) struct Progress {
    what: &'static str,
    total: usize,
    shown: bool,
}

impl Progress {
    /// A bar on stderr, if that is a terminal and somebody wants it.
    pub(crate) fn new(what: &'static str, total: usize, wanted: bool) -> Self {
        Self { what, total, shown: wanted && io::stderr().is_terminal() }
    }

    /// Draws it.
    pub(crate) fn at(&self, done: usize) {
        if self.shown {
            // The work counts, not the bar.
            let _ = write!(io::stderr(), "\r{}", bar(self.what, done, self.total));
        }
    }
}

impl Drop for Progress {
    /// Leaves an empty line for what comes next.
    fn drop(&mut self) {
        if self.shown {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

/// How often the time is drawn again that work of unknown length has taken.
const TICK: Duration = Duration::from_millis(200);

/// Work of which nobody knows how long it is: what is done, and for how long already.
pub(crate) struct Busy(Option<(Sender<()>, JoinHandle<()>)>);

impl Busy {
    /// A line on stderr, if that is a terminal and somebody wants it. On a thread: the work may be anything.
    pub(crate) fn new(what: &'static str, wanted: bool) -> Self {
        if !(wanted && io::stderr().is_terminal()) {
            return Self(None);
        }
        let (done, wait) = mpsc::channel::<()>();
        let began = Instant::now();
        let draw = move || {
            loop {
                let _ = write!(io::stderr(), "\r{what}: {}\x1b[K", elapsed(began.elapsed()));
                if wait.recv_timeout(TICK) != Err(RecvTimeoutError::Timeout) {
                    break;
                }
            }
        };
        Self(Some((done, std::thread::spawn(draw))))
    }
}

impl Drop for Busy {
    /// Leaves an empty line for what comes next, when nothing more will be drawn on it.
    fn drop(&mut self) {
        if let Some((done, thread)) = self.0.take() {
            drop(done);
            // It does not panic: what it writes may be lost.
            let _ = thread.join();
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

/// Whole seconds: what is drawn every moment must not flicker.
fn elapsed(time: Duration) -> String {
    match time.as_secs() {
        0 => "0 s".to_owned(),
        seconds => roughly(Duration::from_secs(seconds)),
    }
}

fn bar(what: &str, done: usize, total: usize) -> String {
    let filled = (done * WIDTH).checked_div(total).unwrap_or(WIDTH).min(WIDTH);
    format!("{what} [{}{}] {done} of {total}", "#".repeat(filled), ".".repeat(WIDTH - filled))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_fills_and_never_overflows() {
        assert_eq!(bar("purging", 0, 3), "purging [..............................] 0 of 3");
        assert_eq!(bar("purging", 1, 3), "purging [##########....................] 1 of 3");
        assert_eq!(bar("purging", 4, 3), "purging [##############################] 4 of 3");
        assert_eq!(bar("purging", 0, 0), "purging [##############################] 0 of 0");
    }
}
