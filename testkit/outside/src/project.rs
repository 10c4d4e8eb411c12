//! Projects outside of the workspace, with this repository beside them, as the README tells users to have it.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A folder that holds projects, and a link `dauer` to this repository.
///
/// It is always the same folder for the same repository: cargo knows crates by their paths, and would build all of dauer again
/// for every run of every test otherwise. The projects in it are made anew each time.
#[derive(Debug)]
pub struct Outside {
    base: PathBuf,
    target: PathBuf,
}

impl Outside {
    /// The folder of this repository.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn new() -> io::Result<Self> {
        let root = dauer_tidy::root().canonicalize()?;
        let name: String = root.to_string_lossy().chars().map(|c| if c == '/' { '-' } else { c }).collect();
        let base = std::env::temp_dir().join(format!("dauer-outside{name}"));
        fs::create_dir_all(&base)?;
        match symlink(&root, base.join("dauer")) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        // A test is target/PROFILE/deps/NAME.
        let test = std::env::current_exe()?;
        let target = test.ancestors().nth(3).ok_or_else(|| io::Error::other("no target folder"))?;
        Ok(Self { base, target: target.join("outside") })
    }

    /// The folder itself.
    #[must_use]
    pub fn base(&self) -> &Path {
        &self.base
    }

    /// An empty place for a project of that name. What was there is removed.
    ///
    /// # Errors
    /// When it cannot be removed.
    pub fn project(&self, name: &str) -> io::Result<Project> {
        let folder = self.base.join(name);
        match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(Project { folder, target: self.target.clone() }),
        }
    }

    /// A command with the settings that all projects share: nothing is fetched, and what one has built serves the others.
    #[must_use]
    pub fn command(&self, program: &str) -> Command {
        command(program, &self.base, &self.target)
    }
}

/// One project.
#[derive(Debug)]
pub struct Project {
    folder: PathBuf,
    target: PathBuf,
}

impl Project {
    /// Its folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Writes a file of it, with the folders above.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, path: &str, text: &str) -> io::Result<()> {
        let path = self.folder.join(path);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(path, text)
    }

    /// Writes a manifest with these dependencies, and gives it the versions that the workspace has locked.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn manifest(&self, dependencies: &str) -> io::Result<()> {
        let package = "[package]\nname = \"outside\"\nedition = \"2024\"\n\n[dependencies]\n";
        self.write("Cargo.toml", &format!("{package}{dependencies}"))?;
        self.lock()
    }

    /// Gives it the versions that the workspace has locked: they are on this machine, so that nothing needs a network.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn lock(&self) -> io::Result<()> {
        fs::copy(dauer_tidy::root().join("Cargo.lock"), self.folder.join("Cargo.lock")).map(drop)
    }

    /// A command in its folder.
    #[must_use]
    pub fn command(&self, program: &str) -> Command {
        command(program, &self.folder, &self.target)
    }
}

fn command(program: &str, folder: &Path, target: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(folder).env("CARGO_TARGET_DIR", target);
    command.env("CARGO_NET_OFFLINE", "true").env("CARGO_TERM_COLOR", "never");
    // Nobody debugs what is built here, and the memory of two cores is small.
    command.env("CARGO_PROFILE_DEV_DEBUG", "none").env("RUST_BACKTRACE", "0");
    command
}
