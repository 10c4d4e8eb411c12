//! A codec in a unit test: what the test gives and sees stays as it is, what is stored does not.

#![allow(clippy::unwrap_used)] // A test that cannot be set up has failed.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use dauer_replay::{
    Activity, ActivityContext, CodecError, Event, Failure, Orchestration, OrchestrationContext, PayloadCodec,
    Result,
};
use dauer_testhub::{Script, TestError, TestHub};

const SECRET: &str = "hunter2-and-a-half";

const CLOSURE: Activity<String, String> = Activity::new("closure");
const SCRIPT: Activity<String, String> = Activity::new("script");
const REAL: Activity<String, String> = Activity::new("real");
const WORD: Event<String> = Event::new("word");
const VAULT: Orchestration<String, String> = Orchestration::new("vault");

/// Every character is one further in its alphabet of code points.
struct Shifted;

impl PayloadCodec for Shifted {
    fn encode(&self, json: &str) -> Result<String, CodecError> {
        let shifted: Option<String> = json.chars().map(|c| char::from_u32(c as u32 + 1)).collect();
        Ok(format!("shifted:{}", shifted.ok_or("a character has no next one")?))
    }

    fn decode(&self, stored: &str) -> Result<String, CodecError> {
        let shifted = stored.strip_prefix("shifted:").ok_or("it was not shifted")?;
        let json: Option<String> = shifted.chars().map(|c| char::from_u32(c as u32 - 1)).collect();
        Ok(json.ok_or("a character has no one before it")?)
    }
}

async fn real(_: ActivityContext, word: String) -> Result<String> {
    Ok(word)
}

async fn vault(ctx: OrchestrationContext, word: String) -> Result<String> {
    let word = ctx.call(CLOSURE, &word).await?;
    let word = ctx.call(SCRIPT, &word).await.or_else(|_| Ok::<_, dauer_replay::Error>(word))?;
    let word = ctx.call(SCRIPT, &word).await?;
    let word = ctx.call(REAL, &word).await?;
    let heard = ctx.event(WORD).await?;
    assert_eq!(heard, word);
    Ok(heard)
}

fn hub() -> TestHub<'static> {
    let script = Script::new().fail(Failure::new("Down", "no answer")).ok(SECRET.to_owned());
    TestHub::new()
        .activity(CLOSURE, |word: String| Ok(word))
        .script(SCRIPT, script)
        .activity_code(REAL, real)
        .raise_at(Duration::from_secs(1), WORD, &SECRET.to_owned())
}

#[test]
fn the_test_sees_values_and_the_history_what_the_codec_made_of_them() {
    // Whether it is set first or last makes no difference.
    let mut hub = hub().codec(Shifted);
    assert_eq!(hub.run(VAULT, vault, SECRET.to_owned()).unwrap(), SECRET);
    assert_eq!(hub.inputs(CLOSURE).unwrap(), [SECRET]);
    let history = hub.export().unwrap();
    assert!(history.contains("shifted:") && !history.contains(SECRET), "{history}");
    // The control: without it the history shows them.
    let mut plain = self::hub();
    assert_eq!(plain.run(VAULT, vault, SECRET.to_owned()).unwrap(), SECRET);
    assert!(plain.export().unwrap().contains(SECRET));
}

/// Writes, and can read nothing of it.
struct WriteOnly;

impl PayloadCodec for WriteOnly {
    fn encode(&self, json: &str) -> Result<String, CodecError> {
        Ok(json.to_owned())
    }

    fn decode(&self, _: &str) -> Result<String, CodecError> {
        Err("the key is gone".into())
    }
}

#[test]
fn what_cannot_be_read_says_so_without_the_payload() {
    let error = hub().codec(WriteOnly).run(VAULT, vault, SECRET.to_owned()).unwrap_err();
    assert!(matches!(error, TestError::Turn { .. }), "{error:?}");
    let told = format!("{error:?}");
    assert!(
        told.contains("the input of orchestration 'vault'") && told.contains("the key is gone"),
        "{told}"
    );
    assert!(!told.contains(SECRET), "{told}");
}

