//! Bugs that are planted on purpose, each at the place of one protection, so that the simulator can prove that it would
//! find them. Without the feature `planted` every question for one is a constant `false` and nothing is left of them.
//!
//! Which one is on is a matter of the thread: a simulated hub lives on one, so that one build can run all of them.

macro_rules! bugs {
    ($($(#[doc = $doc:literal])+ $bug:ident = $name:literal,)+) => {
        /// One planted bug.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Bug {
            $($(#[doc = $doc])+ $bug,)+
        }

        impl Bug {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$bug,)+];

            /// Its name.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$bug => $name,)+
                }
            }
        }
    };
}

impl Bug {
    /// Whether only servers with remote workers can have it.
    #[must_use]
    pub const fn is_of_servers(self) -> bool {
        matches!(
            self,
            Self::RestartGraceIgnored
                | Self::ResumeIgnored
                | Self::OldAnswerTaken
                | Self::TakenTooSoon
                | Self::AnyDeathIsPoison
                | Self::DeathForgotten
                | Self::DeathTwice
        )
    }
}

bugs! {
    /// The store compares nothing of a commit's fence.
    NoFence = "no-fence",
    /// A client takes a start of unknown outcome for done.
    AckBeforeCommit = "ack-before-commit",
    /// What a commit sends is written apart from it, and lost when nobody hears of the commit.
    SplitOutbox = "split-outbox",
    /// Events that nobody has read are lost when a run continues as new.
    LostCarryOver = "lost-carry-over",
    /// An answer is applied although its schedule was answered before.
    DuplicateCompletion = "duplicate-completion",
    /// An answer for another run is accepted.
    StaleExecution = "stale-execution",
    /// Two attempts under one event id are one task.
    RetryDeduplicated = "retry-deduplicated",
    /// A turn's time is that of its host.
    HostClock = "host-clock",
    /// A recursive termination reaches no child.
    ChildForgotten = "child-forgotten",
    /// A host that heard nothing does not ask.
    NoPolling = "no-polling",
    /// What a turn has computed is remembered although its commit was refused.
    CacheAfterFailure = "cache-after-failure",
    /// A commit of unknown outcome is sent again as a new one.
    BlindRetry = "blind-retry",
    /// A host goes on with an instance that it was told was taken from it.
    TakeoverIgnored = "takeover-ignored",
    /// A removed instance's successor begins at epoch and revision zero, and a host keeps a claim that it drops as old.
    PurgeResetsEpoch = "purge-resets-epoch",
    /// A client's start derives its execution from the id of its request.
    ExecutionFromKey = "execution-from-key",
    /// Suspects begin although others, which have no place, are not back in the store.
    SurplusStays = "surplus-stays",
    /// Other items begin before and during the trial of one.
    TrialBesideOthers = "trial-beside-others",
    /// Deaths outside of trials count towards the maximum.
    PlainDeathsCount = "plain-deaths-count",
    /// A resumed run does not get what came while it was suspended.
    SuspendLoses = "suspend-loses",
    /// A task that another server had handed out is handed out again at once.
    RestartGraceIgnored = "restart-grace-ignored",
    /// What a worker says it executes when it comes again is not heard.
    ResumeIgnored = "resume-ignored",
    /// The answer to an earlier turn is taken for that to the present one.
    OldAnswerTaken = "old-answer-taken",
    /// The call that brings an answer returns before the answer is stored.
    TakenTooSoon = "taken-too-soon",
    /// An item is poison after as many deaths as a trial needs, whatever else its workers ran.
    AnyDeathIsPoison = "any-death-is-poison",
    /// The death of a worker is not noted.
    DeathForgotten = "death-forgotten",
    /// The death of a worker is noted twice.
    DeathTwice = "death-twice",
}

#[cfg(feature = "planted")]
mod chosen {
    use std::cell::Cell;

    use super::Bug;

    thread_local! {
        static CHOSEN: Cell<Option<Bug>> = const { Cell::new(None) };
    }

    /// Whether that bug is on.
    #[must_use]
    pub fn is_on(bug: Bug) -> bool {
        CHOSEN.get() == Some(bug)
    }

    /// Switches a bug on for as long as the answer lives.
    #[must_use]
    pub fn plant(bug: Option<Bug>) -> Planted {
        Planted { before: CHOSEN.replace(bug) }
    }

    /// A bug that is on.
    #[derive(Debug)]
    pub struct Planted {
        before: Option<Bug>,
    }

    impl Drop for Planted {
        fn drop(&mut self) {
            CHOSEN.set(self.before);
        }
    }
}

#[cfg(feature = "planted")]
pub use chosen::{Planted, is_on, plant};

/// Whether that bug is on: never, in this build.
#[cfg(not(feature = "planted"))]
#[must_use]
pub const fn is_on(_bug: Bug) -> bool {
    false
}

#[cfg(test)]
#[cfg(feature = "planted")]
mod tests {
    use super::*;

    fn on() -> Vec<Bug> {
        Bug::ALL.iter().copied().filter(|bug| is_on(*bug)).collect()
    }

    #[test]
    fn a_bug_is_on_as_long_as_it_is_planted_and_only_that_one() {
        assert_eq!(on(), []);
        let outer = plant(Some(Bug::NoFence));
        assert_eq!(on(), [Bug::NoFence]);
        {
            let _inner = plant(Some(Bug::HostClock));
            assert_eq!(on(), [Bug::HostClock]);
            let _none = plant(None);
            assert_eq!(on(), []);
        }
        assert_eq!(on(), [Bug::NoFence]);
        drop(outer);
        assert_eq!(on(), []);
    }
}
