//! Strategies for events of every kind.

use std::collections::BTreeMap;

use dauer_proto::wire::*;
use dauer_proto::{EventType, Timestamp, Value, time};
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;

pub(super) type Kind = BoxedStrategy<EventType>;

fn text() -> BoxedStrategy<String> {
    prop_oneof![Just(String::new()), "[a-z\u{e9}\u{1f980} \"@:-]{1,12}"].boxed()
}

fn payload() -> BoxedStrategy<Option<String>> {
    option::of(text()).boxed()
}

fn name() -> BoxedStrategy<String> {
    "[A-Za-z\u{e9}@:]{1,12}".boxed()
}

fn execution_id() -> BoxedStrategy<String> {
    "[0-9a-f]{32}".boxed()
}

fn at() -> BoxedStrategy<Timestamp> {
    let seconds = time::MILLIS_MIN / 1_000..=time::MILLIS_MAX / 1_000;
    (seconds, 0..1_000_000_000).prop_map(|(seconds, nanos)| Timestamp { seconds, nanos }).boxed()
}

fn tags() -> BoxedStrategy<BTreeMap<String, String>> {
    btree_map(text(), text(), 0..3).boxed()
}

fn instance() -> BoxedStrategy<OrchestrationInstance> {
    (name(), execution_id())
        .prop_map(|(instance_id, id)| OrchestrationInstance { instance_id, execution_id: Some(id) })
        .boxed()
}

fn parent() -> BoxedStrategy<Option<ParentInstanceInfo>> {
    let parent =
        (0..=i32::MAX, payload(), payload(), instance()).prop_map(|(id, name, version, instance)| {
            ParentInstanceInfo {
                task_scheduled_id: id,
                name,
                version,
                orchestration_instance: Some(instance),
            }
        });
    option::of(parent).boxed()
}

fn trace() -> BoxedStrategy<Option<TraceContext>> {
    let trace = (text(), payload()).prop_map(|(trace_parent, trace_state)| TraceContext {
        trace_parent,
        trace_state,
        ..Default::default()
    });
    option::of(trace).boxed()
}

fn value() -> BoxedStrategy<Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        (-1e9..1e9).prop_map(Value::from),
        text().prop_map(Value::from)
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(Value::from),
            btree_map(text(), inner, 0..3).prop_map(Value::from)
        ]
    })
    .boxed()
}

fn failure() -> BoxedStrategy<TaskFailureDetails> {
    let plain = (text(), text(), payload(), any::<bool>(), btree_map(text(), value(), 0..3)).prop_map(
        |(error_type, error_message, stack_trace, is_non_retriable, properties)| TaskFailureDetails {
            error_type,
            error_message,
            stack_trace,
            inner_failure: None,
            is_non_retriable,
            properties,
        },
    );
    vec(plain, 1..5)
        .prop_map(|chain| chain.into_iter().reduce(|inner, outer| outer.with_inner(inner)).unwrap())
        .boxed()
}

fn end() -> BoxedStrategy<i32> {
    (1..=5i32).boxed()
}

fn execution_kinds() -> Vec<Kind> {
    let started =
        (name(), payload(), payload(), instance(), parent(), option::of(at()), trace(), payload(), tags())
            .prop_map(|(name, version, input, instance, parent_instance, start, trace, span, tags)| {
                EventType::ExecutionStarted(ExecutionStartedEvent {
                    name,
                    version,
                    input,
                    orchestration_instance: Some(instance),
                    parent_instance: parent_instance.map(Box::new),
                    scheduled_start_timestamp: start,
                    parent_trace_context: trace.map(Box::new),
                    orchestration_span_id: span,
                    tags,
                })
            });
    let completed =
        (end(), payload(), option::of(failure())).prop_map(|(status, result, failure_details)| {
            EventType::ExecutionCompleted(ExecutionCompletedEvent {
                orchestration_status: status,
                result,
                failure_details,
            })
        });
    let terminated = (payload(), any::<bool>()).prop_map(|(input, recurse)| {
        EventType::ExecutionTerminated(ExecutionTerminatedEvent { input, recurse })
    });
    let rewound =
        (payload(), option::of(execution_id()), option::of(name()), trace(), payload(), parent(), tags())
            .prop_map(|(reason, run, name, trace, input, parent_instance, tags)| {
                EventType::ExecutionRewound(ExecutionRewoundEvent {
                    reason,
                    parent_execution_id: run,
                    instance_id: name.clone(),
                    parent_trace_context: trace.map(Box::new),
                    name,
                    version: input.clone(),
                    input,
                    parent_instance: parent_instance.map(Box::new),
                    tags,
                })
            });
    let suspended =
        payload().prop_map(|input| EventType::ExecutionSuspended(ExecutionSuspendedEvent { input }));
    let resumed = payload().prop_map(|input| EventType::ExecutionResumed(ExecutionResumedEvent { input }));
    vec![
        started.boxed(),
        completed.boxed(),
        terminated.boxed(),
        suspended.boxed(),
        resumed.boxed(),
        rewound.boxed(),
    ]
}

