//! I15: whoever waits for a child or an activity waits for something that exists.

use std::collections::BTreeMap;

use dauer_core::InstanceId;
use dauer_core::model::{Class, Parent};
use dauer_proto::EventType;
use dauer_proto::event::ScheduledKind;
use dauer_store::TaskDump;

use crate::report::{Finding, Place, Tally};
use crate::view::{Key, Schedule, View, Views};

pub(super) fn check(views: &Views<'_>) -> Finding {
    let mut tasks: BTreeMap<(&InstanceId, i32), Vec<&TaskDump>> = BTreeMap::new();
    for dump in views.snapshot.tasks.values() {
        tasks.entry((&dump.task.instance, dump.task.event_id)).or_default().push(dump);
    }
    let mut tally = Tally::default();
    for view in views.orchestrations().filter(|view| view.is_live()) {
        for open in view.open() {
            let place = || Place::at(view.id, format!("event {}", open.index));
            match open.key {
                Key::Action(ScheduledKind::Task, id) => {
                    let tasks = tasks.get(&(view.id, id)).map_or(&[][..], Vec::as_slice);
                    let there = has_task(view, open, tasks) || views.has_answer(view, open);
                    tally.check(there, place, || {
                        format!("{} is open, but there is no task to run and no answer waiting", open.key)
                    });
                }
                Key::Action(ScheduledKind::Child, id) => {
                    let missing =
                        if views.has_answer(view, open) { None } else { missing(views, view, open, id) };
                    tally.check(missing.is_none(), place, || {
                        format!("{} is open, but {}", open.key, missing.unwrap_or_default())
                    });
                }
                _ => {}
            }
        }
    }
    tally.finding()
}

/// A withdrawn task is never run again, so nobody may wait for it.
fn has_task(view: &View<'_>, open: &Schedule, tasks: &[&TaskDump]) -> bool {
    let execution = view.dump.record.execution;
    tasks
        .iter()
        .any(|dump| !dump.withdrawn && dump.task.execution == execution && view.may_be(open, dump.task.id))
}

/// What is missing for the parent to be answered some day.
fn missing(views: &Views<'_>, parent: &View<'_>, open: &Schedule, event_id: i32) -> Option<String> {
    let Some(EventType::SubOrchestrationInstanceCreated(created)) = parent.event(open.index) else {
        return None;
    };
    let name = &created.instance_id;
    let Ok(id) = InstanceId::new(name.as_str()) else {
        return Some(format!("{name:?} can be no instance and no answer is waiting"));
    };
    let child = views.by_id.get(&id);
    let begins = |message: &dauer_store::Message| {
        matches!(message.class, Class::Start(_) | Class::Rewind(_)) && parent.may_be(open, message.id)
    };
    let starting = child.is_some_and(|child| child.waiting.iter().any(|waiting| begins(waiting.message)));
    if starting || views.outbound(&id).any(begins) {
        return None;
    }
    let Some(child) = child else { return Some(format!("{name} does not exist and no start is on its way")) };
    let record = &child.dump.record;
    let link = Parent { instance: parent.id.clone(), execution: parent.dump.record.execution, event_id };
    let own = parent.may_be(open, record.start) && record.parent.as_deref() == Some(&link);
    match (own, child.is_live()) {
        (true, true) => None,
        (true, false) => Some(format!("{name} has ended and its answer is neither waiting nor on its way")),
        (false, _) => Some(format!("{name} was begun by another start and no start is on its way")),
    }
}
