//! Which hubs were written last, for the other processes on the file: they wake these hubs only.
//!
//! The list lies in the file of the gate, which a writer holds during its transaction. It is written before the commit, so that
//! a change that can be seen is in it. It is a hint and never synced. Where it cannot be read, all hubs are woken.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};

/// The hubs that are listed. More are written between two looks only when hundreds of them are busy, and a look that comes too
/// late wakes all hubs.
const HUBS_MAX: usize = 64;

/// Written in front, so that the list of another version is not misread.
const MAGIC: u64 = u64::from_le_bytes(*b"daurtch1");

/// The numbers in front of the entries: magic, newest, complete_from and the count of entries.
const HEAD_WORDS: usize = 4;

/// Two for each entry, and the checksum behind all of them.
const WORDS_MAX: usize = HEAD_WORDS + 2 * HUBS_MAX + 1;

/// The hubs that were written last.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Touched {
    /// The number of the last write transaction.
    newest: u64,
    /// All transactions with a greater number are listed.
    complete_from: u64,
    /// The key of each hub and the number of its last transaction, by that number.
    hubs: Vec<(i64, u64)>,
}

impl Touched {
    /// Adds a transaction.
    fn add(&mut self, hubs: &BTreeSet<i64>) {
        self.newest += 1;
        self.hubs.retain(|(hub, _)| !hubs.contains(hub));
        self.hubs.extend(hubs.iter().map(|hub| (*hub, self.newest)));
        let excess = self.hubs.len().saturating_sub(HUBS_MAX);
        if let Some((_, last)) = self.hubs.drain(..excess).next_back() {
            self.complete_from = last;
        }
    }

    /// The hubs of later transactions than that one; `None` when they are not all known.
    fn since(&self, seen: u64) -> Option<BTreeSet<i64>> {
        let known = self.complete_from <= seen && seen <= self.newest;
        known.then(|| self.hubs.iter().filter(|(_, at)| *at > seen).map(|(hub, _)| *hub).collect())
    }

    fn read(mut file: &File) -> io::Result<Option<Self>> {
        let mut bytes = Vec::with_capacity(8 * WORDS_MAX);
        file.seek(SeekFrom::Start(0))?;
        file.take(8 * WORDS_MAX as u64).read_to_end(&mut bytes)?;
        Ok(Self::decode(&bytes))
    }

    fn write(&self, mut file: &File) -> io::Result<()> {
        file.seek(SeekFrom::Start(0))?;
        file.write_all(&self.encode())
    }

    fn encode(&self) -> Vec<u8> {
        let mut words = vec![MAGIC, self.newest, self.complete_from, self.hubs.len() as u64];
        words.extend(self.hubs.iter().flat_map(|(hub, at)| [hub.cast_unsigned(), *at]));
        words.push(checksum(&words));
        words.into_iter().flat_map(u64::to_le_bytes).collect()
    }

    /// `None` for what was not written as a whole: readers hold no lock.
    fn decode(bytes: &[u8]) -> Option<Self> {
        let (words, _) = bytes.as_chunks::<8>();
        let words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let [MAGIC, newest, complete_from, count, rest @ ..] = &words[..] else { return None };
        let length = usize::try_from(*count).ok().filter(|count| *count <= HUBS_MAX)? * 2;
        if *rest.get(length)? != checksum(&words[..HEAD_WORDS + length]) {
            return None;
        }
        let (entries, _) = rest[..length].as_chunks::<2>();
        let hubs = entries.iter().map(|[hub, at]| (hub.cast_signed(), *at)).collect();
        Some(Self { newest: *newest, complete_from: *complete_from, hubs })
    }
}

/// FNV-1a over whole words: it finds torn writes, and nothing else has to be found.
fn checksum(words: &[u64]) -> u64 {
    words.iter().fold(0xcbf2_9ce4_8422_2325, |sum, word| (sum ^ word).wrapping_mul(0x0000_0100_0000_01b3))
}

/// What a change of the file by another connection concerns.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Changed {
    /// Anything.
    All,
    /// These hubs, by their keys.
    Hubs(BTreeSet<i64>),
}

/// What one writer knows of the list.
#[derive(Debug, Default)]
pub(crate) struct Follower {
    /// The last transaction whose hubs are known here; `None` before the first look.
    seen: Option<u64>,
    /// Hubs of others' transactions that were found by a write of this one.
    found: BTreeSet<i64>,
    /// The hubs of the newest transaction at the last look, if it may not have been committed then.
    unconfirmed: BTreeSet<i64>,
}

impl Follower {
    /// Before a commit, with the gate in hand: tells others which hubs it is about. Errors lose a hint, and are left alone.
    pub(crate) fn announce(&mut self, gate: &File, hubs: &BTreeSet<i64>) {
        let mut touched = match Touched::read(gate) {
            Ok(Some(touched)) => touched,
            // The list does not go back to what this follower has seen.
            Ok(None) | Err(_) => {
                let newest = self.seen.unwrap_or_default();
                Touched { newest, complete_from: newest, hubs: Vec::new() }
            }
        };
        if let Some(seen) = self.seen {
            match touched.since(seen) {
                Some(others) => self.found.extend(others),
                // The next look cannot know either.
                None => self.seen = None,
            }
        }
        touched.add(hubs);
        if touched.write(gate).is_ok() && self.seen.is_some() {
            self.seen = Some(touched.newest);
        }
    }

