//! The folder of the child on a simulated disk, played from the records of the shim, and what a power loss leaves of it.
//!
//! The model:
//! - A file's bytes and size are durable when it is synced. Until then each sector of 512 bytes, on its own, may have any
//!   content that it had since (`file.rs`), in particular later writes without earlier ones, and parts of a write.
//! - Names are durable when the folder is synced. Until then each name, on its own, may be as at any moment since: a
//!   file that was created may be missing, one that was removed may be there.
//! - After a sync that failed the system takes what it could not write for clean: it is not made durable by later syncs.
//! - The file that processes share memory through is not on the disk: after the loss it is missing, or as it was, or
//!   rubbish.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use dauer_sim::random::Random;

use crate::error::Error;
use crate::file::{File, Loss};
use crate::record::{
    BEGUN, CLOSED, CREATED, CUT, EMPTIED, FAILED, FOREIGN, Head, OPENED, SHARED_MEMORY, SYNC_FAILED, SYNCED,
    UNLINKED, WRITTEN,
};

/// Bytes of rubbish: the size that SQLite gives the shared file.
const RUBBISH_BYTES: usize = 32 * 1024;

/// Which file, among all that ever were.
type Number = usize;

/// The folder.
#[derive(Debug, Default)]
pub(crate) struct Disk {
    files: Vec<File>,
    /// What programs see.
    names: BTreeMap<String, Number>,
    durable_names: BTreeMap<String, Number>,
    /// What each name was since the folder was last synced.
    changes: BTreeMap<String, Vec<Option<Number>>>,
    /// `None` is the folder itself.
    descriptors: BTreeMap<i32, Option<Number>>,
    /// How many calls changed something or made it durable.
    pub(crate) calls: u64,
    /// How many of them were syncs.
    pub(crate) syncs: u64,
    pub(crate) writes: u64,
    /// How much the files grew.
    pub(crate) grown: u64,
    /// Calls that were made to fail, with their errors.
    pub(crate) failed: BTreeMap<String, u64>,
}

impl Disk {
    /// Plays records on an empty folder. A lying disk (a negative control) does not carry out any sync.
    pub(crate) fn play(mut records: &[u8], lying: bool) -> Result<Self, Error> {
        let mut disk = Self::default();
        while !records.is_empty() {
            let Some((head, payload, rest)) = Head::read(records) else {
                return Err(Error::Records("the last record is cut off"));
            };
            if !(lying && head.kind == SYNCED) {
                disk.apply(head, payload)?;
            }
            records = rest;
        }
        Ok(disk)
    }

    fn apply(&mut self, head: Head, payload: &[u8]) -> Result<(), Error> {
        let name = || String::from_utf8_lossy(payload).into_owned();
        match head.kind {
            OPENED => return self.open(head, &name()),
            CLOSED => _ = self.descriptors.remove(&head.fd),
            WRITTEN => {
                let offset = usize::try_from(head.number).unwrap_or(usize::MAX);
                let file = self.file(head.fd)?;
                let before = file.seen().len();
                file.write(offset, payload);
                let after = file.seen().len();
                self.grown += (after - before) as u64;
                self.writes += 1;
                self.calls += 1;
            }
            CUT => {
                let size = usize::try_from(head.number).unwrap_or(usize::MAX);
                self.file(head.fd)?.cut(size);
                self.calls += 1;
            }
            SYNCED | SYNC_FAILED => {
                self.sync(head)?;
                self.calls += 1;
                self.syncs += 1;
            }
            UNLINKED => {
                let name = name();
                self.names.remove(&name);
                self.changes.entry(name).or_default().push(None);
                self.calls += 1;
            }
            FAILED => *self.failed.entry(name()).or_default() += 1,
            BEGUN => self.descriptors.clear(),
            FOREIGN => return Err(Error::Foreign(name())),
            _ => return Err(Error::Records("a record of an unknown kind")),
        }
        Ok(())
    }

