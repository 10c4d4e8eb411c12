//! The orchestration takes another input than its name says.

use dauer::{Orchestration, OrchestrationContext, Result, WorkerBuilder};

const GREET: Orchestration<String, u32> = Orchestration::new("greet");

async fn greet(_: OrchestrationContext, n: u32) -> Result<u32> {
    Ok(n)
}

pub fn register(worker: WorkerBuilder) -> WorkerBuilder {
    worker.orchestration(GREET, greet)
}

fn main() {}
