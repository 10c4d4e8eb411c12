//! The public API of the crate `dauer` as text: what its `lib.rs` exports, wherever in the workspace it is written.
//!
//! Read from the sources and not from rustdoc's JSON, whose format changes with every toolchain, needs a nightly one, and
//! does not look into re-exports, of which this crate mostly consists. What is not seen so: impls that macros write, other
//! than by `derive`.

mod print;
mod text;
mod tree;

use std::collections::BTreeMap;
use std::io;

use tree::{ALL, Found, Tree};

/// The crates that `dauer` exports from, by the names they have in its code, and their sources.
const CRATES: &[(&str, &str)] = &[
    ("dauer", "sdk/src"),
    ("dauer_core", "core/src"),
    ("dauer_hub", "hub/src"),
    ("dauer_replay", "replay/src"),
    ("dauer_store", "store/src"),
    ("dauer_testhub", "testhub/src"),
];

/// What is exported under one name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Export {
    /// The kind of item: `struct`, `enum`, `fn`; `use` for what is written elsewhere.
    pub kind: &'static str,
    /// Whether others must expect it to grow.
    pub non_exhaustive: bool,
    /// Whether it has fields that anybody can read and write.
    pub open_fields: bool,
    /// Its declaration and what it can do, a line for each.
    pub lines: Vec<String>,
}

/// All that `dauer` exports, by name.
///
/// # Errors
/// When a source cannot be read or parsed, or exports everything of a module.
pub fn exports() -> io::Result<BTreeMap<String, Export>> {
    let root = dauer_tidy::root();
    let mut crates = BTreeMap::new();
    for (name, folder) in CRATES {
        crates.insert((*name).to_owned(), Tree::read(&root.join(folder))?);
    }
    let mut exports = BTreeMap::new();
    for (name, path) in crates["dauer"].uses("") {
        if name == ALL {
            return Err(io::Error::other(format!("dauer exports all of {path:?}, which nobody can oversee")));
        }
        let export = match tree::resolve(&crates, "dauer", &path) {
            Ok(Found { tree, item, name: defined }) => print::export(tree, item, &name, &defined),
            Err(elsewhere) => {
                let lines = vec![format!("pub use {}", elsewhere.join("::"))];
                Export { kind: "use", non_exhaustive: false, open_fields: false, lines }
            }
        };
        exports.insert(name, export);
    }
    Ok(exports)
}

/// The same as one text.
///
/// # Errors
/// As [`exports`].
pub fn listing() -> io::Result<String> {
    let mut text = String::new();
    for (name, export) in exports()? {
        text.push_str(&format!("# {name}\n"));
        for line in export.lines {
            text.push_str(&line);
            text.push('\n');
        }
        text.push('\n');
    }
    Ok(text)
}
