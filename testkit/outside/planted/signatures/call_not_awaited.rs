//! A call that is neither awaited nor started does nothing: only a warning, but one that says so.

use dauer::{Activity, OrchestrationContext, Result};

const PRICE: Activity<u32, u32> = Activity::new("price");

pub async fn shop(ctx: OrchestrationContext, item: u32) -> Result<u32> {
    ctx.call(PRICE, &item);
    Ok(item)
}

fn main() {}