fn task_and_child_kinds() -> Vec<Kind> {
    let id = || 0..=i32::MAX;
    let task = (name(), payload(), payload(), trace(), tags()).prop_map(
        |(name, version, input, parent_trace_context, tags)| {
            EventType::TaskScheduled(TaskScheduledEvent { name, version, input, parent_trace_context, tags })
        },
    );
    let completed = (id(), payload()).prop_map(|(task_scheduled_id, result)| {
        EventType::TaskCompleted(TaskCompletedEvent { task_scheduled_id, result })
    });
    let failed = (id(), failure()).prop_map(|(task_scheduled_id, failure)| {
        EventType::TaskFailed(TaskFailedEvent { task_scheduled_id, failure_details: Some(failure) })
    });
    let child = (name(), name(), payload(), payload(), trace(), tags()).prop_map(
        |(instance_id, name, version, input, parent_trace_context, tags)| {
            EventType::SubOrchestrationInstanceCreated(SubOrchestrationInstanceCreatedEvent {
                instance_id,
                name,
                version,
                input,
                parent_trace_context,
                tags,
            })
        },
    );
    let child_completed = (id(), payload()).prop_map(|(task_scheduled_id, result)| {
        EventType::SubOrchestrationInstanceCompleted(SubOrchestrationInstanceCompletedEvent {
            task_scheduled_id,
            result,
        })
    });
    let child_failed = (id(), failure()).prop_map(|(task_scheduled_id, failure)| {
        EventType::SubOrchestrationInstanceFailed(SubOrchestrationInstanceFailedEvent {
            task_scheduled_id,
            failure_details: Some(failure),
        })
    });
    vec![
        task.boxed(),
        completed.boxed(),
        failed.boxed(),
        child.boxed(),
        child_completed.boxed(),
        child_failed.boxed(),
    ]
}

fn other_kinds() -> Vec<Kind> {
    let created = at().prop_map(|at| EventType::TimerCreated(TimerCreatedEvent { fire_at: Some(at) }));
    let fired = (at(), 0..=i32::MAX)
        .prop_map(|(at, timer_id)| EventType::TimerFired(TimerFiredEvent { fire_at: Some(at), timer_id }));
    let sent = (name(), name(), payload()).prop_map(|(instance_id, name, input)| {
        EventType::EventSent(EventSentEvent { instance_id, name, input })
    });
    let raised = (name(), payload())
        .prop_map(|(name, input)| EventType::EventRaised(EventRaisedEvent { name, input }));
    let generic = payload().prop_map(|data| EventType::GenericEvent(GenericEvent { data }));
    let continued = payload().prop_map(|input| EventType::ContinueAsNew(ContinueAsNewEvent { input }));
    let state = (name(), 0..=7i32, option::of(at()), payload(), option::of(failure()), tags()).prop_map(
        |(instance_id, status, at, output, failure_details, tags)| {
            let state = OrchestrationState {
                instance_id,
                orchestration_status: status,
                created_timestamp: at,
                output,
                failure_details,
                tags,
                ..Default::default()
            };
            EventType::HistoryState(HistoryStateEvent { orchestration_state: Some(Box::new(state)) })
        },
    );
    vec![
        created.boxed(),
        fired.boxed(),
        sent.boxed(),
        raised.boxed(),
        generic.boxed(),
        continued.boxed(),
        state.boxed(),
        Just(EventType::OrchestratorStarted(OrchestratorStartedEvent {})).boxed(),
        Just(EventType::OrchestratorCompleted(OrchestratorCompletedEvent {})).boxed(),
    ]
}

fn entity_kinds() -> Vec<Kind> {
    let signaled = (name(), name(), option::of(at()), payload(), option::of(name())).prop_map(
        |(request_id, operation, scheduled_time, input, target_instance_id)| {
            EventType::EntityOperationSignaled(EntityOperationSignaledEvent {
                request_id,
                operation,
                scheduled_time,
                input,
                target_instance_id,
            })
        },
    );
    let called = (name(), name(), option::of(at()), payload(), payload(), option::of(name())).prop_map(
        |(request_id, operation, scheduled_time, input, parent, target_instance_id)| {
            EventType::EntityOperationCalled(EntityOperationCalledEvent {
                request_id,
                operation,
                scheduled_time,
                input,
                parent_instance_id: parent.clone(),
                parent_execution_id: parent,
                target_instance_id,
            })
        },
    );
    let completed = (name(), payload()).prop_map(|(request_id, output)| {
        EventType::EntityOperationCompleted(EntityOperationCompletedEvent { request_id, output })
    });
    let failed = (name(), failure()).prop_map(|(request_id, failure)| {
        EventType::EntityOperationFailed(EntityOperationFailedEvent {
            request_id,
            failure_details: Some(failure),
        })
    });
    let requested = (name(), vec(name(), 3), 0..3i32, payload()).prop_map(
        |(critical_section_id, lock_set, position, parent_instance_id)| {
            EventType::EntityLockRequested(EntityLockRequestedEvent {
                critical_section_id,
                lock_set,
                position,
                parent_instance_id,
            })
        },
    );
    let granted = name().prop_map(|critical_section_id| {
        EventType::EntityLockGranted(EntityLockGrantedEvent { critical_section_id })
    });
    let unlocked = (name(), payload(), name()).prop_map(|(section, parent_instance_id, target)| {
        EventType::EntityUnlockSent(EntityUnlockSentEvent {
            critical_section_id: section,
            parent_instance_id,
            target_instance_id: Some(target),
        })
    });
    vec![
        signaled.boxed(),
        called.boxed(),
        completed.boxed(),
        failed.boxed(),
        requested.boxed(),
        granted.boxed(),
        unlocked.boxed(),
    ]
}

pub(super) fn all_kinds() -> Vec<Kind> {
    [execution_kinds(), task_and_child_kinds(), other_kinds(), entity_kinds()].into_iter().flatten().collect()
}

pub(super) fn event_of(kind: Kind) -> BoxedStrategy<HistoryEvent> {
    (0..=i32::MAX, at(), kind)
        .prop_map(|(event_id, at, kind)| HistoryEvent {
            event_id,
            timestamp: Some(at),
            event_type: Some(kind),
        })
        .boxed()
}

pub(super) fn any_event() -> BoxedStrategy<HistoryEvent> {
    proptest::strategy::Union::new(all_kinds().into_iter().map(event_of)).boxed()
}