    fn open(&mut self, head: Head, name: &str) -> Result<(), Error> {
        if name.is_empty() {
            self.descriptors.insert(head.fd, None);
            return Ok(());
        }
        if head.number & CREATED != 0 {
            self.files.push(File::default());
            let number = self.files.len() - 1;
            self.names.insert(name.to_owned(), number);
            self.changes.entry(name.to_owned()).or_default().push(Some(number));
        }
        let number = *self.names.get(name).ok_or(Error::Records("a file was opened that nobody created"))?;
        if head.number & EMPTIED != 0 {
            self.files[number].cut(0);
        }
        self.calls += u64::from(head.number & (CREATED | EMPTIED) != 0);
        self.descriptors.insert(head.fd, Some(number));
        Ok(())
    }

    fn file(&mut self, fd: i32) -> Result<&mut File, Error> {
        match self.descriptors.get(&fd) {
            Some(Some(number)) => Ok(&mut self.files[*number]),
            _ => Err(Error::Records("a write to a descriptor that nobody opened")),
        }
    }

    fn sync(&mut self, head: Head) -> Result<(), Error> {
        let failed = head.kind == SYNC_FAILED;
        match self.descriptors.get(&head.fd) {
            // Names that were not made durable stay so: the next sync of the folder tries them again.
            Some(None) if failed => {}
            Some(None) => {
                self.durable_names.clone_from(&self.names);
                self.changes.clear();
            }
            Some(Some(number)) if failed => self.files[*number].sync_failed(),
            Some(Some(number)) => self.files[*number].sync(),
            None => return Err(Error::Records("a sync of a descriptor that nobody opened")),
        }
        Ok(())
    }

    /// Whether a power loss now could lose anything.
    pub(crate) fn is_dirty(&self) -> bool {
        !self.changes.is_empty() || self.names.values().any(|number| self.files[*number].is_dirty())
    }

    /// What the records do not explain of the folder; empty when the shim has seen every change.
    pub(crate) fn differences(&self, folder: &Path) -> io::Result<Vec<String>> {
        let mut found = BTreeSet::new();
        let mut differences = Vec::new();
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.as_bytes().ends_with(SHARED_MEMORY) {
                continue;
            }
            match self.names.get(&name) {
                None => differences.push(format!("{name} is there, and nobody created it")),
                Some(number) if self.files[*number].seen() != std::fs::read(entry.path())? => {
                    differences.push(format!("{name} is not what was written to it"));
                }
                Some(_) => {}
            }
            found.insert(name);
        }
        let missing = self.names.keys().filter(|name| !found.contains(*name));
        differences.extend(missing.map(|name| format!("{name} is missing, and nobody removed it")));
        Ok(differences)
    }

    /// Makes the folder what a power loss now may leave of it.
    pub(crate) fn lose_power(&self, folder: &Path, loss: Loss, random: &mut Random) -> io::Result<()> {
        let shared = shared_memory(folder)?;
        std::fs::remove_dir_all(folder)?;
        std::fs::create_dir(folder)?;
        let all: BTreeSet<&String> = self.names.keys().chain(self.durable_names.keys()).collect();
        let all: BTreeSet<&String> = all.into_iter().chain(self.changes.keys()).collect();
        for name in all {
            let number = match loss {
                Loss::All => self.durable_names.get(name).copied(),
                Loss::Nothing => self.names.get(name).copied(),
                Loss::Some => {
                    let mut states = vec![self.durable_names.get(name).copied()];
                    states.extend(self.changes.get(name).into_iter().flatten());
                    states[random.index(states.len())]
                }
            };
            if let Some(number) = number {
                std::fs::write(folder.join(name), self.files[number].after(loss, random))?;
            }
        }
        for (name, content) in shared {
            match random.below(3) {
                0 => {}
                1 => std::fs::write(folder.join(name), content)?,
                _ => {
                    let rubbish = std::iter::repeat_with(|| random.bits().to_le_bytes()).flatten();
                    let rubbish: Vec<u8> = rubbish.take(RUBBISH_BYTES).collect();
                    std::fs::write(folder.join(name), rubbish)?;
                }
            }
        }
        Ok(())
    }
}

