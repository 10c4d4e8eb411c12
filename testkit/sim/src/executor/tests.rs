//! The executor on its own: order from the seed, time only when nothing can run, crashes that take all.

use std::time::Duration;

use super::*;

fn executor(seed: u64) -> Executor {
    let clock = Arc::new(ManualClock::new(BEGINNING));
    Executor::new(clock, Arc::new(Trace::new(false)), Random::new(seed))
}

type Log = Arc<Mutex<Vec<String>>>;

fn run(executor: &Executor) {
    while executor.step() != Progress::Stuck {}
}

/// Three tasks that say their name three times and give way in between.
fn order(seed: u64) -> (Vec<String>, u64) {
    let (executor, log) = (executor(seed), Log::default());
    for name in ["a", "b", "c"] {
        let log = Arc::clone(&log);
        let task = async move {
            for _ in 0..3 {
                unpoisoned(&log).push(name.to_owned());
                give_way().await;
            }
        };
        executor.spawn(Owner::OUTSIDE, Box::pin(task));
    }
    run(&executor);
    let said = std::mem::take(&mut *unpoisoned(&log));
    (said, executor.trace().hash())
}

#[test]
fn the_seed_decides_the_order() {
    assert_eq!(order(1), order(1));
    let different = (2..12).filter(|seed| order(*seed).0 != order(1).0).count();
    assert!(different >= 8, "{different} of 10 other seeds gave another order");
    assert_eq!(order(3).0.len(), 9);
}

#[test]
fn time_goes_on_only_when_nothing_can_run() {
    let (executor, log) = (executor(5), Log::default());
    for (name, millis) in [("late", 500), ("early", 20), ("never", i64::MAX - BEGINNING.0)] {
        let (log, own) = (Arc::clone(&log), executor.clone());
        let task = async move {
            own.sleep_until(Timestamp(BEGINNING.0 + millis)).await;
            unpoisoned(&log).push(format!("{name} at {}", own.now().0 - BEGINNING.0));
        };
        executor.spawn(Owner::OUTSIDE, Box::pin(task));
    }
    let busy = {
        let log = Arc::clone(&log);
        let own = executor.clone();
        async move {
            for _ in 0..100 {
                give_way().await;
            }
            unpoisoned(&log).push(format!("busy at {}", own.now().0 - BEGINNING.0));
        }
    };
    executor.spawn(Owner::OUTSIDE, Box::pin(busy));
    while executor.now() < BEGINNING.after(Duration::from_millis(500)) || executor.polls_at_this_time() == 0 {
        assert_ne!(executor.step(), Progress::Stuck);
    }
    assert_eq!(*unpoisoned(&log), ["busy at 0", "early at 20", "late at 500"]);
    executor.shut_down();
    assert_eq!(executor.step(), Progress::Stuck, "nobody sleeps after the end");
}

/// Says when it is dropped.
struct Grave(Log, &'static str);

impl Drop for Grave {
    fn drop(&mut self) {
        unpoisoned(&self.0).push(format!("{} is gone", self.1));
    }
}

#[test]
fn a_crash_takes_all_tasks_of_a_host_and_no_other() {
    let (executor, log) = (executor(9), Log::default());
    let (host, other) = (Owner(1), Owner(2));
    executor.admit(host);
    executor.admit(other);
    for (owner, name) in [(host, "one"), (host, "two"), (other, "three")] {
        let (grave, own) = (Grave(Arc::clone(&log), name), executor.clone());
        let task = async move {
            let _grave = grave;
            own.sleep_until(BEGINNING.after(Duration::from_secs(1))).await;
        };
        executor.spawn(owner, Box::pin(task));
    }
    let own = executor.clone();
    let killer = async move {
        own.sleep_until(BEGINNING.after(Duration::from_millis(1))).await;
        own.doom(host);
        give_way().await;
        assert!(!own.is_busy(host) && own.is_busy(other));
        // A dead host cannot begin anything.
        own.spawn(host, Box::pin(async { unreachable!("the dead do not run") }));
    };
    executor.spawn(Owner::OUTSIDE, Box::pin(killer));
    run(&executor);
    assert_eq!(*unpoisoned(&log), ["one is gone", "two is gone", "three is gone"]);
    assert_eq!(executor.now(), BEGINNING.after(Duration::from_secs(1)));
}

#[test]
fn a_stopped_host_goes_on_where_it_was() {
    let (executor, log) = (executor(11), Log::default());
    let host = Owner(1);
    executor.admit(host);
    let (own, said) = (executor.clone(), Arc::clone(&log));
    let work = async move {
        own.sleep_until(BEGINNING.after(Duration::from_millis(10))).await;
        unpoisoned(&said).push(format!("worked at {}", own.now().0 - BEGINNING.0));
    };
    executor.spawn(host, Box::pin(work));
    executor.stop(host);
    let own = executor.clone();
    let waker = async move {
        own.sleep_until(BEGINNING.after(Duration::from_millis(300))).await;
        own.resume(host);
    };
    executor.spawn(Owner::OUTSIDE, Box::pin(waker));
    run(&executor);
    assert_eq!(*unpoisoned(&log), ["worked at 300"]);
}
