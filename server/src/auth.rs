//! Bearer tokens: who may use which hub.

use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use dauer_core::HubName;
use dauer_core::ids::InvalidName;

/// Shorter tokens could be found by trying.
const TOKEN_CHARS_MIN: usize = 16;

/// What stands for every hub.
const ALL_HUBS: &str = "*";

/// Why a file of tokens cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokensError {
    /// It cannot be read.
    #[error("the file of tokens '{path}' cannot be read; give a text file that this process may read")]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A line is not what it should be.
    #[error("line {line} of '{path}' is no hub and token; write `hub token`, or `* token` for all hubs")]
    Line {
        /// Which file.
        path: PathBuf,
        /// Which line, from 1.
        line: usize,
    },
    /// A line names a hub that there cannot be.
    #[error("line {line} of '{path}' names no hub")]
    Hub {
        /// Which file.
        path: PathBuf,
        /// Which line, from 1.
        line: usize,
        /// What is wrong with the name.
        source: InvalidName,
    },
    /// A token is too short to be safe.
    #[error("the token in line {line} of '{path}' is too short; use at least {TOKEN_CHARS_MIN} characters")]
    Short {
        /// Which file.
        path: PathBuf,
        /// Which line, from 1.
        line: usize,
    },
    /// There is none, so that nobody could come in.
    #[error("there is no token in '{path}'; write `hub token`, one a line")]
    Empty {
        /// Which file.
        path: PathBuf,
    },
}

/// The tokens of a server. In their file each stands on a line behind the hub that it is for, or `*` for every hub; a hub
/// may have any number of them, so that one can be replaced while the other is still in use. Empty lines and those that
/// begin with `#` mean nothing.
pub struct Tokens(Vec<(Scope, [u8; 32])>);

/// What a token is for.
enum Scope {
    All,
    Hub(HubName),
}

/// Why a call is turned away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Denied {
    /// Nobody knows who it is.
    Unknown,
    /// It is somebody who may use other hubs.
    OtherHub,
}

impl Tokens {
    /// Reads a file.
    ///
    /// # Errors
    /// [`TokensError`], which names the line but never what is in it.
    pub fn read(path: &Path) -> Result<Self, TokensError> {
        let path = path.to_path_buf();
        match std::fs::read_to_string(&path) {
            Ok(text) => Self::parse(&text, &path),
            Err(source) => Err(TokensError::Unreadable { path, source }),
        }
    }

    fn parse(text: &str, path: &Path) -> Result<Self, TokensError> {
        let mut tokens = Vec::new();
        for (index, content) in text.lines().map(str::trim).enumerate() {
            let (path, line) = (path.to_path_buf(), index + 1);
            if content.is_empty() || content.starts_with('#') {
                continue;
            }
            let mut words = content.split_whitespace();
            let (Some(hub), Some(token), None) = (words.next(), words.next(), words.next()) else {
                return Err(TokensError::Line { path, line });
            };
            if token.chars().count() < TOKEN_CHARS_MIN {
                return Err(TokensError::Short { path, line });
            }
            let scope = match hub {
                ALL_HUBS => Scope::All,
                name => match HubName::new(name) {
                    Ok(hub) => Scope::Hub(hub),
                    Err(source) => return Err(TokensError::Hub { path, line, source }),
                },
            };
            tokens.push((scope, digest(token)));
        }
        if tokens.is_empty() {
            return Err(TokensError::Empty { path: path.to_path_buf() });
        }
        Ok(Self(tokens))
    }

    /// Whether a caller with that `authorization` header may use the hub, or all of them when none is named.
    pub(crate) fn admit(&self, authorization: Option<&str>, hub: Option<&HubName>) -> Result<(), Denied> {
        let shown = authorization.and_then(bearer).map(digest).ok_or(Denied::Unknown)?;
        let (mut known, mut permitted) = (false, false);
        // All of them, whichever fits: how long it takes tells nothing.
        for (scope, token) in &self.0 {
            let equal = is_equal(token, &shown);
            let covers = match scope {
                Scope::All => true,
                Scope::Hub(name) => Some(name) == hub,
            };
            known |= equal;
            permitted |= equal & covers;
        }
        match (known, permitted) {
            (true, true) => Ok(()),
            (true, false) => Err(Denied::OtherHub),
            (false, _) => Err(Denied::Unknown),
        }
    }
}

fn bearer(authorization: &str) -> Option<&str> {
    let (scheme, token) = authorization.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
}

/// Tokens are kept and compared as digests: of equal length, and worth nothing to whoever reads this process's memory.
fn digest(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

/// Takes as long for any two.
fn is_equal(one: &[u8; 32], two: &[u8; 32]) -> bool {
    let different = one.iter().zip(two).fold(0, |different, (one, two)| different | (one ^ two));
    std::hint::black_box(different) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> Result<Tokens, String> {
        Tokens::parse(text, Path::new("tokens")).map_err(|error| error.to_string())
    }

    #[test]
    fn a_token_is_for_its_hub_or_for_all() {
        let text = "# keys\n\norders 0123456789abcdef\n  orders fedcba9876543210  \n* ffffffffffffffff\n";
        let tokens = tokens(text).unwrap();
        let [orders, other] = ["orders", "other"].map(|name| HubName::new(name).unwrap());
        let admit = |header: &str, hub| tokens.admit(Some(header), Some(hub));
        assert_eq!(admit("Bearer 0123456789abcdef", &orders), Ok(()));
        assert_eq!(admit("bearer fedcba9876543210", &orders), Ok(()));
        assert_eq!(admit("Bearer 0123456789abcdef", &other), Err(Denied::OtherHub));
        assert_eq!(admit("Bearer ffffffffffffffff", &other), Ok(()));
        assert_eq!(admit("Bearer 0123456789abcdeF", &orders), Err(Denied::Unknown));
        assert_eq!(admit("Bearer ", &orders), Err(Denied::Unknown));
        assert_eq!(admit("Basic 0123456789abcdef", &orders), Err(Denied::Unknown));
        assert_eq!(tokens.admit(None, Some(&orders)), Err(Denied::Unknown));
        assert_eq!(tokens.admit(Some("Bearer ffffffffffffffff"), None), Ok(()));
        assert_eq!(tokens.admit(Some("Bearer 0123456789abcdef"), None), Err(Denied::OtherHub), "all hubs");
    }

    #[test]
    fn a_bad_file_names_its_line_and_no_token() {
        let bad = |text| tokens(text).err().unwrap();
        assert!(bad("orders").starts_with("line 1 of 'tokens' is no hub and token"));
        assert!(bad("# x\norders a b").starts_with("line 2 of"));
        assert!(bad("orders hidden").contains("too short") && !bad("orders hidden").contains("hidden"));
        assert!(bad("1 0123456789abcdef").starts_with("line 1 of 'tokens' names no hub"));
        assert!(bad("# nothing\n").contains("there is no token"));
    }
}
