//! The orchestration continues as new with another input than its own.

use std::ops::ControlFlow;

use dauer::{Orchestration, OrchestrationContext, Result, WorkerBuilder};

const COUNT: Orchestration<u32, u32> = Orchestration::new("count");

async fn count(_: OrchestrationContext, n: u32) -> Result<ControlFlow<u32, String>> {
    Ok(ControlFlow::Continue(n.to_string()))
}

pub fn register(worker: WorkerBuilder) -> WorkerBuilder {
    worker.orchestration(COUNT, count)
}

fn main() {}
