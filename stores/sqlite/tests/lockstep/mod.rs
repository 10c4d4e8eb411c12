//! SQLite and the model in lock-step while the disk fails: after every call the file holds what the model holds, and what
//! nobody knew the outcome of has happened whole or not at all.

mod make;
mod model;
pub(crate) mod op;
mod request;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use dauer_faults::{Act, wrap_hub};
use dauer_power_vfs::{FailingDisk, Fault};
use dauer_sqlite::{Clock, ManualClock, Memory, Options, SqliteStore};
use dauer_store::{Checkpoint, ClaimedTurn, DumpItem, HubName, SessionId, TaskLease, Timestamp};

use crate::support::build::host;
use crate::support::faults::Faults;
use crate::support::{Folder, clock, everything, options};
use model::{Happened, Model, sorted};
use op::{Op, Step, Trouble};
use request::{Part, Reply, Request, Side};

const LEASE: Duration = Duration::from_secs(30);

/// Sessions at the same time.
const SESSIONS: usize = 3;

/// What a session has.
struct Session {
    id: SessionId,
    turns: Vec<ClaimedTurn>,
    tasks: Vec<TaskLease>,
    last_commit: Option<Checkpoint>,
    /// The next turns of instances that commits may have kept, without their messages.
    kept: VecDeque<ClaimedTurn>,
}

/// A call that nobody knew the outcome of and that was not in the file when it was looked at. Until something else is
/// written it may lie in the log behind its end, and be found by whoever opens the file next.
struct Ghost {
    /// What had happened before.
    position: usize,
    at: Timestamp,
    elements: Vec<Request>,
}

/// What the cases of a run have met.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Met {
    pub(crate) known: u64,
    pub(crate) not_executed: u64,
    pub(crate) unknown_happened: u64,
    pub(crate) unknown_not_happened: u64,
    /// Calls that nobody knew the outcome of and that another process found to have happened.
    pub(crate) ghosts: u64,
    pub(crate) opened: u64,
    pub(crate) not_opened: u64,
    /// Accesses that failed.
    pub(crate) failed: u64,
}

/// Both stores.
pub(crate) struct Lockstep {
    folder: Folder,
    disk: FailingDisk,
    clock: Arc<ManualClock>,
    memory: Memory,
    answers: Arc<Faults>,
    store: SqliteStore,
    side: Side,
    model: Model,
    sessions: Vec<Session>,
    attached: u128,
    ghosts: Vec<Ghost>,
    /// What the file held after the last call.
    held: Vec<String>,
    pub(crate) met: Met,
}

/// All, little or nothing is held in memory.
fn memory_held(number: u8) -> Memory {
    match number {
        0 => Memory::default(),
        1 => Memory { instances: 2, messages: 1 },
        _ => Memory { instances: 0, messages: 0 },
    }
}

/// The hub of a store whose answers may be lost.
fn side_of(store: &SqliteStore, answers: &Arc<Faults>) -> Side {
    Side::new(wrap_hub(store.hub(HubName::default()), answers.interceptor()))
}

/// What is held, but for the time, which passes by itself.
fn without_time(held: &[String]) -> Vec<&String> {
    held.iter().filter(|item| !item.starts_with("Now(")).collect()
}

impl Lockstep {
    pub(crate) async fn begin(memory: u8) -> Self {
        let (folder, clock, memory) = (Folder::new(), clock(), memory_held(memory));
        let disk = FailingDisk::watch(folder.path()).unwrap();
        let answers = Arc::<Faults>::default();
        let options = Options { memory, ..options(&clock) };
        let store = SqliteStore::open(folder.file(), options).unwrap();
        let side = side_of(&store, &answers);
        let (sessions, ghosts, held, met) = (vec![], vec![], vec![], Met::default());
        let (model, attached) = (Model::new(), 0);
        let mut both = Self {
            folder,
            disk,
            clock,
            memory,
            answers,
            store,
            side,
            model,
            sessions,
            attached,
            ghosts,
            held,
            met,
        };
        both.attach_all().await;
        both
    }

