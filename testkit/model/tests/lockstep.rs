//! Two stores in lockstep: the model and itself answer the same, and the model with a mistake does not.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use dauer_conformance::lockstep::{Met, Plan, Stores, lockstep};
use dauer_model::Mistake::{self, *};
use dauer_model::Model;
use dauer_store::{ManualClock, StoreLimits, Timestamp};

/// Mistakes that random calls do not find.
const UNFOUND: &[(&str, &[Mistake])] = &[
    ("no call waits", &[NextDueTooLate, MailNeverDue, CreditWakesNothing]),
    ("no call fails", &[NotExecutedExecutes, TornCheckpoint]),
    (
        "there is one hub, which is not deleted",
        &[HubsShareInstances, HubsListOpened, DeleteHubIgnoresSessions, AnswerMakesHub, KeyMakesNoHub],
    ),
    ("nothing is loaded", &[OutboxNotDelivered]),
    ("events are no protobuf", &[EventsReencoded]),
    ("the contract leaves open what is won in a write", &[CreditWaitsForCalls, WriteWinsForEach]),
    ("every win is returned before the next call", &[UnreturnedUncounted]),
    ("credit with a limit names one queue", &[QueueStarved]),
];

const STEPS: usize = 2_500;
const SEEDS: u64 = 4;

fn stores(change: impl FnOnce(Model) -> Model) -> Stores {
    let clock = Arc::new(ManualClock::new(Timestamp(1_700_000_000_000)));
    // Small, so that limits are met.
    let limits = StoreLimits {
        message_bytes: 10_000,
        checkpoint_bytes: 100_000,
        checkpoint_items: 100,
        delay: Duration::from_secs(100 * 24 * 60 * 60),
        removed_starts: 4,
        mail_bytes: 300,
    };
    let model = || Model::new(clock.clone()).with_limits(limits.clone());
    Stores { model: Arc::new(model()), other: Arc::new(change(model())), clock }
}

fn run(seed: u64, change: impl FnOnce(Model) -> Model) -> Met {
    let plan = Plan { seed, steps: STEPS, compare_every: 8 };
    futures::executor::block_on(lockstep(stores(change), plan))
}

#[test]
fn model_beside_itself_shows_no_difference() {
    let mut met = Met::default();
    for seed in 1..=SEEDS {
        met.add(run(seed, |model| model));
    }
    assert_eq!(met.missing(20), Vec::<String>::new(), "{met:?}");
}

#[test]
fn model_with_a_mistake_shows_a_difference() {
    let reporting = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let finds = |mistake: Mistake, seed| {
        catch_unwind(AssertUnwindSafe(|| run(seed, |model| model.with_mistake(mistake)))).is_err()
    };
    let found = |mistake: Mistake| (1..=5 * SEEDS).any(|seed| finds(mistake, seed));
    let excepted = |mistake: &Mistake| UNFOUND.iter().any(|(_, mistakes)| mistakes.contains(mistake));
    let wanted = Mistake::ALL.iter().copied().filter(|mistake| !excepted(mistake));
    let unfound: Vec<Mistake> = wanted.filter(|mistake| !found(*mistake)).collect();
    std::panic::set_hook(reporting);
    assert_eq!(unfound, []);
}
