//! Tasks by their ids: those that flights have, and those that a worker executes or has answered before a flight has them. A
//! server before this one had handed those out, or the session before this one.
//!
//! Invariants:
//! - A task is known in one way: by a flight, by the token under which a worker executes it, or by its answer.
//! - An answer that no flight has stays here until the session holds its task, or the store says that the task is over.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::task::Waker;

use futures::channel::mpsc::UnboundedSender;
use futures::channel::oneshot;

use dauer_core::MessageId;
use dauer_hub::ActivityDone;
use dauer_store::TaskName;

use crate::flight::Event;

/// Told when an answer is settled. Dropped by the hub, or sent when the answer has no effect.
pub(crate) type Settled = oneshot::Sender<()>;

/// What is known of a task.
enum Known {
    Flight {
        tell: UnboundedSender<Event>,
        /// A worker has it under that token, and may answer it to any server.
        out: Option<String>,
    },
    Executes(Claimed),
    Answered {
        done: ActivityDone,
        settled: Vec<Settled>,
    },
}

/// A worker executes a task under a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Claimed {
    pub(crate) token: String,
}

/// What a flight finds when it begins.
pub(crate) enum Found {
    Nothing,
    Executes(Claimed),
    Answered(ActivityDone, Vec<Settled>),
}

#[derive(Default)]
pub(crate) struct Custody {
    tasks: BTreeMap<MessageId, Known>,
    /// Tasks that the session is to adopt.
    wanted: VecDeque<TaskName>,
    /// Those, and the tasks that it adopts now. A second adoption would begin a task whose answer the first has brought.
    asked: BTreeSet<MessageId>,
    /// Tasks whose answers are on their way to the store, and how many of each.
    storing: BTreeMap<MessageId, usize>,
    /// Of the stream of adoptions.
    waker: Option<Waker>,
}

impl Custody {
    /// A flight has the task from now on. An earlier flight of the task ends.
    pub(crate) fn begin(&mut self, task: &TaskName, tell: UnboundedSender<Event>) -> Found {
        self.asked.remove(&task.task);
        let flight = Known::Flight { tell, out: None };
        match self.tasks.insert(task.task, flight) {
            None => Found::Nothing,
            Some(Known::Executes(claimed)) => Found::Executes(claimed),
            Some(Known::Answered { done, settled }) => Found::Answered(done, settled),
            Some(Known::Flight { tell, out }) => {
                let _ = tell.unbounded_send(Event::Over);
                out.map_or(Found::Nothing, |token| Found::Executes(Claimed { token }))
            }
        }
    }

    /// Notes the token under which a worker has the task of a flight; none where no worker has it.
    pub(crate) fn set_out(&mut self, task: Option<MessageId>, token: Option<&str>) {
        if let Some(Known::Flight { out, .. }) = task.and_then(|task| self.tasks.get_mut(&task)) {
            *out = token.map(ToOwned::to_owned);
        }
    }

    /// How many tasks of flights workers have.
    pub(crate) fn out(&self) -> usize {
        self.tasks.values().filter(|known| matches!(known, Known::Flight { out: Some(_), .. })).count()
    }

    /// The flight with that channel ends. A worker goes on executing the task where `claimed` says so. Returns true if it does,
    /// and no other flight has the task.
    pub(crate) fn end(
        &mut self,
        task: MessageId,
        flight: &UnboundedSender<Event>,
        claimed: Option<Claimed>,
    ) -> bool {
        let is_own = matches!(
            self.tasks.get(&task),
            Some(Known::Flight { tell, .. }) if tell.same_receiver(flight)
        );
        if is_own {
            self.tasks.remove(&task);
            let goes_on = claimed.is_some();
            self.tasks.extend(claimed.map(|claimed| (task, Known::Executes(claimed))));
            return goes_on;
        }
        false
    }

    /// The session of all flights is over.
    pub(crate) fn session_ends(&mut self) {
        self.asked = self.wanted.iter().map(|name| name.task).collect();
        for known in self.tasks.values() {
            if let Known::Flight { tell, .. } = known {
                let _ = tell.unbounded_send(Event::Over);
            }
        }
    }

