//! Rule 22, scale: how much work there is, for those who start and stop hosts.

use std::collections::BTreeMap;

use dauer_store::Kind;

use crate::run::open;
use crate::world::HOUR;
use crate::{Fixture, Step};

/// The scale counts work that is ready and work that is held, and not what sleeps.
pub async fn r22a_scale_counts_what_is_ready(fixture: &dyn Fixture) {
    let w = open!(fixture);
    w.start("asleep").await;
    w.run(|turn| Step::of(turn).timers([w.timer(turn, w.at(HOUR))])).await;
    w.running_with_task("order").await;
    w.start("held").await;
    let session = w.session().await;
    session.turn_of("held").await;
    w.start("ready").await;

    let scale = w.ok(w.manage().scale().await, "scale");
    let counted = |counts: &BTreeMap<Kind, usize>, kind| counts.get(&kind).copied().unwrap_or(0);
    w.same(&counted(&scale.ready, Kind::Orchestration), &1, "one turn is ready");
    w.same(&counted(&scale.held, Kind::Orchestration), &1, "one turn is held");
    w.same(&counted(&scale.ready, Kind::Activity), &1, "one task is ready");
    w.same(&counted(&scale.held, Kind::Activity), &0, "no task is held");
}
