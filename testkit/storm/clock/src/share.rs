//! What the library and whoever preloads it agree on.

/// The variable with the path of the file that says by how much the clock is moved: eight bytes, milliseconds, as this
/// machine writes a signed number. Whatever is written there counts at once.
pub(crate) const FILE: &str = "DAUER_STORM_CLOCK";

/// The size of the file.
#[allow(dead_code)] // Only the library maps it.
pub(crate) const BYTES: usize = size_of::<i64>();
