//! What happens to a call or a hint, and who decides it.

use std::time::Duration;

use dauer_store::Hint;

use crate::call::{Call, Op};

/// What becomes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Act {
    /// It is carried out and answered.
    #[default]
    Pass,
    /// It is not carried out: [`Refused::NotExecuted`](dauer_store::Refused::NotExecuted).
    Refuse,
    /// It is not carried out: [`Refused::Unknown`](dauer_store::Refused::Unknown).
    LoseRequest,
    /// It is carried out: [`Refused::Unknown`](dauer_store::Refused::Unknown).
    LoseAnswer,
    /// It is carried out and never answered.
    Withhold,
    /// It is carried out twice in a row and answered as the second time.
    Twice,
}

/// What happens to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Fate {
    /// It waits this long before it is carried out or refused. A caller that drops it meanwhile has not made it.
    pub before: Duration,
    /// What becomes of it.
    pub act: Act,
    /// It waits this long after that. A caller that drops it meanwhile loses the answer only.
    pub after: Duration,
}

impl Fate {
    /// Nothing happens to it.
    pub const PASS: Self = Self { before: Duration::ZERO, act: Act::Pass, after: Duration::ZERO };

    /// That becomes of it, without delay.
    #[must_use]
    pub const fn of(act: Act) -> Self {
        Self { act, ..Self::PASS }
    }

    /// The same after a delay.
    #[must_use]
    pub const fn late(self, before: Duration) -> Self {
        Self { before, ..self }
    }

    /// The same with a delay of the answer.
    #[must_use]
    pub const fn answered_late(self, after: Duration) -> Self {
        Self { after, ..self }
    }

    /// Why this cannot happen to that operation; `None` when it can.
    #[must_use]
    pub const fn impossible(&self, op: Op) -> Option<&'static str> {
        match self.act.impossible(op) {
            None if matches!(op, Op::Credit) && !self.after.is_zero() => Some("credit has no answer"),
            impossible => impossible,
        }
    }
}

impl Act {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Pass, Self::Refuse, Self::LoseRequest, Self::LoseAnswer, Self::Withhold, Self::Twice];

    /// Why this cannot happen to that operation; `None` when it can.
    #[must_use]
    pub const fn impossible(self, op: Op) -> Option<&'static str> {
        match (self, op) {
            (Self::Refuse | Self::LoseRequest | Self::LoseAnswer, Op::Credit) => {
                Some("credit has no answer that could be a refusal")
            }
            (Self::Withhold, Op::Credit) => Some("credit has no answer"),
            (Self::Refuse | Self::LoseRequest | Self::LoseAnswer, Op::Close) => {
                Some("close has no answer that could be a refusal")
            }
            (Self::Twice, Op::Next) => Some("what the first answer brought would be lost without a sign"),
            _ => None,
        }
    }
}

/// What happens to a hint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum HintFate {
    /// It is delivered.
    #[default]
    Pass,
    /// It is lost without a sign.
    Lose,
    /// It is lost, and [`Hint::Elsewhere`] says that something was.
    Forget,
    /// It is delivered twice.
    Twice,
    /// It is delivered after the next one.
    Late,
}

/// A fault that has happened between a call and its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Struck {
    /// The operation.
    pub op: Op,
    /// The fault.
    pub fate: Fate,
}

/// Decides what happens. It is asked once for each call and each hint, in the order in which they come. It must not call
/// the store that it is the plan of.
pub trait Plan: Send + Sync {
    /// What happens to a call. An impossible fate counts as [`Fate::PASS`].
    fn fate(&self, call: &Call) -> Fate;

    /// What happens to a hint.
    fn hint(&self, hint: &Hint) -> HintFate {
        let _ = hint;
        HintFate::Pass
    }

    /// A fault has happened: its call began and ends now. A call that its caller dropped meanwhile is not among them.
    fn struck(&self, struck: Struck) {
        let _ = struck;
    }
}
