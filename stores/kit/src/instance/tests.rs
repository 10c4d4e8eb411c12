//! One instance through its life: with its inbox at hand, and with a long one that is read by parts. Both answer alike, and a
//! long inbox is read no further than a decision needs.

use std::time::Duration;

use dauer_store::{
    Batch, Checkpoint, ClaimedTurn, Class, Completion, Create, Created, Delivered, DropReason, Encoded,
    Epoch, ExecutionId, Floor, History, Item, Message, MessageId, NextRecord, Record, Refused, Reuse,
    Revision, SessionId, Status, TaskLease, Then, Timestamp,
};

use super::testing::*;
use super::*;
use crate::inbox::Room;

/// An instance with the facts about it. Changes are written as a store does.
#[derive(Default)]
struct World {
    facts: Known,
    instance: Option<Instance>,
    /// The inbox is never at hand.
    long: bool,
    /// When the instance was ready by the last delivery alone.
    told: Option<Timestamp>,
    sequence: u64,
    dropped: Vec<(DropReason, u64)>,
    lost: Vec<(SessionId, Item)>,
}

fn worlds() -> [World; 2] {
    [World::default(), World { long: true, ..World::default() }]
}

/// Worlds with an instance that waits for its start, the message 3.
fn started_worlds() -> [World; 2] {
    worlds().map(|mut world| {
        assert_eq!(world.send(start(3)), Delivered::Applied);
        world
    })
}

impl World {
    fn it(&self) -> &Instance {
        self.instance.as_ref().unwrap()
    }

    fn write(&mut self, mut changes: Changes) {
        self.dropped.append(&mut changes.dropped);
        self.lost.append(&mut changes.lost);
        self.facts.write(&mut changes);
        if let Some(instance) = self.instance.as_mut() {
            if self.long {
                instance.forget_inbox();
            }
            let Ok(()) = instance.find_ready(&self.facts);
        }
    }

    fn send(&mut self, message: Message) -> Delivered {
        self.sequence += 1;
        let (sequence, mut changes) = (self.sequence, Changes::default());
        let delivered = match &mut self.instance {
            None => {
                let Ok(absent) = check_absent(message, Floor::default(), context(), &self.facts);
                match absent {
                    Absent::Dropped(reason) => Delivered::Dropped(reason),
                    Absent::Born(birth) => {
                        self.instance =
                            Some(birth.apply(Floor::default(), sequence, context(), &mut changes));
                        Delivered::Applied
                    }
                }
            }
            Some(instance) => {
                let Ok(delivery) = instance.check_delivery(message, context(), &self.facts);
                instance.deliver(delivery, sequence, context(), &mut changes)
            }
        };
        self.told = self.instance.as_ref().and_then(|instance| instance.ready_at());
        self.write(changes);
        delivered
    }

    fn win(&mut self, session: SessionId) -> ClaimedTurn {
        let it = self.instance.as_mut().unwrap();
        let Ok(Win::Wins(winning)) = it.check_win(session, &offer(), context(), &self.facts) else {
            panic!("it is ready")
        };
        let mut changes = Changes::default();
        let turn = it.win(winning, context(), &mut changes);
        self.write(changes);
        turn
    }

    /// The refusal of a checkpoint; none if it is applied or repeated.
    fn refusal(&self, by: Committer, checkpoint: &Checkpoint) -> Option<Refused> {
        let Ok(verdict) = self.it().check_commit(by, checkpoint, context(), &self.facts);
        verdict.err()
    }

    fn repeats(&self, by: Committer, checkpoint: &Checkpoint) -> bool {
        let Ok(verdict) = self.it().check_commit(by, checkpoint, context(), &self.facts);
        matches!(verdict, Ok(Verdict::Repeat))
    }

    fn commit(&mut self, by: Committer, checkpoint: &Checkpoint) -> Vec<TaskLease> {
        let instance = self.instance.as_mut().unwrap();
        let Ok(verdict) = instance.check_commit(by, checkpoint, context(), &self.facts);
        let Ok(Verdict::Commit(commit)) = verdict else { panic!("it should be applied: {verdict:?}") };
        let mut changes = Changes::default();
        let taken = instance.commit(commit, context(), &mut changes);
        self.write(changes);
        taken
    }

    /// Wins, commits and keeps the instance; it runs afterwards.
    fn running(&mut self) -> ClaimedTurn {
        let turn = self.win(ONE);
        self.commit(BY_ONE, &step(&turn));
        ClaimedTurn { fence: self.it().fence(), record: self.it().record.clone(), ..turn }
    }

