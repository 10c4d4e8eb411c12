//! To be preloaded (`LD_PRELOAD`): stands between a program and the system for the files of one folder, writes down
//! every change of them (`record.rs`), kills the process at the k-th, and makes calls fail (`plan.rs`).
//!
//! Nothing is undone here. The parent has the records, knows from them what was durable at which moment, and makes the
//! files what a power loss could have left of them. That no change was missed is checked there too: the records, played
//! from the start, must give the files as they lie in the folder. So a call that is not among the hooks is noticed.
//!
//! Syncs are written down and not carried out: what is durable is decided by the model, and the disk is spared.
//!
//! Inside a hook nothing is allocated and no hooked function is called, only the system itself: so no hook gets into
//! itself. Variadic functions (`open`) are defined with their last argument fixed, which is the same call on the machines
//! where this builds (integers in registers).

#![cfg(target_os = "linux")]

mod hooks;
mod plan;
mod record;
mod watch;
