//! What the system says about this process: processor time, memory, bytes written. `None` where it does not say.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::param::clock_ticks_per_second;
use rustix::time::{ClockId, clock_gettime};

/// Writes made to measure one fsync: enough for a median, over in a moment on any disk.
const SYNCS: usize = 200;

/// Bytes of each of them: a page of the store.
const SYNC_BYTES: usize = 4096;

/// Below this a folder is hardly on a disk, and the figures are not about one.
pub(super) const SYNC_MS_MIN: f64 = 0.01;

/// Processor time of all threads so far.
pub(super) fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or_default(),
        u32::try_from(time.tv_nsec).unwrap_or_default(),
    )
}

/// Bytes that this process has handed to the system, to files and all else.
pub(super) fn written_bytes() -> Option<u64> {
    field("/proc/self/io", "wchar:")
}

/// Bytes of memory that are resident now.
pub(super) fn resident_bytes() -> Option<u64> {
    field("/proc/self/status", "VmRSS:").map(|kilobytes| kilobytes * 1024)
}

/// The same of another process.
pub(super) fn resident_bytes_of(process: u32) -> Option<u64> {
    field(&format!("/proc/{process}/status"), "VmRSS:").map(|kilobytes| kilobytes * 1024)
}

/// Processor time of all threads of another process so far, to the nanosecond: the scheduler's own count.
pub(super) fn processor_time_of(process: u32) -> Option<Duration> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).ok()?;
    let spent = threads.filter_map(|thread| {
        // A thread that ended meanwhile is missing, with what it has spent: servers keep theirs.
        let text = fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<u64>().ok()
    });
    Some(Duration::from_nanos(spent.sum()))
}

/// The most that was ever resident, since [`forget_peak`].
pub(super) fn peak_bytes() -> Option<u64> {
    field("/proc/self/status", "VmHWM:").map(|kilobytes| kilobytes * 1024)
}

/// The peak begins anew. Where that is not allowed, it is the peak of the whole process.
pub(super) fn forget_peak() {
    // 5 is the number that the system has for this; a refusal costs only the precision of one figure.
    let _ = fs::write("/proc/self/clear_refs", "5");
}

fn field(file: &str, name: &str) -> Option<u64> {
    parse(&fs::read_to_string(file).ok()?, name)
}

/// The number behind a name at the beginning of a line.
fn parse(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()?.parse().ok()
}

/// The median time of writing one page at the end of a file in that folder and making it durable, in milliseconds.
pub(super) fn sync_ms(folder: &Path) -> std::io::Result<f64> {
    use std::io::Write;
    let path = folder.join("fsync");
    let mut file = fs::File::create(&path)?;
    let mut times = Vec::with_capacity(SYNCS);
    for _ in 0..SYNCS {
        let began = Instant::now();
        file.write_all(&[7; SYNC_BYTES])?;
        file.sync_data()?;
        times.push(began.elapsed().as_secs_f64() * 1000.0);
    }
    fs::remove_file(&path)?;
    Ok(super::statistics::median(&mut times))
}

/// Cores that this process may use.
pub(super) fn available_cores() -> usize {
    std::thread::available_parallelism().map_or(1, Into::into)
}

/// The cores of the machine, and what was done with them so far.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Cores {
    number: f64,
    /// Seconds in which they worked, for whomever.
    busy: f64,
    /// Seconds in which there was work, and whoever runs this machine as a guest had the core.
    stolen: f64,
}

impl Cores {
    fn look() -> Option<Self> {
        let ticks = super::statistics::count(clock_ticks_per_second());
        Self::parse(&fs::read_to_string("/proc/stat").ok()?, ticks)
    }

    /// Out of the system's table: a line for all of them, and one for each.
    fn parse(text: &str, ticks_per_second: f64) -> Option<Self> {
        let (all, each) = text.split_once('\n')?;
        let ticks: Vec<u64> =
            all.strip_prefix("cpu ")?.split_whitespace().map_while(|ticks| ticks.parse().ok()).collect();
        let [user, nice, system, _idle, _waits, interrupts, soft, stolen, ..] = ticks[..] else {
            return None;
        };
        let seconds = |ticks: u64| super::statistics::count(ticks) / ticks_per_second;
        let number = each.lines().take_while(|line| line.starts_with("cpu")).count();
        Some(Self {
            number: super::statistics::count(number),
            busy: seconds(user + nice + system + interrupts + soft),
            stolen: seconds(stolen),
        })
    }