    /// A worker answers a task under the token of another process or session. Goes to the flight, or waits until one has
    /// the task.
    pub(crate) fn answer(&mut self, task: &TaskName, done: ActivityDone, settled: Settled) {
        match self.tasks.get_mut(&task.task) {
            Some(Known::Flight { tell, .. }) => {
                // A flight that has ended drops the sender: the caller learns of it.
                let _ = tell.unbounded_send(Event::Activity(done, Box::new(settled)));
            }
            // The first answer counts; both workers wait for it.
            Some(Known::Answered { settled: waiting, .. }) => waiting.push(settled),
            Some(Known::Executes(_)) | None => {
                self.tasks.insert(task.task, Known::Answered { done, settled: vec![settled] });
                self.want(task);
            }
        }
    }

    /// A worker says that it executes the task under that token. Returns the channel of the flight that has the task.
    pub(crate) fn executes(&mut self, task: &TaskName, claimed: Claimed) -> Option<UnboundedSender<Event>> {
        match self.tasks.get(&task.task) {
            Some(Known::Flight { tell, .. }) => return Some(tell.clone()),
            Some(Known::Answered { .. }) => {}
            Some(Known::Executes(_)) => _ = self.tasks.insert(task.task, Known::Executes(claimed)),
            None => {
                self.tasks.insert(task.task, Known::Executes(claimed));
                self.want(task);
            }
        }
        None
    }

    /// The worker that executed tasks under these tokens is gone.
    pub(crate) fn forget(&mut self, tokens: &[String]) {
        let gone =
            |known: &Known| matches!(known, Known::Executes(claimed) if tokens.contains(&claimed.token));
        self.tasks.retain(|_, known| !gone(known));
    }

    /// Has the next session adopt a task, of which this one has not said whether it holds it.
    pub(crate) fn want_again(&mut self, task: &TaskName) {
        self.asked.remove(&task.task);
        self.want(task);
    }

    /// Has the session adopt a task, if it does not do so already.
    pub(crate) fn want(&mut self, task: &TaskName) {
        if !self.asked.insert(task.task) {
            return;
        }
        self.wanted.push_back(task.clone());
        self.waker.take().into_iter().for_each(Waker::wake);
    }

    /// The next task that the session is to adopt. `waker` is woken when there is one.
    pub(crate) fn next_wanted(&mut self, waker: &Waker) -> Option<TaskName> {
        while let Some(next) = self.wanted.pop_front() {
            // Since it was wanted, a flight may have got it, or its worker may have gone.
            let known = self.tasks.get(&next.task);
            if matches!(known, Some(Known::Executes(_) | Known::Answered { .. })) {
                return Some(next);
            }
            self.asked.remove(&next.task);
        }
        self.waker = Some(waker.clone());
        None
    }

    /// An answer to the task has come.
    pub(crate) fn stores(&mut self, task: MessageId) {
        *self.storing.entry(task).or_default() += 1;
    }

    /// An answer to the task is settled, or was not taken.
    pub(crate) fn has_stored(&mut self, task: MessageId) {
        if let Some(count) = self.storing.get_mut(&task) {
            *count -= 1;
            if *count == 0 {
                self.storing.remove(&task);
            }
        }
    }

    /// Whether an answer to the task has come and is not settled.
    pub(crate) fn is_answered(&self, task: MessageId) -> bool {
        self.storing.contains_key(&task)
    }

    /// The token under which a worker executes a task that no flight has.
    pub(crate) fn executed(&self, task: MessageId) -> Option<String> {
        match self.tasks.get(&task) {
            Some(Known::Executes(claimed)) => Some(claimed.token.clone()),
            _ => None,
        }
    }

    /// The task is not open any more: its answer has no effect. Returns how many answers were dropped.
    pub(crate) fn over(&mut self, task: MessageId) -> usize {
        self.asked.remove(&task);
        if let Some(Known::Flight { .. }) = self.tasks.get(&task) {
            return 0;
        }
        let Some(Known::Answered { settled, .. }) = self.tasks.remove(&task) else { return 0 };
        let count = settled.len();
        for settled in settled {
            // The caller may have gone.
            let _ = settled.send(());
        }
        count
    }

