//! What one write or look may win for a session, and what it has won.

use dauer_store::{Amount, ClaimedTurn, Credit, Kind, Next, QueueKey, Queues, Tags, TaskLease};

use crate::inbox::Room;
use crate::judge::has_tags;

/// What a session may win in one write, and what it has won in it so far.
#[derive(Debug)]
pub struct Offer {
    queues: Queues,
    tags: Tags,
    turns: Side,
    tasks: Side,
    /// Of which sides older work may be ready that the session has not looked at.
    unseen: Left,
    won: Won,
}

/// How much of one side is left.
#[derive(Debug, Clone, Copy)]
struct Side {
    left: Amount,
    /// Nothing of this side waits for the session: the next item is won whatever its size.
    empty: bool,
}

/// What a write has won for a session. It counts once the write is durable.
#[derive(Debug, Default)]
pub struct Won {
    /// The number of the credit.
    pub(super) number: u64,
    pub(super) turns: Vec<ClaimedTurn>,
    pub(super) tasks: Vec<TaskLease>,
    pub(super) left: Left,
}

/// Of which sides ready items are left.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Left {
    pub(super) turns: bool,
    pub(super) tasks: bool,
}

impl Left {
    pub(super) const BOTH: Self = Self { turns: true, tasks: true };

    pub(super) fn add(&mut self, kind: Kind) {
        match kind {
            Kind::Activity => self.tasks = true,
            Kind::Orchestration | Kind::Entity => self.turns = true,
        }
    }

    fn has(self, kind: Kind) -> bool {
        match kind {
            Kind::Activity => self.tasks,
            Kind::Orchestration | Kind::Entity => self.turns,
        }
    }

    pub(super) fn join(&mut self, other: Self) {
        self.turns |= other.turns;
        self.tasks |= other.tasks;
    }
}

impl Offer {
    pub(super) fn new(
        credit: &Credit,
        (turns, tasks): (Amount, Amount),
        (waiting, unseen): (&Next, Left),
    ) -> Self {
        let side = |left, empty| Side { left, empty };
        Self {
            queues: credit.queues.clone(),
            tags: credit.tags.clone(),
            turns: side(turns, waiting.turns.is_empty()),
            tasks: side(tasks, waiting.tasks.is_empty()),
            unseen,
            won: Won { number: credit.number, ..Won::default() },
        }
    }

    /// The queues that it is for.
    #[must_use]
    pub fn queues(&self) -> &Queues {
        &self.queues
    }

    /// Whether work of that queue and with those tags is for the session. The room says whether it fits.
    #[must_use]
    pub fn is_for(&self, queue: &QueueKey, tags: &Tags) -> bool {
        self.queues.admits(queue) && has_tags(tags, &self.tags)
    }

    /// Whether there is credit for work of that kind at all.
    #[must_use]
    pub fn has_room(&self, kind: Kind) -> bool {
        self.side(kind).left.count > 0
    }

    /// Whether new work of that kind may be won before it is written. Otherwise older work may be ready, which comes first.
    #[must_use]
    pub fn takes_new(&self, kind: Kind) -> bool {
        self.has_room(kind) && !self.unseen.has(kind)
    }

    /// How many items of that kind may still be won.
    #[must_use]
    pub fn count(&self, kind: Kind) -> usize {
        self.side(kind).left.count
    }

    /// The room for the messages of the next turn; none without credit.
    #[must_use]
    pub fn turn_room(&self) -> Option<Room> {
        let Side { left, empty } = self.turns;
        (left.count > 0).then_some(Room { bytes: left.bytes, whatever_size: empty })
    }

    /// Whether a task of that size fits.
    #[must_use]
    pub fn fits(&self, task_bytes: usize) -> bool {
        let Side { left, empty } = self.tasks;
        left.count > 0 && (empty || task_bytes <= left.bytes)
    }

    /// Wins a turn.
    pub fn win_turn(&mut self, turn: ClaimedTurn) {
        self.turns.take(turn_bytes(&turn));
        self.won.turns.push(turn);
    }

    /// Wins a task.
    pub fn win_task(&mut self, task: TaskLease) {
        self.tasks.take(task_bytes(&task));
        self.won.tasks.push(task);
    }

    /// Ready work of that kind is left for lack of room.
    pub fn leaves(&mut self, kind: Kind) {
        self.won.left.add(kind);
    }

    /// Whether it has won anything.
    #[must_use]
    pub fn has_won(&self) -> bool {
        !self.won.turns.is_empty() || !self.won.tasks.is_empty()
    }

    /// What it has won.
    #[must_use]
    pub fn into_won(self) -> Won {
        self.won
    }

    fn side(&self, kind: Kind) -> Side {
        match kind {
            Kind::Activity => self.tasks,
            Kind::Orchestration | Kind::Entity => self.turns,
        }
    }
}

impl Side {
    fn take(&mut self, bytes: usize) {
        self.left.count = self.left.count.saturating_sub(1);
        self.left.bytes = self.left.bytes.saturating_sub(bytes);
        self.empty = false;
    }
}

/// The bytes that a turn counts with.
pub(super) fn turn_bytes(turn: &ClaimedTurn) -> usize {
    turn.messages.iter().fold(0, |sum: usize, message| sum.saturating_add(message.event.len()))
}

/// The bytes that a task counts with.
pub(super) fn task_bytes(lease: &TaskLease) -> usize {
    lease.task.event.len()
}
