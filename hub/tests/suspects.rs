//! Items with which workers have died: which of them run beside each other, trials, and what is taken for poison.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt;
use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use futures::future::{Either, select};
use futures::stream::StreamExt;

use dauer_core::InstanceId;
use dauer_core::model::{Record, Status, TroubleKind};
use dauer_hub::HostOptions;
use dauer_store::{Host, HostId, Item, SessionId, Trial, Work};

use crate::support::{Act, Chain, Fate, HOUR, Op, Running, World, pass, win_tasks, win_turns};

/// The default of [`HostOptions::trial_quiet`].
const QUIET: Duration = Duration::from_secs(15);

/// Slots for sixteen items at once: one with four deaths has a trial.
fn sixteen() -> HostOptions {
    HostOptions { turns_max: 8, activities_max: 8, ..HostOptions::default() }
}

/// A session of a process that dies with what it wins.
async fn doomed(world: &World, number: u128, runs_code: bool) -> Arc<dyn Work> {
    let id = HostId::new("doomed").unwrap();
    let host = Host { id, session: SessionId(number), lease: Duration::from_secs(30), runs_code };
    world.hub.attach(host).await.unwrap()
}

/// Processes die with the turn of an instance, `plain` of them beside others and `trials` of them in a trial.
async fn die_with_a_turn(world: &World, (plain, trials): (u32, u32), runs_code: bool) {
    for number in 0..plain + trials {
        let number = 1_000 + u128::from(number);
        let work = doomed(world, number, runs_code).await;
        let turns = win_turns(&*work, 1).await;
        assert_eq!(turns.len(), 1);
        if number >= 1_000 + u128::from(plain) {
            open_trial(&*work, Item::Turn(turns[0].fence.clone())).await;
        }
        world.hub.end_session(SessionId(number)).await.unwrap();
    }
}

async fn open_trial(work: &dyn Work, item: Item) {
    work.trial(vec![Trial { item, open: true }]).await.pop().unwrap().unwrap();
}

/// Processes die with all tasks that are ready, `plain` of them beside others and `trials` of them in a trial of each.
async fn die_with_tasks(world: &World, (plain, trials): (u32, u32)) {
    for number in 0..plain + trials {
        let number = 2_000 + u128::from(number);
        let work = doomed(world, number, true).await;
        let tasks = win_tasks(&*work, 100).await;
        assert!(!tasks.is_empty());
        for task in tasks {
            if number >= 2_000 + u128::from(plain) {
                open_trial(&*work, Item::Task(task.fence)).await;
            }
        }
        world.hub.end_session(SessionId(number)).await.unwrap();
    }
}

/// Starts chains of one activity, and has the first turns taken by a host that runs no activities.
async fn schedule(world: &World, names: &[&str]) -> Vec<InstanceId> {
    let host = world.host(Chain::new(), HostOptions { activities_max: 0, ..HostOptions::default() });
    let mut ids = Vec::new();
    for name in names {
        ids.push(world.start(name, 1).await);
    }
    for id in &ids {
        world.until(id, |record| record.status == Status::Running).await;
    }
    host.stop().await;
    ids
}

/// When the activity of which instance began, in time since the test began.
#[derive(Clone, Default)]
struct Begins(Arc<Mutex<Vec<(String, Duration)>>>);

impl Begins {
    fn all(&self) -> Vec<(String, Duration)> {
        self.0.lock().unwrap().clone()
    }

    /// The times of one instance.
    fn of(&self, name: &str) -> Vec<Duration> {
        self.all().into_iter().filter(|(of, _)| of == name).map(|(_, at)| at).collect()
    }
}

/// Code whose activities are noted when they begin, and take the time that `takes` says for their instance.
fn noting(begins: &Begins, takes: impl Fn(&str) -> Duration + Send + Sync + 'static) -> Chain {
    let (begins, start) = (begins.clone(), tokio::time::Instant::now());
    Chain::new().on_activity(move |lease| {
        let name = lease.fence.instance.as_str().to_owned();
        let time = takes(&name);
        begins.0.lock().unwrap().push((name, start.elapsed()));
        async move {
            pass(time.as_secs()).await;
            Ok(Some("1".into()))
        }
        .boxed()
    })
}

/// Code with poison: turns and activities of instances whose name begins with *poison* kill their process.
struct Poison {
    kill: UnboundedSender<String>,
    killed: UnboundedReceiver<String>,
    deaths: BTreeMap<String, u32>,
}

