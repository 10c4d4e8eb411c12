//! The activity takes another input than its name says.

use dauer::{Activity, ActivityContext, Result, WorkerBuilder};

const PRICE: Activity<String, u32> = Activity::new("price");

async fn price(_: ActivityContext, n: u32) -> Result<u32> {
    Ok(n)
}

pub fn register(worker: WorkerBuilder) -> WorkerBuilder {
    worker.activity(PRICE, price)
}

fn main() {}
