//! Payloads through a codec of the user's: sealed in the store, readable on both sides, and loud where keys differ.

#![allow(clippy::expect_used, clippy::unwrap_used)] // Also in what the tests share.

use std::ops::ControlFlow;
use std::time::Duration;

use dauer::{
    Activity, ActivityContext, CallError, ClientError, CodecError, Event, HostOptions, Hub, Orchestration,
    OrchestrationContext, PayloadCodec, PayloadError, Result, Status, TroubleKind,
};

use crate::support::{Folder, Running, SOON};

/// What must never be seen in the store, in a trouble or in a failure.
const SECRET: &str = "hunter2-and-a-half";

const LOOK_UP: Activity<String, String> = Activity::new("look-up");
const VAULT: Orchestration<String, String> = Orchestration::new("vault");
const CHILD: Orchestration<String, String> = Orchestration::new("child");
const EAR: Orchestration<u32, String> = Orchestration::new("ear");
const WORD: Event<String> = Event::new("word");

/// A cipher for tests: every byte is changed by the key, and the front says which key it was.
struct Sealed(u8);

#[derive(Debug, thiserror::Error)]
#[error("it is not sealed with key {0}")]
struct OtherKey(u8);

impl PayloadCodec for Sealed {
    fn encode(&self, json: &str) -> Result<String, CodecError> {
        let bytes: String = json.bytes().map(|byte| format!("{:02x}", byte ^ self.0)).collect();
        Ok(format!("sealed{}:{bytes}", self.0))
    }

    fn decode(&self, stored: &str) -> Result<String, CodecError> {
        let bytes = stored.strip_prefix(&format!("sealed{}:", self.0)).ok_or(OtherKey(self.0))?;
        let pairs = bytes.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap_or_default());
        let bytes = pairs.map(|pair| u8::from_str_radix(pair, 16).map(|byte| byte ^ self.0));
        Ok(String::from_utf8(bytes.collect::<std::result::Result<_, _>>()?)?)
    }
}

/// Says the same in every kind of payload: the input, a status, an activity's input and result, a child's, an event to
/// itself, the next run's input and the output.
async fn vault(ctx: OrchestrationContext, word: String) -> Result<ControlFlow<String, String>> {
    ctx.set_status(&word);
    if let Some(word) = word.strip_suffix(" again") {
        return Ok(ControlFlow::Break(word.to_owned()));
    }
    let found = ctx.call(LOOK_UP, &word).await?;
    let told = ctx.call_orchestration(CHILD, &found).await?;
    ctx.send_event(ctx.instance(), WORD, &told);
    let heard = ctx.event(WORD).await?;
    Ok(ControlFlow::Continue(format!("{heard} again")))
}

async fn child(_: OrchestrationContext, word: String) -> Result<String> {
    Ok(word)
}

async fn look_up(_: ActivityContext, word: String) -> Result<String> {
    assert_eq!(word, SECRET);
    Ok(word)
}

/// What it hears, or what is wrong with it.
async fn ear(ctx: OrchestrationContext, _: u32) -> Result<String> {
    match ctx.event(WORD).await {
        Ok(word) => Ok(word),
        Err(error @ CallError::Undecodable { .. }) => {
            assert!(matches!(&error, CallError::Undecodable { source: PayloadError::Codec(_), .. }));
            Err(error.into())
        }
        Err(error) => Err(error.into()),
    }
}

fn running(hub: &Hub) -> Running {
    let millis = Duration::from_millis;
    let options =
        HostOptions { retry_delay_min: millis(1), retry_delay_max: millis(5), ..HostOptions::default() };
    Running::on(hub, |worker| {
        let worker = worker.orchestration(VAULT, vault).orchestration(CHILD, child);
        worker.orchestration(EAR, ear).activity(LOOK_UP, look_up).options(options)
    })
}

/// Runs the vault to its end, and gives all bytes that are then in the folder of the store.
async fn bytes_of_a_run(name: &str, codec: Option<Sealed>) -> Vec<u8> {
    let folder = Folder::new(&format!("codec-{name}"));
    let hub = dauer::open(&folder.url()).unwrap();
    let hub = match codec {
        Some(codec) => hub.codec(codec),
        None => hub,
    };
    let running = running(&hub);
    let handle = running.client.start(VAULT, &SECRET.to_owned()).id("one").await.unwrap();
    assert_eq!(handle.output_within(SOON).await.unwrap(), SECRET);
    let heard = running.client.start(EAR, &0).id("two").await.unwrap();
    heard.raise(WORD, &SECRET.to_owned()).await.unwrap();
    assert_eq!(heard.output_within(SOON).await.unwrap(), SECRET);
    let killed = running.client.start(EAR, &0).id("three").await.unwrap();
    killed.terminate(SECRET).await.unwrap();
    running.wait(killed.id(), |record| record.status == Status::Terminated).await;
    running.stop().await;
    let files = |folder: &std::path::Path| -> Vec<_> {
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
    };
    // Also what is still in the log.
    let mut bytes: Vec<u8> =
        files(&folder.0).iter().filter_map(|file| std::fs::read(file).ok()).flatten().collect();
    hub.close().await;
    bytes.extend(files(&folder.0).iter().filter_map(|file| std::fs::read(file).ok()).flatten());
    bytes
}

