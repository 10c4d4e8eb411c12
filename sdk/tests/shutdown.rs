//! How a process with a worker ends: real processes, real signals. Alone in its programme, which it starts again.

#![cfg(unix)]
#![allow(clippy::unwrap_used)] // Also in what the tests share.

mod support;

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use dauer::{Activity, ActivityContext, HostOptions, Orchestration, OrchestrationContext, Result};
use futures::channel::oneshot;

use support::{Running, SOON};

const STEP: Activity<u32, u32> = Activity::new("step");
const CODE: Orchestration<u32, u32> = Orchestration::new("code");

async fn code(ctx: OrchestrationContext, n: u32) -> Result<u32> {
    Ok(ctx.call(STEP, &n).await?)
}

/// What a helper process does, and on which file. Not set in the test itself.
const ROLE: &str = "DAUER_SHUTDOWN_TEST_ROLE";
const FILE: &str = "DAUER_SHUTDOWN_TEST_FILE";

/// Longer than any test: only a signal ends a helper that drains for so long.
const DRAIN: Duration = Duration::from_secs(60 * 60);

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).unwrap();
}

/// Ready when the parent has written a line.
fn told_by_parent() -> oneshot::Receiver<()> {
    let (told, word) = oneshot::channel();
    std::thread::spawn(move || {
        if std::io::stdin().read_line(&mut String::new()).is_ok_and(|bytes| bytes > 0) {
            let _ = told.send(());
        }
        // Anything else means that the parent is gone, and the helper has no business any more.
        else {
            std::process::exit(99);
        }
    });
    word
}

/// The program that the tests send signals to: a worker whose only activity runs until the parent says so.
async fn program(role: &str, file: &str) {
    let signal = match role {
        "once" => dauer::shutdown_signal_once().unwrap(),
        _ => dauer::shutdown_signal().unwrap(),
    };
    let word = Arc::new(Mutex::new(Some(told_by_parent())));
    if role == "dropped" {
        drop(signal);
        say("running");
        return futures::future::pending().await;
    }
    let hub = dauer::open(&format!("sqlite:{file}")).unwrap();
    let step = move |_: ActivityContext, n: u32| {
        let word = word.lock().unwrap().take().unwrap();
        async move {
            say("running");
            let _ = word.await;
            say("finished");
            Ok(n + 1)
        }
    };
    let worker = hub.worker().orchestration(CODE, code).activity(STEP, step);
    let options = HostOptions { drain_max: DRAIN, ..HostOptions::default() };
    let worker = worker.options(options).build().unwrap();
    hub.client().start(CODE, &41).id("one").await.unwrap();
    let stop = async move {
        signal.await;
        say("stopping");
    };
    worker.run(stop).await.unwrap();
    hub.close().await;
    say("closed");
}

/// A helper process and what it says.
struct Helper {
    child: Child,
    stdin: ChildStdin,
    lines: mpsc::Receiver<String>,
}

impl Helper {
    /// This test again, as a helper.
    fn start(test: &str, role: &str, file: &std::path::Path) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture", "--quiet"])
            .env(ROLE, role)
            .env(FILE, file)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (said, lines) = mpsc::channel();
        std::thread::spawn(move || {
            BufReader::new(stdout).lines().map_while(std::io::Result::ok).try_for_each(|line| said.send(line))
        });
        Self { child, stdin, lines }
    }

    fn until(&self, word: &str) {
        while self.lines.recv_timeout(SOON).unwrap_or_else(|error| panic!("no '{word}': {error}")) != word {}
    }

    fn signal(&self, name: &str) {
        let kill = format!("kill -{name} {}", self.child.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    }

    fn go(&mut self) {
        writeln!(self.stdin, "go").unwrap();
    }

    /// Waits for its end; what it said since the last look, and how it ended.
    fn end(mut self) -> (Vec<String>, ExitStatus) {
        let mut said = Vec::new();
        loop {
            match self.lines.recv_timeout(SOON) {
                Ok(line) => said.push(line),
                Err(mpsc::RecvTimeoutError::Disconnected) => return (said, self.child.wait().unwrap()),
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    self.child.kill().unwrap();
                    panic!("it does not end; since the last look it said {said:?}");
                }
            }
        }
    }
}

