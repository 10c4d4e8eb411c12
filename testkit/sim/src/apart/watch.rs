//! What lies between a server and the store: servers die at the edges of their calls, and what they commit is looked at.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use dauer_faults::{Act, Answer, Call, Destination, Fate, Interceptor, Op};
use dauer_store::{Checkpoint, History};

use super::code::{is_incoming, seen};
use super::settings::Fault;
use super::world::{Chance, World};
use crate::executor::Owner;

/// One server's way to the store.
pub(super) struct Watch {
    pub(super) world: Arc<World>,
    pub(super) owner: Owner,
    /// Whether it has had a session.
    pub(super) opened: AtomicBool,
}

/// Calls that happen seldom and matter here have as many chances to meet a fault as several others.
fn chances(op: Op) -> u32 {
    if matches!(op, Op::Adopt | Op::Died | Op::Trial | Op::CompleteActivities | Op::Detach) { 4 } else { 1 }
}

impl Watch {
    async fn edge(&self, fault: Fault, op: Op) {
        let world = &self.world;
        if (0..chances(op)).any(|_| world.happens(fault)) {
            world.note(&[30, op as u64], || format!("server {} dies at {op}", self.owner.0));
            world.server_died(self.owner);
            world.executor.doom(self.owner);
            std::future::pending::<()>().await;
        }
        let pause = world.random(|random| if random.chance(2_000) { random.below(5) } else { 0 });
        if pause > 0 {
            world.sleep(std::time::Duration::from_millis(pause)).await;
        }
    }

    /// A turn is committed as its worker has seen it.
    fn check_commit(&self, checkpoint: &Checkpoint) {
        let record = &checkpoint.record;
        if record.status == dauer_store::Status::Terminated {
            return;
        }
        let Some(status) = record.details.as_ref().and_then(|details| details.custom_status()) else {
            return;
        };
        let History::Append(batch) = &checkpoint.history else { return };
        let Ok(events) = batch.decode() else { return };
        let committed = seen(events.iter().filter(|event| is_incoming(event)));
        if status.as_str() != committed {
            let instance = &checkpoint.fence.instance;
            self.world.journal.complain(format!(
                "old plan: a turn of {instance} commits {committed}, and its worker has seen {}",
                status.as_str()
            ));
        }
    }
}

#[async_trait]
impl Interceptor for Watch {
    async fn call(&self, call: Call, to: Destination<'_>) -> Answer {
        let (op, world) = (call.op(), &self.world);
        self.edge(Fault::CrashBefore, op).await;
        let answer = to.carry_out(call.clone()).await;
        let refused = answer.results().into_iter().flatten().count() as u64;
        world.note(&[31, u64::from(self.owner.0), op as u64, refused], || {
            format!("server {}: {op}: {refused} refused", self.owner.0)
        });
        match (&call, &answer) {
            (Call::CommitTurns { batch }, Answer::CommitTurns(results)) => {
                let done = batch.iter().zip(results).filter(|(_, result)| result.is_ok());
                done.for_each(|(checkpoint, _)| self.check_commit(checkpoint));
            }
            (Call::Attach { .. }, Answer::Attach(Ok(_))) if self.opened.swap(true, Ordering::Relaxed) => {
                world.journal.notes().servers_lost += 1;
            }
            (Call::Died { .. }, _) => world.look(),
            _ => {}
        }
        self.edge(Fault::CrashAfter, op).await;
        answer
    }
}

/// The faults of the store itself.
pub(super) struct StoreFaults(pub(super) Arc<Chance>);

impl dauer_faults::Plan for StoreFaults {
    fn fate(&self, call: &Call) -> Fate {
        let (op, world) = (call.op(), &self.0);
        let happens = |fault| (0..chances(op)).any(|_| world.happens(fault));
        let fate = if happens(Fault::StoreRefuses) {
            Fate::of(Act::Refuse)
        } else if happens(Fault::StoreLosesRequest) {
            Fate::of(Act::LoseRequest)
        } else if happens(Fault::StoreLosesAnswer) {
            Fate::of(Act::LoseAnswer)
        } else if happens(Fault::StoreTwice) {
            Fate::of(Act::Twice)
        } else {
            Fate::PASS
        };
        if happens(Fault::StoreLate) {
            let delay = std::time::Duration::from_millis(world.random(|random| random.below(800)));
            return if world.random(|random| random.chance(5_000)) {
                fate.late(delay)
            } else {
                fate.answered_late(delay)
            };
        }
        fate
    }
}