    /// Nothing comes of what waits here: the workers take their answers to another server.
    pub(crate) fn close(&mut self) {
        self.tasks.retain(|_, known| matches!(known, Known::Flight { .. }));
        self.wanted.clear();
        self.asked.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dauer_core::InstanceId;
    use futures::channel::mpsc::unbounded;

    fn task(number: u8) -> TaskName {
        TaskName { instance: InstanceId::new("order").unwrap(), task: MessageId([number; 16]) }
    }

    fn done() -> ActivityDone {
        ActivityDone::Completed(None)
    }

    #[test]
    fn answer_without_a_flight_waits_for_one_and_is_wanted_once() {
        let mut custody = Custody::default();
        let (first, second) = (oneshot::channel(), oneshot::channel());
        custody.answer(&task(1), done(), first.0);
        custody.answer(&task(1), ActivityDone::GivenUp, second.0);
        assert_eq!(custody.next_wanted(Waker::noop()), Some(task(1)));
        assert_eq!(custody.next_wanted(Waker::noop()), None);
        let (tell, _events) = unbounded();
        match custody.begin(&task(1), tell) {
            Found::Answered(answer, settled) => assert_eq!((answer, settled.len()), (done(), 2)),
            _ => panic!("the answer is there"),
        }
    }

    #[test]
    fn later_flight_takes_over_what_a_worker_executes() {
        let mut custody = Custody::default();
        let ((one, _events), (two, _other)) = (unbounded(), unbounded());
        custody.begin(&task(1), one);
        custody.set_out(Some(task(1).task), Some("t"));
        assert!(matches!(custody.begin(&task(1), two), Found::Executes(claimed) if claimed.token == "t"));
    }

    #[test]
    fn task_that_is_being_adopted_is_wanted_once() {
        let mut custody = Custody::default();
        custody.executes(&task(1), Claimed { token: "t".into() });
        assert_eq!(custody.next_wanted(Waker::noop()), Some(task(1)));
        let (settled, _outcome) = oneshot::channel();
        custody.answer(&task(1), done(), settled);
        assert_eq!(custody.next_wanted(Waker::noop()), None, "the first adoption brings the flight");
        custody.want_again(&task(1));
        assert_eq!(custody.next_wanted(Waker::noop()), Some(task(1)));
    }

    #[test]
    fn answer_to_a_task_that_is_over_is_settled() {
        let mut custody = Custody::default();
        let (settled, mut outcome) = oneshot::channel();
        custody.answer(&task(1), done(), settled);
        assert_eq!((custody.over(task(1).task), custody.over(task(1).task)), (1, 0));
        assert_eq!(outcome.try_recv(), Ok(Some(())));
    }

    #[test]
    fn later_flight_of_a_task_ends_the_earlier_one() {
        let mut custody = Custody::default();
        let ((one, mut events), (two, _other)) = (unbounded(), unbounded());
        custody.begin(&task(1), one.clone());
        custody.begin(&task(1), two.clone());
        assert!(matches!(events.try_recv(), Ok(Event::Over)));
        custody.set_out(Some(task(1).task), Some("t"));
        assert!(!custody.end(task(1).task, &one, None));
        assert_eq!(custody.out(), 1, "the end of the earlier one changes nothing");
        assert!(custody.end(task(1).task, &two, Some(Claimed { token: "t".into() })));
        assert_eq!(custody.out(), 0);
        let (three, _events) = unbounded();
        assert!(matches!(custody.begin(&task(1), three), Found::Executes(claimed) if claimed.token == "t"));
    }

    #[test]
    fn task_whose_worker_is_gone_is_forgotten() {
        let mut custody = Custody::default();
        assert!(custody.executes(&task(1), Claimed { token: "t".into() }).is_none());
        custody.forget(&["t".to_owned()]);
        let (tell, _events) = unbounded();
        assert!(matches!(custody.begin(&task(1), tell), Found::Nothing));
    }
}
