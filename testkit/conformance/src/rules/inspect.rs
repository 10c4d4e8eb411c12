//! Rule 23, inspect: who holds an instance, what waits for it, which tasks are open.

use dauer_store::{
    Control, Holder, HostId, INSPECTED_MAX, Inspection, MessageId, OpenTask, Timestamp, Waiting, WaitingClass,
};

use crate::run::open;
use crate::session::Session;
use crate::world::{HOUR, PAST_LEASE, World};
use crate::{Fixture, Step};

async fn inspected(w: &World<'_>, id: &str) -> Inspection {
    w.inspect(id).await.unwrap_or_else(|| panic!("{}: '{id}' is there", w.rule))
}

/// The session as an inspection names it. The suite names a host after its session.
fn holder(session: &Session, lives: bool) -> Option<Holder> {
    let host = HostId::new(format!("host {}", session.id().0)).ok();
    Some(Holder { session: session.id(), host, lives })
}

/// An inspection names the session that holds an instance, and its host, and says whether the session lives.
pub async fn r23a_an_inspection_names_the_holder(fixture: &dyn Fixture) {
    let w = open!(fixture);
    w.same(&w.inspect("absent").await, &None, "an absent instance");
    w.start("order").await;
    w.same(&inspected(&w, "order").await.holder, &None, "no session holds it");
    let session = w.session().await;
    let turn = session.turn().await;
    w.same(&inspected(&w, "order").await.holder, &holder(&session, true), "a session has claimed it");
    session.commit(Step::of(&turn)).await;
    w.same(&inspected(&w, "order").await.holder, &None, "the commit has released it");

    w.start("late").await;
    session.turn_of("late").await;
    w.advance(PAST_LEASE).await;
    w.same(&inspected(&w, "late").await.holder, &holder(&session, false), "the session has expired");
}

/// An inspection counts all that waits, before the inbox and in it, and lists the first: what opens and controls a run
/// before the rest.
pub async fn r23b_an_inspection_lists_what_waits(fixture: &dyn Fixture) {
    let w = open!(fixture);
    let start = w.scheduled_start("later", HOUR);
    w.start_with(start.clone()).await;
    let later = inspected(&w, "later").await;
    let due = Waiting { id: start.id, class: WaitingClass::Start, visible_at: w.at(HOUR) };
    w.same(&(later.waiting, later.messages), &(1, vec![due]), "a start that is not due");
    w.same(&later.ready_at, &Some(w.at(HOUR)), "its turn can be claimed then");

    w.running("order").await;
    w.same(&inspected(&w, "order").await.ready_at, &None, "nothing waits for it");
    w.deliver(w.event_to("order")).await;
    let session = w.session().await;
    let turn = session.turn().await;
    let (start, carried) = (w.start_message("order"), w.event_to("order"));
    session.commit(Step::of(&turn).continue_as_new(vec![start.clone(), carried.clone()])).await;
    let events: Vec<_> = (0..INSPECTED_MAX).map(|_| w.event_to("order")).collect();
    let sent = w.manage().send(events.clone()).await;
    w.check(sent.iter().all(Result::is_ok), "the events are taken");
    let suspend = w.control_to("order", Control::Suspend);
    w.deliver(suspend.clone()).await;

    let found = inspected(&w, "order").await;
    w.same(&found.waiting, &(INSPECTED_MAX as u64 + 3), "all of them are counted");
    let expected: Vec<MessageId> =
        [start.id, suspend.id, carried.id].into_iter().chain(events.iter().map(|event| event.id)).collect();
    let listed: Vec<MessageId> = found.messages.iter().map(|message| message.id).collect();
    w.same(&listed, &expected[..INSPECTED_MAX].to_vec(), "the first are listed, in order");
    let classes: Vec<_> = found.messages.iter().take(3).map(|message| message.class).collect();
    let suspend = WaitingClass::Control(Control::Suspend);
    w.same(&classes, &vec![WaitingClass::Start, suspend, WaitingClass::Ordinary], "with their classes");
}

/// An inspection lists every task that has not been answered, with its holder, wherever the store keeps it.
pub async fn r23c_an_inspection_lists_the_open_tasks(fixture: &dyn Fixture) {
    let w = open!(fixture);
    w.running_with_task("order").await;
    let session = w.session().await;
    let lease = session.task().await;
    let found = inspected(&w, "order").await;
    let open = OpenTask {
        id: lease.task.id,
        event_id: lease.task.event_id,
        queue: lease.task.queue.clone(),
        holder: holder(&session, true),
        attempts: 0,
        deaths: Default::default(),
        mark: None,
        not_before: Timestamp::default(),
        withdrawn: false,
    };
    w.same(&(found.open, found.tasks), &(1, vec![open]), "a task that a session runs");

    w.start("taken").await;
    let turn = session.turn_of("taken").await;
    let tasks = [w.task(&turn, "pay"), w.task(&turn, "ship")];
    let mut expected = tasks.each_ref().map(|task| task.id).to_vec();
    expected.sort();
    session.commit(Step::of(&turn).tasks(tasks).take(1).keep()).await;
    let listed: Vec<MessageId> = inspected(&w, "taken").await.tasks.into_iter().map(|task| task.id).collect();
    w.same(&listed, &expected, "those that the commit has taken, and the others");
}
