//! Messages to entities, as far as the orchestration that sends them is concerned: the mapping of behaviour 22, who
//! asks (behaviour 40), and the locks that an ending run gives back (behaviour 43).

use dauer_core::model::{Class, Message, Origin};
use dauer_core::{MessageId, Timestamp};
use dauer_proto::{EventType, OrchestrationStatus, action, event, failure};

use crate::support::make::*;
use crate::support::{Run, message_line};

/// What an entity answers to a call or a lock request.
fn reply(run: &Run, answers: MessageId, event: &dauer_proto::HistoryEvent) -> Message {
    Message {
        id: dauer_core::identity::answer(answers, run.record.execution),
        to: run.id.clone(),
        execution: Some(run.record.execution),
        class: Class::Ordinary,
        origin: Origin::Client { request: None },
        answers: Some(answers),
        visible_at: Timestamp(0),
        event: dauer_core::model::Encoded::new(event),
    }
}

#[test]
fn behaviour_22_a_call_names_its_caller_and_waits_for_the_reply() {
    let mut run = Run::start("order", None);
    let sent = run.turn([call(1, "@counter@a", "add", "r-1")]).sent();
    let Some(EventType::EntityOperationCalled(called)) = sent[0].event.event().unwrap().event_type else {
        panic!()
    };
    assert_eq!(called.parent_instance_id.as_deref(), Some("i"));
    assert_eq!(called.parent_execution_id, Some(run.record.execution.to_string()));
    assert_eq!(called.target_instance_id.as_deref(), Some("@counter@a"));
    let answer = reply(&run, sent[0].id, &event::entity_operation_completed(1_000, "r-1", Some("5".into())));
    run.deliver(answer.clone())
        .turn([])
        .is("OrchestratorStarted @1000\nEntityOperationCompleted r-1(5)\n= Running");
    // Python raises on a reply it does not wait for (behaviour 42).
    run.deliver(answer).turn([]).is("dropped NotOpen\n= Running");
}

#[test]
fn behaviour_22_a_call_that_fails_is_answered_too() {
    let mut run = Run::start("order", None);
    let sent = run.turn([call(1, "@counter@a", "add", "r-1")]).sent();
    assert_eq!(run.ledger.open_count(), 1);
    let details = failure::failure("Overflow", "too many");
    let answer = reply(&run, sent[0].id, &event::entity_operation_failed(1_000, "r-1", details));
    run.deliver(answer.clone()).turn([]);
    assert_eq!(run.ledger.open_count(), 0, "nothing is waited for any more");
    run.deliver(answer).turn([]).is("dropped NotOpen\n= Running");
}

#[test]
fn behaviour_22_a_signal_may_be_for_later_and_nobody_waits_for_it() {
    let mut run = Run::start("order", None);
    let sent = run.turn([signal(1, "@counter@a", "add", Some(8_000)), completed(2, "")]).sent();
    assert_eq!((sent[0].visible_at, run.ledger.open_count()), (Timestamp(8_000), 0));
    assert!(matches!(sent[0].origin, Origin::Turn { ordinal: None, .. }), "outside the order");
    let past = Run::start("order", None).turn([signal(1, "@counter@a", "add", Some(10))]).sent().remove(0);
    assert!(matches!(past.origin, Origin::Turn { ordinal: Some(0), .. }), "a past time is now");
    let now = Run::start("order", None).turn([signal(1, "@counter@a", "add", Some(1_000))]).sent().remove(0);
    assert!(matches!(now.origin, Origin::Turn { ordinal: Some(0), .. }), "and so is the turn's own");
}

#[test]
fn behaviour_22_a_lock_request_goes_to_the_first_entity_and_is_granted_once() {
    let mut run = Run::start("order", None);
    let sent = run.turn([lock(1, "s", &["@a@1", "@b@1"])]).sent();
    assert_eq!(message_line(&sent[0]), "→ @a@1 EntityLockRequested s 0 of @a@1 @b@1 by i");
    let granted = reply(&run, sent[0].id, &event::entity_lock_granted(1_000, "s"));
    run.deliver(granted.clone()).turn([]).is("OrchestratorStarted @1000\nEntityLockGranted s\n= Running");
    run.deliver(granted).turn([]).is("dropped NotOpen\n= Running");
    assert_eq!(run.ledger.locked().count(), 2, "held until they are given back");
}

/// Go's server drops them on continue-as-new, and the entities stay locked for ever.
#[test]
fn locks_are_given_back_at_every_end_of_a_run() {
    for status in [
        OrchestrationStatus::Completed,
        OrchestrationStatus::Failed,
        OrchestrationStatus::Terminated,
        OrchestrationStatus::Canceled,
        OrchestrationStatus::ContinuedAsNew,
    ] {
        let mut run = Run::start("order", None);
        let sent = run.turn([lock(1, "held", &["@a@1", "@b@1"])]).sent();
        let granted = reply(&run, sent[0].id, &event::entity_lock_granted(1_000, "held"));
        run.deliver(granted);
        // One is given back by the code, one is held, one is only asked for.
        let actions =
            [unlock(2, "held", "@a@1"), lock(3, "asked", &["@c@1"]), action::complete(4, status, None, None)];
        let sent: Vec<_> = run.turn(actions).sent().iter().map(message_line).collect();
        let expected = [
            "→ @a@1 EntityUnlockSent held @a@1 by i",
            "→ @c@1 EntityLockRequested asked 0 of @c@1 by i",
            "→ @c@1 EntityUnlockSent asked @c@1 by i",
            "→ @b@1 EntityUnlockSent held @b@1 by i",
        ];
        assert_eq!(sent, expected, "{status:?}");
    }
}

#[test]
fn the_same_entity_may_be_locked_again_after_it_was_given_back() {
    let mut run = Run::start("order", None);
    let first = run.turn([lock(1, "one", &["@a@1"])]).sent().remove(0);
    let granted = reply(&run, first.id, &event::entity_lock_granted(1_000, "one"));
    run.deliver(granted).turn([unlock(2, "one", "@a@1"), lock(3, "two", &["@a@1"])]);
    assert_eq!(run.ledger.locked().map(|(section, _)| section.to_owned()).collect::<Vec<_>>(), ["two"]);
}
