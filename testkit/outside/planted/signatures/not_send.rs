//! The orchestration holds something over an await that cannot go to another thread.

use dauer::{Orchestration, OrchestrationContext, Result, WorkerBuilder};

const GREET: Orchestration<String, u32> = Orchestration::new("greet");

async fn greet(ctx: OrchestrationContext, name: String) -> Result<u32> {
    let shared = std::rc::Rc::new(name);
    ctx.sleep(std::time::Duration::from_secs(1)).await;
    Ok(shared.len() as u32)
}

pub fn register(worker: WorkerBuilder) -> WorkerBuilder {
    worker.orchestration(GREET, greet)
}

fn main() {}
