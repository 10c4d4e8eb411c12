//! One worker as a process of the system: started, stopped, continued, killed.

use std::io::{self, BufRead as _, BufReader};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use crate::error::Error;
use crate::programs::Code;
use crate::voice::Line;
use crate::worker::Worker;

/// How long the system may take to stop all threads of a process, or to end it: far longer than it ever does.
const SIGNAL_MAX: Duration = Duration::from_secs(10);

/// How often to look whether it has.
const SIGNAL_POLL: Duration = Duration::from_millis(1);

/// One running worker.
pub(crate) struct Process {
    /// Its number among all that were ever started.
    pub(crate) number: usize,
    child: Child,
    /// Open for as long as it is to run.
    input: Option<ChildStdin>,
    /// The thread that hears what it says; it ends when all has been heard.
    ear: Option<JoinHandle<()>>,
}

impl Process {
    /// Starts a worker; what it says is given to `hear`, on a thread of its own.
    pub(crate) fn start(
        number: usize,
        worker: &Worker,
        mut hear: impl FnMut(Line) + Send + 'static,
    ) -> Result<Self, Error> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("worker").arg("--store").arg(&worker.store);
        command.arg("--lease-ms").arg(worker.lease_ms.to_string());
        command.arg("--code").arg(match worker.code {
            Code::All => "all",
            Code::Orchestrations => "orchestrations",
            Code::Activities => "activities",
            Code::Bystander => "bystander",
        });
        if worker.attempts_show {
            command.arg("--attempts-show");
        }
        command.envs(worker.environment.iter().map(|(name, value)| (name, value)));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let input = child.stdin.take();
        let ear = child.stdout.take().map(|output| {
            std::thread::spawn(move || {
                let lines = BufReader::new(output).lines().map_while(io::Result::ok);
                lines.filter_map(|text| Line::parse(&text)).for_each(&mut hear);
            })
        });
        Ok(Self { number, child, input, ear })
    }

    /// The system's number of it.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    fn signal(&self, signal: Signal) -> Result<(), Error> {
        // A child that is not waited for keeps its number, so nobody else can be hit.
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).map_err(|error| Error::System(error.into()))
    }

    /// Stops all its threads where they are, and waits until they stand.
    pub(crate) async fn stop(&self) -> Result<(), Error> {
        self.signal(Signal::STOP)?;
        let pid = Pid::from_child(&self.child);
        let deadline = Instant::now() + SIGNAL_MAX;
        while Instant::now() < deadline {
            let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
            let status = waitid(WaitId::Pid(pid), options).map_err(|error| Error::System(error.into()))?;
            if status.is_some_and(|status| status.stopped()) {
                return Ok(());
            }
            tokio::time::sleep(SIGNAL_POLL).await;
        }
        Err(Error::Stubborn(self.id(), "stop"))
    }

    /// Lets it go on.
    pub(crate) fn resume(&self) -> Result<(), Error> {
        self.signal(Signal::CONT)
    }

    /// Kills it, running or stopped, and waits until it is gone, its locks with it, and all it said has been heard.
    pub(crate) async fn kill(mut self) -> Result<(), Error> {
        self.child.kill()?;
        self.gone().await.map(|_| ())
    }

    /// Asks it to finish what it has and waits for its end.
    pub(crate) async fn retire(mut self) -> Result<ExitStatus, Error> {
        drop(self.input.take());
        self.gone().await
    }

    /// Whether it has ended without being asked to.
    pub(crate) fn has_ended(&mut self) -> Result<Option<ExitStatus>, Error> {
        Ok(self.child.try_wait()?)
    }

    async fn gone(&mut self) -> Result<ExitStatus, Error> {
        let deadline = Instant::now() + SIGNAL_MAX + dauer::HostOptions::default().drain_max;
        while Instant::now() < deadline {
            let heard = self.ear.as_ref().is_none_or(JoinHandle::is_finished);
            if let Some(status) = self.child.try_wait()?.filter(|_| heard) {
                return Ok(status);
            }
            tokio::time::sleep(SIGNAL_POLL).await;
        }
        Err(Error::Stubborn(self.id(), "end"))
    }
}

impl Drop for Process {
    /// No worker outlives its parent's interest in it, whichever way that ends.
    fn drop(&mut self) {
        // One that has ended cannot be killed, which is as well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
