//! The activity does not take a context.

use dauer::{Activity, Result, WorkerBuilder};

const PRICE: Activity<String, u32> = Activity::new("price");

async fn price(_: String) -> Result<u32> {
    Ok(1)
}

pub fn register(worker: WorkerBuilder) -> WorkerBuilder {
    worker.activity(PRICE, price)
}

fn main() {}
