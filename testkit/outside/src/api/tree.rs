//! The modules of a crate, and where a path leads.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use syn::{Attribute, Item, UseTree};

/// The name of a `use` that takes all that a module has.
pub(super) const ALL: &str = "*";

/// The items of a crate by module: "" is the root, "a::b" what its path says.
#[derive(Default)]
pub(super) struct Tree {
    modules: BTreeMap<String, Vec<Item>>,
}

/// An item, where it was found, and the name it has there.
pub(super) struct Found<'a> {
    pub(super) tree: &'a Tree,
    pub(super) item: &'a Item,
    pub(super) name: String,
}

impl Tree {
    /// Reads all modules below a folder of sources.
    pub(super) fn read(folder: &Path) -> io::Result<Self> {
        let mut tree = Self::default();
        tree.read_folder(folder, "")?;
        Ok(tree)
    }

    fn read_folder(&mut self, folder: &Path, module: &str) -> io::Result<()> {
        let mut entries: Vec<_> = fs::read_dir(folder)?.collect::<io::Result<_>>()?;
        entries.sort_by_key(fs::DirEntry::path);
        for entry in entries {
            let path = entry.path();
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            // Tests export nothing.
            if name == "tests" {
                continue;
            }
            let is_root = matches!(name.as_str(), "lib" | "mod" | "main");
            let inner = if is_root { module.to_owned() } else { join(module, &name) };
            if path.is_dir() {
                self.read_folder(&path, &inner)?;
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                let text = fs::read_to_string(&path)?;
                let file = syn::parse_file(&text)
                    .map_err(|error| io::Error::other(format!("{}: {error}", path.display())))?;
                self.add(&inner, file.items);
            }
        }
        Ok(())
    }

    fn add(&mut self, module: &str, items: Vec<Item>) {
        let (inner, own): (Vec<_>, Vec<_>) =
            items.into_iter().partition(|item| matches!(item, Item::Mod(inner) if inner.content.is_some()));
        self.modules.entry(module.to_owned()).or_default().extend(own);
        for item in inner {
            if let Item::Mod(inner) = item
                && let Some((_, items)) = inner.content
                && inner.ident != "tests"
            {
                self.add(&join(module, &inner.ident.to_string()), items);
            }
        }
    }

    /// All items, of all modules.
    pub(super) fn items(&self) -> impl Iterator<Item = &Item> {
        self.modules.values().flatten()
    }

    /// The public `use`s of a module: the name, or [`ALL`], and the path it stands for.
    pub(super) fn uses(&self, module: &str) -> Vec<(String, Vec<String>)> {
        let mut found = Vec::new();
        for item in self.modules.get(module).into_iter().flatten() {
            if let Item::Use(item) = item
                && matches!(item.vis, syn::Visibility::Public(_))
                && !is_hidden(&item.attrs)
            {
                flatten(&item.tree, &mut Vec::new(), &mut found);
            }
        }
        found
    }
}

fn join(module: &str, name: &str) -> String {
    if module.is_empty() { name.to_owned() } else { format!("{module}::{name}") }
}

fn flatten(tree: &UseTree, path: &mut Vec<String>, found: &mut Vec<(String, Vec<String>)>) {
    let with = |path: &[String], name: &syn::Ident| [path, &[name.to_string()]].concat();
    match tree {
        UseTree::Path(inner) => {
            path.push(inner.ident.to_string());
            flatten(&inner.tree, path, found);
            path.pop();
        }
        UseTree::Name(name) => found.push((name.ident.to_string(), with(path, &name.ident))),
        UseTree::Rename(name) => found.push((name.rename.to_string(), with(path, &name.ident))),
        UseTree::Group(group) => {
            for tree in &group.items {
                flatten(tree, path, found);
            }
        }
        UseTree::Glob(_) => found.push((ALL.to_owned(), path.clone())),
    }
}

/// Follows a path, seen from the root of a crate, through modules, other crates of ours and their `use`s. What cannot be
/// followed belongs to others: the path at which it leaves.
pub(super) fn resolve<'a>(
    crates: &'a BTreeMap<String, Tree>,
    home: &str,
    path: &[String],
) -> Result<Found<'a>, Vec<String>> {
    let (home, inner) = match path.first() {
        Some(first) if crates.contains_key(first) => (first.as_str(), &path[1..]),
        Some(first) if first == "crate" => (home, &path[1..]),
        _ => (home, path),
    };
    let elsewhere = || path.to_vec();
    let tree = crates.get(home).ok_or_else(elsewhere)?;
    let (name, module) = inner.split_last().ok_or_else(elsewhere)?;
    let module = module.join("::");
    let items = tree.modules.get(&module).ok_or_else(elsewhere)?;
    if let Some(item) = items.iter().find(|item| name_of(item).is_some_and(|found| found == *name)) {
        return Ok(Found { tree, item, name: name.clone() });
    }
    let uses = tree.uses(&module);
    let named = uses.iter().filter(|(used, _)| used == name).map(|(_, path)| path.clone());
    let all = uses
        .iter()
        .filter(|(used, _)| used == ALL)
        .map(|(_, path)| [path.as_slice(), std::slice::from_ref(name)].concat());
    let mut left_at = elsewhere();
    for path in named.chain(all) {
        // Within a crate a path begins at the module it is written in, unless it names a crate.
        let whole = path.first().is_some_and(|first| crates.contains_key(first) || first == "crate");
        let path = if whole || module.is_empty() { path } else { [vec![module.clone()], path].concat() };
        match resolve(crates, home, &path) {
            Ok(found) => return Ok(found),
            Err(path) => left_at = path,
        }
    }
    Err(left_at)
}

fn name_of(item: &Item) -> Option<String> {
    let ident = match item {
        Item::Struct(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Const(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        _ => return None,
    };
    Some(ident.to_string())
}

/// `#[doc(hidden)]`: public for the compiler only.
pub(super) fn is_hidden(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("doc")
            && attribute.parse_args::<syn::Ident>().is_ok_and(|word| word == "hidden")
    })
}