    /// After another connection has changed the file: which hubs that is about.
    pub(crate) fn look(&mut self, gate: &File) -> Changed {
        // With the gate closed to writers, all that is listed was committed, or never will be.
        let settled = gate.try_lock_shared().is_ok();
        let read = Touched::read(gate);
        if settled {
            // A lock that cannot be released goes with the file.
            let _ = gate.unlock();
        }
        let Ok(Some(touched)) = read else {
            *self = Self::default();
            return Changed::All;
        };
        let since = self.seen.and_then(|seen| touched.since(seen));
        self.seen = Some(touched.newest);
        let newest = touched.hubs.iter().filter(|(_, at)| !settled && *at == touched.newest);
        let newest: BTreeSet<i64> = newest.map(|(hub, _)| *hub).collect();
        let Some(mut hubs) = since else {
            (self.found, self.unconfirmed) = (BTreeSet::new(), newest);
            return Changed::All;
        };
        hubs.append(&mut self.found);
        hubs.append(&mut self.unconfirmed);
        // Announced, and perhaps not committed yet: told again by the next look.
        self.unconfirmed = newest;
        // Another program than dauer has written.
        if hubs.is_empty() { Changed::All } else { Changed::Hubs(hubs) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(hubs: &[i64]) -> BTreeSet<i64> {
        hubs.iter().copied().collect()
    }

    fn gate() -> (std::path::PathBuf, File) {
        let number = std::sync::atomic::AtomicU32::new(0);
        let path = std::env::temp_dir().join(format!("dauer-touched-{}-{:p}", std::process::id(), &number));
        let file = File::options().read(true).write(true).create(true).truncate(true).open(&path);
        (path, file.expect("a new file"))
    }

    #[test]
    fn follower_learns_of_others_hubs_and_not_of_its_own() {
        let (path, gate) = gate();
        let (mut one, mut other) = (Follower::default(), Follower::default());
        assert_eq!(other.look(&gate), Changed::All, "nothing was written yet");
        one.announce(&gate, &set(&[1]));
        assert_eq!(other.look(&gate), Changed::All, "it does not know what was before");
        one.announce(&gate, &set(&[2]));
        assert_eq!(other.look(&gate), Changed::Hubs(set(&[2])));
        one.announce(&gate, &set(&[3]));
        other.announce(&gate, &set(&[4]));
        one.announce(&gate, &set(&[5]));
        assert_eq!(other.look(&gate), Changed::Hubs(set(&[3, 5])));
        assert_eq!(other.look(&gate), Changed::All, "another program has written");
        std::fs::remove_file(path).expect("it was there");
    }

    #[test]
    fn hub_seen_before_its_commit_is_told_once_more() {
        let (path, gate) = gate();
        let (mut one, mut other) = (Follower::default(), Follower::default());
        one.announce(&gate, &set(&[1]));
        other.look(&gate);
        let writing = File::open(&path).expect("it is there");
        writing.lock().expect("nobody else has it");
        one.announce(&gate, &set(&[2]));
        assert_eq!(other.look(&gate), Changed::Hubs(set(&[2])), "a look before the commit");
        writing.unlock().expect("it is held");
        assert_eq!(other.look(&gate), Changed::Hubs(set(&[2])), "and one after it");
        one.announce(&gate, &set(&[3]));
        assert_eq!(other.look(&gate), Changed::Hubs(set(&[3])));
        std::fs::remove_file(path).expect("it was there");
    }

    #[test]
    fn follower_that_comes_too_late_wakes_all() {
        let (path, gate) = gate();
        let (mut one, mut other) = (Follower::default(), Follower::default());
        one.announce(&gate, &set(&[0]));
        other.look(&gate);
        for hub in 1..=HUBS_MAX as i64 {
            one.announce(&gate, &set(&[hub]));
        }
        let all = (1..=HUBS_MAX as i64).collect();
        assert_eq!(other.look(&gate), Changed::Hubs(all), "as many as are listed");
        for hub in 0..=HUBS_MAX as i64 {
            one.announce(&gate, &set(&[hub]));
        }
        assert_eq!(other.look(&gate), Changed::All);
        std::fs::remove_file(path).expect("it was there");
    }

    #[test]
    fn torn_list_is_no_list() {
        let mut touched = Touched::default();
        touched.add(&set(&[7, 9]));
        let bytes = touched.encode();
        assert_eq!(Touched::decode(&bytes), Some(touched.clone()));
        for at in 0..bytes.len() {
            let mut torn = bytes.clone();
            torn[at] ^= 1;
            assert_eq!(Touched::decode(&torn), None, "byte {at}");
            assert_eq!(Touched::decode(&bytes[..at]), None, "cut at {at}");
        }
    }
}
