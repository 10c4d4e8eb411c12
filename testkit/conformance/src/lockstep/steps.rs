//! The calls of a run.

use std::sync::Arc;
use std::time::Duration;

use dauer_store::{
    Checkpoint, ClaimedTurn, Created, Credit, Delivered, Details, History, InstanceId, Item, List, Message,
    MessageId, Next, Order, Purge, Query, Release, Status, Timestamp, Trouble, TroubleKind,
};

use super::make::{LONE, ORDERS, answer, goes_on, lone, message, order};
use super::pair::Pair;
use super::{Both, LEASE, same, same_answer};

impl Both {
    pub(super) fn clock_now(&self) -> Timestamp {
        dauer_store::Clock::now(&*self.clock)
    }

    /// Makes one call.
    pub(super) async fn step(&mut self) {
        // What becomes ready at the same time may be won in any order.
        self.clock.advance(Duration::from_millis(1));
        match self.draw.below(68) {
            0..5 => self.create().await,
            5..10 => self.send().await,
            10 => self.burst().await,
            11 => self.purge().await,
            12 | 13 => self.advance(),
            14 => self.replace_session().await,
            15 => self.attach_again().await,
            16 => self.read().await,
            17..20 => self.amend().await,
            20 => self.change_live().await,
            21..32 => self.win().await,
            32 => self.recall().await,
            33..45 => self.commit().await,
            45..48 => self.mail().await,
            48..52 => self.complete().await,
            52..55 => self.release().await,
            55..58 => self.adopt().await,
            58..61 => self.died().await,
            61 | 62 => self.trial().await,
            63 => self.key().await,
            _ => self.renew().await,
        }
        self.look_of_live().await;
    }

    /// How many items a batch has. Between the items of a batch a store may spend credit, or not.
    fn batch(&mut self) -> u64 {
        if self.live { 1 } else { 1 + self.draw.below(2) }
    }

    async fn create(&mut self) {
        let batch: Vec<_> = (0..self.batch()).map(|_| self.some_create()).collect();
        let (model, other) = (self.model.create(batch.clone()).await, self.other.create(batch.clone()).await);
        for (at, create) in batch.iter().enumerate() {
            same_answer(&format!("{create:?}"), &model[at], &other[at]);
            self.met.repeated_starts += usize::from(matches!(model[at], Ok(Created::Repeat(_))));
        }
    }

    async fn send(&mut self) {
        let mut batch: Vec<Message> = (0..self.batch()).map(|_| self.some_message()).collect();
        if self.draw.one_in(30) {
            batch[0] = self.large_message();
        }
        self.send_all(batch).await;
    }

    /// Many messages for one instance. A session wins a part of them.
    async fn burst(&mut self) {
        if self.live {
            return;
        }
        let name = self.draw.of(&LONE);
        let to = if self.draw.one_in(3) { self.some_order() } else { lone(name) };
        let count = 20 + self.draw.below(100);
        self.next += 1;
        let text = |number| format!("burst {} {number} {}", self.next, "x".repeat(number as usize % 40));
        let batch = (0..count).map(|number| message(&to, &text(number))).collect();
        self.send_all(batch).await;
        let credit = self.narrow_credit(name);
        let at = self.draw.index(self.sessions.len());
        self.win_with(at, (credit, false, true)).await;
    }

    async fn send_all(&mut self, batch: Vec<Message>) {
        let (model, other) = (self.model.send(batch.clone()).await, self.other.send(batch.clone()).await);
        for (at, message) in batch.iter().enumerate() {
            same_answer(&format!("{message:?}"), &model[at], &other[at]);
            self.met.dropped_messages += usize::from(matches!(model[at], Ok(Delivered::Dropped(_))));
        }
    }

    async fn purge(&mut self) {
        let purge = match self.draw.below(3) {
            0 => Purge::Ids(vec![self.some_order(), self.some_order()]),
            _ => Purge::Matching { query: Query::default(), budget: 1 + self.draw.index(2) },
        };
        let (model, other) = (self.model.purge(purge.clone()).await, self.other.purge(purge.clone()).await);
        same_answer(&format!("{purge:?}"), &model, &other);
        self.met.purged += model.map_or(0, |purged| purged.count);
    }

    fn advance(&mut self) {
        let seconds = match self.draw.below(40) {
            0 => 200,
            1..5 => LEASE.as_secs() + 1,
            _ => self.draw.below(12),
        };
        self.clock.advance(Duration::from_secs(seconds));
    }

