//! Payloads as the test knows them: before a codec made something of them that need not be the same twice.

use dauer_proto::ActionType;
use dauer_replay::{Answer, Payloads};
use serde_json::value::RawValue;

use crate::hub::Ended;

/// The JSON of a stored text, to the letter: whether fields have an order is not for a test to overlook. What cannot be read
/// stays as it is.
fn payload(stored: &str, payloads: &Payloads) -> String {
    let json = payloads.decode::<Box<RawValue>>(Some(stored));
    json.map_or_else(|_| stored.to_owned(), |json| json.get().to_owned())
}

/// An answer whose payloads can be compared.
pub(crate) fn answer(mut answer: Answer, payloads: &Payloads) -> Answer {
    let read = |stored: Option<String>| stored.map(|stored| payload(&stored, payloads));
    for action in &mut answer.actions {
        match &mut action.orchestrator_action_type {
            Some(ActionType::ScheduleTask(task)) => task.input = read(task.input.take()),
            Some(ActionType::CreateSubOrchestration(child)) => child.input = read(child.input.take()),
            Some(ActionType::SendEvent(send)) => send.data = read(send.data.take()),
            Some(ActionType::CompleteOrchestration(end)) => end.result = read(end.result.take()),
            _ => {}
        }
    }
    answer.custom_status = read(answer.custom_status.take());
    answer
}

/// An end whose payload can be compared.
pub(crate) fn ended(ended: Ended, payloads: &Payloads) -> Ended {
    let read = |stored: Option<String>| stored.map(|stored| payload(&stored, payloads));
    match ended {
        Ended::Completed(output) => Ended::Completed(read(output)),
        Ended::Terminated(output) => Ended::Terminated(read(output)),
        failed @ Ended::Failed(_) => failed,
    }
}