    /// Does one thing.
    pub(crate) async fn step(&mut self, step: &Step) {
        match &step.op {
            Op::Advance(seconds) => self.clock.advance(Duration::from_secs(u64::from(*seconds))),
            Op::Reopen => {
                self.fail(step.fault());
                self.store.close();
                self.open().await;
            }
            Op::Crash => {
                // As it is: nobody writes meanwhile, because nobody was asked to.
                let next = Folder::new();
                for suffix in ["", "-wal"] {
                    let name = format!("hub.db{suffix}");
                    // There is no log after it was emptied and before it is written again.
                    let copied = std::fs::copy(self.folder.path().join(&name), next.path().join(&name));
                    assert!(copied.is_ok() || suffix == "-wal", "{copied:?}");
                }
                self.store.close();
                self.disk = FailingDisk::watch(next.path()).unwrap();
                self.folder = next;
                self.fail(step.fault());
                self.open().await;
            }
            Op::Replace(by, dead) => {
                let session = self.sessions.remove(usize::from(*by) % self.sessions.len()).id;
                let end = if *dead { Request::EndSession(session) } else { Request::Detach(session) };
                self.call(end, step.trouble).await;
                self.attach().await;
            }
            op => {
                if let Some(request) = self.make(op) {
                    let by = usize::from(op.session()) % self.sessions.len();
                    let reply = self.call(request, step.trouble).await;
                    self.sessions[by].turns.extend(reply.turns);
                    self.sessions[by].tasks.extend(reply.tasks);
                }
            }
        }
    }

    pub(crate) fn end(self) -> Met {
        self.store.close();
        self.met
    }

    fn fail(&self, fault: Option<Fault>) {
        fault.into_iter().for_each(|fault| self.disk.fail(fault));
    }

    /// Makes a call of SQLite, looks at what became of it, and has the model follow.
    async fn call(&mut self, request: Request, trouble: Option<Trouble>) -> Reply {
        // What becomes ready at the same time may be claimed in any order.
        self.clock.advance(Duration::from_millis(1));
        let at = self.clock.now();
        let mut answer_lost = false;
        match (trouble, request.seam()) {
            (Some(Trouble::Disk(fault)), _) => self.disk.fail(fault),
            (Some(Trouble::LostAnswer), Some(op)) => {
                // Ready once it has struck, which the answer shows as well.
                drop(self.answers.plan(op, Act::LoseAnswer));
                answer_lost = true;
            }
            _ => {}
        }
        let reply = self.side.ask(&request).await;
        let failed = self.disk.heal();
        self.met.failed += u64::from(failed);
        let elements = request.elements();
        assert_eq!(elements.len(), reply.parts.len(), "an answer for each element: {request:?}");
        let certain = !reply.parts.contains(&Part::Unknown);
        assert!(certain || failed > 0 || answer_lost, "in doubt for nothing: {request:?}");
        let found = sorted(&self.side).await;
        let position = self.model.happened.len();
        let not_there = self.follow(&request, (at, failed > 0), &reply.parts, &found).await;
        if without_time(&found) != without_time(&self.held) {
            // Written over whatever may have been left in the log.
            self.ghosts.clear();
        }
        if !not_there.is_empty() {
            self.ghosts.push(Ghost { position, at, elements: not_there });
        }
        self.held = found;
        reply
    }

