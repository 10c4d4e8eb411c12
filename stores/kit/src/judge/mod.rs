//! Decisions of the contract, each written once. A store looks up the facts, asks for the decision, and writes.
//!
//! `dauer_store::rules` has the rules; the modules name them by number.

mod commit;
mod creation;
mod death;
mod delivery;
mod limits;
mod reads;
mod release;

pub use commit::{Recall, amended_start, amender, is_shown, recall, stamp};
pub use creation::{Creation, begun_alike, creation, is_recent, likeness, newborn, start_of, terminating};
pub use death::{death_of_holder, reported_death};
pub use delivery::{
    Facts, created_by, follows_end, is_known, is_own_start, is_remembered, opens, why_dropped,
};
pub use limits::{check_checkpoint, check_message, default_limits, millis};
pub use reads::{PART_ITEMS, awaits_start, has_tags, is_next_start, matches, page_rows, slice};
pub use release::{not_before, release_turn};
