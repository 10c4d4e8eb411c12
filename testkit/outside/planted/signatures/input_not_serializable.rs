//! The input of a call cannot be written as JSON.

use dauer::{Activity, OrchestrationContext, Result};

pub struct Order;

const PRICE: Activity<Order, u32> = Activity::new("price");

pub async fn shop(ctx: OrchestrationContext, _: u32) -> Result<u32> {
    Ok(ctx.call(PRICE, &Order).await?)
}

fn main() {}
