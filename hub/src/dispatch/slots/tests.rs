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
    matches!(slots.admit(claim(epoch, revision)), Admitted::Begin(..))
}

fn no_mail() -> Mail {
    Mail { messages: Vec::new(), more: false, now: Timestamp(1) }
}

fn mail() -> Mail {
    let caller = send::Caller { request: 1, repeatable: true, now: Timestamp(1) };
    Mail { messages: vec![send::suspend(id(), None, caller).unwrap()], ..no_mail() }
}

/// Held under epoch 3: kept by the commit of revision 5, with a task that runs.
fn idle() -> Slots {
    let mut slots = Slots::default();
    assert!(begins(&mut slots, 3, 4));
    slots.commits(&id(), true);
    slots.task_begins(&task(), ExecutionId(1), Cancellation::new());
    let kept = Kept { record: record(), entry: None };
    let (next, orphans) = slots.keep(fence(3, 5), kept, no_mail(), BYTES);
    assert!(matches!(next, After::Idle) && orphans.is_empty());
    slots
}

fn turning() -> Slots {
    let mut slots = idle();
    assert!(slots.begin_mail(&fence(3, 5), mail(), BYTES).is_some());
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
                ("committing", "of a later epoch") => "waits",
                (_, "of a later epoch") => "begins",
                (_, "of an earlier epoch") => "given back",
                _ => "nothing",
            };
            let found = match make().admit(claim(epoch, revision)) {
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

/// The cache has what the commit left once its answer is here.
#[test]
fn claim_ahead_of_a_commits_answer_begins_after_it() {
    let mut slots = committing();
    assert!(matches!(slots.admit(claim(4, 6)), Admitted::Waits));
    assert!(slots.has_waiting_win(&id()));
    assert!(matches!(slots.admit(claim(4, 6)), Admitted::Known), "the same claim waits already");
    let (_, waiting) = slots.finish(&id());
    let waiting = waiting.expect("the claim comes back with the end of the hold");
    assert!(matches!(slots.admit(*waiting), Admitted::Begin(..)));
    assert_eq!(slots.turns()[0].fence, fence(4, 6));
}

#[test]
fn older_claim_does_not_replace_one_that_waits() {
    let mut slots = committing();
    assert!(matches!(slots.admit(claim(5, 7)), Admitted::Waits));
    assert!(matches!(slots.admit(claim(4, 6)), Admitted::Stale(stale) if stale == fence(4, 6)));
    slots.releases(&id());
    assert!(matches!(slots.admit(claim(4, 6)), Admitted::Stale(_)), "also once the commit was given up");
    let (_, waiting) = slots.finish(&id());
    assert_eq!(waiting.map(|claim| claim.fence), Some(fence(5, 7)));
}

#[test]
fn mail_is_read_only_for_an_idle_instance() {
    assert!(idle().mail_for(&id()));
    assert_eq!(idle().idle(&id()).map(|(_, fence)| fence), Some(fence(3, 5)));
    for mut busy in [turning(), committing(), releasing(), Slots::default()] {
        assert!(!busy.mail_for(&id()));
        assert!(busy.idle(&id()).is_none());
        assert!(busy.begin_mail(&fence(3, 5), mail(), BYTES).is_none());
    }
    assert!(idle().begin_mail(&fence(3, 4), mail(), BYTES).is_none(), "read before the last commit");
    assert!(idle().begin_mail(&fence(3, 5), no_mail(), BYTES).is_none(), "a turn needs a message");
}

/// The commit's answer may be from before the message.
#[test]
fn mail_hinted_during_a_commit_is_read_after_its_answer() {
    let kept = || Kept { record: record(), entry: None };
    let mut slots = committing();
    slots.mail_for(&id());
    let (next, _) = slots.keep(fence(3, 6), kept(), no_mail(), BYTES);
    assert!(matches!(next, After::Mail));
    let mut slots = committing();
    slots.mail_for(&id());
    let (next, _) = slots.keep(fence(3, 6), kept(), mail(), BYTES);
    assert!(matches!(next, After::Begin(_)), "the answer to the next commit has all that waits");
    slots.commits(&id(), true);
    let (next, _) = slots.keep(fence(3, 7), kept(), no_mail(), BYTES);
    assert!(matches!(next, After::Idle));
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
    let (next, orphans) = slots.keep(next_run, kept, no_mail(), BYTES);
    assert_eq!(orphans.len(), 1);
    assert!(matches!(next, After::Useless(..)), "nothing of the new run is here");
}

#[test]
fn turns_and_holds_are_counted() {
    let counts = |slots: &Slots| (slots.held(), slots.active());
    assert_eq!(counts(&idle()), (1, (0, 0)));
    assert_eq!(counts(&turning()), (1, (1, 0)));
    assert_eq!(counts(&committing()), (1, (1, 0)));
    let mut slots = turning();
    assert!(begins(&mut slots, 4, 5), "superseded");
    assert_eq!(counts(&slots), (1, (1, 1)));
    slots.finish(&id());
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
    slots.finish(&id());
    assert_eq!(phases(&slots), []);
}
