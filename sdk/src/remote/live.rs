//! What a worker keeps of orchestrations between two turns: their code, in the middle of running.
//!
//! Every work item brings the whole history. Where it is what the last turn here has left, the code goes on with what is new;
//! otherwise, because another worker had a turn or the last answer came too late, it is replayed.

use std::collections::BTreeMap;

use dauer_proto::{ActionType, EventType, HistoryEvent, OrchestratorAction};
use dauer_replay::Live;

/// An orchestration after a turn.
pub(super) struct Kept {
    pub(super) live: Live,
    /// Its custom status, which a termination does not tell.
    pub(super) status: Option<String>,
    execution: String,
    /// Events before the last turn.
    past: usize,
    /// What came with it.
    new: Vec<HistoryEvent>,
    /// What it asked for.
    asked: Vec<Asked>,
}

/// Something that was asked for: an event of the history once it is committed.
#[derive(Debug, PartialEq, Eq)]
struct Asked {
    id: i32,
    kind: &'static str,
    name: String,
}

impl Kept {
    /// What is to be kept after a turn on that many past events.
    pub(super) fn new(
        live: Live,
        (execution, past, new): (String, usize, Vec<HistoryEvent>),
        actions: &[OrchestratorAction],
        status: Option<String>,
    ) -> Self {
        let asked = actions.iter().filter_map(of_action).collect();
        Self { live, status, execution, past, new, asked }
    }

    /// Whether a history is what this has left: the same run, and since the last turn nothing but what came with it and what
    /// it asked for. What was there before cannot change: histories only grow.
    fn fits(&self, execution: &str, past: &[HistoryEvent]) -> bool {
        let (news, asks) = (self.new.len(), self.asked.len());
        if self.execution != execution || past.len() != self.past + news + asks {
            return false;
        }
        let (new, recorded) = past[self.past..].split_at(news);
        new == self.new
            && recorded.iter().zip(&self.asked).all(|(event, asked)| of_event(event).as_ref() == Some(asked))
    }
}

fn of_action(action: &OrchestratorAction) -> Option<Asked> {
    let (kind, name) = match action.orchestrator_action_type.as_ref()? {
        ActionType::ScheduleTask(task) => ("task", task.name.as_str()),
        ActionType::CreateTimer(_) => ("timer", ""),
        ActionType::CreateSubOrchestration(child) => ("child", child.instance_id.as_str()),
        ActionType::SendEvent(sent) => ("event", sent.name.as_str()),
        _ => return None,
    };
    Some(Asked { id: action.id, kind, name: name.to_owned() })
}

fn of_event(event: &HistoryEvent) -> Option<Asked> {
    let (kind, name) = match event.event_type.as_ref()? {
        EventType::TaskScheduled(task) => ("task", task.name.as_str()),
        EventType::TimerCreated(_) => ("timer", ""),
        EventType::SubOrchestrationInstanceCreated(child) => ("child", child.instance_id.as_str()),
        EventType::EventSent(sent) => ("event", sent.name.as_str()),
        _ => return None,
    };
    Some(Asked { id: event.event_id, kind, name: name.to_owned() })
}

/// Orchestrations by instance; the least recently used go first.
pub(super) struct Cache {
    max: usize,
    clock: u64,
    entries: BTreeMap<String, (u64, Kept)>,
    ages: BTreeMap<u64, String>,
}

impl Cache {
    pub(super) fn new(max: usize) -> Self {
        Self { max, clock: 0, entries: BTreeMap::new(), ages: BTreeMap::new() }
    }

    /// Takes an orchestration out, if it can go on from that history.
    pub(super) fn take(&mut self, instance: &str, execution: &str, past: &[HistoryEvent]) -> Option<Kept> {
        let (age, kept) = self.entries.remove(instance)?;
        self.ages.remove(&age);
        kept.fits(execution, past).then_some(kept)
    }