fn contains(bytes: &[u8], word: &str) -> bool {
    bytes.windows(word.len()).any(|window| window == word.as_bytes())
}

#[tokio::test]
async fn what_is_sealed_is_nowhere_in_the_file_and_comes_back_whole() {
    let sealed = bytes_of_a_run("sealed", Some(Sealed(42))).await;
    assert!(contains(&sealed, "sealed42:"), "the codec was not used");
    assert!(!contains(&sealed, SECRET), "the file shows a payload");
    // The control: without the codec the same search finds it.
    assert!(contains(&bytes_of_a_run("plain", None).await, SECRET));
}

#[tokio::test]
async fn every_payload_of_the_history_is_sealed() {
    let hub = dauer::open("memory:").unwrap().codec(Sealed(42));
    let running = running(&hub);
    let handle = running.client.start(VAULT, &SECRET.to_owned()).id("one").await.unwrap();
    assert_eq!(handle.output_within(SOON).await.unwrap(), SECRET);
    let record = handle.status().await.unwrap().unwrap();
    for payload in [record.details.output(), record.details.custom_status()] {
        assert!(payload.unwrap().as_str().starts_with("sealed42:"));
    }
    let slice = hub.manage().read_history(handle.id(), None, 0, usize::MAX).await.unwrap();
    let shown =
        format!("{:?}", slice.batches.iter().map(|batch| batch.batch.decode().unwrap()).collect::<Vec<_>>());
    assert!(shown.contains("sealed42:") && !shown.contains(SECRET), "{shown}");
    running.stop().await;
}

#[tokio::test]
async fn an_input_that_cannot_be_opened_is_visible_trouble_and_disturbs_nobody() {
    let plain = dauer::open("memory:").unwrap();
    let hub = plain.clone().codec(Sealed(42));
    let running = running(&hub);
    // One is not sealed at all, one with another key, and one is sealed well but holds something else.
    const NUMBER: Orchestration<Vec<String>, String> = Orchestration::new("vault");
    let other = plain.clone().codec(Sealed(7)).client();
    let bad = [
        plain.client().start(VAULT, &SECRET.to_owned()).id("plain").await.unwrap(),
        other.start(VAULT, &SECRET.to_owned()).id("other").await.unwrap(),
        running.client.start(NUMBER, &vec![SECRET.to_owned()]).id("number").await.unwrap(),
    ];
    let codec = "the payload codec refused it; use the codec that wrote it on both sides: it is not sealed with key 42";
    let hidden = "what the codec gave is not the JSON of the type (line 1, column 0)";
    for (handle, why) in bad.iter().zip([codec, codec, hidden]) {
        let record = running.wait(handle.id(), |record| record.attempts >= 2).await;
        let trouble = record.trouble.unwrap();
        assert_eq!((record.status, trouble.kind), (Status::Pending, TroubleKind::Undecodable));
        let what =
            "the input of orchestration 'vault' cannot be read; register code that takes what was given";
        assert_eq!(trouble.reason, format!("{what}: {why}"));
    }
    let good = running.client.start(VAULT, &SECRET.to_owned()).await.unwrap();
    assert_eq!(good.output_within(SOON).await.unwrap(), SECRET);
    // Whoever has another key, or none, is told so.
    for client in [plain.client(), other] {
        let handle = client.handle(VAULT, good.id().as_str()).unwrap();
        let error = handle.output_within(SOON).await.err().unwrap();
        assert!(matches!(error, ClientError::Undecodable { .. }), "{error}");
        assert!(!format!("{error:?}").contains(SECRET), "{error:?}");
    }
    running.stop().await;
}

#[tokio::test]
async fn results_and_events_that_cannot_be_opened_are_failures_that_say_which() {
    let plain = dauer::open("memory:").unwrap();
    let (hub, other) = (plain.clone().codec(Sealed(42)), plain.clone().codec(Sealed(7)));
    let turns = Running::on(&hub, |worker| {
        worker.orchestration(VAULT, vault).orchestration(CHILD, child).orchestration(EAR, ear)
    });
    // The activity cannot read what it is given.
    let tasks = Running::on(&other, |worker| worker.activity(LOOK_UP, look_up));
    let failed = |error: ClientError| match error {
        ClientError::Failed { source, .. } => source,
        other => panic!("expected a failure, got {other}"),
    };
    let handle = turns.client.start(VAULT, &SECRET.to_owned()).await.unwrap();
    let failure = failed(handle.output_within(SOON).await.err().unwrap());
    assert_eq!(failure.kind, "Undecodable");
    assert!(!format!("{failure:?}").contains(SECRET), "{failure:?}");
    // And the code is told of an event that somebody else has sealed.
    let handle = turns.client.start(EAR, &0).await.unwrap();
    other.client().raise(handle.id(), WORD, &SECRET.to_owned()).await.unwrap();
    let failure = failed(handle.output_within(SOON).await.err().unwrap());
    assert!(failure.message.starts_with("the data of event 'word' ("), "{}", failure.message);
    let shown = format!("{failure:?}");
    assert!(shown.contains("it is not sealed with key 42") && !shown.contains(SECRET), "{shown}");
    tasks.stop().await;
    turns.stop().await;
}
