//! Orchestrations with everything in them that `docs/clippy.toml` refuses, each line marked, and good code that it must not
//! complain about. Never built with the workspace: `testkit/outside/tests/lints.rs` runs clippy on it.

use std::collections::BTreeMap;
use std::time::Duration;

use dauer::{Activity, Event, OrchestrationContext, Result};
use futures::future::{join_all, try_join_all};
use futures::stream::{FuturesUnordered, StreamExt};

const STEP: Activity<u32, u32> = Activity::new("step");
const GO: Event<u32> = Event::new("go");

pub async fn good(ctx: OrchestrationContext, n: u32) -> Result<BTreeMap<String, u32>> {
    let mut seen = BTreeMap::new();
    seen.insert(ctx.uuid().to_string(), n);
    seen.insert(format!("{:?}", ctx.now()), n);
    ctx.sleep(Duration::from_secs(60)).await;
    let all = join_all((0..n).map(|i| ctx.call(STEP, &i))).await;
    let sum: u32 = try_join_all((0..n).map(|i| ctx.call(STEP, &i))).await?.iter().sum();
    let mut unordered: FuturesUnordered<_> = (0..n).map(|i| ctx.call(STEP, &i)).collect();
    while let Some(step) = unordered.next().await {
        seen.insert("last".to_owned(), step?);
    }
    let (first, second) = futures::join!(ctx.call(STEP, &1), ctx.call(STEP, &2));
    let mut go = ctx.event(GO);
    let mut late = ctx.sleep(Duration::from_secs(60));
    let chosen = futures::select_biased! {
        n = go => n?,
        () = late => sum,
    };
    let timed = ctx.call(STEP, &n).timeout(Duration::from_secs(5)).await?;
    seen.insert("some".to_owned(), first? + second? + chosen + timed + all.len() as u32);
    Ok(seen)
}

pub fn time() {
    let _ = std::time::SystemTime::now(); //~
    let _ = std::time::Instant::now(); //~
    let _ = chrono::Utc::now(); //~
    let _ = chrono::Local::now(); //~
    let _ = tokio::time::Instant::now(); //~
}

pub async fn waiting() {
    std::thread::sleep(Duration::from_secs(1)); //~
    tokio::time::sleep(Duration::from_secs(1)).await; //~
    tokio::time::sleep_until(deadline()).await; //~
    let _ = tokio::time::timeout(Duration::from_secs(1), async {}).await; //~
    let _ = tokio::time::interval(Duration::from_secs(1)); //~
    futures::executor::block_on(async {}); //~
}

fn deadline() -> tokio::time::Instant {
    panic!("never called")
}

pub fn chance() {
    let _ = rand::random::<u32>(); //~
    let _ = rand::rng(); //~
    let _ = getrandom::fill(&mut [0]); //~
    let _ = uuid::Uuid::new_v4(); //~
    let _ = uuid::Uuid::now_v7(); //~
}

pub fn beside() {
    let _ = std::thread::spawn(|| {}); //~
    drop(tokio::spawn(async {})); //~
    drop(tokio::task::spawn_blocking(|| {})); //~
    drop(tokio::task::spawn_local(async {})); //~
}

pub fn outside() -> std::io::Result<()> {
    let _ = std::env::var("HOME"); //~
    let _ = std::env::vars(); //~
    std::fs::read("file")?; //~
    std::fs::read_to_string("file")?; //~
    std::fs::write("file", "text")?; //~
    std::fs::File::open("file")?; //~
    std::fs::File::create("file")?; //~
    let _ = std::process::Command::new("true"); //~
    let _ = std::process::id(); //~
    std::net::TcpStream::connect("localhost:1")?; //~
    Ok(())
}

pub fn order(map: &std::collections::HashMap<u32, u32>) -> u32 { //~
    map.values().fold(0, |sum, n| sum * 31 + n)
}

pub fn set(set: &std::collections::HashSet<u32>) -> Option<u32> { //~
    set.iter().next().copied()
}

pub fn state(_: &std::hash::RandomState) {} //~

pub async fn races(ctx: OrchestrationContext) -> Result<u32> {
    let (mut one, mut two) = (ctx.call(STEP, &1), ctx.call(STEP, &2));
    let first = futures::select! { //~
        n = one => n?,
        n = two => n?,
    };
    let second = tokio::select! { //~
        n = ctx.call(STEP, &3) => n?,
        n = ctx.call(STEP, &4) => n?,
    };
    let (third, _) = tokio::join!(ctx.call(STEP, &5), ctx.call(STEP, &6)); //~
    let (fourth, _) = tokio::try_join!(ctx.call(STEP, &7), ctx.call(STEP, &8))?; //~
    Ok(first + second + third? + fourth)
}
