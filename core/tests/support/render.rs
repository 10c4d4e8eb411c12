//! Events, messages and turns as lines of text.

use std::collections::BTreeMap;

use dauer_core::model::{Class, Fate, History, Message};
use dauer_proto::{
    EventType, HistoryEvent, OrchestrationStatus, TaskFailureDetails, TraceContext, event, time,
};

use super::Step;

/// Present and absent payloads look different: `(x)`, `("")`, nothing.
fn payload(text: Option<&String>) -> String {
    match text.map(String::as_str) {
        None => String::new(),
        Some("") => "(\"\")".into(),
        Some(text) => format!("({text})"),
    }
}

fn failure(details: Option<&TaskFailureDetails>) -> String {
    details.map_or_else(String::new, |details| format!(" !{}: {}", details.error_type, details.error_message))
}

fn labels(version: Option<&String>, tags: &BTreeMap<String, String>, trace: Option<&TraceContext>) -> String {
    let version = version.map_or_else(String::new, |version| format!(" version={version}"));
    let tags: String = tags.iter().map(|(key, value)| format!(" {key}={value}")).collect();
    let trace = trace.map_or_else(String::new, |trace| format!(" trace={}", trace.trace_parent));
    format!("{version}{tags}{trace}")
}

fn millis(at: Option<&dauer_proto::Timestamp>) -> String {
    at.map_or_else(String::new, |at| format!(" @{}", time::to_millis_ceil(at).unwrap()))
}

/// One event on one line: kind, `#` event id unless it has none, and what it says.
pub(crate) fn event_line(event: &HistoryEvent) -> String {
    let id = if event.event_id == event::NO_ACTION { String::new() } else { format!("#{}", event.event_id) };
    let kind = event.event_type.as_ref().unwrap();
    format!(
        "{}{id}{}",
        event::kind_name(event),
        detail(event, kind).or_else(|| entity_detail(kind)).unwrap_or_default()
    )
}

fn detail(event: &HistoryEvent, kind: &EventType) -> Option<String> {
    Some(match kind {
        EventType::OrchestratorStarted(_) => millis(event.timestamp.as_ref()),
        EventType::ExecutionStarted(e) => {
            let parent = e.parent_instance.as_ref().map_or_else(String::new, |parent| {
                let instance = parent.orchestration_instance.as_ref().unwrap();
                format!(" parent={}#{}", instance.instance_id, parent.task_scheduled_id)
            });
            let labels = labels(e.version.as_ref(), &e.tags, e.parent_trace_context.as_deref());
            format!(" {}{}{labels}{parent}", e.name, payload(e.input.as_ref()))
        }
        EventType::ExecutionCompleted(e) => {
            let status = OrchestrationStatus::try_from(e.orchestration_status).unwrap();
            format!(" {status:?}{}{}", payload(e.result.as_ref()), failure(e.failure_details.as_ref()))
        }
        EventType::ExecutionTerminated(e) => {
            format!(" {}{}", payload(e.input.as_ref()), if e.recurse { " recurse" } else { "" })
        }
        EventType::TaskScheduled(e) => {
            let labels = labels(e.version.as_ref(), &e.tags, e.parent_trace_context.as_ref());
            format!(" {}{}{labels}", e.name, payload(e.input.as_ref()))
        }
        EventType::TaskCompleted(e) => format!(" {}{}", e.task_scheduled_id, payload(e.result.as_ref())),
        EventType::TaskFailed(e) => {
            format!(" {}{}", e.task_scheduled_id, failure(e.failure_details.as_ref()))
        }
        EventType::SubOrchestrationInstanceCreated(e) => {
            let labels = labels(e.version.as_ref(), &e.tags, e.parent_trace_context.as_ref());
            format!(" {} {}{}{labels}", e.instance_id, e.name, payload(e.input.as_ref()))
        }
        EventType::SubOrchestrationInstanceCompleted(e) => {
            format!(" {}{}", e.task_scheduled_id, payload(e.result.as_ref()))
        }
        EventType::SubOrchestrationInstanceFailed(e) => {
            format!(" {}{}", e.task_scheduled_id, failure(e.failure_details.as_ref()))
        }
        EventType::TimerCreated(e) => millis(e.fire_at.as_ref()),
        EventType::TimerFired(e) => format!(" {}{}", e.timer_id, millis(e.fire_at.as_ref())),
        EventType::EventSent(e) => format!(" {} {}{}", e.instance_id, e.name, payload(e.input.as_ref())),
        EventType::EventRaised(e) => format!(" {}{}", e.name, payload(e.input.as_ref())),
        _ => return None,
    })
}

fn entity_detail(kind: &EventType) -> Option<String> {
    let to = |target: &Option<String>| target.clone().unwrap_or_default();
    Some(match kind {
        EventType::EntityOperationSignaled(e) => {
            format!(" {} {}{}", to(&e.target_instance_id), e.operation, millis(e.scheduled_time.as_ref()))
        }
        EventType::EntityOperationCalled(e) => {
            let caller = to(&e.parent_instance_id);
            format!(" {} {} {} by {caller}", to(&e.target_instance_id), e.operation, e.request_id)
        }
        EventType::EntityOperationCompleted(e) => format!(" {}{}", e.request_id, payload(e.output.as_ref())),
        EventType::EntityLockRequested(e) => {
            let by = to(&e.parent_instance_id);
            format!(" {} {} of {} by {by}", e.critical_section_id, e.position, e.lock_set.join(" "))
        }
        EventType::EntityLockGranted(e) => format!(" {}", e.critical_section_id),
        EventType::EntityUnlockSent(e) => {
            format!(
                " {} {} by {}",
                e.critical_section_id,
                to(&e.target_instance_id),
                to(&e.parent_instance_id)
            )
        }
        _ => return None,
    })
}

/// One message on one line.
pub(crate) fn message_line(message: &Message) -> String {
    let start = if matches!(message.class, Class::Start(_)) { "start " } else { "" };
    format!("→ {} {start}{}", message.to, event_line(&message.event.event().unwrap()))
}

/// A turn: its events, then tasks, timers, messages, what was dropped, what goes before the inbox, and the status.
pub(super) fn step(step: &Step) -> String {
    let checkpoint = &step.checkpoint;
    let mut lines: Vec<String> = step.events.iter().map(event_line).collect();
    lines.extend(checkpoint.tasks.iter().map(|task| format!("task {} #{}", task.queue.name, task.event_id)));
    let later = |timer: &Message| {
        format!("timer @{} {}", timer.visible_at.0, event_line(&timer.event.event().unwrap()))
    };
    lines.extend(checkpoint.timers.iter().map(later));
    lines.extend(checkpoint.messages.iter().map(message_line));
    let batches = match &checkpoint.history {
        History::Append(batch) => std::slice::from_ref(batch),
        History::Replace { batches, .. } => batches.as_slice(),
    };
    for (_, fate) in batches.iter().flat_map(|batch| &batch.consumed) {
        if let Fate::Dropped(reason) = fate {
            lines.push(format!("dropped {reason:?}"));
        }
    }
    lines.extend(
        step.prologue()
            .iter()
            .map(|message| format!("first {}", event_line(&message.event.event().unwrap()))),
    );
    let record = &checkpoint.record;
    let custom = step.details.custom_status();
    let custom = custom.map_or_else(String::new, |text| format!(" [{}]", text.as_str()));
    lines.push(format!("= {:?}{custom}", record.status));
    lines.join("\n")
}
