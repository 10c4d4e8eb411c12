//! Two stores in lockstep: the same random calls on both, the same answers and the same content. One of them is the model.
//!
//! Where the contract leaves something open, the calls are such that it does not matter: wins are compared as sets, credit has
//! a limit only where the order of the ready items is known, and a session whose credit stays set looks after every call, so
//! that it does not matter whether the store has spent the credit in the write.

mod draw;
mod held;
mod make;
mod pair;
mod steps;

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use dauer_core::limits::MEMORY_AGE_MAX;
use dauer_store::{
    DumpItem, Host, HostId, HubName, InstanceId, Manage, ManualClock, MessageId, Refused, SessionId, Store,
};

use draw::Draw;
use pair::Pair;

/// How long sessions live without renewal.
const LEASE: Duration = Duration::from_secs(30);

/// Sessions at the same time.
const SESSIONS: usize = 3;

/// What a run does.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// The same seed makes the same calls.
    pub seed: u64,
    /// How many calls.
    pub steps: usize,
    /// After how many of them everything is compared.
    pub compare_every: usize,
}

/// The two stores. Both take their time from the clock.
pub struct Stores {
    /// The one that is right.
    pub model: Arc<dyn Store>,
    /// The one that is judged.
    pub other: Arc<dyn Store>,
    /// The clock of both.
    pub clock: Arc<ManualClock>,
}

/// How often a run has met what it is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(missing_docs, reason = "each counts the calls, or items, of that name")]
pub struct Met {
    pub repeated_starts: usize,
    pub dropped_messages: usize,
    pub turns: usize,
    pub limited_wins: usize,
    pub filtered_wins: usize,
    pub live_wins: usize,
    pub lost_answers: usize,
    pub recalled_items: usize,
    pub commits: usize,
    pub repeated_commits: usize,
    pub fused_results: usize,
    pub children: usize,
    pub amendments: usize,
    pub mail: usize,
    pub long_mail: usize,
    pub lost_items: usize,
    pub purged: usize,
    pub adopted: usize,
    pub reported: usize,
    pub trials: usize,
}

impl Met {
    /// What a run has not met at least `least` times.
    #[must_use]
    pub fn missing(&self, least: usize) -> Vec<String> {
        let fields = format!("{self:?}");
        let inner = fields.trim_start_matches("Met { ").trim_end_matches(" }");
        let few = |field: &&str| {
            let count = field.rsplit(": ").next().and_then(|count| count.parse().ok());
            count.is_none_or(|count: usize| count < least)
        };
        inner.split(", ").filter(few).map(str::to_owned).collect()
    }

    /// Adds what another run has met.
    pub fn add(&mut self, other: Self) {
        let pairs: [(&mut usize, usize); 20] = [
            (&mut self.repeated_starts, other.repeated_starts),
            (&mut self.dropped_messages, other.dropped_messages),
            (&mut self.turns, other.turns),
            (&mut self.limited_wins, other.limited_wins),
            (&mut self.filtered_wins, other.filtered_wins),
            (&mut self.live_wins, other.live_wins),
            (&mut self.lost_answers, other.lost_answers),
            (&mut self.recalled_items, other.recalled_items),
            (&mut self.commits, other.commits),
            (&mut self.repeated_commits, other.repeated_commits),
            (&mut self.fused_results, other.fused_results),
            (&mut self.children, other.children),
            (&mut self.amendments, other.amendments),
            (&mut self.mail, other.mail),
            (&mut self.long_mail, other.long_mail),
            (&mut self.lost_items, other.lost_items),
            (&mut self.purged, other.purged),
            (&mut self.adopted, other.adopted),
            (&mut self.reported, other.reported),
            (&mut self.trials, other.trials),
        ];
        pairs.into_iter().for_each(|(sum, more)| *sum += more);
    }
}

/// How many calls a run makes: those that the environment variable `DAUER_LOCKSTEP_STEPS` asks for, or `small`.
#[must_use]
pub fn steps(small: usize) -> usize {
    std::env::var("DAUER_LOCKSTEP_STEPS").ok().and_then(|steps| steps.parse().ok()).unwrap_or(small)
}