    async fn replace_session(&mut self) {
        let at = self.draw.index(self.sessions.len());
        if at == 0 {
            self.live = false;
        }
        let pair = self.sessions.remove(at);
        if self.draw.one_in(2) {
            same_answer("detach", &pair.model.detach().await, &pair.other.detach().await);
        } else {
            let (model, other) =
                (self.model.end_session(pair.id()).await, self.other.end_session(pair.id()).await);
            same_answer("end_session", &model, &other);
        }
        drop(pair);
        // The session that may have credit is the first.
        if self.live {
            let first = self.sessions.remove(0);
            self.attach().await;
            self.sessions.insert(0, first);
        } else {
            self.attach().await;
        }
    }

    /// A session attaches again, as after an unknown outcome.
    async fn attach_again(&mut self) {
        let first = usize::from(self.live);
        let at = first + self.draw.index(self.sessions.len() - first);
        let host = self.sessions[at].host.clone();
        if self.draw.one_in(4) {
            self.clock.advance(Duration::from_secs(25 * 60 * 60));
        }
        let (model, other) = (self.model.attach(host.clone()).await, self.other.attach(host).await);
        let outcome = |answer: &Result<_, _>| answer.as_ref().map(|_| ()).map_err(Clone::clone);
        same_answer("attach", &outcome(&model), &outcome(&other));
    }

    async fn read(&mut self) {
        same_answer("scale", &self.model.scale().await, &self.other.scale().await);
        let lones = LONE.map(lone).into_iter();
        let ids: Vec<InstanceId> = (0..ORDERS).map(order).chain(lones).collect();
        same_answer("get", &self.model.get(ids.clone()).await, &self.other.get(ids.clone()).await);
        same_answer(
            "inspect",
            &self.model.inspect(ids.clone()).await,
            &self.other.inspect(ids.clone()).await,
        );
        same_answer("sessions", &self.model.sessions().await, &self.other.sessions().await);
        let first = self.draw.of(&[Order::OldestFirst, Order::NewestFirst]);
        let statuses = if self.draw.one_in(2) { vec![Status::Running] } else { Vec::new() };
        let query = Query { statuses, page: 3, order: first, ..Query::default() };
        let page = self.model.query(query.clone()).await;
        same_answer("query", &page, &self.other.query(query.clone()).await);
        let query = Query { after: page.expect("a query").next, ..query };
        same_answer("a page", &self.model.query(query.clone()).await, &self.other.query(query).await);
        let list = List { page: 2, ..List::default() };
        same_answer("list", &self.model.list(list.clone()).await, &self.other.list(list).await);
        let id = &ids[self.draw.index(ids.len())];
        let (from, bytes) = (u32::try_from(self.draw.below(4)).expect("small"), self.draw.index(200));
        let model = self.model.read_history(id, None, from, bytes).await;
        same_answer("read_history", &model, &self.other.read_history(id, None, from, bytes).await);
        for id in &ids {
            same_answer("read_start", &self.model.read_start(id).await, &self.other.read_start(id).await);
        }
    }

    /// Changes an instance from outside, over the head of whatever session holds it.
    async fn amend(&mut self) {
        let id = self.some_order();
        let found = self.model.get(vec![id.clone()]).await.expect("a read").remove(0);
        let inspected = self.model.inspect(vec![id.clone()]).await.expect("a read").remove(0);
        let (Some((mut fence, record)), Some(inspected)) = (found, inspected) else { return };
        match self.draw.below(20) {
            0 => fence.revision = fence.revision.next(),
            1 => fence.execution.0 ^= 1,
            _ => {}
        }
        let (messages, more, now) = (Vec::new(), false, self.clock_now());
        let turn = ClaimedTurn { fence, record, messages, more, history: None, now };
        let mut step = self.plain_step(&turn);
        step.record = turn.record.clone().since(&turn.record.details);
        let some = self.draw.index(3);
        step.consumed = inspected.messages.iter().take(some).map(|waiting| waiting.id).collect();
        step.consumed.extend(self.some_known(&id));
        match self.draw.below(4) {
            0 => step.record.status = Status::Terminated,
            1 | 2 => self.begin_again(&mut step, &turn.record.details),
            _ => {}
        }
        if self.draw.one_in(6) {
            step.messages.push(self.large_message());
        }
        self.apply_amendment(step).await;
    }

    async fn apply_amendment(&mut self, step: Checkpoint) {
        for _ in 0..1 + self.draw.below(2) {
            let (model, other) = (self.model.amend(step.clone()).await, self.other.amend(step.clone()).await);
            same_answer(&format!("amend {step:?}"), &model, &other);
            self.met.amendments += usize::from(model.is_ok());
            if self.live {
                break;
            }
        }
    }

    /// An id that the instance may remember, or one that never was.
    fn some_known(&mut self, id: &InstanceId) -> Option<MessageId> {
        match self.draw.below(4) {
            0 => {
                let of_it = self.consumed.iter().rev().find(|(instance, _)| instance == id);
                of_it.map(|(_, message)| *message)
            }
            1 => self.some_started(id),
            _ => None,
        }
    }