/// Whether this process is a helper; then it has done its work.
async fn is_helper() -> bool {
    let (Ok(role), Ok(file)) = (std::env::var(ROLE), std::env::var(FILE)) else { return false };
    program(&role, &file).await;
    true
}

/// A file of its own for each test, gone afterwards.
struct Folder(std::path::PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("dauer-shutdown-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self) -> std::path::PathBuf {
        self.0.join("hub.db")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[tokio::test]
async fn the_first_signal_lets_a_running_activity_finish_and_be_recorded() {
    if is_helper().await {
        return;
    }
    for signal in ["TERM", "INT"] {
        let folder = Folder::new(signal);
        let test = "the_first_signal_lets_a_running_activity_finish_and_be_recorded";
        let mut helper = Helper::start(test, "drain", &folder.file());
        helper.until("running");
        helper.signal(signal);
        helper.until("stopping");
        helper.go();
        let (said, status) = helper.end();
        assert_eq!(status.code(), Some(0), "{said:?}");
        assert!(said.starts_with(&["finished".to_owned(), "closed".to_owned()]), "{said:?}");
        assert!(!folder.0.join("hub.db-wal").exists(), "the write-ahead log is moved into the file");

        // Whoever comes next has the result and does not run the activity again.
        let runs = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&runs);
        let hub = dauer::open(&format!("sqlite:{}", folder.file().display())).unwrap();
        let next = Running::on(&hub, |worker| {
            worker.orchestration(CODE, code).activity(STEP, move |_: ActivityContext, n: u32| {
                counted.fetch_add(1, Ordering::Relaxed);
                async move { Ok(n) }
            })
        });
        let output = next.client.handle(CODE, "one").unwrap().output_within(SOON).await.unwrap();
        assert_eq!((output, runs.load(Ordering::Relaxed)), (42, 0));
        next.stop().await;
    }
}

#[tokio::test]
async fn the_second_signal_ends_the_process_at_once() {
    if is_helper().await {
        return;
    }
    let test = "the_second_signal_ends_the_process_at_once";
    for (first, second, code) in [("INT", "INT", 130), ("INT", "TERM", 143), ("TERM", "TERM", 143)] {
        let folder = Folder::new(&format!("second-{first}-{second}"));
        let helper = Helper::start(test, "second", &folder.file());
        helper.until("running");
        helper.signal(first);
        helper.until("stopping");
        helper.signal(second);
        let (said, status) = helper.end();
        assert_eq!((status.code(), said), (Some(code), Vec::new()), "{first}, {second}");
    }
}

#[tokio::test]
async fn whoever_asks_for_one_signal_only_is_not_ended_by_the_second() {
    if is_helper().await {
        return;
    }
    let folder = Folder::new("once");
    let test = "whoever_asks_for_one_signal_only_is_not_ended_by_the_second";
    let mut helper = Helper::start(test, "once", &folder.file());
    helper.until("running");
    helper.signal("INT");
    helper.until("stopping");
    for signal in ["INT", "TERM", "INT", "TERM"] {
        helper.signal(signal);
    }
    helper.go();
    let (said, status) = helper.end();
    assert_eq!(status.code(), Some(0), "{said:?}");
    assert!(said.contains(&"closed".to_owned()), "{said:?}");
}

#[tokio::test]
async fn without_anyone_to_drain_a_signal_ends_the_process() {
    if is_helper().await {
        return;
    }
    let folder = Folder::new("dropped");
    let helper =
        Helper::start("without_anyone_to_drain_a_signal_ends_the_process", "dropped", &folder.file());
    helper.until("running");
    helper.signal("TERM");
    assert_eq!(helper.end().1.code(), Some(143));
}
