//! `dauer bench waits`: what a server costs that does nothing, and what calls cost that only wait.
//!
//! The server is a process of its own, on a new file; its memory and processor time are the system's word.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use dauer::Orchestration;
use futures::stream::{FuturesUnordered, StreamExt as _};
use serde::Serialize;

use super::place::Place;
use super::process;
use super::report::{self, Lines, Setting};
use super::statistics::rounded;
use super::{Common, Error, Program};

/// What an idle server may take, in bytes and in hundredths of a core.
const IDLE_BYTES_MAX: u64 = 40_000_000;
const IDLE_PERCENT_MAX: f64 = 0.5;

/// What ten thousand waits may take more.
const WAITS_BYTES_MAX: u64 = 100_000_000;
const WAITS_PERCENT_MAX: f64 = 0.1;

/// Starts that are under way at once.
const STARTS_AT_ONCE: usize = 256;

/// How long the waits may take to reach the server.
const ARRIVAL_MAX: Duration = Duration::from_secs(60);

/// How often to look whether they have.
const ARRIVAL_LOOK: Duration = Duration::from_millis(100);

/// Nobody has its code: it waits for ever.
const NOBODYS: Orchestration<(), ()> = Orchestration::new("nobodys");

/// What to measure.
#[derive(clap::Args, Clone)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(super) common: Common,
    /// So many calls that wait.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    waits: u64,
    /// For so many seconds each.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,
}

#[derive(Serialize)]
struct Figures {
    bench: &'static str,
    #[serde(flatten)]
    setting: Setting,
    waits: u64,
    seconds: u64,
    idle_rss_bytes: u64,
    idle_cpu_percent: f64,
    /// More than before the waits, with the same instances.
    waits_rss_bytes: u64,
    waits_cpu_percent: f64,
    within_limits: bool,
}

/// A server of its own.
struct Server {
    child: Child,
    address: String,
    metrics: String,
}

impl Server {
    fn start(store: &str) -> Result<Self, Error> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args([
            "serve",
            "--store",
            store,
            "--grpc",
            "127.0.0.1:0",
            "--http",
            "127.0.0.1:0",
            "--log",
            "error",
        ]);
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let gone = || Error::Child("the server did not say where it listens".to_owned());
        let output = child.stdout.take().ok_or_else(gone)?;
        let mut lines = BufReader::new(output).lines();
        let mut said = |name: &str| {
            let line = lines.next().and_then(Result::ok).ok_or_else(gone)?;
            line.strip_prefix(name).map(str::to_owned).ok_or_else(gone)
        };
        let (address, metrics) = (said("grpc ")?, said("http http://")?);
        Ok(Self { child, address, metrics })
    }

    fn resident(&self) -> Result<u64, Error> {
        process::resident_bytes_of(self.child.id())
            .ok_or_else(|| Error::Child("the server is gone".to_owned()))
    }

    /// The part of one core that it takes, in hundredths, over so long.
    async fn percent(&self, period: Duration) -> Result<f64, Error> {
        let gone = || Error::Child("the server is gone".to_owned());
        let (began, before) = (Instant::now(), process::processor_time_of(self.child.id()).ok_or_else(gone)?);
        tokio::time::sleep(period).await;
        let spent = process::processor_time_of(self.child.id()).ok_or_else(gone)?.saturating_sub(before);
        Ok(100.0 * spent.as_secs_f64() / began.elapsed().as_secs_f64())
    }

    /// How many waits it has, by its own figures.
    fn waits(&self) -> Option<u64> {
        let text = get(&self.metrics, "/metrics").ok()?;
        let value = text.lines().find_map(|line| line.strip_prefix(r#"dauer_waits{hub="default"} "#))?;
        value.trim().parse().ok()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One request of HTTP, as simple as it gets: nothing here needs more.
fn get(address: &str, path: &str) -> std::io::Result<String> {
    use std::io::{Read as _, Write as _};
    let mut stream = std::net::TcpStream::connect(address)?;
    write!(stream, "GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

pub(super) async fn run(arguments: Arguments, program: &Program) -> Result<(), Error> {
    let Arguments { common, waits, seconds } = arguments;
    let period = Duration::from_secs(seconds);
    let place = Place::new(common.store.as_deref())?;
    let setting = Setting::look(&common, program, &place)?;
    let server = Server::start(&place.url(0, true))?;
    report::progress(&common, &format!("an idle server for {seconds} s"));
    let idle_cpu_percent = server.percent(period).await?;
    let idle_rss_bytes = server.resident()?;
    report::progress(&common, &format!("{waits} instances that nobody runs"));
    let client = dauer::connect(&server.address)?.client();
    let mut starts = futures::stream::iter(0..waits)
        .map(|number| client.start(NOBODYS, &()).id(format!("nobodys-{number:08}")).into_future())
        .buffer_unordered(STARTS_AT_ONCE);
    let mut handles = Vec::new();
    while let Some(started) = starts.next().await {
        handles.push(started?);
    }
    drop(starts);
    let before = server.resident()?;
    report::progress(&common, &format!("{waits} calls that wait, for {seconds} s"));
    let waiting: FuturesUnordered<_> =
        handles.iter().map(|handle| handle.ended_within(period * 10)).collect();
    let mut waiting = waiting.fuse();
    let measured = async {
        let deadline = Instant::now() + ARRIVAL_MAX;
        while server.waits().is_none_or(|there| there < waits) {
            if Instant::now() > deadline {
                return Err(Error::Child(format!("{waits} waits did not reach the server in time")));
            }
            tokio::time::sleep(ARRIVAL_LOOK).await;
        }
        let percent = server.percent(period).await?;
        Ok((percent, server.resident()?))
    };
    let (waits_cpu_percent, after) = tokio::select! {
        measured = measured => measured?,
        Some(ended) = waiting.next() => {
            ended?;
            return Err(Error::Child("a wait ended for which there is no end".to_owned()));
        }
    };
    let waits_rss_bytes = after.saturating_sub(before);
    let within_limits = idle_rss_bytes < IDLE_BYTES_MAX
        && idle_cpu_percent < IDLE_PERCENT_MAX
        && waits_rss_bytes < WAITS_BYTES_MAX
        && waits_cpu_percent < WAITS_PERCENT_MAX;
    let figures = Figures {
        bench: "waits",
        setting,
        waits,
        seconds,
        idle_rss_bytes,
        idle_cpu_percent: rounded(idle_cpu_percent, 3),
        waits_rss_bytes,
        waits_cpu_percent: rounded(waits_cpu_percent, 3),
        within_limits,
    };
    report::show(&common, &figures, &lines(&figures))
}

fn lines(figures: &Figures) -> Lines {
    let mut lines = Lines::default();
    figures.setting.lines(&mut lines);
    let megabytes = |bytes: u64| format!("{:.1} MB", bytes as f64 / 1e6);
    let percent = |percent: f64| format!("{percent:.3} %");
    lines.line("idle memory", megabytes(figures.idle_rss_bytes), "a server that nobody calls; below 40 MB");
    lines.line("idle core", percent(figures.idle_cpu_percent), "of one core; below 0.5 %");
    lines.line(
        "waits, memory",
        megabytes(figures.waits_rss_bytes),
        "more than before they came; below 100 MB",
    );
    lines.line("waits, core", percent(figures.waits_cpu_percent), "of one core; below 0.1 %");
    lines
}