/// The files that are not on the disk, as they are.
fn shared_memory(folder: &Path) -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.as_bytes().ends_with(SHARED_MEMORY) {
            files.push((name, std::fs::read(entry.path())?));
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // A test fails by panicking.

    use super::*;

    fn records(all: &[(u8, i32, u64, &str)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (kind, fd, number, payload) in all {
            let length = u32::try_from(payload.len()).unwrap();
            bytes.extend(Head { kind: *kind, fd: *fd, number: *number, length }.bytes());
            bytes.extend(payload.as_bytes());
        }
        bytes
    }

    /// A folder of its own, removed with the test.
    struct Folder(std::path::PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("dauer-disk-{}-{name}", std::process::id()));
            std::fs::create_dir(&path).unwrap();
            Self(path)
        }

        fn content(&self) -> BTreeMap<String, String> {
            let files = std::fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap());
            let name = |entry: &std::fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
            files.map(|entry| (name(&entry), std::fs::read_to_string(entry.path()).unwrap())).collect()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    /// A file whose content is durable and whose name is not; one that was durable and is removed.
    fn story() -> Vec<u8> {
        records(&[
            (OPENED, 3, 0, ""),
            (OPENED, 4, CREATED, "old"),
            (WRITTEN, 4, 0, "old"),
            (SYNCED, 4, 0, ""),
            (SYNCED, 3, 0, ""),
            (OPENED, 5, CREATED, "new"),
            (WRITTEN, 5, 0, "new"),
            (SYNCED, 5, 0, ""),
            (CLOSED, 5, 0, ""),
            (UNLINKED, -1, 0, "old"),
        ])
    }

    #[test]
    fn names_are_lost_until_the_folder_is_synced() {
        let folder = Folder::new("names");
        let all = |names: &[&str]| names.iter().map(|name| (name.to_string(), name.to_string())).collect();
        let disk = Disk::play(&story(), false).unwrap();
        assert_eq!((disk.calls, disk.syncs, disk.writes), (8, 3, 2));
        disk.lose_power(&folder.0, Loss::All, &mut Random::new(1)).unwrap();
        assert_eq!(folder.content(), all(&["old"]));
        disk.lose_power(&folder.0, Loss::Nothing, &mut Random::new(1)).unwrap();
        assert_eq!(folder.content(), all(&["new"]));
        let mut seen = BTreeSet::new();
        for seed in 0..50 {
            disk.lose_power(&folder.0, Loss::Some, &mut Random::new(seed)).unwrap();
            seen.insert(folder.content());
        }
        let possible = [all(&[]), all(&["old"]), all(&["new"]), all(&["old", "new"])];
        assert_eq!(seen, BTreeSet::from(possible));
        let mut synced = story();
        synced.extend(records(&[(SYNCED, 3, 0, "")]));
        let disk = Disk::play(&synced, false).unwrap();
        disk.lose_power(&folder.0, Loss::All, &mut Random::new(1)).unwrap();
        assert_eq!(folder.content(), all(&["new"]));
    }

    #[test]
    fn a_lying_disk_keeps_nothing() {
        let folder = Folder::new("lying");
        let disk = Disk::play(&story(), true).unwrap();
        disk.lose_power(&folder.0, Loss::All, &mut Random::new(1)).unwrap();
        assert_eq!(folder.content(), BTreeMap::new());
    }

    #[test]
    fn a_change_that_the_records_do_not_have_is_noticed() {
        let folder = Folder::new("unseen");
        let disk = Disk::play(&story(), false).unwrap();
        let path = folder.0.join("new");
        assert_eq!(disk.differences(&folder.0).unwrap().len(), 1, "it is missing");
        std::fs::write(&path, "new").unwrap();
        std::fs::write(folder.0.join("hub.db-shm"), "not on the disk").unwrap();
        assert!(disk.differences(&folder.0).unwrap().is_empty());
        std::fs::write(&path, "nEw").unwrap();
        std::fs::write(folder.0.join("foreign"), "").unwrap();
        assert_eq!(disk.differences(&folder.0).unwrap().len(), 2);
    }

    #[test]
    fn records_that_make_no_sense_are_refused() {
        let cut_off = &story()[..story().len() - 1];
        assert!(matches!(Disk::play(cut_off, false), Err(Error::Records(_))));
        let unknown = records(&[(WRITTEN, 9, 0, "x")]);
        assert!(matches!(Disk::play(&unknown, false), Err(Error::Records(_))));
        let foreign = records(&[(FOREIGN, -1, 0, "rename")]);
        assert!(matches!(Disk::play(&foreign, false), Err(Error::Foreign(_))));
    }
}
