//! The activity takes the context of an orchestration.

use dauer::{Activity, OrchestrationContext, Result, WorkerBuilder};

const PRICE: Activity<String, u32> = Activity::new("price");

async fn price(_: OrchestrationContext, _: String) -> Result<u32> {
    Ok(1)
}

pub fn register(worker: WorkerBuilder) -> WorkerBuilder {
    worker.activity(PRICE, price)
}

fn main() {}
