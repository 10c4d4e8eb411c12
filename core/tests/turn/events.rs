//! Behaviours 32 and 33: events between instances and from outside; and messages that make no sense.

use dauer_core::Revision;
use dauer_core::ledger::{LedgerError, Ticket};
use dauer_core::model::{BlobError, Class, Encoded, Hold, Message, Origin, TroubleKind};
use dauer_core::turn::Stalled;

use crate::support::make::*;
use crate::support::{Run, message_line};

#[test]
fn behaviour_32_the_target_gets_a_raised_event_for_whichever_run_it_has() {
    let mut run = Run::start("order", None);
    let sent = run.turn([dauer_proto::action::send_event(1, "other", "Go", Some("now".into()))]).sent();
    assert_eq!(message_line(&sent[0]), "→ other EventRaised Go(now)");
    assert_eq!((&sent[0].class, sent[0].execution, sent[0].answers), (&Class::Ordinary, None, None));
    assert_eq!(run.ledger.open_count(), 0, "nobody answers it, so the sender is not woken by its fate");
}

/// That a message to an unknown or ended instance vanishes is a rule of stores (rule 5). Core's part: an instance that
/// ends in the turn in which it sends to itself takes no part in it any more.
#[test]
fn behaviour_32_an_event_to_itself_is_lost_with_the_end_of_the_run() {
    let mut run = Run::start("order", None);
    let sent = run.turn([send_event(1, "i", "go"), completed(2, "")]).sent();
    assert_eq!(run.record.hold(), Hold::Ended);
    assert!(!run.record.hold().admits(&sent[0]));
    let mut run = Run::start("order", None);
    let sent = run.turn([send_event(1, "i", "go")]).sent();
    run.deliver(sent[0].clone()).turn([]).is("OrchestratorStarted @1000\nEventRaised go\n= Running");
}

#[test]
fn behaviour_32_messages_of_one_turn_are_numbered_in_the_order_they_were_sent() {
    let mut run = Run::start("order", None);
    let sent =
        run.turn([send_event(3, "x", "c"), send_event(1, "x", "a"), signal(2, "@b@1", "later", Some(9_000))]);
    let places: Vec<_> = sent
        .sent()
        .iter()
        .map(|message| match &message.origin {
            Origin::Turn { revision, ordinal, .. } => (message.to.to_string(), *revision, *ordinal),
            Origin::Client { .. } => panic!("sent by a turn"),
        })
        .collect();
    // A delayed message is outside the order.
    let one = Revision(1);
    assert_eq!(places, [("x".into(), one, Some(0)), ("@b@1".into(), one, None), ("x".into(), one, Some(2))]);
}

#[test]
fn behaviour_33_names_and_data_of_events_are_kept_as_they_are() {
    let mut run = Run::running([]);
    run.raise("MyEvent", Some("")).raise("myevent", None).raise("MYEVENT", Some("{}"));
    run.turn([]).is(r#"OrchestratorStarted @1000
         EventRaised MyEvent("")
         EventRaised myevent
         EventRaised MYEVENT({})
         = Running"#);
}

#[test]
fn behaviour_33_an_event_nobody_waits_for_stays_in_the_history() {
    let mut run = Run::running([task(1, "pay")]);
    run.raise("early", Some("1")).turn([]);
    run.complete(1, "ok").turn([completed(2, "used early")]);
    assert!(run.text().contains("EventRaised early(1)"));
}

/// Stores act on the class, workers on the event: a message whose two halves disagree does nothing by halves.
#[test]
fn a_message_whose_class_and_event_disagree_stalls() {
    let mut run = Run::running([]);
    run.raise("go", None).suspend().resume().terminate(None, false);
    let [raised, suspend, resume, terminate] = <[Message; 4]>::try_from(run.inbox.split_off(0)).unwrap();
    let controls = [&suspend, &resume, &terminate];
    for (place, class) in controls.map(|message| message.class.clone()).into_iter().enumerate() {
        // Each control class with every event but its own.
        let others = controls.iter().enumerate().filter(|(other, _)| *other != place);
        for event in others.map(|(_, message)| &message.event).chain([&raised.event]) {
            run.inbox = vec![Message { class: class.clone(), event: event.clone(), ..raised.clone() }];
            let stalled = run.refused([]);
            assert_eq!(stalled.kind, TroubleKind::Undecodable, "{stalled}");
            assert!(stalled.reason.contains("carries a"), "{stalled}");
        }
    }
    let mut begun = Run::start("order", None);
    begun.inbox[0].event = raised.event;
    assert_eq!(begun.refused([]).kind, TroubleKind::Undecodable);
}

#[test]
fn an_event_that_cannot_be_read_stalls_and_stays() {
    let mut run = Run::running([]);
    run.raise("go", None);
    run.inbox[0].event = Encoded::from_stored(vec![9, 9].into());
    let stalled = run.refused([]);
    assert_eq!(stalled.kind, TroubleKind::Undecodable);
    assert!(stalled.reason.contains("format 9"), "{stalled}");
    assert_eq!(run.inbox.len(), 1);
    // A history that cannot be read is the same trouble; one that contradicts itself is the worker's doing.
    let kind = |error: LedgerError| Stalled::from(error).kind;
    assert_eq!(kind(BlobError::Empty.into()), TroubleKind::Undecodable);
    assert_eq!(kind(LedgerError::StillOpen(Ticket::Task(1))), TroubleKind::InvalidAnswer);
}
