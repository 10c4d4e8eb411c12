//! Every setting of a host, with its default and the reason for it; and the numbers nobody needs to change.

use std::time::Duration;

use dauer_core::limits::TurnLimits;
use dauer_core::model::TroubleKind;

/// How often a client looks at what it waits for when no hint comes: hints may be lost, and this bounds what that costs.
pub(crate) const WAIT_POLL: Duration = Duration::from_secs(2);

/// How many polls ([`WAIT_POLL`]) a client leaves a control message, or a start that replaces a run, to the hosts before it
/// carries it out itself. One may fall just before a host comes; two show that none does.
pub(crate) const CONTROL_POLLS: u32 = 2;

/// A live session that has held the instance for this long runs a turn of it, and its host takes the message afterwards. A
/// host that finds that it has no code for an instance gives it back within less.
pub(crate) const CONTROL_HELD: Duration = Duration::from_millis(500);

/// The delay before its first look at such a message, doubled each time: a host that listens takes a message within less.
pub(crate) const CONTROL_LOOK_MIN: Duration = Duration::from_millis(10);

/// How many instances such a look asks for; the next one goes on where it ended. So ten thousand waits cost no more than
/// these few, and a hint that was lost is made up for within minutes.
pub(crate) const WAIT_POLL_IDS_MAX: usize = 64;

/// From so many waits on such looks are put together: each of them goes through all that is waited for, to find its place.
pub(crate) const WAIT_POLL_JOINED_FROM: usize = 1_000;

/// How many of them are put together at most: one look every half minute.
pub(crate) const WAIT_POLL_JOINED_MAX: usize = 15;

/// How often a wait looks for itself: only in case whoever looks for all is gone with the host it ran on. Seldom, because
/// there may be ten thousand of them.
pub(crate) const WAIT_ALONE: Duration = Duration::from_secs(30 * 60);

/// How many runs a client follows from their start on, so that a wait for their end need not look first: more than a program
/// waits for at once. Those that nobody waits for are followed too, until they end, and are not to take much room.
pub(crate) const FOLLOWED_MAX: usize = 4_096;

/// How often a client's call is sent again when the store did not execute it or its outcome is unknown: with the delays
/// between, about ten seconds, which outlasts a store that is restarted.
pub(crate) const CALL_ATTEMPTS: u32 = 8;

/// The delay before the first of these: a store that was merely busy is free again.
pub(crate) const CALL_RETRY_DELAY: Duration = Duration::from_millis(50);

/// Instances whose mail is read by one call: each may have as many bytes as the store hands out at once.
pub(crate) const MAIL_READS_MAX: usize = 32;

/// How long tasks may run as a part of the loop, one after the other, where everything shares one thread: so that timers,
/// renewals and clients are not held up for longer than they would be by the tasks themselves.
pub(crate) const RUN_HERE_MAX: Duration = Duration::from_millis(10);

/// How often a session takes a task back for an answer that a worker has given. Another server takes the task for its own
/// worker's answer at most once, and then the task is over.
pub(crate) const ANSWER_ADOPTIONS_MAX: u32 = 3;

/// Turns of a look for what no host seems to be able to run: enough to show it, few enough that one whose host is merely busy is
/// seldom among them.
pub(crate) const EXPLAINED_MAX: usize = 16;

/// A host that never comes to rest looks for such items after this many times [`HostOptions::poll_max`]; others at every poll.
pub(crate) const EXPLAIN_BUSY: u32 = 6;

/// Items that are won under one number of credit, before the next number. Host and store remember those of two numbers, for a
/// recall: enough that numbers change seldom, few enough to take no room that matters.
pub(crate) const NUMBER_WINS_MAX: usize = 1_024;

/// How many checkpoints are sent together at most: enough that the cost of a transaction is shared by many, few enough
/// that the store works on the first while the rest is still being made.
pub(crate) const COMMITS_MAX: usize = 64;

/// How long a host's monotonic clock may carry on the store's last time. A turn that a result begins takes its time from
/// there. Longer, and a store's clock that was set would be missed. A result that comes later goes to the
/// inbox, and the claim that brings it brings the time: one more write, after a second in which nothing happened.
pub(crate) const TIME_CARRIED_MAX: Duration = Duration::from_secs(1);

