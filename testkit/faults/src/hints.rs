//! Hints that are lost, doubled and out of order.

use std::sync::Arc;

use dauer_store::{Changes, Hint};
use futures::stream::{StreamExt, iter};

use crate::plan::{HintFate, Plan};

/// The stream with the faults of the plan.
pub fn disturb(changes: Changes, plan: Arc<dyn Plan>) -> Changes {
    let mut held_back = Vec::new();
    Box::pin(changes.flat_map(move |hint| iter(pass(hint, &mut held_back, &*plan))))
}

/// What the stream delivers in place of the hint. Hints that come late wait in `held_back` for the next one.
fn pass(hint: Hint, held_back: &mut Vec<Hint>, plan: &dyn Plan) -> Vec<Hint> {
    let fate = plan.hint(&hint);
    let mut delivered = match fate {
        HintFate::Lose => return Vec::new(),
        HintFate::Late => {
            held_back.push(hint);
            return Vec::new();
        }
        HintFate::Forget => vec![Hint::Elsewhere],
        HintFate::Twice => vec![hint.clone(), hint],
        HintFate::Pass => vec![hint],
    };
    delivered.append(held_back);
    delivered
}
