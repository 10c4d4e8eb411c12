//! Without the feature `faults` no call meets a planned fault, and every question for one is a constant.

use std::convert::Infallible;

use dauer_store::Refused;

/// The calls that faults could be planned for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Call {
    Create,
    Send,
    Amend,
    ClaimTurns,
    CommitTurns,
    ClaimActivities,
    CompleteActivities,
}

/// A fault that strikes: there is none.
pub(crate) struct Strike(Infallible);

impl Strike {
    pub(crate) fn instead(&self) -> Option<Refused> {
        match self.0 {}
    }

    pub(crate) async fn after(self) -> Option<Refused> {
        match self.0 {}
    }
}

/// No faults.
#[derive(Default)]
pub(crate) struct Faults;

impl Faults {
    #[expect(clippy::unused_self, reason = "the same call as with the feature `faults`")]
    pub(crate) fn next(&self, _call: Call) -> Option<Strike> {
        None
    }
}