/// The part of the lease by which the wall clock must move, against the monotonic one, before the session is renewed at once.
/// A smaller step leaves the session, which is renewed at half of the lease, three eighths of it in the worst case. Clocks that
/// are slewed drift by less than a thousandth.
pub(crate) const LEAP_SHARE: u32 = 8;

/// How often the wall clock is compared with the monotonic one between two renewals: every two seconds with the default
/// lease. It costs two readings of a clock. A host that claims notices a leap earlier.
pub(crate) const LEAP_LOOKS: u32 = 8;

/// The part of the turns in flight, one in so many, that is left to claimed instances when results begin turn after turn.
pub(crate) const CLAIMED_SHARE: usize = 16;

/// How many instances a look at what clients wait for asks the store for at once: few enough that their records take no room
/// that is not there already. A host with thousands of waits looks every half minute; when each look has the system hand out fresh
/// memory, that costs more than the look.
pub(crate) const LOOK_IDS_MAX: usize = 64;

/// The shortest rest between two such looks. Somebody else's writes may come thousandfold; nobody who waits for them
/// notices five milliseconds.
pub(crate) const LOOK_PAUSE: Duration = Duration::from_millis(5);

/// The rest is at least so many times as long as the look took: looking takes a fifth of the time at most.
pub(crate) const LOOK_SHARE: u32 = 4;

/// The shortest rest between two looks at what became of the instances that tasks run for. Somebody else's writes may
/// come thousandfold; an activity that learns a second later that nobody wants its answer has lost a second.
pub(crate) const CANCEL_LOOK_PAUSE: Duration = Duration::from_secs(1);

/// How long turns wait for room for their tasks. Activities that are over at once make room within less, and
/// what is begun then is finished without a detour; where they take long, nobody notices ten milliseconds.
pub(crate) const TASK_ROOM_PATIENCE: Duration = Duration::from_millis(10);

/// Items with which workers have died, and which have run for this long without another death, no longer keep others of their
/// kind waiting: poison that is worth looking for kills sooner. So activities that take long go on after a power loss.
pub(crate) const SUSPECT_YOUNG: Duration = Duration::from_secs(60);

/// For how long a session wins nothing after one of several such items has begun. Code that kills its process as it begins does so within
/// this time, and a tenth of a second without new work does no harm after a death.
pub(crate) const SUSPECT_SETTLE: Duration = Duration::from_millis(100);

/// The shortest delay of an item with which workers have died and which has no place here: a place may be free in a moment,
/// and a hundred of them a second cost less than the activities that they wait for.
pub(crate) const SUSPECT_DELAY_MIN: Duration = Duration::from_secs(1);

/// The longest such delay: half of the time after which a place is free in any case ([`SUSPECT_YOUNG`]).
pub(crate) const SUSPECT_DELAY_MAX: Duration = Duration::from_secs(30);

/// How many times as long as a trial took, with the quiet before it, until the next one may begin: trials take a quarter of the time.
pub(crate) const TRIAL_REST: u32 = 3;

/// How many hints pass between two looks at whether anyone still waits: rare enough to cost nothing, often enough that a
/// subscription does not outlive the waits for long.
pub(crate) const LOOK_EVERY: u32 = 256;

