//! What code asks for, in words.

use dauer_proto::{ActionType, OrchestratorAction};
use dauer_replay::{Answer, Decision};

/// What an action asks for.
pub(crate) fn decision(action: &OrchestratorAction) -> Decision {
    match &action.orchestrator_action_type {
        Some(ActionType::ScheduleTask(task)) => Decision::Activity(task.name.clone()),
        Some(ActionType::CreateSubOrchestration(child)) => Decision::Orchestration(child.name.clone()),
        Some(ActionType::CreateTimer(_)) => Decision::Timer,
        Some(ActionType::SendEvent(send)) => {
            let target = send.instance.as_ref().map(|target| target.instance_id.clone()).unwrap_or_default();
            Decision::Event { name: send.name.clone(), target }
        }
        _ => Decision::Other,
    }
}

fn described(action: Option<&OrchestratorAction>) -> String {
    match action {
        None => "nothing more".to_owned(),
        Some(action) => match &action.orchestrator_action_type {
            Some(ActionType::CompleteOrchestration(end)) => match end.result.as_deref() {
                Some(result) => format!("its end with {result}"),
                None => "its end".to_owned(),
            },
            Some(ActionType::ScheduleTask(task)) => with_input(action, task.input.as_deref()),
            Some(ActionType::CreateSubOrchestration(child)) => with_input(action, child.input.as_deref()),
            Some(ActionType::SendEvent(send)) => with_input(action, send.data.as_deref()),
            Some(ActionType::CreateTimer(timer)) => {
                let at = timer.fire_at.map(|at| at.to_string()).unwrap_or_default();
                format!("a timer for {at}")
            }
            _ => decision(action).to_string(),
        },
    }
}

fn with_input(action: &OrchestratorAction, input: Option<&str>) -> String {
    format!("{} with {}", decision(action), input.unwrap_or("nothing"))
}

/// The first thing in which two answers differ.
pub(crate) fn difference(first: &Answer, second: &Answer) -> (String, String) {
    let actions = first.actions.len().max(second.actions.len());
    let pairs = (0..actions).map(|index| (first.actions.get(index), second.actions.get(index)));
    match pairs.into_iter().find(|(one, other)| one != other) {
        Some((one, other)) => (described(one), described(other)),
        None => {
            let status = |answer: &Answer| {
                format!("the custom status {}", answer.custom_status.as_deref().unwrap_or("null"))
            };
            (status(first), status(second))
        }
    }
}
