//! Where a benchmark writes: a store that is its own, and a folder beside it that is removed afterwards.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use super::Error;

/// The scheme of a store in a file.
const FILE_SCHEME: &str = "sqlite:";

/// A file in the scratch folder that its process keeps locked. A folder whose owner is not locked was left by a process that
/// was killed.
const OWNER: &str = "owner";

/// What SQLite keeps beside a file that is in use. These go first: a new file would be taken for the one that they belong to.
const BESIDE: [&str; 2] = ["-wal", "-shm"];

/// Where to write.
pub(super) struct Place {
    kind: Kind,
    scratch: PathBuf,
    /// The lock, until the folder is removed.
    owner: Option<File>,
}

enum Kind {
    /// Every file is in the scratch folder, and goes with it.
    Temporary,
    /// The last run is in this file, which stays.
    Given(PathBuf),
    /// A store that is no file: there is nothing to compare it with.
    Elsewhere(String),
}

impl Place {
    /// The place that a URL names: a new file in a temporary folder when there is none. Nothing that is there is
    /// overwritten.
    pub(super) fn new(url: Option<&str>) -> Result<Self, Error> {
        let file = url.and_then(|url| url.strip_prefix(FILE_SCHEME)).filter(|file| !file.is_empty());
        let (kind, scratch) = match (url, file) {
            (None, _) => (Kind::Temporary, std::env::temp_dir().join(unique())),
            (Some(_), Some(file)) => {
                let file = PathBuf::from(file);
                let scratch = beside(&file, ".bench");
                (Kind::Given(file), scratch)
            }
            (Some(url), None) => {
                // Whether it makes sense is for the store to say, before anything is created.
                drop(dauer::open(url)?);
                (Kind::Elsewhere(url.to_owned()), std::env::temp_dir().join(unique()))
            }
        };
        let owner = take(&scratch)?;
        let place = Self { kind, scratch, owner: Some(owner) };
        if let Kind::Given(file) = &place.kind {
            // Also a file that a killed benchmark left: it may be used by something else since.
            refuse_content(file)?;
        }
        Ok(place)
    }

    /// The URL of one of several runs, each with a store of its own. The last is the one that the user named.
    pub(super) fn url(&self, run: usize, last: bool) -> String {
        match &self.kind {
            Kind::Given(file) if last => format!("{FILE_SCHEME}{}", file.display()),
            Kind::Temporary | Kind::Given(_) => self.file_url(&format!("run{run}.db")),
            Kind::Elsewhere(url) => url.clone(),
        }
    }

    /// The file of one of several runs, if it is in one.
    pub(super) fn file(&self, run: usize, last: bool) -> Option<PathBuf> {
        let url = self.url(run, last);
        url.strip_prefix(FILE_SCHEME).map(PathBuf::from)
    }

    /// The URL of a file in the scratch folder.
    pub(super) fn file_url(&self, name: &str) -> String {
        format!("{FILE_SCHEME}{}", self.scratch.join(name).display())
    }

    /// The folder that is removed at the end, on the disk of the store.
    pub(super) fn scratch(&self) -> &Path {
        &self.scratch
    }

    /// Whether the store is a file in or beside that folder.
    pub(super) fn is_file(&self) -> bool {
        !matches!(self.kind, Kind::Elsewhere(_))
    }

    /// How the store is called in the output.
    pub(super) fn name(&self) -> String {
        match &self.kind {
            Kind::Temporary => format!("{FILE_SCHEME}{} (temporary)", self.scratch.display()),
            Kind::Given(file) => format!("{FILE_SCHEME}{}", file.display()),
            Kind::Elsewhere(url) => url.clone(),
        }
    }

    /// Removes the files of a run that is over, so that the next one finds the disk as this one did.
    pub(super) fn clear(&self) {
        clear(&self.scratch);
    }

    /// Removes the file that the user named, which was not there before: a run that does not count was the last one, and is made
    /// again. Its store is closed.
    pub(super) fn clear_given(&self) {
        if let Kind::Given(file) = &self.kind {
            remove_store(file);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // An open file cannot be removed everywhere.
        drop(self.owner.take());
        // The figures are out; a folder that stays is no reason to fail.
        let _ = fs::remove_dir_all(&self.scratch);
    }
}

/// Makes the scratch folder, or takes over one whose benchmark was killed, and locks it.
fn take(scratch: &Path) -> Result<File, Error> {
    let failed = |source| Error::Folder { path: scratch.into(), source };
    let path = scratch.join(OWNER);
    let owner = match fs::create_dir(scratch) {
        Ok(()) => {
            let options = &mut File::options();
            options.read(true).append(true).create_new(true).open(&path).map_err(failed)?
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let owner = File::options().read(true).append(true).open(&path);
            owner.map_err(|_| Error::Foreign { path: scratch.into() })?
        }
        Err(source) => return Err(failed(source)),
    };
    match owner.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(Error::Running { path: scratch.into() }),
        Err(TryLockError::Error(source)) => return Err(failed(source)),
    }
    clear(scratch);
    Ok(owner)
}

