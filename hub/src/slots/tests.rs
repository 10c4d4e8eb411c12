//! What claims, results and commits do to what is under way.

use super::*;
use crate::inspect::HeldPhase;
use dauer_core::model::{Encoded, Kind, QueueKey, Record, Task, TaskFence};
use dauer_core::send;
use dauer_core::{MessageId, Revision};
use dauer_proto::HistoryEvent;

const BYTES: usize = 1_000;

fn id() -> InstanceId {
    InstanceId::new("i").unwrap()
}

fn fence(epoch: u64, revision: u64) -> Fence {
    Fence { instance: id(), execution: ExecutionId(1), revision: Revision(revision), epoch: Epoch(epoch) }
}

fn record() -> Record {
    Record::pending(QueueKey::new(Kind::Orchestration, "code", None), ExecutionId(1), MessageId([0; 16]))
}

fn claim(epoch: u64, revision: u64) -> ClaimedTurn {
    let now = Timestamp(1);
    let fence = fence(epoch, revision);
    ClaimedTurn { fence, record: record(), messages: Vec::new(), more: false, history: None, now }
}

/// The task that runs.
fn task() -> TaskFence {
    TaskFence { task: MessageId([7; 16]), instance: id(), epoch: Epoch(1) }
}

fn begins(slots: &mut Slots, epoch: u64, revision: u64) -> bool {
    matches!(slots.admit(claim(epoch, revision), BYTES), Admitted::Begin(..))
}

/// Held under epoch 3: kept by the commit of revision 5, with a task that runs.
fn idle() -> Slots {
    let mut slots = Slots::default();
    assert!(begins(&mut slots, 3, 4));
    slots.commits(&id(), true);
    slots.task_begins(&task(), ExecutionId(1), Cancellation::new());
    let kept = Kept { record: record(), entry: None };
    let (next, orphans) = slots.keep(fence(3, 5), kept, (Vec::new(), Timestamp(1)), BYTES);
    assert!(matches!(next, Next::Idle) && orphans.is_empty());
    slots
}

fn turning() -> Slots {
    let mut slots = idle();
    assert!(begins(&mut slots, 3, 5));
    slots
}

fn committing() -> Slots {
    let mut slots = turning();
    slots.commits(&id(), true);
    slots
}

fn releasing() -> Slots {
    let mut slots = idle();
    slots.releases(&id());
    slots
}

#[test]
fn what_a_claim_is_worth_depends_on_what_is_under_way() {
    type Make = fn() -> Slots;
    let makes: [(&str, Make); 4] =
        [("idle", idle), ("turning", turning), ("committing", committing), ("releasing", releasing)];
    for (phase, make) in makes {
        for (what, epoch, revision) in [
            ("of an earlier epoch", 2, 5),
            ("of an earlier revision", 3, 4),
            ("of the same revision", 3, 5),
            ("of the next revision", 3, 6),
            ("of a later epoch", 4, 5),
        ] {
            let expected = match (phase, what) {
                (_, "of a later epoch") | ("idle", "of the same revision") => "begins",
                ("committing", "of the next revision") => "waits",
                // It cannot be; the store knows better.
                ("idle" | "turning", "of the next revision") => "begins",
                (_, "of an earlier epoch") => "given back",
                _ => "nothing",
            };
            let found = match make().admit(claim(epoch, revision), BYTES) {
                Admitted::Begin(..) => "begins",
                Admitted::Waits => "waits",
                Admitted::Known => "nothing",
                Admitted::Stale(stale) => {
                    assert_eq!(stale, fence(epoch, revision), "{phase}, a claim {what}");
                    "given back"
                }
            };
            assert_eq!(found, expected, "{phase}, a claim {what}");
        }
    }
}

#[test]
fn a_claim_that_was_answered_before_the_instance_was_let_go_is_worth_nothing() {
    // The store would take its commit for the last one of that fence, sent again.
    let mut slots = committing();
    slots.finish(&id(), true);
    let dropped = slots.admit(claim(3, 5), BYTES);
    assert!(matches!(dropped, Admitted::Stale(_)), "no hold of that epoch is left: it is given back");
    assert!(begins(&mut slots, 4, 6), "one that the store handed out after that has a new epoch");
    // Once that claim is answered none can be older than the instance.
    let mut slots = committing();
    slots.finish(&id(), true);
    slots.forget_settled();
    assert!(begins(&mut slots, 3, 5));
}

#[test]
fn a_claim_that_was_ahead_begins_the_turn_after_the_commit() {
    let mut slots = committing();
    assert!(matches!(slots.admit(claim(3, 6), BYTES), Admitted::Waits));
    let kept = Kept { record: record(), entry: None };
    let (next, _) = slots.keep(fence(3, 6), kept, (Vec::new(), Timestamp(1)), BYTES);
    assert!(matches!(next, Next::Begin(_)));
}