/// The settings of a host.
#[derive(Debug, Clone)]
pub struct HostOptions {
    /// How long the session lives without a renewal. Long enough to sit out a slow disk or a paused machine, short
    /// enough that a dead host's work is not missed for long. Renewed at half.
    pub lease: Duration,
    /// Turns in flight at once. A turn is short; this bounds memory, not cores.
    pub turns_max: usize,
    /// Activities in flight at once. They mostly wait for others.
    pub activities_max: usize,
    /// Bytes of messages, or of tasks, that are won and handed over together.
    pub claim_bytes_max: usize,
    /// Bytes of history read in one call.
    pub history_page_bytes: usize,
    /// Instances whose ledger and live future are kept between turns.
    pub cache_instances_max: usize,
    /// How often a host that waits for work has the store look for it. Nothing else may tell of it; this bounds what that costs.
    pub poll_max: Duration,
    /// The first delay after a failed attempt; doubled with each further one.
    pub retry_delay_min: Duration,
    /// The longest delay after failed attempts.
    pub retry_delay_max: Duration,
    /// The longest delay of a stalled turn: a deployment that mends it is noticed within this time without anyone's help.
    pub stalled_delay_max: Duration,
    /// The delay of a turn that is taken for what kills its workers. Each try may cost a process.
    pub poison_delay: Duration,
    /// An activity that ended this often without an answer is answered as failed: it would do so again.
    pub task_attempts_max: u32,
    /// For how long nothing else begins in this process before an item begins with which many workers have died, and after it.
    /// An item that kills its process within this time is found; a longer time finds more, and costs more.
    pub trial_quiet: Duration,
    /// Deaths of workers during trials of one item, after which it is taken for their cause: an activity is answered as failed,
    /// a turn is stalled. Processes die of other causes, too, but seldom as often as this in the trials of one healthy item.
    pub trial_deaths_max: u32,
    /// How long a task rests that a server held when its session ended: a worker may still execute it, and answers when it has
    /// found a server again. Above the 142 s that the slowest published SDK took after a long outage (docs/SERVER.md).
    pub restart_grace: Duration,
    /// How long a stopping host waits for what it has in flight.
    pub drain_max: Duration,
    /// When trouble becomes Failed.
    pub trouble: TroublePolicy,
    /// The limits of one turn.
    pub limits: TurnLimits,
}

impl Default for HostOptions {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(30),
            turns_max: 256,
            activities_max: 256,
            claim_bytes_max: 8 * 1024 * 1024,
            history_page_bytes: 4 * 1024 * 1024,
            cache_instances_max: 4096,
            poll_max: Duration::from_secs(5),
            retry_delay_min: Duration::from_millis(100),
            retry_delay_max: Duration::from_secs(60),
            stalled_delay_max: Duration::from_secs(600),
            poison_delay: Duration::from_secs(3_600),
            task_attempts_max: 10,
            trial_quiet: Duration::from_secs(15),
            trial_deaths_max: 7,
            restart_grace: Duration::from_secs(180),
            drain_max: Duration::from_secs(10),
            trouble: TroublePolicy::default(),
            limits: TurnLimits::default(),
        }
    }
}

/// After how many attempts each kind of trouble ends the run as Failed. None is never, the default for all kinds: what stalls is
/// visible, is tried again, and goes on with a deployment that mends it. Each kind is counted for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TroublePolicy {
    /// The code does not match the history.
    pub mismatch: Option<u32>,
    /// The code panicked.
    pub panic: Option<u32>,
    /// The name or version is not registered.
    pub unknown_name: Option<u32>,
    /// Input, history or message cannot be decoded.
    pub undecodable: Option<u32>,
    /// The code waits for something that is not durable, or never stops.
    pub not_durable: Option<u32>,
    /// The worker's answer makes no sense.
    pub invalid_answer: Option<u32>,
    /// A limit was passed.
    pub too_large: Option<u32>,
    /// The workers that ran the turn died with it.
    pub host_died: Option<u32>,
}

impl TroublePolicy {
    /// Gives up after that many attempts, whatever the kind.
    #[must_use]
    pub fn give_up_after(attempts: u32) -> Self {
        let each = Some(attempts);
        Self {
            mismatch: each,
            panic: each,
            unknown_name: each,
            undecodable: each,
            not_durable: each,
            invalid_answer: each,
            too_large: each,
            host_died: each,
        }
    }

    /// After how many attempts that kind is final.
    #[must_use]
    pub fn attempts_max(&self, kind: TroubleKind) -> Option<u32> {
        match kind {
            TroubleKind::Mismatch => self.mismatch,
            TroubleKind::Panic => self.panic,
            TroubleKind::UnknownName => self.unknown_name,
            TroubleKind::Undecodable => self.undecodable,
            TroubleKind::NotDurable => self.not_durable,
            TroubleKind::InvalidAnswer => self.invalid_answer,
            TroubleKind::TooLarge => self.too_large,
            TroubleKind::HostDied => self.host_died,
            // A kind that is added has no setting before it is named here.
            _ => None,
        }
    }
}
