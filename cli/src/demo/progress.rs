//! What the demo shows while it runs.

use std::io::{self, Write};
use std::time::Instant;

use dauer::{ActivityContext, OrchestrationContext};

/// Prints what happens, with the time since the demo began. Shared by client, orchestrations and activities.
pub(super) struct Progress {
    began: Instant,
}

impl Progress {
    pub(super) fn new() -> Self {
        Self { began: Instant::now() }
    }

    pub(super) fn say(&self, who: &str, what: &str) {
        let seconds = self.began.elapsed().as_secs_f64();
        // A closed pipe must not end an activity; the demo notices it at its own next line.
        let _ = writeln!(io::stdout(), "{seconds:>7.3} s  {who:<10} {what}");
    }

    /// What an orchestration decided, when it decides it and not when it is replayed.
    pub(super) fn decides(&self, context: &OrchestrationContext, what: &str) {
        if !context.is_replaying() {
            self.say(context.instance().as_str(), what);
        }
    }

    /// What an activity does.
    pub(super) fn does(&self, context: &ActivityContext, what: &str) {
        self.say(context.name(), what);
    }
}
