//! A call is given another input than the activity's name says.

use dauer::{Activity, OrchestrationContext, Result};

const PRICE: Activity<u32, u32> = Activity::new("price");

pub async fn shop(ctx: OrchestrationContext, name: String) -> Result<u32> {
    Ok(ctx.call(PRICE, &name).await?)
}

fn main() {}
