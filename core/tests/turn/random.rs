//! Random lives of an instance. The harness checks after every commit that the ledger carried along equals the one
//! rebuilt from the stored batches, that the same turn gives the same checkpoint, that every consumed message was
//! waiting, and that nothing is produced twice; here also that no history holds an answer to nothing.

use std::collections::BTreeSet;

use dauer_core::model::{Class, Message, Over};
use dauer_core::turn::Answer;
use dauer_proto::{EventType, HistoryEvent, OrchestratorAction, event, failure};
use proptest::prelude::*;

use crate::support::Run;
use crate::support::make::*;

/// Something that happens to an instance before a turn.
#[derive(Debug, Clone)]
enum Happening {
    Raise(u8),
    Complete(u8),
    Fail(u8),
    Fuse(u8),
    ChildEnds(u8),
    Advance(u16),
    Suspend,
    Resume,
    Terminate,
    /// A message that was there before comes again.
    Again(u8),
    Start(bool),
}

/// What the worker answers, with small ids so that they are reused.
#[derive(Debug, Clone)]
enum Wish {
    Task(u8),
    Timer(u8, u16),
    Child(u8),
    Send(u8),
    Call(u8),
    Lock(u8),
    Unlock(u8),
    Complete,
    Fail,
    Continue(bool),
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        3 => (0..3_u8).prop_map(Happening::Raise),
        4 => (0..6_u8).prop_map(Happening::Complete),
        2 => (0..6_u8).prop_map(Happening::Fail),
        2 => (0..6_u8).prop_map(Happening::Fuse),
        2 => (0..6_u8).prop_map(Happening::ChildEnds),
        3 => (0..5_000_u16).prop_map(Happening::Advance),
        1 => Just(Happening::Suspend),
        2 => Just(Happening::Resume),
        1 => Just(Happening::Terminate),
        2 => (0..u8::MAX).prop_map(Happening::Again),
        1 => any::<bool>().prop_map(Happening::Start),
    ]
}

fn wish() -> impl Strategy<Value = Wish> {
    prop_oneof![
        6 => (0..6_u8).prop_map(Wish::Task),
        3 => (0..6_u8, 0..5_000_u16).prop_map(|(id, delay)| Wish::Timer(id, delay)),
        2 => (0..6_u8).prop_map(Wish::Child),
        2 => (0..6_u8).prop_map(Wish::Send),
        1 => (0..6_u8).prop_map(Wish::Call),
        1 => (0..6_u8).prop_map(Wish::Lock),
        1 => (0..6_u8).prop_map(Wish::Unlock),
        1 => Just(Wish::Complete),
        1 => Just(Wish::Fail),
        1 => any::<bool>().prop_map(Wish::Continue),
    ]
}

fn action(run: &Run, wish: &Wish) -> OrchestratorAction {
    let carried = || {
        let raised = |event: &HistoryEvent| matches!(event.event_type, Some(EventType::EventRaised(_)));
        run.events().into_iter().filter(raised).collect()
    };
    match *wish {
        Wish::Task(id) => task(id.into(), "work"),
        Wish::Timer(id, delay) => timer(id.into(), run.now + i64::from(delay)),
        Wish::Child(id) => child(id.into(), &format!("child-{id}"), "ship"),
        Wish::Send(id) => send_event(id.into(), "other", "go"),
        Wish::Call(id) => call(id.into(), "@counter@a", "add", &format!("r-{id}")),
        Wish::Lock(id) => lock(id.into(), &format!("s-{id}"), &["@a@1", "@b@1"]),
        Wish::Unlock(id) => unlock(id.into(), &format!("s-{id}"), "@a@1"),
        Wish::Complete => completed(9, "done"),
        Wish::Fail => failed(9, failure::failure("Boom", "bad")),
        Wish::Continue(carry) => continued(9, "next", if carry { carried() } else { Vec::new() }),
    }
}

/// The newest start of that child, answered by a child that ends at once.
fn child_answer(sent: &[Message], id: u8) -> Option<Message> {
    let is_start = |message: &&Message| matches!(message.class, Class::Start(_));
    let start =
        sent.iter().rev().filter(is_start).find(|message| message.to.as_str() == format!("child-{id}"))?;
    let mut child = Run::created(start.clone(), start.visible_at.0);
    child.turn([completed(0, "shipped")]).sent().pop()
}

