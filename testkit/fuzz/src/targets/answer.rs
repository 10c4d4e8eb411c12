//! A worker's responses from the wire, put together and carried out on an instance that waits for everything there is.

use dauer_core::limits::TurnLimits;
use dauer_core::model::{Encoded, History};
use dauer_core::turn;
use dauer_core::workitem::{Assembled, Assembly};
use dauer_proto::{OrchestratorAction, OrchestratorResponse, decode};
use prost::Message as _;

use super::event::names_the_field;
use super::history::{Stored, absorb, claim, taken};
use crate::{Verdict, life};

/// Small enough for some of the inputs to pass them, large enough for most not to.
fn limits() -> TurnLimits {
    TurnLimits { actions_per_turn: 16, open_tasks: 12, payload_bytes: 512, ..TurnLimits::default() }
}

/// Stalled, or a checkpoint that keeps core's own invariants.
pub(crate) fn run(bytes: &[u8]) -> Verdict {
    let Ok(response) = OrchestratorResponse::decode(bytes) else { return Verdict::refused("bytes") };
    let limits = limits();
    let actions = response.actions.clone();
    let answer = match Assembly::default().add(response, &limits) {
        Ok(Assembled::Whole(answer)) => answer,
        Ok(Assembled::HistoryWanted | Assembled::Waiting) => return Verdict::refused("assembly"),
        Err(stalled) => {
            super::check::refusal(&stalled);
            return Verdict::refused("assembly");
        }
    };
    // Compared by their bytes: a failure may carry a NaN, which is not equal to itself.
    let written = |actions: &[OrchestratorAction]| actions.iter().map(Encoded::new).collect::<Vec<_>>();
    assert!(written(&answer.actions) == written(&actions), "an answer in one piece is not taken as it is");
    let valid = decode::validate_actions(&actions);
    if let Err(error) = &valid {
        names_the_field(error);
        assert!(error.field.starts_with("actions["), "{error}");
    }
    let input: Stored = life::middle();
    let Ok(past) = absorb(&input) else { panic!("the history that answers are tried on is refused") };
    let claimed = claim(&input, &past);
    let plan = turn::begin(claimed.clone(), &past.ledger).unwrap_or_else(|stalled| panic!("{stalled}"));
    assert!(plan.is_run(), "there is nothing to answer");
    let finished =
        taken(&claimed, &past.ledger, |ledger| turn::finish(plan.clone(), ledger, answer.clone(), &limits));
    match finished {
        Err(_) => Verdict::refused("answer"),
        Ok(finished) => {
            assert_eq!(valid, Ok(()), "an answer is carried out that is not valid");
            match finished.checkpoint.history {
                History::Replace { .. } => Verdict::accepted("next run"),
                History::Append(_) if finished.checkpoint.record.status.is_ended() => {
                    Verdict::accepted("end")
                }
                History::Append(_) => Verdict::accepted("append"),
            }
        }
    }
}
