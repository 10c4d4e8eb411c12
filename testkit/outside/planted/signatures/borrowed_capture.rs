//! The activity borrows what will be gone when it runs.

use dauer::{Activity, ActivityContext, WorkerBuilder};

const PRICE: Activity<u32, usize> = Activity::new("price");

pub fn register(worker: WorkerBuilder) -> WorkerBuilder {
    let prices = vec![1, 2, 3];
    worker.activity(PRICE, |_: ActivityContext, _: u32| {
        let count = prices.len();
        async move { Ok(count) }
    })
}

fn main() {}