/// Each answer closes a schedule that is open under its name, and nothing follows the end (I5, I6, I7).
fn check_history(events: &[HistoryEvent]) {
    let mut open = BTreeSet::new();
    for (index, event) in events.iter().enumerate() {
        match event.event_type.as_ref().unwrap() {
            EventType::TaskScheduled(_) => assert!(open.insert(("task", event.event_id))),
            EventType::TimerCreated(_) => assert!(open.insert(("timer", event.event_id))),
            EventType::SubOrchestrationInstanceCreated(_) => assert!(open.insert(("child", event.event_id))),
            EventType::TaskCompleted(e) => assert!(open.remove(&("task", e.task_scheduled_id))),
            EventType::TaskFailed(e) => assert!(open.remove(&("task", e.task_scheduled_id))),
            EventType::TimerFired(e) => assert!(open.remove(&("timer", e.timer_id))),
            EventType::SubOrchestrationInstanceCompleted(e) => {
                assert!(open.remove(&("child", e.task_scheduled_id)))
            }
            EventType::ExecutionStarted(_) => assert_eq!(index, 1, "once, after the time of the first turn"),
            EventType::ExecutionCompleted(_) => assert_eq!(index, events.len() - 1),
            _ => {}
        }
    }
    let times =
        events.iter().filter(|event| matches!(event.event_type, Some(EventType::OrchestratorStarted(_))));
    let times: Vec<_> = times.map(|event| event.timestamp.unwrap().seconds).collect();
    assert!(times.is_sorted(), "time never goes back: {times:?}");
}

/// An instance with what happened to it, for messages that come again.
struct Life {
    run: Run,
    sent: Vec<Message>,
    seen: Vec<Message>,
}

impl Life {
    fn happen(&mut self, happening: &Happening) -> Vec<dauer_core::model::Completion> {
        let run = &mut self.run;
        let task = |run: &Run, id: u8| run.tasks.contains_key(&i32::from(id));
        match *happening {
            Happening::Raise(name) => drop(run.raise(&format!("event-{name}"), None)),
            Happening::Complete(id) if task(run, id) => drop(run.complete(id.into(), "ok")),
            Happening::Fail(id) if task(run, id) => {
                run.fail_task(id.into(), failure::failure("Boom", "bad"));
            }
            Happening::Fuse(id) if task(run, id) => return vec![run.completion(id.into(), Ok("fused"))],
            Happening::ChildEnds(id) => {
                if let Some(answer) = child_answer(&self.sent, id) {
                    run.deliver(answer);
                }
            }
            Happening::Advance(by) => drop(run.at(run.now + i64::from(by))),
            Happening::Suspend => drop(run.suspend()),
            Happening::Resume => drop(run.resume()),
            Happening::Terminate => drop(run.terminate(None, true)),
            Happening::Again(index) if !self.seen.is_empty() => {
                let message = self.seen[usize::from(index) % self.seen.len()].clone();
                // A store recognises by its memory what no schedule and no record does: it gives only these again.
                let recognised = message.answers.is_some() || matches!(message.class, Class::Start(_));
                if recognised && !run.inbox.contains(&message) && !run.prologue.contains(&message) {
                    run.deliver(message);
                }
            }
            Happening::Start(over) => {
                let over = if over { Over::Terminate } else { Over::Refuse };
                let start = run.other_start("order", over);
                run.deliver(start);
            }
            _ => {}
        }
        Vec::new()
    }

    fn step(&mut self, happening: &Happening, wishes: &[Wish]) {
        let mut done = self.happen(happening);
        // What is fused must not be waiting as well: a store refuses a completion of a task that is not held.
        done.retain(|done| !self.run.inbox.iter().any(|message| message.id == done.answer.id));
        dedup(&mut self.run.inbox);
        self.seen.extend(self.run.inbox.iter().chain(&self.run.prologue).cloned());
        let actions = wishes.iter().map(|wish| action(&self.run, wish)).collect();
        let answer = Answer { actions, ..Answer::default() };
        let before = (self.run.record.clone(), self.run.text());
        let step = self.run.take_turn(done.clone(), answer).unwrap_or_else(|stalled| {
            assert!(stalled.reason.contains("still open"), "{stalled}");
            assert_eq!(
                before,
                (self.run.record.clone(), self.run.text()),
                "a refused answer changes nothing"
            );
            self.run.take_turn(done, Answer::default()).unwrap()
        });
        self.sent.extend(step.sent());
        check_history(&self.run.events());
    }
}

/// A store holds a message once, whoever sends it again.
fn dedup(inbox: &mut Vec<Message>) {
    let mut ids = BTreeSet::new();
    inbox.retain(|message| ids.insert(message.id));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_random_life_keeps_the_ledger_and_the_history_whole(
        life in prop::collection::vec((happening(), prop::collection::vec(wish(), 0..4)), 1..40)
    ) {
        let mut instance = Life { run: Run::start("order", None), sent: Vec::new(), seen: Vec::new() };
        for (happening, wishes) in &life {
            instance.step(happening, wishes);
        }
    }
}

/// The ledger of a prefix plus the rest equals the ledger of the whole: a host may load from the length it knows.
#[test]
fn a_ledger_may_be_brought_up_to_date_batch_by_batch() {
    let mut run = Run::running([task(1, "a"), timer(2, 2_000), lock(3, "s", &["@a@1"])]);
    let mut behind = run.rebuilt();
    run.complete(1, "ok").raise("x", None).turn([task(1, "a")]);
    run.at(2_000).turn([]);
    for stored in &run.history[1..] {
        let events = behind.absorb(stored).unwrap();
        assert_eq!(events.len(), stored.batch.count as usize);
    }
    assert_eq!(behind, run.ledger);
    assert_eq!(event::kind_name(&run.events()[0]), "OrchestratorStarted");
}