    /// How many of them others left to a process that spent so much since `before`: of two cores, two when nobody else did
    /// anything.
    fn free_since(&self, before: &Self, seconds: f64, own: f64) -> f64 {
        let others = (self.busy - before.busy - own).max(0.0) + (self.stolen - before.stolen);
        (self.number - super::statistics::ratio(others, seconds)).max(0.0)
    }
}

/// What this process has spent between two moments.
#[derive(Debug, Clone, Copy)]
pub(super) struct Meter {
    began: Instant,
    processor: Duration,
    written: Option<u64>,
    cores: Option<Cores>,
}

/// What was spent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spent {
    pub(super) seconds: f64,
    pub(super) processor_seconds: f64,
    pub(super) written_bytes: Option<u64>,
    /// How many cores the rest of the machine left to it, counted in ticks of a hundredth of a second.
    pub(super) cores_free: Option<f64>,
}

impl Meter {
    pub(super) fn start() -> Self {
        let (cores, written) = (Cores::look(), written_bytes());
        Self { began: Instant::now(), processor: processor_time(), written, cores }
    }

    pub(super) fn stop(self) -> Spent {
        let seconds = self.began.elapsed().as_secs_f64();
        let written = written_bytes().zip(self.written).map(|(now, before)| now.saturating_sub(before));
        let processor_seconds = processor_time().saturating_sub(self.processor).as_secs_f64();
        let cores = Cores::look().zip(self.cores);
        // Where this process may use only some of the cores, no more than those.
        let allowed = super::statistics::count(available_cores());
        let cores_free =
            cores.map(|(now, before)| now.free_since(&before, seconds, processor_seconds).min(allowed));
        Spent { seconds, processor_seconds, written_bytes: written, cores_free }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_found_at_the_beginning_of_its_line() {
        let text = "Name:\tdauer\nVmHWM:\t   12345 kB\nxwchar: 1\nwchar: 77\n";
        assert_eq!(parse(text, "VmHWM:"), Some(12345));
        assert_eq!(parse(text, "wchar:"), Some(77));
        assert_eq!(parse(text, "rchar:"), None);
        assert_eq!(parse("VmRSS: none", "VmRSS:"), None);
    }

    #[test]
    fn cores_are_free_when_nobody_else_works_and_nobody_takes_them() {
        let stat = |user, system, stolen| {
            format!("cpu  {user} 0 {system} 900 70 4 6 {stolen} 50 0\ncpu0 1 2\ncpu1 1 2\nintr 5 6\n")
        };
        let parse = |text: &str| Cores::parse(text, 100.0);
        let before = parse(&stat(100, 200, 30)).unwrap();
        assert_eq!(before, Cores { number: 2.0, busy: 3.1, stolen: 0.3 });
        let free = |user, system, stolen, own| {
            let free = parse(&stat(user, system, stolen)).unwrap().free_since(&before, 2.0, own);
            super::super::statistics::rounded(free, 3)
        };
        // Two seconds; all that was done was done by this process.
        assert_eq!(free(300, 250, 30, 2.5), 2.0);
        // Half a second of that was somebody else's, and then the host of the machine had a core for another.
        assert_eq!(free(300, 250, 30, 2.0), 1.75);
        assert_eq!(free(300, 250, 80, 2.0), 1.5);
        // The system counts in ticks, this process in nanoseconds; nobody gives a core back.
        assert_eq!(free(300, 250, 30, 2.504), 2.0);
        assert_eq!(free(900, 250, 900, 0.0), 0.0);
        for text in ["", "cpu  1 2 3\n", "cpu0 1 2 3 4 5 6 7 8\n", "cpu  1 2 3 4 5 6 7 8"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn the_meter_sees_what_is_written() {
        let folder = std::env::temp_dir().join(format!("dauer-meter-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let meter = Meter::start();
        let sync = sync_ms(&folder).unwrap();
        let spent = meter.stop();
        fs::remove_dir(&folder).unwrap();
        assert!(sync > 0.0 && spent.seconds >= sync / 1000.0, "{sync} {spent:?}");
        if cfg!(target_os = "linux") {
            assert!(spent.written_bytes.unwrap() >= (SYNCS * SYNC_BYTES) as u64, "{spent:?}");
            assert!(peak_bytes().unwrap() >= 1024 * 1024 && resident_bytes().unwrap() >= 1024 * 1024);
            let cores = Cores::look().unwrap();
            assert!(cores.number >= 1.0 && cores.busy > 0.0, "{cores:?}");
            assert!((0.0..=cores.number).contains(&spent.cores_free.unwrap()), "{spent:?} {cores:?}");
        }
    }
}
