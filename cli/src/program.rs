//! Commands as this program prints them: they can be copied into the shell that it was called from.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// The name of this program where it is installed.
const NAME: &str = "dauer";

/// The word that runs this program: its name where the PATH leads to it, and its path otherwise.
pub(crate) fn word() -> String {
    let Ok(running) = env::current_exe() else { return NAME.to_owned() };
    match env::var_os("PATH").is_some_and(|path| leads_to(&path, &running)) {
        true => NAME.to_owned(),
        false => quoted(&running.to_string_lossy()),
    }
}

/// Whether the first program of our name on that PATH is this file.
fn leads_to(path: &OsStr, file: &Path) -> bool {
    let name = format!("{NAME}{}", env::consts::EXE_SUFFIX);
    let found = env::split_paths(path).map(|folder| folder.join(&name)).find(|each| each.is_file());
    let whole = |path: PathBuf| path.canonicalize().ok();
    found.is_some_and(|found| whole(found).is_some_and(|found| Some(found) == whole(file.to_owned())))
}

/// A word as a shell takes it.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_./:@%+=,-".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_only_where_a_shell_needs_it() {
        for (word, shown) in [
            ("order-7", "order-7"),
            ("sqlite:/a/b.db", "sqlite:/a/b.db"),
            ("http://h:1?hub=demo", "'http://h:1?hub=demo'"),
            ("it's", r"'it'\''s'"),
            ("two words", "'two words'"),
            ("", "''"),
        ] {
            assert_eq!(quoted(word), shown);
        }
    }

    #[test]
    fn only_the_first_program_on_the_path_counts() {
        let folder = env::temp_dir().join(format!("dauer-program-{}", std::process::id()));
        let [ours, other, empty] = ["ours", "other", "empty"].map(|name| folder.join(name));
        for each in [&ours, &other, &empty] {
            std::fs::create_dir_all(each).unwrap();
        }
        let file = |folder: &Path| folder.join(format!("{NAME}{}", env::consts::EXE_SUFFIX));
        std::fs::write(file(&ours), "ours").unwrap();
        std::fs::write(file(&other), "other").unwrap();
        let leads = |folders: &[&PathBuf]| leads_to(&env::join_paths(folders).unwrap(), &file(&ours));
        assert!(leads(&[&empty, &ours, &other]));
        assert!(!leads(&[&other, &ours]), "another one comes first");
        assert!(!leads(&[&empty]));
        std::fs::remove_dir_all(folder).unwrap();
    }
}
