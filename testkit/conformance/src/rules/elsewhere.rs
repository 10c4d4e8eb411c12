//! Rule 25, workers elsewhere: a task goes to the session that its worker has come to, and tokens outlive a server.

use dauer_store::{
    Delivered, DropReason, HubKey, Item, Lost, MessageId, Refused, Status, TaskLease, TaskName,
};

use crate::message::task_name;
use crate::run::open;
use crate::session::GiveBack;
use crate::world::{HOUR, PAST_LEASE, World};
use crate::{Fixture, Session, Step};

/// An instance whose tasks have these names.
async fn with_tasks(w: &World<'_>, names: &[&str]) {
    w.start("order").await;
    w.run(|turn| Step::of(turn).tasks(names.iter().map(|name| w.task(turn, name)))).await;
}

/// Adopts a task that is open, under a higher epoch.
async fn adopted(w: &World<'_>, by: &Session, lease: &TaskLease) -> TaskLease {
    let adopted = by.adopt(&task_name(lease)).await;
    w.check(adopted.is_some(), "an open task is adopted");
    let adopted = adopted.unwrap_or_else(|| lease.clone());
    w.same(&adopted.task, &lease.task, "the task comes with the adoption");
    w.check(adopted.fence.epoch > lease.fence.epoch, "an adoption raises the epoch");
    adopted
}

fn loses(lost: &[Lost], lease: &TaskLease) -> bool {
    lost.iter().any(|Lost { item }| *item == Item::Task(lease.fence.clone()))
}

/// An open task is adopted from any session, from none, and from the session itself, with or without a delay. The former holder
/// finds it lost, and neither its answer nor its fusion counts.
pub async fn r25a_an_adopted_task_changes_hands(fixture: &dyn Fixture) {
    let w = open!(fixture);
    with_tasks(&w, &["delayed", "pay"]).await;
    let (holder, server) = (w.session().await, w.server().await);
    let leases = holder.tasks().await;
    let [delayed, held] = &leases[..] else { panic!("r25a: both tasks should be ready, not {leases:?}") };
    holder.release(delayed.delayed(HOUR)).await;
    let delayed = adopted(&w, &server, delayed).await;
    let again = adopted(&w, &server, &delayed).await;
    let held_now = adopted(&w, &server, held).await;
    w.check(loses(&holder.renew().await, held), "the former holder finds the task lost");
    w.check(loses(&server.renew().await, &delayed), "so does the session that has adopted its own");
    holder.no_task("another session holds both").await;

    for stale in [held, &delayed] {
        for session in [&holder, &server] {
            let dropped = session.complete(w.answer(stale)).await;
            w.same(&dropped, &Delivered::Dropped(DropReason::NotHeld), "the answer of a former hold");
        }
    }
    w.same(&server.complete(w.answer(&held_now)).await, &Delivered::Applied, "the answer of its worker");
    w.same(&server.complete(w.answer(&again)).await, &Delivered::Applied, "the answer of its worker");
    taken_task_is_adopted(&w, &holder, &server).await;
}

/// The same of a task that the commit of its instance has leased to a session, which keeps the instance.
async fn taken_task_is_adopted(w: &World<'_>, holder: &Session, server: &Session) {
    let turn = holder.turn().await;
    let committed = holder.commit(Step::of(&turn).tasks([w.task(&turn, "taken")]).take(1).keep()).await;
    let taken = committed.taken.first().cloned();
    w.check(taken.is_some(), "the commit leases the task that it took");
    let Some(taken) = taken else { return };
    let held = adopted(w, server, &taken).await;
    let kept = Step::continued(&turn, &committed);
    let fused = holder.try_commit(Step::of(&kept).completions([w.answer(&taken)])).await;
    w.fenced(fused, "a commit with the result of an adopted task");
    w.same(&server.complete(w.answer(&held)).await, &Delivered::Applied, "the answer of its worker");
    holder.commit(Step::of(&kept)).await;
}

/// An adoption leaves attempts, deaths and mark as they are, also when the last holder has expired.
pub async fn r25b_an_adoption_counts_nothing(fixture: &dyn Fixture) {
    let w = open!(fixture);
    with_tasks(&w, &["pay"]).await;
    let session = w.session().await;
    session.release(session.task().await.failed()).await;
    session.task().await;
    w.kill(session).await;
    w.advance(PAST_LEASE).await;
    let server = w.server().await;
    server.task().await;
    w.kill(server).await;
    w.advance(PAST_LEASE).await;

    let server = w.server().await;
    let before = server.task().await;
    w.kill(server).await;
    w.advance(PAST_LEASE).await;
    let after = w.server().await.adopt(&task_name(&before)).await;
    let counts = |lease: TaskLease| (lease.attempts, lease.deaths, lease.mark);
    w.same(&after.map(counts), &Some(counts(before)), "attempts, deaths and mark stay");
}

/// A task that is not open or was withdrawn is not adopted. An expired session renews before it adopts, and one that was ended
/// adopts nothing.
pub async fn r25c_only_an_open_task_is_adopted(fixture: &dyn Fixture) {
    let w = open!(fixture);
    with_tasks(&w, &["pay"]).await;
    let (holder, server) = (w.session().await, w.server().await);
    let lease = holder.task().await;
    let absent = TaskName { task: MessageId([9; 16]), ..task_name(&lease) };
    let nowhere = TaskName { instance: crate::instance("nowhere"), ..task_name(&lease) };
    let answers = server.work().adopt(vec![absent, task_name(&lease), nowhere]).await;
    let some: Vec<bool> = answers.iter().map(|answer| matches!(answer, Ok(Some(_)))).collect();
    w.same(&some, &vec![false, true, false], "each is judged alone");
    w.check(answers.iter().all(Result::is_ok), "a task that is not there is no error");

    let lease = adopted(&w, &holder, &lease).await;
    w.deliver(w.event_to("order")).await;
    w.run(|turn| Step::of(turn).ended(Status::Terminated)).await;
    w.same(&server.adopt(&task_name(&lease)).await, &None, "its run was terminated");
    let answered = holder.complete(w.answer(&lease)).await;
    w.same(&answered, &Delivered::Dropped(DropReason::Withdrawn), "its holder answers it still");
    w.same(&server.adopt(&task_name(&lease)).await, &None, "it is answered");

    w.advance(PAST_LEASE).await;
    let expired = server.try_adopt(&task_name(&lease)).await;
    w.check(matches!(expired, Err(Refused::NotExecuted(_))), "an expired session adopts nothing");
    w.ok(w.manage().end_session(server.id()).await, "end_session");
    w.fenced(server.try_adopt(&task_name(&lease)).await, "an adoption by a session that was ended");
}

/// The first candidate becomes the key of a hub, which the call makes. Every hub has a key of its own.
pub async fn r25d_the_first_key_of_a_hub_stays(fixture: &dyn Fixture) {
    let w = open!(fixture);
    let (first, second) = (HubKey([1; 32]), HubKey([2; 32]));
    for candidate in [first, second, first] {
        let key = w.ok(w.manage().key(candidate).await, "key");
        w.check(key == first, "the first candidate is the key");
    }
    w.check(w.ok(w.store().has_hub(w.name()).await, "has_hub"), "a hub with a key exists");
    let other = w.beside("Other").await;
    let key = w.ok(other.manage().key(second).await, "key");
    w.check(key == second, "another hub has another key");
}
