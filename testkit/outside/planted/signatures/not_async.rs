//! The orchestration is no async function.

use dauer::{Orchestration, OrchestrationContext, Result, WorkerBuilder};

const GREET: Orchestration<String, u32> = Orchestration::new("greet");

fn greet(_: OrchestrationContext, _: String) -> Result<u32> {
    Ok(1)
}

pub fn register(worker: WorkerBuilder) -> WorkerBuilder {
    worker.orchestration(GREET, greet)
}

fn main() {}