#[test]
fn a_codec_that_never_gives_the_same_twice_is_no_lack_of_determinism() {
    let mut hub = hub().codec(Salted(AtomicU32::new(1)));
    assert_eq!(hub.run(VAULT, vault, SECRET.to_owned()).unwrap(), SECRET);
    // A script is used up by one run.
    let mut hub = TestHub::new().activity(SCRIPT, |word: String| Ok(word)).codec(Salted(AtomicU32::new(1)));
    let runs = hub.crash_after_every_checkpoint(VAULT, changed, SECRET.to_owned(), |case| {
        assert_eq!(case.result.as_ref().unwrap(), SECRET);
    });
    assert!(runs.unwrap() > 2);
    // What really differs is seen through it.
    let error = hub.run(VAULT, unsteady, SECRET.to_owned()).unwrap_err();
    assert!(matches!(error, TestError::NotDeterministic { .. }), "{error:?}");
}

/// Gives something else each time it runs.
async fn unsteady(ctx: OrchestrationContext, word: String) -> Result<String> {
    static RUNS: AtomicU32 = AtomicU32::new(0);
    let run = RUNS.fetch_add(1, Ordering::Relaxed);
    Ok(ctx.call(SCRIPT, &format!("{word}{run}")).await?)
}

/// As [`Shifted`], and never the same twice: as encryption with a nonce.
struct Salted(AtomicU32);

impl PayloadCodec for Salted {
    fn encode(&self, json: &str) -> Result<String, CodecError> {
        let salt = self.0.fetch_add(1, Ordering::Relaxed);
        Ok(format!("{salt}:{}", Shifted.encode(json)?))
    }

    fn decode(&self, stored: &str) -> Result<String, CodecError> {
        Shifted.decode(stored.split_once(':').ok_or("it has no salt")?.1)
    }
}

async fn changed(ctx: OrchestrationContext, word: String) -> Result<String> {
    Ok(ctx.call(SCRIPT, &word).await?)
}

async fn other_end(ctx: OrchestrationContext, word: String) -> Result<String> {
    vault(ctx, word).await.map(|word| format!("{word}!"))
}

#[test]
fn a_history_that_was_written_through_a_codec_is_replayed_through_it() {
    let salted = || Salted(AtomicU32::new(1));
    let mut hub = hub().codec(salted());
    // Another version than the test has: the code that is given is meant.
    hub.run(VAULT.version("1"), vault, SECRET.to_owned()).unwrap();
    let history = hub.export().unwrap();
    assert!(!history.contains(SECRET), "{history}");
    let elsewhere = || Salted(AtomicU32::new(1_000));
    TestHub::replay_through(elsewhere(), VAULT, vault, &history).unwrap();
    TestHub::replay_through(elsewhere(), VAULT.version("2"), vault, &history).unwrap();

    let parted = TestHub::replay_through(elsewhere(), VAULT, changed, &history).unwrap_err();
    assert!(format!("{parted:?}").contains("'closure'"), "{parted:?}");
    let other = TestHub::replay_through(elsewhere(), VAULT, other_end, &history).unwrap_err();
    assert!(matches!(other, TestError::OtherEnd { .. }), "{other:?}");
    let unread = TestHub::replay(VAULT, vault, &history).unwrap_err();
    assert!(matches!(unread, TestError::Turn { .. }), "the control: without the codec nothing is read");
    let wrong = TestHub::replay_through(WriteOnly, VAULT, vault, &history).unwrap_err();
    assert!(format!("{wrong:?}").contains("the key is gone") && !format!("{wrong:?}").contains(SECRET));
    let elses = Orchestration::<String, String>::new("other");
    let other = TestHub::replay_through(elsewhere(), elses, vault, &history).unwrap_err();
    assert!(matches!(other, TestError::OtherOrchestration { .. }), "{other:?}");
}
