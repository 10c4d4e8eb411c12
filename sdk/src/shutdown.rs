//! The end of a process that runs a worker: the first signal drains, the second ends at once.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::channel::oneshot;

/// The exit code of a process that a signal ended is this plus the signal's number, as shells count it.
const EXIT_BY_SIGNAL: i32 = 128;

/// SIGINT: Ctrl-C.
const INTERRUPT: i32 = 2;

/// SIGTERM: what `kill`, systemd, Docker and Kubernetes send first.
#[cfg(unix)]
const TERMINATE: i32 = 15;

/// What the second signal does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Second {
    EndsProcess,
    IsIgnored,
}

/// A future that is ready when the process is told to end. See [`shutdown_signal`].
///
/// ```no_run
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let signal: dauer::ShutdownSignal = dauer::shutdown_signal()?;
/// signal.await;
/// println!("told to end");
/// # Ok(())
/// # }
/// ```
#[must_use = "signals are listened to from now on, but nobody acts on the first one"]
pub struct ShutdownSignal {
    first: oneshot::Receiver<()>,
}

impl Future for ShutdownSignal {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        // The listener never gives up before it has sent, unless its thread is gone: then no signal will come either,
        // and a worker that stops is better than one that cannot be stopped.
        Pin::new(&mut self.first).poll(context).map(|_| ())
    }
}

/// For [`Worker::run`](crate::Worker::run): ready with the first SIGINT or SIGTERM (elsewhere than on Unix: Ctrl-C). The
/// worker then takes nothing new and finishes what is in flight, for at most [`HostOptions::drain_max`](crate::HostOptions).
///
/// **A second signal ends the process at once**, with exit code 130 (SIGINT) or 143 (SIGTERM): whoever presses Ctrl-C
/// twice does not want to wait. Nothing durable is lost by that; what was in flight is done again. A program that must
/// not be ended so uses [`shutdown_signal_once`].
///
/// Signals are listened to from this call on, by a thread of its own: a runtime that is busy does not delay the second
/// one. When the future is dropped before a signal came, the next signal ends the process.
///
/// # Errors
/// [`io::Error`] when the system does not allow to listen.
///
/// ```no_run
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let hub = dauer::open("sqlite:orders.db")?;
/// let worker = hub.worker().build()?;
/// worker.run(dauer::shutdown_signal()?).await?;
/// hub.close().await;
/// # Ok(())
/// # }
/// ```
pub fn shutdown_signal() -> io::Result<ShutdownSignal> {
    listen(Second::EndsProcess)
}

/// As [`shutdown_signal`], but every further signal is ignored: the process decides alone when it ends. Only SIGKILL
/// ends it sooner.
///
/// ```no_run
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let worker = dauer::open("sqlite:orders.db")?.worker().build()?;
/// worker.run(dauer::shutdown_signal_once()?).await?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// As [`shutdown_signal`].
pub fn shutdown_signal_once() -> io::Result<ShutdownSignal> {
    listen(Second::IsIgnored)
}

fn listen(second: Second) -> io::Result<ShutdownSignal> {
    // Its own small runtime: the caller's may have no I/O driver, and may be too busy to notice a signal.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let mut signals = {
        let _entered = runtime.enter();
        Signals::new()?
    };
    let (told, first) = oneshot::channel();
    let listening = async move {
        let number = signals.next().await;
        // Nobody is left who could drain: as if this had never listened.
        if told.send(()).is_err() && second == Second::EndsProcess {
            std::process::exit(EXIT_BY_SIGNAL + number);
        }
        loop {
            let number = signals.next().await;
            if second == Second::EndsProcess {
                std::process::exit(EXIT_BY_SIGNAL + number);
            }
        }
    };
    std::thread::Builder::new()
        .name("dauer-signals".to_owned())
        .spawn(move || runtime.block_on(listening))?;
    Ok(ShutdownSignal { first })
}

#[cfg(unix)]
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn new() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    /// The number of the next signal.
    async fn next(&mut self) -> i32 {
        use futures::future::{Either, select};
        let interrupt = std::pin::pin!(self.interrupt.recv());
        let terminate = std::pin::pin!(self.terminate.recv());
        match select(interrupt, terminate).await {
            Either::Left(_) => INTERRUPT,
            Either::Right(_) => TERMINATE,
        }
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self)
    }

    async fn next(&mut self) -> i32 {
        if tokio::signal::ctrl_c().await.is_err() {
            // It cannot be listened to: as if it never came.
            std::future::pending::<()>().await;
        }
        INTERRUPT
    }
}