    fn numbers(&self) -> Vec<u8> {
        self.facts.rows.borrow().iter().map(|(_, message)| message.id.0[0]).collect()
    }

    fn create(&mut self, create: Create) -> Result<Created, Refused> {
        self.sequence += 1;
        let instance = self.instance.as_mut().unwrap();
        let starting = check_start(create, context())?;
        let Ok(creating) = instance.check_create(starting, context(), &self.facts);
        let mut changes = Changes::default();
        let created = instance.create(creating?, self.sequence, context(), &mut changes);
        self.write(changes);
        Ok(created)
    }
}

const BY_ONE: Committer = Committer::Session(ONE);

fn batch(count: u32) -> Batch {
    let events = Encoded::from_stored(vec![0; 10 * count as usize].into());
    Batch { count, events, consumed: Vec::new(), produced: Vec::new() }
}

/// Consumes what the turn was given, appends one event, and keeps the instance.
fn step(turn: &ClaimedTurn) -> Checkpoint {
    Checkpoint {
        fence: turn.fence.clone(),
        consumed: turn.messages.iter().map(|message| message.id).collect(),
        completions: Vec::new(),
        history: History::Append(batch(1)),
        record: Record { status: Status::Running, ..turn.record.clone() }.since(&turn.record.details),
        tasks: Vec::new(),
        timers: Vec::new(),
        messages: Vec::new(),
        take: 0,
        then: Then::Keep,
    }
}

fn ended(turn: &ClaimedTurn, status: Status) -> Checkpoint {
    let step = step(turn);
    Checkpoint { record: NextRecord { status, ..step.record }, ..step }
}

fn id_of(number: u8) -> MessageId {
    MessageId([number; 16])
}

fn of_run(number: u8, run: u128) -> Message {
    Message { execution: Some(ExecutionId(run)), ..event(number) }
}

fn at_most(bytes: usize) -> Room {
    Room { bytes, whatever_size: true }
}

fn reads(world: &World, look: impl FnOnce()) -> usize {
    let before = world.facts.read.get();
    look();
    world.facts.read.get() - before
}

#[test]
fn commit_takes_what_it_names_and_is_recognised_again() {
    for mut world in started_worlds() {
        world.send(event(4));
        let turn = world.win(ONE);
        assert_eq!(turn.messages.len(), 1, "it is pending: its start only");
        world.send(event(5));
        let checkpoint = step(&turn);
        world.commit(BY_ONE, &checkpoint);
        assert_eq!(world.numbers(), [4, 5]);
        let it = world.it();
        assert_eq!((it.record.revision, it.record.history_len, it.holder), (Revision(1), 1, Some(ONE)));
        assert_eq!(it.ready_at(), Some(NOW));
        assert!(it.has_committed() && it.is_kept());
        assert!(world.repeats(BY_ONE, &checkpoint));
        let other = Committer::Session(TWO);
        assert!(matches!(world.refusal(other, &checkpoint), Some(Refused::Fenced)));
        let Ok(again) = world.it().answer_again(BY_ONE, context(), &world.facts);
        assert_eq!(again.arrived.iter().map(|m| m.id).collect::<Vec<_>>(), [id_of(4), id_of(5)]);
    }
}

#[test]
fn commit_with_another_fence_is_refused() {
    for mut world in started_worlds() {
        let turn = world.win(ONE);
        let right = step(&turn);
        assert!(world.refusal(BY_ONE, &right).is_none());
        let fences = [
            Fence { execution: ExecutionId(99), ..turn.fence.clone() },
            Fence { revision: Revision(1), ..turn.fence.clone() },
            Fence { epoch: Epoch(2), ..turn.fence.clone() },
        ];
        for fence in fences {
            let wrong = Checkpoint { fence, ..right.clone() };
            assert!(matches!(world.refusal(BY_ONE, &wrong), Some(Refused::Fenced)), "{wrong:?}");
        }
        assert_eq!((world.it().record.revision, world.numbers()), (Revision(0), vec![3]));
    }
}

#[test]
fn completion_of_a_task_of_others_refuses_the_whole() {
    for mut world in started_worlds() {
        let turn = world.running();
        let mut schedule = step(&turn);
        (schedule.consumed, schedule.tasks, schedule.take) =
            (Vec::new(), vec![task(1).task, task(2).task], 1);
        let taken = world.commit(BY_ONE, &schedule);
        assert_eq!(taken.iter().map(|lease| lease.fence.epoch).collect::<Vec<_>>(), [Epoch(1)]);
        let turn = ClaimedTurn { fence: world.it().fence(), messages: Vec::new(), ..turn };
        let done = |fence| Completion { fence, answer: event(9) };
        let free = task(2).fence();
        let with = |completions| Checkpoint { completions, ..step(&turn) };
        let mine = taken[0].fence.clone();
        for wrong in [vec![done(free)], vec![done(mine.clone()), done(mine.clone())]] {
            assert!(matches!(world.refusal(BY_ONE, &with(wrong)), Some(Refused::Fenced)));
        }
        world.commit(BY_ONE, &with(vec![done(mine)]));
        assert_eq!(world.facts.tasks.borrow().keys().copied().collect::<Vec<_>>(), [id_of(2)]);
    }
}