    /// A start that a client has sent lately.
    fn some_started(&mut self, id: &InstanceId) -> Option<MessageId> {
        let of_it: Vec<_> = self.started.iter().filter(|(instance, _)| instance == id).collect();
        if of_it.is_empty() { None } else { Some(of_it[self.draw.index(of_it.len())].1) }
    }

    /// Begins a run of a start that may be known.
    fn begin_again(&mut self, step: &mut Checkpoint, before: &Details) {
        let id = &step.fence.instance;
        let mut start = self.some_start(id);
        start.id = self.some_started(id).unwrap_or(start.id);
        if let dauer_store::Class::Start(begun) = &start.class {
            step.record = begun.record(start.id).since(before);
            let execution = begun.execution;
            step.history = History::Replace { execution, batches: Vec::new(), prologue: vec![start] };
        }
    }

    /// Gives the first session credit that stays, or takes it back.
    async fn change_live(&mut self) {
        self.live = !self.live;
        if self.live {
            let (credit, _) = self.some_credit();
            self.sessions[0].grant(credit);
        } else {
            self.sessions[0].take_back();
            self.looked(0).await;
        }
    }

    /// A session with credit looks after every call.
    async fn look_of_live(&mut self) {
        if self.live {
            self.met.live_wins += self.looked(0).await.map_or(0, |next| next.turns.len());
        }
    }

    async fn looked(&mut self, at: usize) -> Option<Next> {
        let next = self.sessions[at].look().await?;
        self.met.turns += next.turns.len();
        self.sessions[at].take(next.turns.clone(), next.tasks.clone());
        Some(next)
    }

    async fn win(&mut self) {
        let first = usize::from(self.live);
        let at = first + self.draw.index(self.sessions.len() - first);
        let kind = match self.draw.below(5) {
            0 => {
                let name = self.draw.of(&LONE);
                (self.narrow_credit(name), false, true)
            }
            1 if self.ready_times_differ().await => (self.single_credit(), false, true),
            _ => {
                let (credit, filtered) = self.some_credit();
                (credit, filtered, false)
            }
        };
        self.win_with(at, kind).await;
    }

    /// Looks with credit that is taken back. The answer is lost now and then.
    async fn win_with(&mut self, at: usize, (credit, filtered, limited): (Credit, bool, bool)) {
        let lost = self.draw.one_in(6);
        self.sessions[at].grant(credit);
        let next = self.sessions[at].look().await;
        self.sessions[at].take_back();
        let Some(next) = next else { return };
        let won = next.turns.len();
        self.met.turns += won;
        self.met.limited_wins += if limited { won } else { 0 };
        self.met.filtered_wins += if filtered { won } else { 0 };
        if lost {
            let number = self.sessions[at].number;
            self.sessions[at].unheard.get_or_insert(number);
            self.met.lost_answers += 1;
        } else {
            self.sessions[at].take(next.turns, next.tasks);
        }
    }

    /// Whether the order of all turns that are ready is known.
    async fn ready_times_differ(&self) -> bool {
        let page = self.model.query(Query { page: 1_000, ..Query::default() }).await.expect("a query");
        let ids = page.records.into_iter().map(|(id, _)| id).collect();
        let inspected = self.model.inspect(ids).await.expect("a read");
        let free = inspected.into_iter().flatten().filter(|f| !f.holder.as_ref().is_some_and(|h| h.lives));
        let mut times: Vec<_> = free.filter_map(|found| found.ready_at).collect();
        let count = times.len();
        times.sort_unstable();
        times.dedup();
        times.len() == count
    }

    async fn recall(&mut self) {
        let first = usize::from(self.live);
        let at = first + self.draw.index(self.sessions.len() - first);
        let pair = &mut self.sessions[at];
        let from = pair.unheard.take().unwrap_or(pair.number);
        let Some(recalled) = pair.recall(from).await else { return };
        self.met.recalled_items += recalled.turns.len() + recalled.tasks.len();
        self.sessions[at].take(recalled.turns, recalled.tasks);
        // The number wins nothing any more.
        let (credit, _) = self.some_credit();
        self.sessions[at].set(credit);
        self.looked(at).await;
        self.sessions[at].take_back();
    }

