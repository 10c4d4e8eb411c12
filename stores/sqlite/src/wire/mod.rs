//! The row formats of this store: tasks in the row of their instance, and the tail of a turn. All other bytes are those of
//! `dauer_store_kit::codec`. `tests/golden` holds a file of each format of the store.

mod tail;
mod taken;

pub(crate) use tail::{count_tail, read_tail, write_tail};
pub(crate) use taken::{count_taken, read_taken, write_taken};
