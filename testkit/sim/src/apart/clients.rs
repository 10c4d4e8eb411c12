//! Clients: they start instances, terminate some, wait for their ends and judge them.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use dauer_core::send::StartRequest;
use dauer_hub::Client;
use dauer_store::{Env, InstanceId, Record, Reuse, Status, TroubleKind};
use futures::future::{Either, FutureExt, join_all, select};

use super::code::{CRASHED, Input, PROGRAM};
use super::settings::{Case, Life, TRIAL_DEATHS_MAX};
use super::world::World;

/// Longer than any run takes.
const FOR_EVER: Duration = Duration::from_secs(1_000_000);

/// How often a client looks whether a turn is stalled.
const LOOK_PAUSE: Duration = Duration::from_secs(2);

/// Deaths beside those of halvings and trials: one before its first death is known, and one that met a fault.
const DEATHS_BESIDE: u32 = 3;

/// Serves all instances of the seed.
pub(super) async fn serve_all(world: Arc<World>) {
    join_all(world.settings.cases.iter().map(|case| serve(&world, case))).await;
    world.finished.store(true, Ordering::Relaxed);
}

async fn serve(world: &Arc<World>, case: &Case) {
    let pause = world.random(|random| random.duration(Duration::from_secs(5)));
    world.sleep(pause).await;
    let client = Client::new(Arc::clone(&world.raw), Arc::clone(&world.env) as Arc<dyn Env>);
    let id = World::id(&case.id);
    for (number, life) in case.lives.iter().enumerate() {
        let input =
            Input { instance: case.id.clone(), life: number, round: 1, program: life.program.clone() };
        let request = StartRequest {
            input: serde_json::to_string(&input).ok(),
            ..StartRequest::new(id.clone(), PROGRAM)
        };
        if let Err(error) = client.start(request, Reuse { replaceable: Vec::new() }).await {
            return world.journal.complain(format!("{id} could not be started: {error}"));
        }
        if life.program.kills.is_some() {
            return recognised_turn(world, &client, &id).await;
        }
        if let Some(after) = life.terminated {
            world.sleep(after).await;
            // It may have ended.
            let _ = client.terminate(&id, None, false).await;
        }
        match client.wait_ended(&id, FOR_EVER).await {
            Ok(record) => judge(world, (&id, life), &input, &record),
            Err(error) => world.journal.complain(format!("{id} has no end: {error}")),
        }
        if number + 1 < case.lives.len()
            && let Err(error) = client.purge(&id).await
        {
            return world.journal.complain(format!("{id} could not be purged: {error}"));
        }
    }
}

fn judge(world: &World, (id, life): (&InstanceId, &Life), input: &Input, record: &Record) {
    check_deaths(world, id);
    if record.status == Status::Terminated && life.terminated.is_some() {
        return;
    }
    let output = record.details.output().map(|output| output.as_str().to_owned()).unwrap_or_default();
    let outcomes: Vec<String> = serde_json::from_str(&output).unwrap_or_default();
    let expected = input.expected();
    if record.status != Status::Completed || outcomes.len() != expected.len() {
        return world.journal.complain(format!("outcome: {id} is {:?}: {output}", record.status));
    }
    for (outcome, expected) in outcomes.iter().zip(&expected) {
        if outcome != expected {
            let what = if outcome == CRASHED { "healthy" } else { "outcome" };
            world.journal.complain(format!("{what}: {id} has '{outcome}' where '{expected}' is right"));
        }
    }
}

/// What kills its workers has done so a bounded number of times.
fn check_deaths(world: &World, id: &InstanceId) {
    let mut notes = world.journal.notes();
    // A death beside the end of a server may be counted by none.
    let most =
        world.settings.halvings() + TRIAL_DEATHS_MAX + DEATHS_BESIDE + notes.servers_lost + notes.excused;
    let of = |item: &&String| item.starts_with(&format!("{id}/")) || item.contains(&format!(" {id} "));
    let deaths: Vec<(String, u32)> = notes
        .killed
        .iter()
        .filter(|(item, _)| of(item))
        .filter(|(_, count)| **count > most)
        .map(|(item, count)| (item.clone(), *count))
        .collect();
    for (item, count) in deaths {
        notes.violations.push(format!("bound: {item} has killed {count} workers, and {most} are enough"));
    }
}

/// Waits until a turn is recognised as what kills its workers.
async fn recognised_turn(world: &World, client: &Client, id: &InstanceId) {
    loop {
        let trouble = match client.get(id).await {
            Ok(Some(record)) => record.trouble,
            _ => None,
        };
        if trouble.is_some_and(|trouble| trouble.kind == TroubleKind::HostDied) {
            break;
        }
        world.sleep(LOOK_PAUSE).await;
    }
    check_deaths(world, id);
    let ended = client.force_terminate(id, None, false);
    let in_time = world.sleep(Duration::from_secs(60));
    match select(ended.boxed(), in_time).await {
        Either::Left((Ok(()), _)) => {}
        Either::Left((Err(error), _)) => world.journal.complain(format!("{id} could not be ended: {error}")),
        Either::Right(_) => world.journal.complain(format!("{id} was not ended in time")),
    }
}
