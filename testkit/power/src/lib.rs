//! Power loss, failing disks and full disks under a real store.
//!
//! A child works on a SQLite store with the shim preloaded (`shim/`), which writes down every change of its files and
//! kills it at the k-th, or makes a call fail. The parent, which is never killed, has heard every acknowledgement; it
//! plays the records on a simulated disk (`disk.rs` has the model), makes the files what a power loss may leave of them,
//! and judges that (`judge.rs`): nothing acknowledged is lost, the file is whole, the auditor is content, and the work
//! goes on to the right end.

mod campaign;
mod child;
mod disk;
mod error;
mod faults;
mod figures;
mod file;
mod judge;
mod life;
mod observed;
mod programs;
#[path = "../shim/src/record.rs"]
mod record;
mod told;
mod trial;

pub use campaign::Campaign;
pub use child::Child;
pub use error::Error;
pub use faults::FaultCampaign;
pub use figures::Figures;
pub use trial::{Plant, Setup};
