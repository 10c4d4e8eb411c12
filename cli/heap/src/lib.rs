//! The allocator of the `dauer` command. Whoever links this crate has it.
//!
//! Checkpoints are made on one thread and freed on another, which the system's allocator is slow at; see
//! docs/BENCHMARKS.md. A crate of its own, because the command's is not optimised, and every allocation goes through this.

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
