//! Every kind of fault there is, with its name and how often a seed that has it may do it.

use std::fmt;
use std::str::FromStr;

/// What a fault happens to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// A call to the store.
    Call,
    /// A hint of the store.
    Hint,
    /// A message that a commit has sent.
    Message,
    /// Code that a host runs.
    Code,
    /// Any task of a host, wherever it waits.
    Await,
    /// A host, the store or its clock, from time to time.
    Deed,
    /// A client.
    Client,
    /// A worker that is elsewhere, or its way there and back.
    Stream,
}

/// How often it happens where it happens, in ten thousand cases; of awaits, in a hundred thousand.
type Choices = &'static [u32];

macro_rules! kinds {
    ($($(#[doc = $doc:literal])+ $kind:ident = ($name:literal, $target:ident, $choices:expr),)+) => {
        /// One kind of fault. A seed has about half of them.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Kind {
            $($(#[doc = $doc])+ $kind,)+
        }

        impl Kind {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$kind,)+];

            const fn facts(self) -> (&'static str, Target, Choices) {
                match self {
                    $(Self::$kind => ($name, Target::$target, $choices),)+
                }
            }
        }
    };
}

/// The rates of what happens to calls.
const CALLS: Choices = &[50, 200, 500, 1_500];
/// The rates of what happens to hints: losing all of them must only cost time.
const HINTS: Choices = &[500, 2_000, 5_000, 10_000];
/// The rates of what happens to streams of work items and to answers.
const STREAMS: Choices = &[200, 1_000, 3_000];
/// Deeds have no rate: a seed that has several does any of them each time.
const DEEDS: Choices = &[1];

kinds! {
    /// A call is not executed, and says so.
    FailBefore = ("fail-before", Call, CALLS),
    /// A call is not executed, and says so after a while.
    FailLate = ("fail-late", Call, CALLS),
    /// A call is not executed, and nobody can say so.
    LoseRequest = ("lose-request", Call, CALLS),
    /// A call is executed, and nobody can say so.
    LoseAnswer = ("lose-answer", Call, CALLS),
    /// A call is executed, and after a while nobody can say so.
    LoseAnswerLate = ("lose-answer-late", Call, CALLS),
    /// A call is executed after a while.
    DelayBefore = ("delay-before", Call, CALLS),
    /// A call is answered after a while.
    DelayAfter = ("delay-after", Call, CALLS),
    /// A call is executed twice in a row.
    Twice = ("twice", Call, CALLS),
    /// A call is executed once more after a while, when everything has changed.
    Echo = ("echo", Call, CALLS),
    /// A host dies before its call is sent.
    CrashBefore = ("crash-before", Call, &[10, 30, 100, 300]),
    /// A host dies before the answer of its call arrives.
    CrashAfter = ("crash-after", Call, &[10, 30, 100, 300]),
    /// A hint is lost.
    HintLost = ("hint-lost", Hint, HINTS),
    /// A hint is lost, and its listener is told that hints were.
    HintForgotten = ("hint-forgotten", Hint, HINTS),
    /// A hint comes twice.
    HintTwice = ("hint-twice", Hint, HINTS),
    /// A hint comes after the next one.
    HintLate = ("hint-late", Hint, HINTS),
    /// A message of a commit is delivered once more after a while.
    MessageAgain = ("message-again", Message, &[200, 1_000, 3_000]),
    /// An activity does not come to an end before the chaos does.
    ActivityHangs = ("activity-hangs", Code, &[50, 200]),
    /// An activity takes up to three leases.
    ActivityLate = ("activity-late", Code, &[200, 1_000]),
    /// A turn takes so long that its lease may be over when it commits.
    TurnLate = ("turn-late", Code, &[500, 2_000, 6_000]),
    /// A host dies while its tasks wait for whatever they wait for.
    CrashAtAwait = ("crash-at-await", Await, &[20, 60, 200]),
    /// A host dies, and another one comes after a while.
    Crash = ("crash", Deed, DEEDS),
    /// A host is stopped for a while and goes on as if nothing had happened: a zombie, if longer than its lease.
    Pause = ("pause", Deed, DEEDS),
    /// A host's lease is over while it works, and it stands still for a moment: a zombie that returns and commits.
    Expire = ("expire", Deed, DEEDS),
    /// A host's clock jumps.
    HostClock = ("host-clock", Deed, DEEDS),
    /// The store's clock jumps ahead.
    StoreClock = ("store-clock", Deed, DEEDS),
    /// A host is asked to stop, drains, and another one comes.
    Stop = ("stop", Deed, DEEDS),
    /// All hosts begin with old code, and one after the other is replaced by one with new code.
    Upgrade = ("upgrade", Deed, DEEDS),
    /// Every call to the store takes long for a while.
    Slow = ("slow", Deed, DEEDS),
    /// No call to the store is executed for a while.
    Outage = ("outage", Deed, DEEDS),
    /// The clock of the clients is wrong.
    ClientClock = ("client-clock", Client, &[10_000]),
    /// A client sends the same request once more although it was answered.
    ClientAgain = ("client-again", Client, &[1_000, 3_000]),
    /// The stream of a worker that is elsewhere breaks; what it has in its hands it answers all the same.
    StreamBreaks = ("stream-breaks", Stream, STREAMS),
    /// An answer of such a worker takes its time, and others come before it.
    AnswerLate = ("answer-late", Stream, STREAMS),
    /// An answer does not come before the chaos is over.
    AnswerLost = ("answer-lost", Stream, &[50, 200]),
    /// An answer comes twice.
    AnswerTwice = ("answer-twice", Stream, STREAMS),
    /// A worker gives back what it was given.
    Abandon = ("abandon", Stream, STREAMS),
}

impl Kind {
    /// Its name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.facts().0
    }

    /// What it happens to.
    #[must_use]
    pub const fn target(self) -> Target {
        self.facts().1
    }

    /// The rates that a seed chooses from.
    #[must_use]
    pub const fn choices(self) -> &'static [u32] {
        self.facts().2
    }

    /// All that happen to that.
    pub fn of(target: Target) -> impl Iterator<Item = Self> {
        Self::ALL.iter().copied().filter(move |kind| kind.target() == target)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// There is no such kind of fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no fault called '{0}'; `dauer-sim faults` lists them all")]
pub struct UnknownKind(String);

impl FromStr for Kind {
    type Err = UnknownKind;

    fn from_str(name: &str) -> Result<Self, UnknownKind> {
        let found = Self::ALL.iter().copied().find(|kind| kind.name() == name);
        found.ok_or_else(|| UnknownKind(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_leads_to_its_kind_and_no_other() {
        for kind in Kind::ALL {
            assert_eq!(kind.name().parse(), Ok(*kind));
            assert!(!kind.choices().is_empty(), "{kind} can never happen");
        }
        assert!("crash-sometimes".parse::<Kind>().is_err());
    }
}