#[test]
fn end_of_a_run_keeps_a_start_and_what_follows_it() {
    for mut world in started_worlds() {
        let turn = world.running();
        for message in [event(4), start(5), event(6), of_run(8, 3)] {
            assert_eq!(world.send(message), Delivered::Applied);
        }
        world.commit(BY_ONE, &ended(&ClaimedTurn { messages: Vec::new(), ..turn }, Status::Completed));
        assert_eq!(world.numbers(), [5, 6]);
        assert_eq!(world.dropped, [(DropReason::Ended, 2)]);
        assert_eq!(world.it().holder, None, "an ended instance is never kept");
        let Ok(next) = world.it().offered_as(&world.facts);
        assert_eq!(&*next.queue.name, "next");
        assert_eq!(world.send(of_run(9, 3)), Delivered::Dropped(DropReason::Ended));
        assert_eq!(world.send(of_run(9, 99)), Delivered::Dropped(DropReason::OtherExecution));
        assert_eq!(world.send(of_run(7, 5)), Delivered::Applied, "it is for the run of the start");
        assert_eq!(world.send(event(10)), Delivered::Applied, "and so may this be");
    }
}

#[test]
fn termination_withdraws_tasks_without_living_holders() {
    for mut world in started_worlds() {
        let turn = world.running();
        let mut schedule = step(&turn);
        (schedule.consumed, schedule.take) = (Vec::new(), 1);
        schedule.tasks = [1, 2, 3].map(|number| task(number).task).into();
        let taken = world.commit(BY_ONE, &schedule);
        let mut dead = world.facts.tasks.borrow()[&id_of(2)].clone();
        dead.hold(TWO);
        world.facts.tasks.borrow_mut().insert(dead.id(), dead);
        world.facts.dead.set(Some(TWO));
        let turn = ClaimedTurn { fence: world.it().fence(), messages: Vec::new(), ..turn };
        world.commit(BY_ONE, &ended(&turn, Status::Terminated));
        let tasks = world.facts.tasks.borrow().clone();
        assert_eq!(tasks.keys().copied().collect::<Vec<_>>(), [taken[0].fence.task], "its holder lives");
        assert!(tasks.values().all(|task| task.withdrawn));
        assert_eq!(world.dropped, [(DropReason::Withdrawn, 1), (DropReason::Withdrawn, 1)]);
    }
}

#[test]
fn replacement_puts_its_prologue_before_the_inbox() {
    for mut world in started_worlds() {
        let turn = world.running();
        for message in [event(4), of_run(5, 3), event(6)] {
            world.send(message);
        }
        let mut replace = step(&ClaimedTurn { messages: Vec::new(), ..turn.clone() });
        replace.record.execution = ExecutionId(8);
        let prologue = vec![event(6), event(7)];
        replace.history = History::Replace { execution: ExecutionId(8), batches: vec![batch(2)], prologue };
        world.commit(BY_ONE, &replace);
        assert_eq!(world.numbers(), [6, 7, 4]);
        assert_eq!(world.dropped, [(DropReason::OtherExecution, 1)]);
        assert_eq!(world.it().record.history_len, 2);
        let fence = world.it().fence();
        let mut again = step(&ClaimedTurn { fence, record: world.it().record.clone(), ..turn });
        (again.consumed, again.record.execution) = (vec![id_of(6)], ExecutionId(9));
        again.history =
            History::Replace { execution: ExecutionId(9), batches: Vec::new(), prologue: vec![event(8)] };
        world.commit(BY_ONE, &again);
        assert_eq!(world.numbers(), [8, 7, 4], "what is left of a prologue is carried on");
    }
}

