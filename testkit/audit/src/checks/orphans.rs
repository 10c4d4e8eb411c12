//! L3: no message, timer, task or lease without an owner that lives or a time at which it is dropped.

use dauer_core::SessionId;
use dauer_core::model::{Deaths, Status};
use dauer_proto::event::ScheduledKind;
use dauer_store::TaskDump;

use crate::Settings;
use crate::report::{Finding, Place, Tally};
use crate::view::{Key, View, Views};

pub(super) fn check(views: &Views<'_>, settings: &Settings) -> Finding {
    let mut tally = Tally::default();
    for dump in views.snapshot.tasks.values() {
        task(views, dump, settings, &mut tally);
    }
    for view in views.iter() {
        if let Some(holder) = view.dump.holder {
            tally.check(knows(views, holder), || Place::of(view.id), || unknown(holder));
        }
        let (dump, place) = (view.dump, || Place::of(view.id));
        trial((dump.trial, dump.holder.is_some()), dump.record.deaths, place, &mut tally);
        if !view.is_live() {
            left_behind(views, view, &mut tally);
        }
    }
    tally.finding()
}

fn knows(views: &Views<'_>, holder: SessionId) -> bool {
    views.snapshot.sessions.contains_key(&holder)
}

/// A trial ends with the hold under which it was opened, and deaths during trials are deaths of workers.
fn trial<'p>((open, held): (bool, bool), deaths: Deaths, place: impl Fn() -> Place<'p>, tally: &mut Tally) {
    if open {
        tally.check(held, &place, || "has an open trial, and no session holds it".into());
    }
    if deaths.trials > 0 {
        tally.check(deaths.trials <= deaths.workers, &place, || {
            format!("counts {} deaths during trials among {} of workers", deaths.trials, deaths.workers)
        });
    }
}

fn unknown(holder: SessionId) -> String {
    format!("is held by session {:032x}, which does not exist, so nobody can take it over", holder.0)
}

fn task(views: &Views<'_>, dump: &TaskDump, settings: &Settings, tally: &mut Tally) {
    let task = &dump.task;
    let place = || Place::at(&task.instance, format!("task {}", task.id));
    if let Some(holder) = dump.holder {
        tally.check(knows(views, holder), place, || unknown(holder));
    }
    trial((dump.trial, dump.holder.is_some()), dump.deaths, place, tally);
    let abandoned = dump.withdrawn && dump.holder.is_none();
    tally.check(!abandoned, place, || {
        "is withdrawn and held by nobody, so nothing will ever remove it".into()
    });
    let Some(view) = views.by_id.get(&task.instance) else {
        return tally.check(false, place, || "belongs to an instance that does not exist".into());
    };
    if view.dump.record.execution != task.execution || view.damage.is_some() {
        return;
    }
    if view.is_live() {
        let key = Key::Action(ScheduledKind::Task, task.event_id);
        let open = view.is_open(&key);
        // Where the store has no transactions, a task may be older than its schedule.
        tally.check(open || !settings.transactional, place, || {
            format!("is there to be run, but {key} of its instance is not open")
        });
    } else if view.dump.record.status == Status::Terminated && settings.transactional {
        tally.check(dump.holder.is_some() || abandoned, place, || {
            "nobody holds it and its instance was terminated, so it should have been withdrawn".into()
        });
    }
}

/// An ended run takes only a start or rewind. Anything else is dropped, at the latest when it becomes visible.
fn left_behind(views: &Views<'_>, view: &View<'_>, tally: &mut Tally) {
    let record = &view.dump.record;
    for waiting in &view.waiting {
        let message = waiting.message;
        let fine = record.hold().admits(message) || message.visible_at > views.snapshot.now;
        tally.check(
            fine,
            || Place::at(view.id, format!("message {}", message.id)),
            || format!("waits for an instance that is {:?}, which never takes it", record.status),
        );
    }
}
