//! Payloads from the command line: checked to be JSON before anything is sent.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use dauer_core::limits::PAYLOAD_BYTES_MAX;
use serde::de::IgnoredAny;

use crate::error::Failure;

/// Reads a payload: `@FILE`, `-` for standard input, or the JSON itself.
pub(crate) fn read(what: &'static str, given: Option<&str>) -> Result<Option<String>, Failure> {
    let text = match given {
        None => return Ok(None),
        Some("-") => bounded(what, Path::new("standard input"), io::stdin().lock())?,
        Some(given) => match given.strip_prefix('@') {
            Some(path) => {
                let path = Path::new(path);
                let file = File::open(path);
                bounded(
                    what,
                    path,
                    file.map_err(|source| Failure::Unreadable { what, path: path.into(), source })?,
                )?
            }
            None => given.to_owned(),
        },
    };
    if text.len() > PAYLOAD_BYTES_MAX {
        return Err(Failure::TooLong { what, limit: PAYLOAD_BYTES_MAX });
    }
    serde_json::from_str::<IgnoredAny>(&text).map_err(|source| Failure::Json { what, source })?;
    Ok(Some(text.trim().to_owned()))
}

/// Reads one byte more than is allowed at most: a file without end ends here.
fn bounded(what: &'static str, path: &Path, from: impl Read) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    let unreadable = |source| Failure::Unreadable { what, path: path.into(), source };
    from.take(PAYLOAD_BYTES_MAX as u64 + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    // Before the bytes are looked at: the cut may go through a character.
    if bytes.len() > PAYLOAD_BYTES_MAX {
        return Err(Failure::TooLong { what, limit: PAYLOAD_BYTES_MAX });
    }
    String::from_utf8(bytes).map_err(|error| unreadable(io::Error::new(io::ErrorKind::InvalidData, error)))
}
