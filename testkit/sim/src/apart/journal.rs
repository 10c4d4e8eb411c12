//! What workers did and what became of it, and the rules that it is held against.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use dauer_store::Timestamp;

use super::settings::{RECONNECT_GRACE, RESTART_GRACE, Species};
use crate::executor::Owner;
use crate::unpoisoned;

/// A stream counts as contact from this long on: a server that hardly lives adopts nothing.
const CONTACT_MIN: Duration = Duration::from_secs(4);

/// An item that a worker has: an activity by its key, a turn by its instance, run and the events before it.
pub(super) type Item = String;

/// One begin of an activity.
#[derive(Debug, Clone)]
struct Execution {
    process: Owner,
    at: Timestamp,
    /// The worker has forgotten it without its answer being taken.
    dropped: bool,
    taken: bool,
    /// The worker has nothing more to do with it.
    over: bool,
}

/// One stream.
#[derive(Debug, Clone)]
struct Stream {
    server: Owner,
    opened: Timestamp,
    /// When either end noticed its loss first, and whether the server lived.
    ended: Option<(Timestamp, bool)>,
}

#[derive(Debug)]
struct Process {
    species: Species,
    died: Option<Timestamp>,
    streams: BTreeMap<u64, Stream>,
}

#[derive(Default)]
pub(super) struct Notes {
    executions: BTreeMap<Item, Vec<Execution>>,
    processes: BTreeMap<Owner, Process>,
    /// How often a worker was lost with an item.
    losses: BTreeMap<Item, u32>,
    /// How often an item killed its worker.
    pub(super) killed: BTreeMap<Item, u32>,
    /// Servers and sessions that have ended. A death is not counted where its server ends first.
    pub(super) servers_lost: u32,
    /// Pauses, each of which may cost a death that counts for nothing.
    pub(super) excused: u32,
    pub(super) begun: u64,
    pub(super) begun_again: u64,
    pub(super) taken: u64,
    pub(super) violations: Vec<String>,
}

#[derive(Default)]
pub(super) struct Journal(Mutex<Notes>);

impl Journal {
    pub(super) fn notes(&self) -> MutexGuard<'_, Notes> {
        unpoisoned(&self.0)
    }

    pub(super) fn complain(&self, text: String) {
        self.notes().violations.push(text);
    }
}

impl Notes {
    pub(super) fn process(&mut self, owner: Owner, species: Species) {
        self.processes.insert(owner, Process { species, died: None, streams: BTreeMap::new() });
    }

    pub(super) fn opened(&mut self, process: Owner, (stream, server): (u64, Owner), at: Timestamp) {
        if let Some(process) = self.processes.get_mut(&process) {
            process.streams.insert(stream, Stream { server, opened: at, ended: None });
        }
    }

    /// One end of a stream has noticed its loss.
    pub(super) fn ended(&mut self, process: Owner, stream: u64, (at, server_lives): (Timestamp, bool)) {
        let stream = self.processes.get_mut(&process).and_then(|process| process.streams.get_mut(&stream));
        if let Some(stream) = stream {
            stream.ended.get_or_insert((at, server_lives));
        }
    }

    /// A server is gone, or has closed.
    pub(super) fn server_ended(&mut self, server: Owner, at: Timestamp) {
        self.servers_lost += 1;
        let streams = self.processes.values_mut().flat_map(|process| process.streams.values_mut());
        for stream in streams.filter(|stream| stream.server == server) {
            stream.ended.get_or_insert((at, false));
        }
    }

    pub(super) fn died(&mut self, owner: Owner, at: Timestamp) {
        let Some(process) = self.processes.get_mut(&owner) else { return };
        let is_first = process.died.replace(at).is_none();
        // Where it has a stream, that is lost as well.
        if is_first && process.streams.values().all(|stream| stream.ended.is_some()) {
            self.lost(owner, BTreeSet::new());
        }
    }

    /// A server has lost a worker with these items, and with all that the worker executes.
    pub(super) fn lost(&mut self, process: Owner, aboard: BTreeSet<Item>) {
        let executes = self.executions.iter().filter(|(_, executions)| {
            executions.iter().any(|execution| execution.process == process && !execution.over)
        });
        let executes: Vec<Item> = executes.map(|(item, _)| item.clone()).collect();
        let all: BTreeSet<Item> = aboard.into_iter().chain(executes).collect();
        for item in all {
            *self.losses.entry(item).or_default() += 1;
        }
    }

