//! What a host tells in the log of its lease, and how gravely (lease-A38 in `docs/CLAIMS.md`). Alone in its programme:
//! which lines are recorded at all is remembered for a whole process.

#![allow(clippy::unwrap_used)] // Also in what the tests share.

mod support;

use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use dauer_core::model::TroubleKind;
use dauer_core::turn::Stalled;
use dauer_hub::HostOptions;

use support::{Act, Chain, Fate, Op, World, pass, raw, win_turns};

/// What was logged: how grave, and in which words.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<(Level, String)>>>);

impl Log {
    /// The levels at which a line that begins so was written, each once.
    fn levels(&self, words: &str) -> Vec<Level> {
        let lines = self.0.lock().unwrap();
        let mut levels: Vec<_> =
            lines.iter().filter(|(_, line)| line.starts_with(words)).map(|(level, _)| *level).collect();
        levels.sort();
        levels.dedup();
        levels
    }
}

struct Words<'a>(&'a mut String);

impl Visit for Words<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            *self.0 = format!("{value:?}");
        }
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("dauer_hub")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut words = String::new();
        event.record(&mut Words(&mut words));
        self.0.lock().unwrap().push((*event.metadata().level(), words));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[tokio::test(start_paused = true)]
async fn lease_a38_lease_operations_are_logged_as_gravely_as_they_are() {
    let log = Log::default();
    let _recording = tracing::subscriber::set_default(log.clone());
    let world = World::new();
    let host = world.host(Chain::new(), HostOptions::default());
    let id = world.start("chain", 1).await;
    world.ended(&id).await;
    pass(16).await;
    assert_eq!(log.levels("a session was opened"), [Level::INFO]);
    assert_eq!(log.levels("the session was renewed"), [Level::INFO]);
    assert_eq!(log.levels("turns were won"), [Level::DEBUG], "thousands a second: only for those who look");

    world.plan.then(Op::Renew, [Fate::of(Act::Refuse)]);
    pass(16).await;
    assert_eq!(log.levels("the session could not be renewed"), [Level::WARN]);

    // What a slow turn is for is taken away meanwhile: a conflict, told when it commits and at the next renewal.
    let slow = World::new();
    let zombie = slow.host(Chain::new().slow_turns(Duration::from_secs(40)), HostOptions::default());
    slow.start("chain", 1).await;
    pass(1).await;
    slow.store.expire_sessions(&zombie.id);
    assert_eq!(win_turns(&*raw(&slow, 9).await, 1).await.len(), 1);
    pass(60).await;
    assert_eq!(log.levels("a turn was fenced"), [Level::WARN]);
    assert_eq!(log.levels("items were taken over"), [Level::WARN]);

    world.plan.then(Op::Next, [Fate::of(Act::Refuse)]);
    pass(16).await;
    assert_eq!(log.levels("the store could not be asked for work"), [Level::ERROR], "the store's fault");
    world.plan.then(Op::CommitTurns, [Fate::of(Act::Refuse)]);
    let id = world.start("again", 1).await;
    world.ended(&id).await;
    assert_eq!(log.levels("a commit was not possible"), [Level::ERROR], "the store's fault");
    let broken = World::new();
    broken.host(
        Chain::new().on_turn(|_| Err(Stalled::new(TroubleKind::Panic, "it broke"))),
        HostOptions::default(),
    );
    let id = broken.start("chain", 1).await;
    broken.until(&id, |record| record.attempts == 1).await;
    assert_eq!(log.levels("a turn is stalled"), [Level::ERROR], "what was to be executed failed");

    host.stop().await;
    assert_eq!(log.levels("the session was closed"), [Level::INFO]);
}
