//! Taking everything out, and putting it in (16).

use dauer_store::{Cause, DumpItem, HubDump, InstanceDump, Refused, SessionDump, TaskDump};

use super::State;
use super::inbox::Instance;
use super::sessions::Session;
use super::tasks::OpenTask;
use crate::mistake::Mistake as M;

impl State {
    /// Everything, in one part.
    pub(crate) fn dump(&self) -> Vec<DumpItem> {
        let mut items = vec![DumpItem::Now(self.now())];
        items.extend(self.dropped.iter().map(|(reason, count)| DumpItem::Dropped(*reason, *count)));
        items.extend(self.sessions.iter().map(|(id, session)| {
            let (host, expires_at, runs_code) = (session.host.clone(), session.expires_at, session.runs_code);
            DumpItem::Session(SessionDump { id: *id, host, expires_at, runs_code })
        }));
        let forgets = self.makes(M::DumpForgetsMemory);
        let shows_trials = !self.makes(M::DumpForgetsTrials);
        items.extend(self.instances.iter().map(|(id, instance)| {
            let Instance {
                record,
                epoch,
                holder,
                trial,
                not_before,
                history,
                prologue,
                inbox,
                outbox,
                memory,
                ..
            } = instance.clone();
            let (id, ready_at) = (id.clone(), instance.ready_at(self.moment));
            let memory = if forgets { Vec::new() } else { memory };
            let trial = trial && shows_trials;
            DumpItem::Instance(Box::new(InstanceDump {
                id,
                record,
                epoch,
                holder,
                trial,
                ready_at,
                not_before,
                history,
                prologue,
                inbox,
                outbox,
                memory,
            }))
        }));
        items.extend(self.tasks.values().map(|open| {
            let OpenTask {
                task, epoch, holder, attempts, deaths, mark, trial, not_before, withdrawn, ..
            } = open.clone();
            let trial = trial && shows_trials;
            DumpItem::Task(Box::new(TaskDump {
                task,
                epoch,
                holder,
                attempts,
                deaths,
                mark,
                trial,
                not_before,
                withdrawn,
            }))
        }));
        let hub = if self.makes(M::DumpForgetsFloor) {
            HubDump { key: self.hub.key, ..HubDump::default() }
        } else {
            self.hub
        };
        let hub = HubDump { key: hub.key.filter(|_| !self.makes(M::DumpForgetsKey)), ..hub };
        items.push(DumpItem::Hub(hub));
        if !self.makes(M::DumpForgetsRemovedStarts) {
            items.extend(self.removed.iter().map(|(id, at)| DumpItem::RemovedStart(*id, *at)));
        }
        items
    }

    /// Puts dumped items into a hub that nothing else was done with.
    pub(crate) fn load(&mut self, items: Vec<DumpItem>) -> Result<(), Refused> {
        if self.used {
            return Err(Refused::NotExecuted(Cause::new("the hub is in use; load needs an empty one")));
        }
        items.iter().try_for_each(DumpItem::loadable)?;
        for item in items {
            match item {
                DumpItem::Now(now) => self.moment.now = self.moment.now.max(now),
                DumpItem::Dropped(reason, count) => _ = self.dropped.insert(reason, count),
                DumpItem::Session(SessionDump { id, host, expires_at, runs_code }) => {
                    self.sessions.insert(id, Session::loaded(host, expires_at, runs_code));
                }
                DumpItem::Hub(hub) => self.hub = hub,
                DumpItem::RemovedStart(id, at) => self.remember_start(id, at),
                DumpItem::Instance(dump) => self.load_instance(*dump),
                DumpItem::Task(dump) => self.load_task(*dump),
                // Refused above.
                DumpItem::Damaged(..) => {}
            }
        }
        Ok(())
    }

    fn load_instance(&mut self, dump: InstanceDump) {
        let InstanceDump { id, record, epoch, holder, trial, not_before, history, .. } = dump;
        let (prologue, inbox, outbox, memory) = (dump.prologue, dump.inbox, dump.outbox, dump.memory);
        let last_holder = holder;
        let instance = Instance::new(record, epoch);
        let instance = Instance { holder, last_holder, trial, not_before, history, prologue, ..instance };
        self.instances.insert(id, Instance { inbox, outbox, memory, ..instance });
    }

    fn load_task(&mut self, dump: TaskDump) {
        let TaskDump { task, epoch, holder, attempts, deaths, mark, trial, not_before, withdrawn } = dump;
        let key = (task.instance.clone(), task.id);
        let (ready_at, last_holder) = (not_before, holder);
        let open = OpenTask {
            task,
            epoch,
            holder,
            last_holder,
            attempts,
            deaths,
            mark,
            trial,
            ready_at,
            not_before,
            withdrawn,
        };
        self.tasks.insert(key, open);
    }
}