impl Poison {
    fn new() -> Self {
        let (kill, killed) = unbounded();
        Self { kill, killed, deaths: BTreeMap::new() }
    }

    fn activities(&self) -> Chain {
        let kill = self.kill.clone();
        Chain::new().on_activity(move |lease| {
            let (kill, name) = (kill.clone(), lease.fence.instance.as_str().to_owned());
            async move {
                if name.starts_with("poison") {
                    pass(1).await;
                    kill.unbounded_send(name).unwrap();
                    return futures::future::pending().await;
                }
                pass(20).await;
                Ok(Some("1".into()))
            }
            .boxed()
        })
    }

    fn turns(&self) -> Chain {
        let kill = self.kill.clone();
        Chain::new().deadly(move |record: &Record| {
            let poison = record.tags.contains_key("bad");
            if poison {
                kill.unbounded_send("poison".into()).unwrap();
            }
            poison
        })
    }

    /// Runs one host after the other, until that is done.
    async fn until<T>(
        &mut self,
        world: &World,
        code: fn(&Self) -> Chain,
        done: impl Future<Output = T>,
    ) -> T {
        let mut done = Box::pin(done);
        let start = |this: &Self| -> Running { world.host(code(this), sixteen()) };
        let mut host = start(self);
        loop {
            match select(done, self.killed.next()).await {
                Either::Left((value, _)) => {
                    host.kill();
                    return value;
                }
                Either::Right((name, rest)) => {
                    *self.deaths.entry(name.unwrap()).or_default() += 1;
                    host.kill();
                    host = start(self);
                    done = rest;
                }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn poison_activity_fails_and_its_neighbours_complete() {
    let world = World::new();
    let healthy = ["a", "b", "c", "d", "e"];
    let ids = schedule(&world, &["poison", "a", "b", "c", "d", "e"]).await;
    let mut poison = Poison::new();
    let all = async {
        let mut records = Vec::new();
        for id in &ids {
            records.push(world.ended(id).await);
        }
        records
    };
    let records = poison.until(&world, Poison::activities, all).await;
    let failure: dauer_proto::TaskFailureDetails = records[0].details.failure().unwrap().decode().unwrap();
    assert_eq!((records[0].status, failure.error_type.as_str()), (Status::Failed, "ActivityCrashed"));
    assert!(failure.error_message.starts_with("7 processes died"), "{}", failure.error_message);
    for (name, record) in healthy.iter().zip(&records[1..]) {
        assert_eq!(record.status, Status::Completed, "{name}");
    }
    // Four beside others, and seven alone.
    assert_eq!(poison.deaths["poison"], 11);
}

#[tokio::test(start_paused = true)]
async fn two_poison_activities_need_eleven_deaths_each() {
    let world = World::new();
    let ids = schedule(&world, &["poison-1", "poison-2", "a"]).await;
    let mut poison = Poison::new();
    let all = async {
        for id in &ids {
            world.ended(id).await;
        }
    };
    poison.until(&world, Poison::activities, all).await;
    // Of the first four deaths each process has one of its own, or one of the other.
    let deaths: u32 = poison.deaths.values().sum();
    assert!((18..=22).contains(&deaths), "{:?}", poison.deaths);
    assert!(poison.deaths.values().all(|deaths| (7..=11).contains(deaths)), "{:?}", poison.deaths);
    assert_eq!(world.instance(&ids[2]).await.record.status, Status::Completed);
}

#[tokio::test(start_paused = true)]
async fn poison_turn_is_stalled_and_tried_once_more_per_rest() {
    let world = World::new();
    let (id, other) = (world.start_bad("poison").await, world.start("a", 3).await);
    let mut poison = Poison::new();
    let stalled = world.until(&id, |record| record.trouble.is_some());
    let record = poison.until(&world, Poison::turns, stalled).await;
    let trouble = record.trouble.unwrap();
    assert_eq!((record.status, trouble.kind), (Status::Pending, TroubleKind::HostDied));
    assert!(trouble.reason.contains("7 processes died"), "{}", trouble.reason);
    assert_eq!((record.deaths.trials, poison.deaths["poison"]), (7, 11));
    assert_eq!(world.ended(&other).await.status, Status::Completed);
    let began = world.elapsed();
    let again =
        world.until(&id, |record| record.trouble.as_ref().is_some_and(|trouble| trouble.attempts == 2));
    let record = poison.until(&world, Poison::turns, again).await;
    assert_eq!((record.deaths.trials, poison.deaths["poison"]), (8, 12));
    assert!(world.elapsed() - began >= HOUR / 2, "{:?}", world.elapsed() - began);
}

#[tokio::test(start_paused = true)]
async fn turn_that_mended_code_runs_completes_after_its_rest() {
    let world = World::new();
    let id = world.start("chain", 1).await;
    die_with_a_turn(&world, (2, 7), true).await;
    let began = world.elapsed();
    // What its results begin is a turn of the same host.
    world.host(Chain::new().fusing(), HostOptions::default());
    let record = world.until(&id, |record| record.trouble.is_some()).await;
    assert_eq!(record.trouble.unwrap().kind, TroubleKind::HostDied);
    assert_eq!(world.ended(&id).await.status, Status::Completed, "after its rest it is tried again");
    let took = world.elapsed() - began;
    assert!(took >= HOUR / 2 && took < HOUR + Duration::from_secs(60), "{took:?}");
    assert_eq!(world.instance(&id).await.record.deaths.all(), 0, "a commit ends the count");
}

#[tokio::test(start_paused = true)]
async fn plain_deaths_and_deaths_of_servers_never_fail_an_item() {
    let world = World::new();
    let ids = schedule(&world, &["a"]).await;
    die_with_tasks(&world, (30, 6)).await;
    let turn = world.start("turn", 1).await;
    die_with_a_turn(&world, (30, 6), true).await;
    die_with_a_turn(&world, (30, 0), false).await;
    world.host(Chain::new(), HostOptions::default());
    assert_eq!(world.ended(&ids[0]).await.status, Status::Completed);
    let record = world.ended(&turn).await;
    assert_eq!((record.status, record.attempts), (Status::Completed, 0));
}

#[tokio::test(start_paused = true)]
async fn nothing_begins_beside_a_trial() {
    let world = World::new();
    let ids = schedule(&world, &["suspect"]).await;
    die_with_tasks(&world, (9, 0)).await;
    let begins = Begins::default();
    let zero = world.elapsed();
    let code = noting(&begins, |name| if name == "suspect" { HOUR } else { Duration::ZERO });
    world.host(code, HostOptions::default());
    // There is always fresh work.
    for number in 0..60 {
        world.start(&format!("fresh-{number}"), 1).await;
        pass(1).await;
    }
    let suspect = begins.of("suspect");
    assert_eq!(suspect.len(), 1, "{suspect:?}");
    let at = suspect[0];
    let beside = |began: &Duration| began.abs_diff(at) < QUIET && *began != at;
    let all = begins.all();
    assert!(!all.iter().any(|(_, began)| beside(began)), "{at:?}: {all:?}");
    assert!(at < QUIET * 2 + zero, "it came to its trial: {at:?}");
    for number in 0..60 {
        world.ended(&InstanceId::new(format!("fresh-{number}")).unwrap()).await;
    }
    let fresh: Vec<_> = begins.all().into_iter().filter(|(name, _)| name != "suspect").collect();
    assert_eq!(fresh.len(), 60, "each began once");
    assert_eq!(world.ended(&ids[0]).await.status, Status::Completed);
}

#[tokio::test(start_paused = true)]
async fn trial_is_open_while_its_item_runs_and_closed_after_the_quiet() {
    let world = World::new();
    let ids = schedule(&world, &["suspect"]).await;
    die_with_tasks(&world, (9, 0)).await;
    let begins = Begins::default();
    world.host(noting(&begins, |_| HOUR), HostOptions::default());
    while begins.all().is_empty() {
        pass(1).await;
    }
    assert!(world.task(&ids[0]).await.trial);
    pass(QUIET.as_secs() + 1).await;
    let task = &world.task(&ids[0]).await;
    assert!(!task.trial && task.deaths.trials == 0);
    assert_eq!(world.plan.count(Op::Trial), 2, "beside those of the test");
}

#[tokio::test(start_paused = true)]
async fn trial_with_lost_answers_runs_its_item_once() {
    let world = World::new();
    let ids = schedule(&world, &["suspect"]).await;
    die_with_tasks(&world, (9, 0)).await;
    let lost = [Act::LoseAnswer, Act::Refuse, Act::LoseRequest, Act::Pass, Act::LoseAnswer, Act::Refuse];
    world.plan.then(Op::Trial, lost.map(Fate::of));
    let begins = Begins::default();
    world.host(noting(&begins, |_| QUIET * 2), HostOptions::default());
    assert_eq!(world.ended(&ids[0]).await.status, Status::Completed);
    assert_eq!(begins.all().len(), 1);
    let next = world.start("next", 1).await;
    assert_eq!(world.ended(&next).await.status, Status::Completed);
}

#[tokio::test(start_paused = true)]
async fn trials_take_a_quarter_of_the_time() {
    let world = World::new();
    let ids = schedule(&world, &["a", "b", "c"]).await;
    die_with_tasks(&world, (9, 0)).await;
    let begins = Begins::default();
    world.host(noting(&begins, |_| HOUR), HostOptions::default());
    for id in &ids {
        world.ended(id).await;
    }
    let all = begins.all();
    assert_eq!(all.len(), 3, "{all:?}");
    for pair in all.windows(2) {
        let gap = pair[1].1 - pair[0].1;
        // The quiet before it and after it: the first takes its time, later ones may find that nothing has begun for long.
        assert!(gap >= QUIET * 4 && gap <= QUIET * 8 + Duration::from_secs(45), "{all:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn suspects_run_beside_half_as_many_with_each_death() {
    for (deaths, most) in [(1, 8), (2, 4), (3, 2)] {
        let world = World::new();
        let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
        let ids = schedule(&world, &names).await;
        die_with_tasks(&world, (deaths, 0)).await;
        let began = world.elapsed();
        let begins = Begins::default();
        world.host(noting(&begins, |_| HOUR), sixteen());
        pass(59).await;
        assert_eq!(begins.all().len(), most, "{deaths} deaths");
        // What has run for a minute makes room for others.
        for id in &ids {
            world.ended(id).await;
        }
        let last = begins.all().iter().map(|(_, at)| *at).max().unwrap();
        let rounds = u32::try_from(names.len() / most - 1).unwrap();
        let longest = Duration::from_secs(60 + 30 + 5) * rounds + Duration::from_secs(5);
        assert!(last - began <= longest, "{deaths} deaths: the last began after {:?}", last - began);
        assert_eq!(begins.all().len(), names.len(), "each began once");
    }
}

#[tokio::test(start_paused = true)]
async fn suspects_begin_once_those_without_a_place_are_back() {
    let world = World::new();
    let ids = schedule(&world, &["a", "b", "c", "d", "e", "f"]).await;
    die_with_tasks(&world, (2, 0)).await;
    let late = Duration::from_secs(5);
    world.plan.always.lock().unwrap().insert(Op::Release, Fate { before: late, ..Fate::PASS });
    let (begins, began) = (Begins::default(), world.elapsed());
    // Ten slots, of which two are for suspects with two deaths; it wins four of the six at once.
    let options = HostOptions { turns_max: 2, activities_max: 8, ..HostOptions::default() };
    world.host(noting(&begins, |_| Duration::from_secs(600)), options);
    let fresh = world.start("fresh", 1).await;
    world.until(&fresh, |record| record.status == Status::Running).await;
    pass(20).await;
    let suspects: Vec<_> = begins.all().into_iter().filter(|(name, _)| name != "fresh").collect();
    assert_eq!(suspects.len(), 2, "{suspects:?}");
    assert!(suspects.iter().all(|(_, at)| *at >= began + late), "{suspects:?}");
    for id in &ids {
        assert_eq!(world.ended(id).await.status, Status::Completed);
    }
}

#[tokio::test(start_paused = true)]
async fn fresh_items_begin_while_suspects_wait_for_others() {
    let world = World::new();
    let ids = schedule(&world, &["a", "b", "c", "d", "e", "f"]).await;
    die_with_tasks(&world, (2, 0)).await;
    let fresh = schedule(&world, &["z"]).await;
    let late = Duration::from_secs(5);
    world.plan.always.lock().unwrap().insert(Op::Release, Fate { before: late, ..Fate::PASS });
    let (begins, began) = (Begins::default(), world.elapsed());
    let options = HostOptions { turns_max: 2, activities_max: 16, ..HostOptions::default() };
    world.host(noting(&begins, |_| HOUR), options);
    pass(30).await;
    assert!(begins.of("z")[0] < began + late, "{:?}", begins.all());
    for id in ids.iter().chain(&fresh) {
        assert_eq!(world.ended(id).await.status, Status::Completed);
    }
}

#[tokio::test(start_paused = true)]
async fn host_that_stops_gives_its_trial_item_back_without_a_death() {
    let world = World::new();
    let ids = schedule(&world, &["suspect"]).await;
    die_with_tasks(&world, (9, 0)).await;
    let begins = Begins::default();
    let host = world.host(noting(&begins, |_| HOUR), HostOptions::default());
    pass(5).await;
    let before = world.elapsed();
    host.stop().await;
    assert!(world.elapsed() - before < Duration::from_secs(1), "{:?}", world.elapsed() - before);
    assert_eq!(begins.all().len(), 0);
    // Again in the midst of the trial: it drains, and gives the task up.
    let host = world.host(noting(&begins, |_| HOUR), HostOptions::default());
    while begins.all().is_empty() {
        pass(1).await;
    }
    host.stop().await;
    let task = &world.task(&ids[0]).await;
    assert_eq!((task.deaths.workers, task.deaths.trials, task.trial), (9, 0, false));
}

#[tokio::test(start_paused = true)]
async fn host_with_one_slot_of_each_tries_every_suspect_alone() {
    let world = World::new();
    let ids = schedule(&world, &["a", "b"]).await;
    die_with_tasks(&world, (1, 0)).await;
    let begins = Begins::default();
    let options = HostOptions { turns_max: 1, activities_max: 1, ..HostOptions::default() };
    world.host(noting(&begins, |_| Duration::from_secs(1)), options);
    let fresh = world.start("fresh", 2).await;
    for id in ids.iter().chain([&fresh]) {
        assert_eq!(world.ended(id).await.status, Status::Completed);
    }
    assert!(begins.of("a")[0].abs_diff(begins.of("b")[0]) >= QUIET, "{:?}", begins.all());
}

#[tokio::test(start_paused = true)]
async fn item_that_is_taken_over_during_its_trial_ends_the_trial() {
    let world = World::new();
    let ids = schedule(&world, &["suspect"]).await;
    die_with_tasks(&world, (9, 0)).await;
    let begins = Begins::default();
    let one = world.host(noting(&begins, |_| HOUR), HostOptions::default());
    while begins.all().is_empty() {
        pass(1).await;
    }
    let other = doomed(&world, 9, true).await;
    world.store.expire_sessions(&one.id);
    let lease = win_tasks(&*other, 1).await.pop().unwrap();
    assert_eq!(lease.deaths.trials, 1, "its process may have died of it");
    let fresh = world.start("fresh", 1).await;
    assert_eq!(world.ended(&fresh).await.status, Status::Completed, "the host goes on");
    assert!(!world.task(&ids[0]).await.trial);
}

/// Results and messages for kept instances are beginnings: results go to the inbox, and messages wait.
#[tokio::test(start_paused = true)]
async fn kept_instance_takes_no_turn_during_a_trial() {
    let world = World::new();
    let turns = Arc::new(Mutex::new(Vec::new()));
    let begins = Begins::default();
    let code = {
        let (turns, start) = (Arc::clone(&turns), tokio::time::Instant::now());
        let long = |name: &str| Duration::from_secs(if name == "suspect" { 3_600 } else { 20 });
        noting(&begins, long).fusing().on_turn(move |record| {
            turns.lock().unwrap().push((record.revision, start.elapsed()));
            Ok(())
        })
    };
    let suspect = schedule(&world, &["suspect"]).await;
    die_with_tasks(&world, (9, 0)).await;
    let kept = world.start("kept", 2).await;
    let work = doomed(&world, 9, true).await;
    let lease = win_tasks(&*work, 1).await.pop().unwrap();
    world.host(code, HostOptions::default());
    while begins.of("kept").is_empty() {
        pass(1).await;
    }
    // The suspect comes while the kept instance waits for its activity, which ends during the trial.
    let item = Item::Task(lease.fence);
    let release = dauer_store::Release { item, delay: Duration::ZERO, trouble: None, failed: false };
    work.release(vec![release]).await.pop().unwrap().unwrap();
    world.client.raise(&kept, "event", None).await.unwrap();
    assert_eq!(world.ended(&kept).await.status, Status::Completed);
    let at = begins.of("suspect")[0];
    let turns = turns.lock().unwrap().clone();
    let beside = turns.iter().filter(|(_, began)| began.abs_diff(at) < QUIET);
    assert_eq!(beside.count(), 0, "the trial began at {at:?}: {turns:?}");
    assert_eq!(begins.of("kept").len(), 2, "its first result was not lost");
    assert_eq!(world.instance(&suspect[0]).await.record.status, Status::Running);
}
