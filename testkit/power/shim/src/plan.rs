//! What goes wrong, and when. Calls are counted from 1.
//!
//! | text | means |
//! |---|---|
//! | `watch` | nothing goes wrong |
//! | `kill-before=K` | the process is killed before its K-th durable call |
//! | `kill-after=K` | the process is killed when its K-th durable call is done, before it returns |
//! | `sync-fails=NxM` | from the N-th sync on, M of them fail with EIO, and what they should have made durable is forsaken |
//! | `sync-fails-dies=N` | the N-th sync fails in the same way, and the process is killed before its next durable call |
//! | `write-fails=NxM` | from the N-th write on, M of them fail with EIO |
//! | `full=BxM` | the files may grow by B bytes; beyond, M calls fail with ENOSPC, then there is room again |
//!
//! A durable call is one that changes a watched file or its name, or makes that durable.

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Plan {
    /// Nothing.
    Watch,
    /// Killed before that call.
    KillBefore(u64),
    /// Killed after that call.
    KillAfter(u64),
    /// Syncs fail from the first on, so many.
    SyncFails(u64, u64),
    /// That sync fails, and the process dies at its next durable call.
    SyncFailsDies(u64),
    /// Writes fail from the first on, so many.
    WriteFails(u64, u64),
    /// After so many bytes, so many calls fail.
    Full(u64, u64),
}

impl Plan {
    /// Reads it; `None` when it is none.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if text == "watch" {
            return Some(Self::Watch);
        }
        let (word, value) = text.split_once('=')?;
        let number = || value.parse().ok();
        let pair = || {
            let (from, count) = value.split_once('x')?;
            Some((from.parse().ok()?, count.parse().ok()?))
        };
        Some(match word {
            "kill-before" => Self::KillBefore(number()?),
            "kill-after" => Self::KillAfter(number()?),
            "sync-fails" => pair().map(|(from, count)| Self::SyncFails(from, count))?,
            "sync-fails-dies" => Self::SyncFailsDies(number()?),
            "write-fails" => pair().map(|(from, count)| Self::WriteFails(from, count))?,
            "full" => pair().map(|(bytes, count)| Self::Full(bytes, count))?,
            _ => return None,
        })
    }
}