/// Makes the calls of a plan on both stores.
///
/// # Panics
/// When the stores differ.
pub async fn lockstep(stores: Stores, plan: Plan) -> Met {
    let Stores { model, other, clock } = stores;
    let name = HubName::default();
    let (model, other) = (model.hub(name.clone()), other.hub(name));
    let draw = Draw::new(plan.seed);
    let (sessions, consumed, met) = (Vec::new(), Vec::new(), Met::default());
    let (live, started, tasks, rewound, next) = (false, Vec::new(), Vec::new(), None, 0);
    let mut both =
        Both { draw, clock, model, other, sessions, live, consumed, started, tasks, rewound, next, met };
    for _ in 0..SESSIONS {
        both.attach().await;
    }
    for step in 1..=plan.steps {
        both.step().await;
        if step % plan.compare_every.max(1) == 0 {
            both.compare(step).await;
        }
    }
    both.compare(plan.steps).await;
    both.met
}

/// A hub of both stores.
struct Both {
    draw: Draw,
    clock: Arc<ManualClock>,
    model: Arc<dyn Manage>,
    other: Arc<dyn Manage>,
    sessions: Vec<Pair>,
    /// Whether the first session has credit between the calls.
    live: bool,
    /// Messages that were consumed lately.
    consumed: Vec<(InstanceId, MessageId)>,
    /// Starts that clients have sent lately.
    started: Vec<(InstanceId, MessageId)>,
    /// Tasks that sessions have had lately.
    tasks: Vec<(InstanceId, MessageId)>,
    /// The instance that a rewind was sent to last.
    rewound: Option<InstanceId>,
    /// Grows with every id that is made.
    next: u64,
    met: Met,
}

impl Both {
    async fn attach(&mut self) {
        self.next += 1;
        let id = HostId::new(format!("host {}", self.next)).expect("short and printable");
        let runs_code = self.draw.index(2) == 0;
        let host = Host { id, session: SessionId(u128::from(self.next)), lease: LEASE, runs_code };
        let model = self.model.attach(host.clone()).await.expect("a new session is not refused");
        let other = self.other.attach(host.clone()).await.expect("a new session is not refused");
        self.sessions.push(Pair::new(host, model, other));
    }

    async fn compare(&self, step: usize) {
        let (model, other) = (everything(&*self.model).await, everything(&*self.other).await);
        same(&format!("everything after {step} calls"), &model, &other);
    }
}

/// All that a hub holds, but for the ids of messages that no longer count as consumed: a store may remove them later.
async fn everything(hub: &dyn Manage) -> Vec<DumpItem> {
    let mut items = all_parts(hub).await;
    let now = items.iter().find_map(|item| match item {
        DumpItem::Now(now) => Some(*now),
        _ => None,
    });
    let now = now.expect("a dump has the time");
    for item in &mut items {
        if let DumpItem::Instance(instance) = item {
            instance.memory.retain(|(_, at)| now.since(*at) <= MEMORY_AGE_MAX);
        }
    }
    items
}

async fn all_parts(hub: &dyn Manage) -> Vec<DumpItem> {
    let (mut items, mut after) = (Vec::new(), None);
    loop {
        let part = hub.dump(after).await.expect("a dump");
        items.extend(part.items);
        after = part.next;
        if after.is_none() {
            return items;
        }
    }
}

/// An answer as text. The causes of refusals are the store's own words.
fn told<T: Debug>(answer: &Result<T, Refused>) -> String {
    match answer {
        Err(Refused::NotExecuted(_)) => "NotExecuted".to_owned(),
        Err(Refused::Unknown(_)) => "Unknown".to_owned(),
        other => format!("{other:?}"),
    }
}

/// Both stores have answered the same.
#[track_caller]
fn same_answer<T: Debug>(what: &str, model: &Result<T, Refused>, other: &Result<T, Refused>) {
    let (model, other) = (told(model), told(other));
    assert!(model == other, "{what}\nmodel: {model}\nother: {other}");
}

/// Both stores have the same items, in any order.
#[track_caller]
fn same<T: Debug>(what: &str, model: &[T], other: &[T]) {
    let sorted = |items: &[T]| {
        let mut items: Vec<String> = items.iter().map(|item| format!("{item:?}")).collect();
        items.sort();
        items
    };
    let (model, other) = (sorted(model), sorted(other));
    let only = |these: &[String], those: &[String]| -> Vec<String> {
        these.iter().filter(|item| !those.contains(item)).cloned().collect()
    };
    let (in_model, in_other) = (only(&model, &other), only(&other, &model));
    assert!(model == other, "{what}\nonly the model: {in_model:#?}\nonly the other: {in_other:#?}");
}
