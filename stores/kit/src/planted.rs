//! Mistakes that are planted on purpose, each at the place of one protection, so that the simulator and the audit can prove
//! that they would find them. Without the feature `planted` the macro is the constant `false`, and
//! nothing is left of them.
//!
//! Which one is on is a matter of the thread, as in `dauer_core::planted`.

/// Whether a mistake of this crate ([`Defect`](crate::planted::Defect)) or a bug of `dauer_core::planted` is on.
#[cfg(feature = "planted")]
macro_rules! planted {
    (Defect::$name:ident) => {
        $crate::planted::is_on($crate::planted::Defect::$name)
    };
    (Bug::$name:ident) => {
        dauer_core::planted::is_on(dauer_core::planted::Bug::$name)
    };
}

/// Whether a planted mistake is on: never, in this build.
#[cfg(not(feature = "planted"))]
macro_rules! planted {
    ($kind:ident::$name:ident) => {
        $crate::planted::never(stringify!($name))
    };
}

/// No mistake is on, in this build.
#[cfg(not(feature = "planted"))]
pub(crate) const fn never(_name: &str) -> bool {
    false
}

#[cfg(feature = "planted")]
pub use chosen::{Defect, Planted, is_on, plant};

#[cfg(feature = "planted")]
mod chosen {
    use std::cell::Cell;

    macro_rules! defects {
        ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
            /// One planted mistake.
            #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
            pub enum Defect {
                $($(#[doc = $doc])+ $name,)+
            }

            impl Defect {
                /// All of them.
                pub const ALL: &'static [Self] = &[$(Self::$name,)+];
            }
        };
    }

    defects! {
        /// A message whose id already waits is put into the inbox again.
        AcceptRepeatInInbox,
        /// An adopted task keeps its epoch.
        AdoptKeepsEpoch,
        /// A completed task can be completed again.
        CompleteTwice,
        /// What is sent to an ended instance behind a start that waits for it is dropped.
        EndedDropsWhatFollowsAStart,
        /// A start to an ended instance never makes it ready.
        EndedHidesStart,
        /// The end of a run keeps messages that are neither start nor rewind.
        EndedKeepsMessages,
        /// The reuse policy of a start is ignored.
        ExistsIgnored,
        /// A task whose result a commit used stays.
        FusedTaskStays,
        /// A later candidate replaces the key of a hub.
        KeyReplaced,
        /// The inbox is given out from its end.
        Lifo,
        /// A commit loses its third and further messages.
        LoseMessages,
        /// A commit loses its third and further tasks.
        LoseTasks,
        /// A commit loses its third and further timers.
        LoseTimers,
        /// A new run forgets which messages were applied.
        MemoryClearedByReplace,
        /// Applied messages are not remembered.
        MemoryOff,
        /// A commit's epoch and holder are not compared.
        NoEpochCheck,
        /// The prologue comes after the inbox.
        PrologueAfterInbox,
        /// A purge removes living instances too.
        PurgeLiving,
        /// A purge removes an ended instance for which a start waits.
        PurgeTakesWaitingStart,
        /// A recall returns nothing.
        RecallForgets,
        /// The start of a removed instance is forgotten.
        RemovalForgetsStart,
        /// A removal does not raise the epoch of the hub's floor.
        RemovalKeepsEpochFloor,
        /// A removal does not raise the revision of the hub's floor.
        RemovalKeepsRevisionFloor,
        /// A renewal raises the epochs of what is held.
        RenewBumpsEpoch,
        /// A repeated start is answered with its own execution.
        RepeatNamesOwnExecution,
        /// The report of a death counts again when it is repeated.
        ReportCountedTwice,
        /// The same start again replaces the instance.
        RepeatedStartCreatesAgain,
        /// Replacing an ended instance keeps what waited for it.
        ReplaceKeepsInbox,
        /// Replacing an ended instance begins again at revision 0.
        ReplaceResetsRevision,
        /// `get` answers with the record before the last commit.
        StaleGet,
        /// A start sent to an absent instance is dropped.
        StartToAbsentDropped,
        /// The tasks of a terminated run are not withdrawn.
        TerminateKeepsTasks,
        /// A trial stays open when its hold ends.
        TrialOutlivesHold,
        /// A death during a trial counts like any other.
        TrialUncounted,
    }

    thread_local! {
        static CHOSEN: Cell<Option<Defect>> = const { Cell::new(None) };
    }

    /// Whether that mistake is on.
    #[must_use]
    pub fn is_on(defect: Defect) -> bool {
        CHOSEN.get() == Some(defect)
    }

    /// Switches a mistake on until the returned guard is dropped.
    #[must_use]
    pub fn plant(defect: Option<Defect>) -> Planted {
        Planted { before: CHOSEN.replace(defect) }
    }

    /// A mistake that is on.
    #[derive(Debug)]
    pub struct Planted {
        before: Option<Defect>,
    }

    impl Drop for Planted {
        fn drop(&mut self) {
            CHOSEN.set(self.before);
        }
    }
}
