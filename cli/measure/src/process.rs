//! What the system says about this process: processor time, memory, bytes written. `None` where it does not say.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

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

/// What this process has spent between two moments.
#[derive(Debug, Clone, Copy)]
pub(super) struct Meter {
    began: Instant,
    processor: Duration,
    written: Option<u64>,
}

/// What was spent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spent {
    pub(super) seconds: f64,
    pub(super) processor_seconds: f64,
    pub(super) written_bytes: Option<u64>,
}

impl Meter {
    pub(super) fn start() -> Self {
        Self { began: Instant::now(), processor: processor_time(), written: written_bytes() }
    }

    pub(super) fn stop(self) -> Spent {
        let seconds = self.began.elapsed().as_secs_f64();
        let written = written_bytes().zip(self.written).map(|(now, before)| now.saturating_sub(before));
        let processor = processor_time().saturating_sub(self.processor);
        Spent { seconds, processor_seconds: processor.as_secs_f64(), written_bytes: written }
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
        }
    }
}
