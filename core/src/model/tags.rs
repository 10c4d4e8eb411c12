//! Labels.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

static NONE: BTreeMap<String, String> = BTreeMap::new();

/// Labels that a user gives an instance or a task. They are read like a map, never change once made, and are shared by all
/// copies: a record is copied several times in every turn.
#[derive(Clone, Default)]
pub struct Tags(Option<Arc<BTreeMap<String, String>>>);

impl Tags {
    /// None.
    #[must_use]
    pub fn new() -> Self {
        Self(None)
    }

    /// A map of one's own.
    #[must_use]
    pub fn to_map(&self) -> BTreeMap<String, String> {
        BTreeMap::clone(self)
    }
}

impl Deref for Tags {
    type Target = BTreeMap<String, String>;

    fn deref(&self) -> &Self::Target {
        self.0.as_deref().unwrap_or(&NONE)
    }
}

impl PartialEq for Tags {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Some(one), Some(two)) => Arc::ptr_eq(one, two) || one == two,
            (None, None) => true,
            _ => **self == **other,
        }
    }
}

impl Eq for Tags {}

impl fmt::Debug for Tags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl From<BTreeMap<String, String>> for Tags {
    fn from(tags: BTreeMap<String, String>) -> Self {
        Self((!tags.is_empty()).then(|| Arc::new(tags)))
    }
}

impl<const N: usize> From<[(String, String); N]> for Tags {
    fn from(tags: [(String, String); N]) -> Self {
        BTreeMap::from(tags).into()
    }
}

impl FromIterator<(String, String)> for Tags {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(tags: I) -> Self {
        BTreeMap::from_iter(tags).into()
    }
}

impl<'t> IntoIterator for &'t Tags {
    type Item = (&'t String, &'t String);
    type IntoIter = std::collections::btree_map::Iter<'t, String, String>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_is_what_has_the_same_labels() {
        let zone = |value: &str| Tags::from([("zone".to_owned(), value.to_owned())]);
        assert_eq!(zone("north"), zone("north"));
        let north = zone("north");
        assert_eq!(north.clone(), north);
        assert_ne!(zone("north"), zone("south"));
        assert_ne!(zone("north"), Tags::new());
        assert_eq!(Tags::new(), Tags::from(BTreeMap::new()));
        assert_eq!(zone("north").get("zone").map(String::as_str), Some("north"));
    }

    #[test]
    fn labels_can_be_gathered_and_read_like_a_map() {
        let pairs = [("zone".to_owned(), "north".to_owned()), ("team".to_owned(), "blue".to_owned())];
        let gathered: Tags = pairs.clone().into_iter().collect();
        assert_eq!(gathered, Tags::from(pairs.clone()));
        assert_eq!(gathered.to_map(), BTreeMap::from(pairs));
        let read: Vec<_> = (&gathered).into_iter().map(|(key, value)| format!("{key}={value}")).collect();
        assert_eq!(read, ["team=blue", "zone=north"]);
        assert_eq!(std::iter::empty().collect::<Tags>(), Tags::new());
    }
}