    /// Finds out what has happened of a call, and lets it happen in the model. What was unknown and has not is given back.
    async fn follow(
        &mut self,
        request: &Request,
        (at, disturbed): (Timestamp, bool),
        parts: &[Part],
        found: &[String],
    ) -> Vec<Request> {
        let elements = request.elements();
        let unknown: Vec<usize> = (0..parts.len()).filter(|part| parts[*part] == Part::Unknown).collect();
        for subset in 0_u32..1 << unknown.len() {
            let is_in =
                |part: usize| unknown.iter().position(|each| *each == part).map(|bit| subset >> bit & 1 == 1);
            // Without anything unknown there is one candidate, and no need for a copy.
            let mut candidate = match unknown.is_empty() {
                true => std::mem::replace(&mut self.model, Model::new()),
                false => Model::play(self.model.happened.clone()).await,
            };
            for (number, (element, part)) in elements.iter().zip(parts).enumerate() {
                let answer_lost = match part {
                    Part::NotExecuted if disturbed => continue,
                    // Refused by the contract: the model refuses it too.
                    Part::NotExecuted | Part::Known(_) => false,
                    Part::Unknown if is_in(number) == Some(true) => true,
                    Part::Unknown => continue,
                };
                let told = candidate.happen(Happened { at, request: element.clone(), answer_lost }).await;
                assert_eq!(told, std::slice::from_ref(part), "{element:?}");
            }
            if candidate.dump(at).await == found {
                self.model = candidate;
                self.count(parts, u64::from(subset.count_ones()));
                return unknown
                    .iter()
                    .filter(|n| is_in(**n) == Some(false))
                    .map(|n| elements[*n].clone())
                    .collect();
            }
            if unknown.is_empty() {
                assert_eq!(candidate.dump(at).await, found, "what both hold after {request:?}: {parts:?}");
            }
        }
        assert_eq!(self.model.dump(at).await, found, "neither whole nor not at all: {request:?}: {parts:?}");
        unreachable!("the subset of nothing has been compared before");
    }

    fn count(&mut self, parts: &[Part], happened: u64) {
        for part in parts {
            match part {
                Part::Known(_) => self.met.known += 1,
                Part::NotExecuted => self.met.not_executed += 1,
                Part::Unknown => self.met.unknown_not_happened += 1,
            }
        }
        self.met.unknown_not_happened -= happened;
        self.met.unknown_happened += happened;
    }

    /// Opens the file; compares; begins new sessions, because the old ones are of a process that is gone.
    async fn open(&mut self) {
        let again = || {
            let options = Options { memory: self.memory, ..options(&self.clock) };
            SqliteStore::open(self.folder.file(), options)
        };
        let first = again();
        let failed = self.disk.heal();
        self.met.failed += u64::from(failed);
        self.met.opened += 1;
        self.store = match first {
            Ok(store) => store,
            Err(error) => {
                assert!(failed > 0, "not opened although nothing failed: {error:?}");
                self.met.not_opened += 1;
                again().unwrap()
            }
        };
        self.side = side_of(&self.store, &self.answers);
        let (at, found) = (self.clock.now(), sorted(&self.side).await);
        self.meet_ghosts(at, &found).await;
        self.held = found;
        let items = everything(&*self.side.hub).await;
        for item in items {
            if let DumpItem::Session(session) = item {
                self.call(Request::EndSession(session.id), None).await;
            }
        }
        self.attach_all().await;
    }

    /// The file holds what the model holds, or one of the ghosts besides.
    async fn meet_ghosts(&mut self, at: Timestamp, found: &[String]) {
        let ghosts = std::mem::take(&mut self.ghosts);
        if self.model.dump(at).await == found {
            return;
        }
        for ghost in ghosts {
            for subset in 1_u32..1 << ghost.elements.len() {
                let back = ghost.elements.iter().enumerate().filter(|(bit, _)| subset >> bit & 1 == 1);
                let back = back.map(|(_, request)| Happened {
                    at: ghost.at,
                    request: request.clone(),
                    answer_lost: true,
                });
                // No call since then has changed anything, or the ghost would be gone; and none has seen it.
                let before = self.model.happened[..ghost.position].iter().cloned();
                let happened = before.chain(back).collect();
                let candidate = Model::play(happened).await;
                if candidate.dump(at).await == found {
                    self.model = candidate;
                    self.met.ghosts += 1;
                    return;
                }
            }
        }
        assert_eq!(self.model.dump(at).await, found, "what both hold after the file was opened again");
    }

    async fn attach_all(&mut self) {
        self.sessions.clear();
        for _ in 0..SESSIONS {
            self.attach().await;
        }
    }

    async fn attach(&mut self) {
        self.attached += 1;
        let host = host(self.attached, LEASE);
        let id = host.session;
        self.call(Request::Attach(host), None).await;
        self.sessions.push(Session {
            id,
            turns: vec![],
            tasks: vec![],
            last_commit: None,
            kept: VecDeque::new(),
        });
    }
}
