//! The storm of clocks: every worker has a clock of its own, which the parent sets back and ahead while it runs.
//!
//! The file's time is the latest of all clocks that write to it, and never goes back. So a clock that is behind, that is
//! set back, that was behind and is put right, or that is ahead by less than what is left of a lease must cost nobody anything: no commit is fenced and
//! nothing is taken over, because everyone lives. A clock that is set ahead by more than a lease ends all leases at
//! once, for the file cannot tell it from a machine that slept: then work may be done twice, and the fence keeps it from
//! being committed twice. All instances end right either way.

use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::error::Error;
use crate::figures::Own;
use crate::hands::{Hands, Mover};
use crate::options::Common;
use crate::process::Process;
use crate::stage::{Aftermath, LOOK, Stage};
use crate::worker::Worker;

/// The lease: nobody dies here, so it need not be short, and a busy machine must not end one.
const LEASE: Duration = Duration::from_secs(10);

/// How far a clock is set back at most, in milliseconds: far more than any lease.
const BACK_MILLIS: u64 = 60 * 60 * 1_000;

/// How far a clock jumps ahead at most, in leases. All jumps together stay below the timers that nobody sees fire.
const JUMP_LEASES: u64 = 30;

/// A move ahead that must cost nobody a lease takes this part of it: more than half is always left, and renewals may be
/// late.
const AHEAD_PART: u32 = 8;

/// How far the file's time may be from the latest of all clocks, in milliseconds: what passes between two looks.
const FOLLOWS_MILLIS: i64 = 1_000;

/// The longest pause between two moves.
const PAUSE_MAX: Duration = Duration::from_millis(400);

/// What is asked for.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Clocks {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Moves that must cost nobody a lease: back, a little ahead, or a new worker whose clock is behind and is put right.
    #[arg(long, default_value_t = 60)]
    moves: u64,
    /// Jumps ahead of more than a lease.
    #[arg(long, default_value_t = 8)]
    jumps: u64,
    /// Move the clocks by this libfaketime instead of our own library.
    #[arg(long)]
    faketime: Option<PathBuf>,
    /// A negative control: jumps of more than a lease in the place of moves that must not cost anything.
    #[arg(long, hide = true)]
    jumps_for_moves: bool,
}

/// The clocks, and what was done to them.
struct Moving {
    mover: Mover,
    folder: PathBuf,
    /// One for each slot.
    hands: Vec<Hands>,
    /// The furthest ahead that any clock ever was: where the file's time is.
    top: i64,
    ahead_at: Instant,
    made: u64,
    back: u64,
    ahead: u64,
    restarts: u64,
    jumps: u64,
}

impl Clocks {
    /// All of it.
    pub(crate) async fn run(self, file: PathBuf) -> Result<Aftermath, Error> {
        let mover = Mover::find(self.faketime.clone())?;
        let folder = file.parent().map(PathBuf::from).unwrap_or_default();
        let mut stage = Stage::new(self.common.clone().with_lease(LEASE), file)?;
        let (hands, ahead_at) = (Vec::new(), Instant::now());
        let mut moving = Moving {
            mover,
            folder,
            hands,
            top: 0,
            ahead_at,
            made: 0,
            back: 0,
            ahead: 0,
            restarts: 0,
            jumps: 0,
        };
        for _ in 0..self.common.processes {
            let (process, hands) = moving.start(&mut stage, 0)?;
            stage.slots.push(process);
            moving.hands.push(hands);
        }
        let mut stuck = stage.open().await?;
        let mut stolen = 0;
        if stuck.is_empty() {
            (stolen, stuck) = self.move_all(&mut stage, &mut moving, self.moves / 2).await?;
        }
        let (fenced, robbed) = (stage.board.fenced(), stage.board.robbed());
        for _ in 0..if stuck.is_empty() { self.jumps } else { 0 } {
            moving.jump(&mut stage).await?;
            stage.look_after_workers()?;
            // Until everyone has renewed, and what was taken has been told.
            tokio::time::sleep(stage.lease()).await;
            if stage.is_stuck() {
                stuck = stage.stuck("no instance has ended for long after a jump").await?;
                break;
            }
        }
        let lost = stage.board.fenced() - fenced + (stage.board.robbed() - robbed);
        if stuck.is_empty() {
            let again;
            (again, stuck) = self.move_all(&mut stage, &mut moving, self.moves.div_ceil(2)).await?;
            stolen += again;
        }
        let mut own = Own::new("clocks");
        own.count("clocks_set_back", moving.back);
        own.count("clocks_set_a_little_ahead", moving.ahead);
        own.count("clocks_behind_and_put_right", moving.restarts);
        own.count("leases_stolen_by_these", stolen);
        own.count("clocks_set_ahead_by_more_than_a_lease", self.jumps);
        own.count("refusals_after_these", lost);
        own.count("ahead_ms", moving.top.unsigned_abs());
        // Otherwise the workers did not see the clocks they were given, and nothing was tested.
        // A snapshot takes a while, and its time is from somewhere in it.
        let before = real_millis();
        let now = stage.snapshot().await?.now.0;
        let (least, most) = (now - real_millis(), now - before);
        own.count("ahead_ms_in_the_file", u64::try_from(most).unwrap_or_default());
        let follows = least - FOLLOWS_MILLIS <= moving.top && moving.top <= most + FOLLOWS_MILLIS;
        own.demand(follows, "the file's time did not follow the clocks");
        own.demand(stolen == 0, "a lease was stolen from the living");
        stage.close(stuck, own).await
    }

