//! The input of an orchestration cannot be read from JSON.

use dauer::{Orchestration, OrchestrationContext, Result, WorkerBuilder};

pub struct Order;

const SHOP: Orchestration<Order, u32> = Orchestration::new("shop");

async fn shop(_: OrchestrationContext, _: Order) -> Result<u32> {
    Ok(1)
}

pub fn register(worker: WorkerBuilder) -> WorkerBuilder {
    worker.orchestration(SHOP, shop)
}

fn main() {}
