//! Faults: what can go wrong between a host and a store, chosen for each call by a plan.

use std::time::Duration;

use dauer_store::Hint;

/// Every call of the contract that can fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "each is the method of `Manage` or `Work` with that name")]
pub enum Call {
    Create,
    Send,
    Amend,
    Get,
    Query,
    List,
    ReadHistory,
    Purge,
    Attach,
    EndSession,
    Scale,
    Dump,
    Load,
    ClaimTurns,
    LoadHistory,
    CommitTurns,
    ClaimActivities,
    CompleteActivities,
    Renew,
    Release,
    NextDue,
    WaitingMail,
    Mail,
    Detach,
}

/// What happens to one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fault {
    /// Nothing: it is executed and answered.
    #[default]
    None,
    /// It is not executed: `Refused::NotExecuted`, for every element of a batch.
    FailBefore,
    /// It is executed and the answer is lost: `Refused::Unknown`, for every element of a batch.
    ExecuteAndFail,
    /// It is not executed, but nobody can say: `Refused::Unknown`, for every element of a batch.
    LoseRequest,
    /// It is executed after a while. Dropping the future meanwhile means that it never happens.
    DelayBefore(Duration),
    /// It is executed at once and answered after a while. Dropping the future meanwhile loses only the answer.
    DelayAfter(Duration),
    /// It is not executed, and says so after a while.
    DelayAndFailBefore(Duration),
    /// It is executed at once, and after a while the answer is lost.
    ExecuteDelayAndFail(Duration),
    /// It is executed twice; the answer is that of the second time.
    Duplicate,
}

/// What happens to one hint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HintFault {
    /// It is sent.
    #[default]
    None,
    /// It is lost.
    Drop,
    /// It is sent twice.
    Duplicate,
    /// It is sent after the next one that is sent.
    Reorder,
}

/// Chooses the faults of a store. Asked once for each call and each hint, in the order in which they happen; must not
/// call the store it is the plan of.
pub trait FaultPlan: Send + Sync {
    /// The fate of a call.
    fn next(&self, call: Call) -> Fault;

    /// The fate of a hint.
    fn hint(&self, hint: &Hint) -> HintFault {
        let _ = hint;
        HintFault::None
    }
}

/// The plan of a store that was given none.
pub(crate) struct NoFaults;

impl FaultPlan for NoFaults {
    fn next(&self, _call: Call) -> Fault {
        Fault::None
    }
}
