//! Calls about what sessions hold: adoptions, reported deaths, trials; and the key of the hub.

use dauer_store::{Death, Deaths, HubKey, Item, TaskName, Trial};

use super::{Both, same_answer};

/// How many names of tasks are remembered. An old one is seldom open.
const NAMES_MAX: usize = 30;

impl Both {
    /// A session adopts a task that some session has had.
    pub(super) async fn adopt(&mut self) {
        let known = self.sessions.iter().flat_map(|pair| &pair.tasks);
        let known = known.map(|lease| (lease.fence.instance.clone(), lease.fence.task));
        let known: Vec<_> = known.filter(|name| !self.tasks.contains(name)).collect();
        self.tasks.extend(known);
        let beyond = self.tasks.len().saturating_sub(NAMES_MAX);
        self.tasks.drain(..beyond);
        if self.tasks.is_empty() {
            return;
        }
        let (instance, task) = self.draw.of(&self.tasks);
        let name = TaskName { instance, task };
        let at = self.draw.index(self.sessions.len());
        let pair = &mut self.sessions[at];
        let model = pair.model.adopt(vec![name.clone()]).await.remove(0);
        let other = pair.other.adopt(vec![name.clone()]).await.remove(0);
        same_answer(&format!("adopt {name:?} by {:?}", pair.id()), &model, &other);
        if let Ok(Some(lease)) = other {
            self.met.adopted += 1;
            self.sessions[at].take(Vec::new(), vec![lease]);
        }
    }

    /// An item that a session has, or had, with the deaths that it knows.
    fn some_item(&mut self, at: usize) -> Option<(Item, Deaths)> {
        let pair = &self.sessions[at];
        let turns = pair.turns.iter().map(|turn| (Item::Turn(turn.fence.clone()), turn.record.deaths));
        let tasks = pair.tasks.iter().map(|lease| (Item::Task(lease.fence.clone()), lease.deaths));
        let items: Vec<_> = turns.chain(tasks).collect();
        if items.is_empty() { None } else { Some(self.draw.of(&items)) }
    }

    /// A worker dies, often during a trial. The report is sent again now and then, or is of another session.
    pub(super) async fn died(&mut self) {
        let at = self.draw.index(self.sessions.len());
        let Some((item, mut known)) = self.some_item(at) else { return };
        if self.draw.one_in(2) {
            self.note_trial(at, Trial { item: item.clone(), open: true }).await;
        }
        match self.draw.below(8) {
            0 => known.servers += 1,
            1 => known.workers += 1,
            _ => {}
        }
        let by = if self.draw.one_in(6) { self.draw.index(self.sessions.len()) } else { at };
        let death = Death { item, known };
        for _ in 0..1 + self.draw.below(2) {
            let pair = &self.sessions[by];
            let model = pair.model.died(vec![death.clone()]).await.remove(0);
            let other = pair.other.died(vec![death.clone()]).await.remove(0);
            same_answer(&format!("{death:?} by {:?}", pair.id()), &model, &other);
            if let Ok(deaths) = other {
                self.met.reported += 1;
                self.learn(by, &death.item, deaths);
            }
        }
    }

    /// The session knows the deaths of an item.
    fn learn(&mut self, at: usize, item: &Item, deaths: Deaths) {
        let pair = &mut self.sessions[at];
        match item {
            Item::Turn(fence) => {
                let turns = pair.turns.iter_mut().filter(|turn| turn.fence == *fence);
                turns.for_each(|turn| turn.record.deaths = deaths);
            }
            Item::Task(fence) => {
                let tasks = pair.tasks.iter_mut().filter(|lease| lease.fence == *fence);
                tasks.for_each(|lease| lease.deaths = deaths);
            }
        }
    }

    /// A session opens a trial or closes it, now and then one of what another session has.
    pub(super) async fn trial(&mut self) {
        let at = self.draw.index(self.sessions.len());
        let Some((item, _)) = self.some_item(at) else { return };
        let by = if self.draw.one_in(6) { self.draw.index(self.sessions.len()) } else { at };
        let open = !self.draw.one_in(4);
        self.note_trial(by, Trial { item: item.clone(), open }).await;
        if self.draw.one_in(3) {
            self.note_trial(by, Trial { item, open: !open }).await;
        }
    }

    async fn note_trial(&mut self, by: usize, trial: Trial) {
        let pair = &self.sessions[by];
        let model = pair.model.trial(vec![trial.clone()]).await.remove(0);
        let other = pair.other.trial(vec![trial.clone()]).await.remove(0);
        same_answer(&format!("{trial:?} by {:?}", pair.id()), &model, &other);
        self.met.trials += usize::from(model.is_ok());
    }

    /// A server asks for the key of the hub.
    pub(super) async fn key(&mut self) {
        let candidate = HubKey([u8::try_from(self.draw.below(200)).expect("small"); 32]);
        let (model, other) = (self.model.key(candidate).await, self.other.key(candidate).await);
        same_answer("key", &model, &other);
        // A key does not show its bytes.
        assert!(model.ok() == other.ok(), "another key");
    }
}