    /// So many moves that must cost nobody a lease. How many leases they did cost, and why nothing goes on.
    async fn move_all(
        &self,
        stage: &mut Stage,
        moving: &mut Moving,
        moves: u64,
    ) -> Result<(u64, Vec<String>), Error> {
        let lost = |stage: &Stage| stage.board.fenced() + stage.board.robbed();
        let before = lost(stage);
        for _ in 0..moves {
            stage.look_after_workers()?;
            match stage.random.below(4) {
                _ if self.jumps_for_moves => moving.jump(stage).await?,
                0 if moving.ahead_at.elapsed() > stage.lease() / 2 => moving.little_ahead(stage)?,
                1 => moving.restart(stage).await?,
                _ => moving.back(stage)?,
            }
            tokio::time::sleep(stage.random.duration(PAUSE_MAX)).await;
            if stage.is_stuck() {
                let stuck = stage.stuck("no instance has ended for long after a clock was moved").await?;
                return Ok((lost(stage) - before, stuck));
            }
        }
        // What was taken is told at the next renewal.
        tokio::time::sleep(stage.lease()).await;
        Ok((lost(stage) - before, Vec::new()))
    }
}

impl Moving {
    fn start(&mut self, stage: &mut Stage, offset: i64) -> Result<(Process, Hands), Error> {
        let file = self.folder.join(format!("clock{}", self.made));
        self.made += 1;
        let hands = Hands::new(&self.mover, file, offset)?;
        let worker = Worker { environment: hands.environment(), ..stage.worker.clone() };
        Ok((stage.start_as(&worker)?, hands))
    }

    fn any(&mut self, stage: &mut Stage) -> &mut Hands {
        let slot = stage.random.index(self.hands.len());
        &mut self.hands[slot]
    }

    fn back(&mut self, stage: &mut Stage) -> Result<(), Error> {
        self.back += 1;
        let by = i64::try_from(stage.random.between(1, BACK_MILLIS)).unwrap_or_default();
        let hands = self.any(stage);
        hands.set(hands.offset() - by)
    }

    fn raise(&mut self, stage: &mut Stage, by: Duration) -> Result<(), Error> {
        let top = self.top + i64::try_from(by.as_millis()).unwrap_or_default();
        (self.top, self.ahead_at) = (top, Instant::now());
        self.any(stage).set(top)
    }

    fn little_ahead(&mut self, stage: &mut Stage) -> Result<(), Error> {
        self.ahead += 1;
        self.raise(stage, stage.lease() / AHEAD_PART)
    }

    /// Every other time it is a new worker that begins with such a clock: its session is the only one that has not
    /// expired then.
    async fn jump(&mut self, stage: &mut Stage) -> Result<(), Error> {
        let leases = u32::try_from(stage.random.between(2, JUMP_LEASES)).unwrap_or(1);
        self.jumps += 1;
        if self.jumps.is_multiple_of(2) {
            return self.raise(stage, stage.lease() * leases);
        }
        self.top += i64::try_from((stage.lease() * leases).as_millis()).unwrap_or_default();
        self.ahead_at = Instant::now();
        self.replace(stage, self.top).await.map(|_| ())
    }

    /// Another worker in the place of one that ends as it should, with a clock that is behind; once it works, its
    /// clock is put right, or nearer to it.
    async fn restart(&mut self, stage: &mut Stage) -> Result<(), Error> {
        let behind = i64::try_from(stage.random.between(1, BACK_MILLIS)).unwrap_or_default();
        let slot = self.replace(stage, self.top - behind).await?;
        self.restarts += 1;
        while !stage.board.all_have_worked() && !stage.is_stuck() {
            tokio::time::sleep(LOOK).await;
        }
        let left = if stage.random.chance(5_000) { 0 } else { behind / 2 };
        self.hands[slot].set(self.top - left)
    }

    /// Another worker in the place of one that ends as it should, with that clock. Which slot it has.
    async fn replace(&mut self, stage: &mut Stage, offset: i64) -> Result<usize, Error> {
        let slot = stage.random.index(stage.slots.len());
        let (fresh, hands) = self.start(stage, offset)?;
        let old = std::mem::replace(&mut stage.slots[slot], fresh);
        stage.board.excuse(old.number);
        let (number, status) = (old.number, old.retire().await?);
        if !status.success() {
            stage
                .tally
                .wrong
                .push(format!("worker {number} did not end well when it was asked to: {status}"));
        }
        self.hands[slot] = hands;
        stage.tally.restarts += 1;
        Ok(slot)
    }
}

/// The parent's own clock, which nobody moves.
fn real_millis() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
