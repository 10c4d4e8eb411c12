//! URLs of stores. They are tried outside of a runtime and only on stores that exist, so that nothing is ever opened.

use std::path::Path;

use dauer::OpenError;

use crate::Verdict;

/// Accepted, or an error that names the URL and says what would be accepted.
pub(crate) fn run(bytes: &[u8]) -> Verdict {
    let Ok(url) = std::str::from_utf8(bytes) else { return Verdict::refused("not text") };
    let (place, options) = url.split_once('?').unwrap_or((url, ""));
    let file = place.strip_prefix("sqlite:").filter(|file| !file.is_empty());
    let error = match dauer::open_existing(url) {
        Ok(_) => panic!("'{url}' was opened without a runtime"),
        Err(error) => error,
    };
    let text = error.to_string();
    match error {
        OpenError::UnknownStore { url: named } => {
            assert!(file.is_none() && place != "memory:", "'{url}' is a store: {text}");
            assert_eq!(named, url);
            assert!(text.contains(url) && text.contains("sqlite:FILE") && text.contains("memory:"), "{text}");
            Verdict::refused("unknown store")
        }
        OpenError::Missing { url: named } => {
            assert_eq!(named, url);
            assert!(text.contains(url), "{text}");
            match file {
                Some(file) => {
                    let there =
                        std::fs::metadata(file).is_ok_and(|found| !found.is_file() || found.len() > 0);
                    assert!(!there, "'{file}' is there: {text}");
                    Verdict::accepted("sqlite")
                }
                None => {
                    assert_eq!(place, "memory:");
                    Verdict::accepted("memory")
                }
            }
        }
        OpenError::NoRuntime => {
            let Some(file) = file else { panic!("'{url}' names nothing that could be there") };
            // There is something, or it cannot be looked at: that is for the store to say, which needs a runtime.
            let absent = std::fs::metadata(Path::new(file))
                .is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound);
            assert!(!absent, "'{file}' is not there");
            Verdict::accepted("sqlite")
        }
        OpenError::UnknownOption { url: named, option } => {
            assert_eq!(named, url);
            assert!(options.split('&').any(|given| given == option), "'{option}' is not in '{url}'");
            let known = ["", "durability=full", "durability=normal"].contains(&option.as_str());
            assert!(!known || file.is_none(), "{text}");
            assert!(text.contains(url) && text.contains("durability=normal"), "{text}");
            Verdict::refused("unknown option")
        }
        other => panic!("'{url}' was opened: {other}"),
    }
}