#[test]
fn amendment_takes_the_instance_from_its_holder() {
    for mut world in started_worlds() {
        let turn = world.running();
        world.send(event(4));
        let held = world.it().fence();
        let mut amendment = step(&ClaimedTurn { messages: vec![event(4)], ..turn });
        amendment.consumed.push(id_of(5));
        world.commit(Committer::Amendment, &amendment);
        let it = world.it();
        assert_eq!(
            (it.holder, it.epoch, world.lost.clone()),
            (None, Epoch(2), vec![(ONE, Item::Turn(held))])
        );
        assert!(
            world.facts.applied.borrow().contains_key(&id_of(5)),
            "carried out without its having waited"
        );
        assert!(world.repeats(Committer::Amendment, &amendment));
        let mut other = amendment.clone();
        other.take = 7;
        assert!(
            matches!(world.refusal(Committer::Amendment, &other), Some(Refused::Fenced)),
            "not its author"
        );
        let mut next = Checkpoint { fence: world.it().fence(), ..amendment };
        assert!(matches!(world.refusal(Committer::Amendment, &next), Some(Refused::Repeat)));
        next.consumed = vec![id_of(77)];
        world.facts.removed.borrow_mut().insert(id_of(77), NOW);
        assert!(
            matches!(world.refusal(Committer::Amendment, &next), Some(Refused::Repeat)),
            "a removed start"
        );
    }
}

#[test]
fn delivery_drops_repeats_and_never_postpones() {
    for mut world in started_worlds() {
        assert_eq!(world.send(start(3)), Delivered::Dropped(DropReason::Repeat), "it waits");
        world.running();
        assert_eq!(world.send(start(3)), Delivered::Dropped(DropReason::Repeat), "the record names it");
        world.send(event(4));
        assert_eq!(world.send(event(4)), Delivered::Dropped(DropReason::Repeat));
        let later = Message { visible_at: Timestamp(NOW.0 + 50), ..event(5) };
        world.send(later);
        assert_eq!(world.it().ready_at(), Some(NOW));
        let record = world.it().record.clone();
        let turn = ClaimedTurn {
            fence: world.it().fence(),
            messages: vec![event(4)],
            more: false,
            history: None,
            now: NOW,
            record,
        };
        world.commit(BY_ONE, &step(&turn));
        assert_eq!(world.it().ready_at(), Some(Timestamp(NOW.0 + 50)));
        assert_eq!(world.send(event(4)), Delivered::Dropped(DropReason::Repeat), "it was applied");
        assert_eq!(world.send(of_run(6, 99)), Delivered::Dropped(DropReason::OtherExecution));
    }
}

#[test]
fn rewind_does_not_wake_an_instance_whose_start_sleeps() {
    for mut world in worlds() {
        let Class::Start(carried) = start(3).class else { unreachable!() };
        world.send(Message { visible_at: Timestamp(NOW.0 + 50), ..start(3) });
        world.send(message(4, Class::Rewind(carried.clone())));
        assert_eq!(world.it().ready_at(), Some(Timestamp(NOW.0 + 50)));
        let Ok(batch) = world.it().next_turn(at_most(1_000), context(), &world.facts);
        assert_eq!(batch, None);
    }
    for mut world in worlds() {
        let Class::Start(carried) = start(3).class else { unreachable!() };
        world.send(message(4, Class::Rewind(carried)));
        assert_eq!(world.win(ONE).messages.len(), 1, "it creates the instance, whose start never comes");
    }
    for mut world in worlds() {
        let Class::Start(carried) = start(3).class else { unreachable!() };
        let rewind = |number, after| Message {
            visible_at: Timestamp(NOW.0 + after),
            ..message(number, Class::Rewind(carried.clone()))
        };
        world.send(rewind(4, 50));
        world.send(rewind(5, 20));
        assert_eq!(world.told, world.it().ready_at());
        assert_eq!(
            world.it().ready_at(),
            Some(Timestamp(NOW.0 + 20)),
            "no start waits that could hold it back"
        );
    }
}

#[test]
fn message_to_an_absent_instance_creates_or_is_dropped() {
    for mut world in worlds() {
        assert_eq!(world.send(event(4)), Delivered::Dropped(DropReason::Absent));
        world.facts.removed.borrow_mut().insert(id_of(3), NOW);
        assert_eq!(world.send(start(3)), Delivered::Dropped(DropReason::Repeat), "its instance was removed");
        assert!(world.instance.is_none());
        assert_eq!(world.send(start(5)), Delivered::Applied);
        assert_eq!(world.it().record.execution, ExecutionId(5));
    }
}

