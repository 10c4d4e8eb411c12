//! Several programs at a time.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::Program;

/// How often it is looked whether a program has ended: short beside what any of them takes.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// How much is run, and for how long.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Programs at the same time.
    pub at_once: usize,
    /// How long one may take. Whatever takes longer hangs, is killed and has failed.
    pub each: Duration,
}

/// What has become of one program.
#[derive(Debug)]
pub struct Outcome {
    /// Which.
    pub program: Program,
    /// What it took.
    pub took: Duration,
    /// Whether all its tests have passed; if not, why.
    pub result: Result<(), String>,
    /// What it said, on both channels.
    pub said: String,
}

/// Runs all, and hands over each outcome as it comes, one at a time.
pub fn run_all(programs: Vec<Program>, limits: Limits, told: impl FnMut(Outcome) + Send) {
    let programs = Mutex::new(VecDeque::from(programs));
    let told = Mutex::new(told);
    thread::scope(|scope| {
        for _ in 0..limits.at_once.max(1) {
            scope.spawn(|| {
                while let Some(program) = next(&programs) {
                    let outcome = run(program, limits.each);
                    let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
                    told(outcome);
                }
            });
        }
    });
}

fn next(programs: &Mutex<VecDeque<Program>>) -> Option<Program> {
    // A panic elsewhere leaves a list that is whole.
    programs.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
}

fn run(program: Program, limit: Duration) -> Outcome {
    let began = Instant::now();
    let not_run = |error| (Err(format!("it could not be run: {error}")), String::new());
    let (result, said) = attempt(&program, limit).unwrap_or_else(not_run);
    Outcome { program, took: began.elapsed(), result, said }
}

fn attempt(program: &Program, limit: Duration) -> io::Result<(Result<(), String>, String)> {
    let output = Output::new()?;
    let child = Command::new(&program.executable)
        .current_dir(&program.folder)
        // As cargo has it: some tests find their files by it.
        .env("CARGO_MANIFEST_DIR", &program.folder)
        .stdin(Stdio::null())
        .stdout(output.end()?)
        .stderr(output.end()?)
        .spawn()?;
    let result = wait(child, limit)?;
    Ok((result, output.said()?))
}

fn wait(mut child: Child, limit: Duration) -> io::Result<Result<(), String>> {
    let until = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(if status.success() { Ok(()) } else { Err(status.to_string()) });
        }
        if Instant::now() >= until {
            child.kill()?;
            child.wait()?;
            return Ok(Err(format!("it took longer than {} s and was killed", limit.as_secs())));
        }
        thread::sleep(LOOK_EVERY);
    }
}

/// A file for what a program says: unlike a pipe it does not wait for whatever the program has left behind.
struct Output(PathBuf);

impl Output {
    fn new() -> io::Result<Self> {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("dauer-runner-{}-{number}", std::process::id()));
        File::create_new(&path)?;
        Ok(Self(path))
    }

    /// Both channels write behind each other.
    fn end(&self) -> io::Result<File> {
        File::options().append(true).open(&self.0)
    }

    fn said(&self) -> io::Result<String> {
        Ok(String::from_utf8_lossy(&fs::read(&self.0)?).into_owned())
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        // Where it cannot be removed, it is in the folder for what may be removed.
        let _ = fs::remove_file(&self.0);
    }
}