/// Removes the files of a scratch folder, but for its owner.
fn clear(scratch: &Path) {
    let entries = fs::read_dir(scratch).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_name() != OWNER) {
        // What cannot be removed now goes with the folder, or stays for the user to see.
        let _ = fs::remove_file(entry.path());
    }
}

/// Removes a store that is closed.
fn remove_store(file: &Path) {
    // Where one stays, the next run finds content, and says so.
    for name in BESIDE {
        let _ = fs::remove_file(beside(file, name));
    }
    let _ = fs::remove_file(file);
}

/// The path of a file with that after its name.
fn beside(file: &Path, ending: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

fn refuse_content(file: &Path) -> Result<(), Error> {
    match fs::metadata(file) {
        Ok(found) if found.is_file() && found.len() == 0 => Ok(()),
        Ok(_) => Err(Error::NotEmpty { path: file.into() }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(source) => Err(Error::Folder { path: file.into(), source }),
    }
}

/// A name that no other process has, and no other place of this one.
fn unique() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    format!("dauer-bench-{}-{now}", std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> PathBuf {
        let folder = std::env::temp_dir().join(format!("{}-test", unique()));
        fs::create_dir(&folder).unwrap();
        folder
    }

    #[test]
    fn a_temporary_place_leaves_nothing() {
        let place = Place::new(None).unwrap();
        let scratch = place.scratch().to_owned();
        fs::write(scratch.join("run0.db"), "something").unwrap();
        assert!(place.url(0, true).ends_with("run0.db"));
        place.clear();
        assert!(!scratch.join("run0.db").exists());
        fs::write(scratch.join("run1.db"), "something").unwrap();
        drop(place);
        assert!(!scratch.exists());
    }

    #[test]
    fn killed_benchmark_leaves_a_store_that_works_again() {
        let folder = folder();
        let url = format!("sqlite:{}", folder.join("mine.db").display());
        let killed = Place::new(Some(&url)).unwrap();
        fs::write(killed.scratch().join("run0.db"), "of the killed one").unwrap();
        let meanwhile = Place::new(Some(&url)).err();
        assert!(matches!(meanwhile, Some(Error::Running { .. })), "{meanwhile:?}");
        // The system releases a killed process's locks, and runs no destructor.
        let scratch = killed.scratch().to_owned();
        let mut killed = std::mem::ManuallyDrop::new(killed);
        drop(killed.owner.take());
        assert!(scratch.join("run0.db").exists());
        let place = Place::new(Some(&url)).unwrap();
        assert!(!scratch.join("run0.db").exists(), "the last one's files are no part of this one");
        drop(place);
        assert!(!scratch.exists());
        fs::create_dir(&scratch).unwrap();
        fs::write(scratch.join("letter"), "of the user").unwrap();
        let foreign = Place::new(Some(&url)).err();
        assert!(matches!(foreign, Some(Error::Foreign { .. })), "{foreign:?}");
        assert!(scratch.join("letter").exists(), "nothing of the user's is touched");
        fs::remove_dir_all(&folder).unwrap();
    }

    /// The file may be the user's: written since the benchmark was killed.
    #[test]
    fn file_beside_a_killed_benchmark_is_refused_and_kept() {
        let folder = folder();
        let (file, scratch) = (folder.join("mine.db"), folder.join("mine.db.bench"));
        fs::write(&file, "mine").unwrap();
        fs::create_dir(&scratch).unwrap();
        fs::write(scratch.join(OWNER), "").unwrap();
        let refused = Place::new(Some(&format!("sqlite:{}", file.display()))).err();
        assert!(matches!(refused, Some(Error::NotEmpty { .. })), "{refused:?}");
        assert_eq!(fs::read(&file).unwrap(), b"mine");
        assert!(!scratch.exists(), "the folder of the killed one is gone");
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_file_with_content_is_refused_and_not_touched() {
        let folder = folder();
        let file = folder.join("mine.db");
        fs::write(&file, "mine").unwrap();
        let refused = Place::new(Some(&format!("sqlite:{}", file.display())));
        assert!(matches!(refused.err(), Some(Error::NotEmpty { .. })));
        assert_eq!(fs::read(&file).unwrap(), b"mine");
        fs::write(&file, "").unwrap();
        let place = Place::new(Some(&format!("sqlite:{}", file.display()))).unwrap();
        assert_eq!(place.url(2, true), format!("sqlite:{}", file.display()));
        assert_ne!(place.url(1, false), place.url(2, true));
        fs::write(&file, "of a run that does not count").unwrap();
        place.clear_given();
        assert!(!file.exists());
        fs::write(&file, "").unwrap();
        drop(place);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "only the file is left");
        fs::remove_dir_all(&folder).unwrap();
    }
}