#[test]
fn a_result_waits_only_where_a_turn_will_come_for_it() {
    let other = ExecutionId(2);
    let released = || {
        let mut slots = turning();
        slots.commits(&id(), false);
        slots
    };
    for (phase, mut slots, place) in [
        ("idle", idle(), Some(true)),
        ("turning", turning(), Some(false)),
        ("committing, and keeps", committing(), Some(false)),
        ("committing, and releases", released(), None),
        ("releasing", releasing(), None),
        ("not held", Slots::default(), None),
    ] {
        let found = slots.place_for(&id(), ExecutionId(1)).map(|(_, due)| due);
        assert_eq!(found, place, "{phase}");
        assert!(slots.place_for(&id(), other).is_none(), "{phase}: a result of another run");
    }
}

#[test]
fn results_of_a_run_that_is_over_are_handed_back() {
    let mut slots = committing();
    let fence_of_task = TaskFence { task: MessageId([1; 16]), instance: id(), epoch: Epoch(1) };
    let task = Task {
        id: MessageId([1; 16]),
        instance: id(),
        execution: ExecutionId(1),
        event_id: 0,
        queue: QueueKey::new(Kind::Activity, "step", None),
        tags: Default::default(),
        event: Encoded::new(&HistoryEvent::default()),
    };
    let result = send::task_answer(fence_of_task, &task, Ok(None), Timestamp(1));
    let (waiting, _) = slots.place_for(&id(), ExecutionId(1)).unwrap();
    waiting.push(result);
    let next_run = Fence { execution: ExecutionId(2), ..fence(3, 6) };
    let kept = Kept { record: record(), entry: None };
    let (next, orphans) = slots.keep(next_run, kept, (Vec::new(), Timestamp(1)), BYTES);
    assert_eq!(orphans.len(), 1);
    assert!(matches!(next, Next::Useless(..)), "nothing of the new run is here");
}

#[test]
fn turns_and_holds_are_counted() {
    let counts = |slots: &Slots| (slots.held(), slots.active());
    assert_eq!(counts(&idle()), (1, (0, 0)));
    assert_eq!(counts(&turning()), (1, (1, 1)));
    assert_eq!(counts(&committing()), (1, (1, 1)));
    let mut slots = turning();
    assert!(begins(&mut slots, 4, 5), "superseded");
    assert_eq!(counts(&slots), (1, (1, 1)));
    slots.finish(&id(), false);
    assert_eq!(counts(&slots), (0, (0, 0)));
    assert!(!slots.slots.is_empty(), "its task still runs");
    slots.task_ends(&task());
    assert!(slots.slots.is_empty());
}

#[test]
fn an_instance_is_useless_once_nothing_of_it_runs_here() {
    let mut slots = idle();
    assert!(slots.useless(&id()).is_none());
    slots.task_ends(&task());
    assert!(slots.useless(&id()).is_some());
}

#[test]
fn a_task_is_told_by_its_own_fence_or_run_and_by_no_other() {
    let mut slots = Slots::default();
    let later = TaskFence { epoch: Epoch(2), ..task() };
    let (first, second) = (Cancellation::new(), Cancellation::new());
    slots.task_begins(&task(), ExecutionId(1), first.clone());
    slots.task_begins(&later, ExecutionId(2), second.clone());
    assert!(slots.runs_for_others(&id()));
    assert_eq!(slots.served(), [(id(), vec![ExecutionId(1), ExecutionId(2)])]);
    slots.cancel_run(&id(), ExecutionId(3), CancelReason::Ended);
    slots.cancel_task(&TaskFence { epoch: Epoch(3), ..task() }, CancelReason::LeaseLost);
    assert_eq!((first.reason(), second.reason()), (None, None));
    slots.cancel_run(&id(), ExecutionId(2), CancelReason::Terminated);
    assert_eq!((first.reason(), second.reason()), (None, Some(CancelReason::Terminated)));
    slots.cancel_task(&task(), CancelReason::LeaseLost);
    assert_eq!(first.reason(), Some(CancelReason::LeaseLost));
    slots.task_ends(&later);
    slots.task_ends(&task());
    assert!(slots.slots.is_empty() && slots.served().is_empty());
    assert!(!idle().runs_for_others(&id()), "its turns are taken here");
}

#[test]
fn inspection_shows_each_phase_of_a_held_instance() {
    let mut slots = Slots::default();
    let phases = |slots: &Slots| -> Vec<(u64, HeldPhase)> {
        slots.turns().into_iter().map(|turn| (turn.fence.epoch.0, turn.phase)).collect()
    };
    assert_eq!(phases(&slots), []);
    assert!(begins(&mut slots, 3, 4));
    assert_eq!(phases(&slots), [(3, HeldPhase::Turning)]);
    slots.commits(&id(), true);
    assert_eq!(phases(&slots), [(3, HeldPhase::Committing)]);
    slots.releases(&id());
    assert_eq!(phases(&slots), [(3, HeldPhase::Releasing)]);
    assert_eq!(phases(&idle()), [(3, HeldPhase::Kept)]);
    slots.finish(&id(), false);
    assert_eq!(phases(&slots), []);
}