    pub(super) fn put(&mut self, instance: String, kept: Kept) {
        if self.max == 0 {
            return;
        }
        if let Some((age, _)) = self.entries.remove(&instance) {
            self.ages.remove(&age);
        }
        if self.entries.len() >= self.max
            && let Some((_, oldest)) = self.ages.pop_first()
        {
            self.entries.remove(&oldest);
        }
        self.clock += 1;
        self.ages.insert(self.clock, instance.clone());
        self.entries.insert(instance, (self.clock, kept));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dauer_core::ExecutionId;
    use dauer_proto::{action, event};
    use dauer_replay::{Activity, Orchestration, OrchestrationContext, Registry};

    const STEP: Activity<u32, u32> = Activity::new("step");
    const ORDER: Orchestration<u32, u32> = Orchestration::new("order");

    fn execution() -> String {
        ExecutionId(7).to_string()
    }

    /// The first turn of an order, and what it leaves.
    fn first() -> (Kept, Vec<HistoryEvent>) {
        let mut registry = Registry::new();
        let order = |ctx: OrchestrationContext, n: u32| async move { Ok(ctx.call(STEP, &n).await?) };
        registry.orchestration(ORDER, order).unwrap();
        let mut start = event::start("order", "order-7", execution());
        start.input = Some("1".to_owned());
        let new = vec![event::orchestrator_started(5), event::execution_started(5, start)];
        let (live, answer) = Live::start(&registry, &[], &new).unwrap();
        let task = action::schedule_task(0, "step", Some("1".to_owned()));
        assert_eq!(answer.actions, [task]);
        let mut left = new.clone();
        left.push(scheduled(0, "step"));
        (Kept::new(live, (execution(), 0, new), &answer.actions, None), left)
    }

    fn scheduled(id: i32, name: &str) -> HistoryEvent {
        let task = dauer_proto::TaskScheduledEvent { name: name.to_owned(), ..Default::default() };
        event::task_scheduled(5, id, task)
    }

    fn fits(change: impl FnOnce(&mut String, &mut Vec<HistoryEvent>)) -> bool {
        let (kept, mut past) = first();
        let mut execution = execution();
        change(&mut execution, &mut past);
        let mut cache = Cache::new(1);
        cache.put("order-7".to_owned(), kept);
        let hit = cache.take("order-7", &execution, &past).is_some();
        assert!(cache.take("order-7", &execution, &past).is_none(), "it is taken once");
        hit
    }

    /// Otherwise another worker, or another version of the code, has had a turn meanwhile.
    #[test]
    fn only_the_history_that_the_last_turn_left_is_gone_on_from() {
        assert!(fits(|_, _| {}));
        assert!(!fits(|execution, _| *execution = ExecutionId(8).to_string()), "another run");
        assert!(!fits(|_, past| past.push(event::orchestrator_started(6))), "something came since");
        assert!(!fits(|_, past| _ = past.pop()), "the answer is not in it");
        assert!(!fits(|_, past| past[0] = event::orchestrator_started(6)), "the same turn at another time");
        assert!(!fits(|_, past| past[2] = scheduled(1, "step")), "another id");
        assert!(!fits(|_, past| past[2] = scheduled(0, "leap")), "another activity");
        let timer = event::timer_created(5, 0, dauer_proto::time::from_millis(9));
        assert!(!fits(|_, past| past[2] = timer), "a timer instead");
    }

    #[test]
    fn what_goes_on_answers_as_what_is_replayed() {
        let (mut kept, _) = first();
        let done = [event::orchestrator_started(6), event::task_completed(6, 0, Some("2".to_owned()))];
        let answer = kept.live.turn(&done).unwrap();
        assert!(kept.live.is_finished(), "{answer:?}");
    }

    #[test]
    fn the_least_recently_used_goes_first() {
        let mut cache = Cache::new(2);
        let (_, past) = first();
        for name in ["a", "b"] {
            cache.put(name.to_owned(), first().0);
        }
        let again = cache.take("a", &execution(), &past).unwrap();
        cache.put("a".to_owned(), again);
        cache.put("a".to_owned(), first().0);
        assert_eq!(cache.entries.len(), 2, "the same again takes no other's place");
        cache.put("c".to_owned(), first().0);
        let mut has = |name| cache.take(name, &execution(), &past).is_some();
        assert!(!has("b"), "b was used longest ago");
        assert!(has("a") && has("c"));
        assert!(cache.entries.is_empty() && cache.ages.is_empty());
        let mut none = Cache::new(0);
        none.put("a".to_owned(), first().0);
        assert!(none.take("a", &execution(), &past).is_none());
    }
}
