//! The orchestration gives another output than its name says.

use dauer::{Orchestration, OrchestrationContext, Result, WorkerBuilder};

const GREET: Orchestration<String, u32> = Orchestration::new("greet");

async fn greet(_: OrchestrationContext, name: String) -> Result<String> {
    Ok(name)
}

pub fn register(worker: WorkerBuilder) -> WorkerBuilder {
    worker.orchestration(GREET, greet)
}

fn main() {}
