//! What the shim writes down, as bytes: one record for each change of a file, in the order in which they happened. The
//! parent reads it with the same file, so that both agree.

/// The variable that names the folder to watch, absolute and without links.
pub(crate) const FOLDER: &str = "DAUER_POWER_FOLDER";

/// The variable that names the file for the records, outside of that folder.
pub(crate) const LOG: &str = "DAUER_POWER_LOG";

/// The variable that says what goes wrong: see `plan.rs` of the shim.
pub(crate) const PLAN: &str = "DAUER_POWER_PLAN";

/// Bytes before the payload of a record.
pub(crate) const HEAD: usize = 17;

/// A descriptor was opened: the payload is the name in the folder, empty for the folder itself; the number has the
/// flags below.
pub(crate) const OPENED: u8 = 1;
/// It was closed.
pub(crate) const CLOSED: u8 = 2;
/// The payload was written at the offset that the number is.
pub(crate) const WRITTEN: u8 = 3;
/// The file has the size that the number is.
pub(crate) const CUT: u8 = 4;
/// All that was written through any descriptor of the file is durable; of the folder: all its names.
pub(crate) const SYNCED: u8 = 5;
/// That was asked for, and failed.
pub(crate) const SYNC_FAILED: u8 = 6;
/// The name is gone from the folder.
pub(crate) const UNLINKED: u8 = 7;
/// A call was made to fail: the payload is its name, the number the error.
pub(crate) const FAILED: u8 = 8;
/// A call that the model does not know: the payload is its name. The process has ended itself.
pub(crate) const FOREIGN: u8 = 9;
/// A process has begun: no descriptor is open.
pub(crate) const BEGUN: u8 = 10;

/// Flag of [`OPENED`]: the file was not there before.
pub(crate) const CREATED: u64 = 1;
/// Flag of [`OPENED`]: what was in the file is gone.
pub(crate) const EMPTIED: u64 = 2;

/// The suffix of the file that SQLite's processes share their memory through: it means nothing after a power loss.
pub(crate) const SHARED_MEMORY: &[u8] = b"-shm";

/// The head of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    /// One of the kinds above.
    pub(crate) kind: u8,
    /// The descriptor.
    pub(crate) fd: i32,
    /// What the kind says.
    pub(crate) number: u64,
    /// Bytes of the payload.
    pub(crate) length: u32,
}

impl Head {
    /// As bytes.
    #[allow(dead_code, reason = "only the shim writes")]
    pub(crate) fn bytes(self) -> [u8; HEAD] {
        let mut bytes = [0; HEAD];
        bytes[0] = self.kind;
        bytes[1..5].copy_from_slice(&self.fd.to_le_bytes());
        bytes[5..13].copy_from_slice(&self.number.to_le_bytes());
        bytes[13..17].copy_from_slice(&self.length.to_le_bytes());
        bytes
    }

    /// The first record in these bytes and what is behind it; `None` when it is cut off.
    #[allow(dead_code, reason = "only the parent reads")]
    pub(crate) fn read(bytes: &[u8]) -> Option<(Self, &[u8], &[u8])> {
        let (kind, rest) = bytes.split_first()?;
        let (fd, rest) = rest.split_first_chunk()?;
        let (number, rest) = rest.split_first_chunk()?;
        let (length, rest) = rest.split_first_chunk()?;
        let length = u32::from_le_bytes(*length);
        let (payload, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
        let head =
            Self { kind: *kind, fd: i32::from_le_bytes(*fd), number: u64::from_le_bytes(*number), length };
        Some((head, payload, rest))
    }
}
