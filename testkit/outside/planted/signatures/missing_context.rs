//! The orchestration does not take a context.

use dauer::{Orchestration, Result, WorkerBuilder};

const GREET: Orchestration<String, u32> = Orchestration::new("greet");

async fn greet(_: String) -> Result<u32> {
    Ok(1)
}

pub fn register(worker: WorkerBuilder) -> WorkerBuilder {
    worker.orchestration(GREET, greet)
}

fn main() {}
