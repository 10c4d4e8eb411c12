//! How far long work has come: a bar on stderr, for whoever looks at a terminal.

use std::io::{self, IsTerminal as _, Write as _};

/// Characters of the bar: with the words around it, it fits into any terminal.
const WIDTH: usize = 30;

/// A bar that is drawn again and again.
pub(super) struct Progress {
    what: &'static str,
    total: usize,
    shown: bool,
}

impl Progress {
    /// A bar on stderr, if that is a terminal.
    pub(super) fn new(what: &'static str, total: usize) -> Self {
        Self { what, total, shown: io::stderr().is_terminal() }
    }

    /// Draws it.
    pub(super) fn at(&self, done: usize) {
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