    async fn commit(&mut self) {
        let at = self.draw.index(self.sessions.len());
        if self.sessions[at].turns.is_empty() {
            return;
        }
        let turn = {
            let held = self.draw.index(self.sessions[at].turns.len());
            self.sessions[at].turns.remove(held)
        };
        let mut tasks = std::mem::take(&mut self.sessions[at].tasks);
        let step = self.some_step(&turn, &mut tasks);
        self.sessions[at].tasks = tasks;
        let committed = self.commit_step(at, &step).await;
        let before = &turn.record.details;
        if let Some(next) = committed.as_ref().and_then(|committed| goes_on(&step, before, committed)) {
            self.met.long_mail += usize::from(next.more);
            self.sessions[at].turns.push(next);
        }
        let taken = committed.map(|committed| committed.taken).unwrap_or_default();
        self.sessions[at].take(Vec::new(), taken);
        let before = self.sessions[at].last_commit.replace(step.clone());
        let again = if self.draw.one_in(4) { Some(step) } else { before.filter(|_| self.draw.one_in(8)) };
        if let Some(mut again) = again {
            if self.draw.one_in(4) {
                again.fence.epoch = again.fence.epoch.next();
            }
            self.met.repeated_commits += usize::from(self.commit_step(at, &again).await.is_some());
        }
    }

    async fn commit_step(&mut self, at: usize, step: &Checkpoint) -> Option<dauer_store::Committed> {
        let Pair { model, other, .. } = &self.sessions[at];
        let shared = Arc::new(step.clone());
        let model = model.commit_turns(vec![shared.clone()]).await.remove(0);
        let other = other.commit_turns(vec![shared]).await.remove(0);
        same_answer(&format!("commit {step:?}"), &model, &other);
        let committed = other.ok()?;
        self.met.commits += 1;
        self.consumed.extend(step.consumed.iter().map(|id| (step.fence.instance.clone(), *id)));
        let beyond = self.consumed.len().saturating_sub(100);
        self.consumed.drain(..beyond);
        Some(committed)
    }

    /// Reads the messages of a turn that the session has.
    async fn mail(&mut self) {
        let at = self.draw.index(self.sessions.len());
        let pair = &mut self.sessions[at];
        if pair.turns.is_empty() {
            return;
        }
        let held = self.draw.index(pair.turns.len());
        let fence = pair.turns[held].fence.clone();
        let model = pair.model.mail(vec![fence.clone()]).await.remove(0);
        let other = pair.other.mail(vec![fence.clone()]).await.remove(0);
        same_answer(&format!("mail of {fence:?}"), &model, &other);
        if let Ok(mail) = model {
            self.met.mail += mail.messages.len();
            self.met.long_mail += usize::from(mail.more);
            pair.turns[held].messages = mail.messages;
        }
        let (model, other) = (&pair.model, &pair.other);
        let model = model.load_history(&fence, 0, 100).await;
        same_answer("load_history", &model, &other.load_history(&fence, 0, 100).await);
    }

    async fn complete(&mut self) {
        let at = self.draw.index(self.sessions.len());
        let pair = &mut self.sessions[at];
        if pair.tasks.is_empty() {
            return;
        }
        let held = self.draw.index(pair.tasks.len());
        let done = answer(&pair.tasks.remove(held));
        let model = pair.model.complete_activities(vec![done.clone()]).await.remove(0);
        let other = pair.other.complete_activities(vec![done.clone()]).await.remove(0);
        same_answer(&format!("{done:?}"), &model, &other);
    }

    async fn release(&mut self) {
        let at = self.draw.index(self.sessions.len());
        let (now, failed) = (self.clock_now(), self.draw.one_in(2));
        let delay = Duration::from_secs(self.draw.below(10));
        let told = failed && self.draw.one_in(2);
        let kind = if self.draw.one_in(2) { TroubleKind::Panic } else { TroubleKind::Mismatch };
        let pair = &mut self.sessions[at];
        let turn = pair.turns.pop().map(|turn| Item::Turn(turn.fence));
        let task = pair.tasks.pop().map(|task| Item::Task(task.fence));
        let trouble = Trouble::new(kind, "it broke", now);
        for item in turn.into_iter().chain(task) {
            let release = Release { item, delay, trouble: told.then(|| trouble.clone()), failed };
            let model = pair.model.release(vec![release.clone()]).await.remove(0);
            let other = pair.other.release(vec![release.clone()]).await.remove(0);
            same_answer(&format!("{release:?}"), &model, &other);
        }
    }

    async fn renew(&mut self) {
        let at = self.draw.index(self.sessions.len());
        let pair = &self.sessions[at];
        let (model, other) = (pair.model.renew().await, pair.other.renew().await);
        let outcome = |answer: &Result<Vec<_>, _>| answer.as_ref().map(|_| ()).map_err(Clone::clone);
        same_answer("renew", &outcome(&model), &outcome(&other));
        let (model, other) = (model.unwrap_or_default(), other.unwrap_or_default());
        same("what a renewal tells", &model, &other);
        self.met.lost_items += model.len();
    }
}