    /// An item has killed its worker.
    pub(super) fn kills(&mut self, item: Item) {
        *self.killed.entry(item).or_default() += 1;
    }

    /// A worker begins an activity.
    pub(super) fn begins(&mut self, item: &Item, process: Owner, (at, is_over): (Timestamp, bool)) {
        self.begun += 1;
        let before = self.executions.get(item).cloned().unwrap_or_default();
        self.begun_again += u64::from(!before.is_empty());
        for execution in before.iter().filter(|_| !is_over) {
            if let Err(why) = self.may_begin_again(execution, at) {
                let since = at.since(execution.at).as_millis();
                self.violations.push(format!(
                    "begun twice: {item} began at worker {} and {since} ms later at worker {}, although {why}",
                    execution.process.0, process.0
                ));
            }
        }
        let execution = Execution { process, at, dropped: false, taken: false, over: false };
        self.executions.entry(item.clone()).or_default().push(execution);
    }

    /// Whether an activity may begin once more although it began before.
    fn may_begin_again(&self, execution: &Execution, now: Timestamp) -> Result<(), String> {
        let Some(process) = self.processes.get(&execution.process) else { return Ok(()) };
        if execution.taken {
            return Err("its answer was taken".into());
        }
        if process.died.is_some() || execution.dropped {
            return Ok(());
        }
        match process.species {
            Species::Own => match process.away(execution.at, now) {
                (away, grace) if away >= grace => Ok(()),
                (away, _) => Err(format!("that one was away for {} ms only", away.as_millis())),
            },
            // It says nothing when it comes again.
            Species::Named | Species::Tokens | Species::Bare => {
                let lost = process.streams.values().any(|stream| {
                    stream.ended.is_some_and(|(at, server_lives)| {
                        let grace = match (server_lives, process.species) {
                            // It may have come again, and have an item sent so shortly before that it may not have received it.
                            (true, Species::Named) => Duration::ZERO,
                            (true, _) => RECONNECT_GRACE,
                            (false, _) => RESTART_GRACE,
                        };
                        at >= execution.at && at.after(grace) <= now
                    })
                });
                if lost || execution.at.after(RESTART_GRACE) <= now {
                    return Ok(());
                }
                Err("that one lives, and no grace is over".into())
            }
        }
    }

    pub(super) fn is_over(&mut self, item: &Item, process: Owner, taken: bool) {
        let executions = self.executions.get_mut(item).into_iter().flatten();
        for execution in executions.filter(|execution| execution.process == process && !execution.over) {
            (execution.over, execution.taken, execution.dropped) = (true, taken, !taken);
        }
        self.taken += u64::from(taken);
    }

    /// The store counts that many deaths of an item.
    pub(super) fn check_deaths(&mut self, item: &Item, deaths: u32) {
        let lost = self.losses.get(item).copied().unwrap_or_default();
        if deaths > lost {
            let text = format!("deaths: {item} has {deaths}, and its worker was lost {lost} times");
            if !self.violations.contains(&text) {
                self.violations.push(text);
            }
        }
    }
}

impl Process {
    /// The longest time for which the worker had no contact to a lasting server, and the grace that it had.
    fn away(&self, since: Timestamp, now: Timestamp) -> (Duration, Duration) {
        let mut longest = (Duration::ZERO, RESTART_GRACE);
        // It had contact when the activity began.
        let mut from = None;
        let mut grace = RESTART_GRACE;
        let mut note = |from: Timestamp, to: Timestamp, grace: Duration| {
            let away = to.since(from);
            if away.as_millis() * longest.1.as_millis() >= longest.0.as_millis() * grace.as_millis() {
                longest = (away, grace);
            }
        };
        for stream in self.streams.values() {
            let end = stream.ended.map_or(now, |(at, _)| at);
            if end < since {
                continue;
            }
            if end.since(stream.opened) >= CONTACT_MIN {
                if let Some(from) = from.take() {
                    note(from, stream.opened.after(CONTACT_MIN), grace);
                }
                grace = RESTART_GRACE;
            }
            if let Some((at, server_lives)) = stream.ended {
                from.get_or_insert(at);
                if server_lives {
                    grace = RECONNECT_GRACE;
                }
            }
        }
        if let Some(from) = from {
            note(from, now, grace);
        }
        longest
    }
}
