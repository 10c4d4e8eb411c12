//! House rules that no lint knows. The rules are the tests of this crate; here is what they read.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The root of the repository.
#[must_use]
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// One file of ours.
#[derive(Debug, Clone)]
pub struct Source {
    /// Its path from the root, with forward slashes.
    pub path: String,
    /// Its text.
    pub text: String,
}

/// All files below the root with one of these endings, without what is built, generated or fetched.
///
/// # Errors
/// When a folder or file cannot be read.
pub fn sources(endings: &[&str]) -> io::Result<Vec<Source>> {
    let root = root();
    let mut found = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if path.is_dir() {
                if !matches!(name, "target" | ".git" | "node_modules" | "generated") {
                    folders.push(path);
                }
            } else if endings.iter().any(|ending| name.ends_with(ending)) {
                let text = fs::read_to_string(&path)?;
                let path = path.strip_prefix(&root).unwrap_or(&path).to_string_lossy().replace('\\', "/");
                found.push(Source { path, text });
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}