#[test]
fn create_replaces_the_ended_and_repeats_what_it_knows() {
    for mut world in started_worlds() {
        let create = |number| Create::new(start(number), Reuse::default());
        let repeat = |created: Result<Created, Refused>| matches!(created, Ok(Created::Repeat(_)));
        assert!(repeat(world.create(create(3))));
        assert!(matches!(world.create(create(4)), Err(Refused::Exists(Status::Pending))));
        let turn = world.running();
        let living = Reuse { replaceable: vec![Status::Running] };
        let replacing = world.create(Create::new(start(4), living)).unwrap();
        assert_eq!(replacing, Created::Replacing(ExecutionId(4)));
        world.commit(BY_ONE, &ended(&ClaimedTurn { messages: Vec::new(), ..turn }, Status::Completed));
        assert!(matches!(world.create(create(5)), Err(Refused::Exists(Status::Pending))), "a start waits");
        let turn = world.win(TWO);
        let mut next = ended(&turn, Status::Failed);
        (next.record.start, next.record.execution) = (id_of(4), ExecutionId(4));
        world.commit(Committer::Session(TWO), &next);
        let (epoch, revision) = (world.it().epoch, world.it().record.revision);
        assert_eq!(world.create(create(6)).unwrap(), Created::New(ExecutionId(6)));
        let it = world.it();
        assert_eq!((it.epoch, it.record.revision), (epoch.next(), revision.next()));
        assert_eq!(world.numbers(), [6]);
        for known in [3, 4] {
            assert!(repeat(world.create(create(known))), "{known} is remembered");
        }
    }
}

#[test]
fn long_inbox_is_read_no_further_than_a_turn_needs() {
    let mut world = started_worlds().into_iter().nth(1).unwrap();
    world.running();
    {
        let mut rows = world.facts.rows.borrow_mut();
        for sequence in 0..50_000_u64 {
            let id = MessageId(u128::from(sequence + 1_000_000).to_be_bytes());
            let message = std::sync::Arc::new(Message { id, ..event(1) });
            rows.insert(Waiting {
                place: Place { follows: true, at: NOW, sequence: sequence + 100 },
                message,
            });
        }
    }
    let mut turn = None;
    let read = reads(&world, || {
        let Ok(batch) = world.it().next_turn(at_most(10), context(), &world.facts);
        turn = batch;
    });
    let batch = turn.unwrap();
    assert_eq!((batch.messages.len(), batch.more), (1, true));
    assert!(read <= 3, "{read} rows");
    let mut checkpoint = step(&ClaimedTurn {
        fence: world.it().fence(),
        record: world.it().record.clone(),
        messages: batch.messages,
        more: true,
        history: None,
        now: NOW,
    });
    checkpoint.then = Then::Release { delay: Duration::ZERO };
    let read = reads(&world, || assert!(world.refusal(BY_ONE, &checkpoint).is_none()));
    assert!(read <= 2, "{read} rows");
    world.commit(BY_ONE, &checkpoint);
    assert_eq!(world.facts.rows.borrow().len(), 49_999);
    assert_eq!(world.it().offered_at(), Some(NOW));
}

#[test]
fn suspended_instance_takes_control_behind_many_events() {
    for mut world in started_worlds() {
        let turn = world.running();
        let mut suspended = step(&ClaimedTurn { messages: Vec::new(), ..turn });
        suspended.record.status = Status::Suspended;
        suspended.then = Then::Release { delay: Duration::ZERO };
        world.commit(BY_ONE, &suspended);
        for number in 10..20 {
            world.send(event(number));
        }
        assert_eq!(world.it().ready_at(), None);
        world.send(message(20, Class::Control(dauer_store::Control::Resume)));
        let turn = world.win(TWO);
        assert_eq!(turn.messages.iter().map(|m| m.id).collect::<Vec<_>>(), [id_of(20)]);
    }
}

#[test]
fn purge_takes_the_ended_for_which_no_start_waits() {
    for mut world in started_worlds() {
        let may = |world: &World| world.it().may_purge(&world.facts).unwrap();
        let turn = world.running();
        assert!(!may(&world), "it runs");
        let living = Reuse { replaceable: vec![Status::Running] };
        world.create(Create::new(start(4), living)).unwrap();
        world.commit(BY_ONE, &ended(&ClaimedTurn { messages: Vec::new(), ..turn }, Status::Completed));
        assert!(!may(&world), "a start waits");
        let turn = world.win(ONE);
        let mut next = ended(&turn, Status::Completed);
        (next.record.start, next.record.execution) = (id_of(4), ExecutionId(4));
        world.commit(BY_ONE, &next);
        assert!(may(&world));
        let floor = world.it().floor_above(Floor::default());
        assert_eq!((floor.epoch, floor.revision), (Epoch(3), Revision(4)));
        let mut changes = Changes::default();
        let it = world.instance.take().unwrap();
        it.purge(vec![task(1)], NOW, &mut changes);
        assert_eq!(changes.tasks_gone, [id_of(1)]);
        assert_eq!(changes.gone_starts, [(id_of(4), NOW)], "its start is known to the hub");
    }
}
