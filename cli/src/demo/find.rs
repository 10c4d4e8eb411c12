//! Which order the demo is about: the one that an earlier run left unfinished, or the next.

use std::collections::BTreeMap;
use std::error::Error;

use dauer::{Hub, InstanceId, Status};
use dauer_proto::{EventType, HistoryEvent, event};
use dauer_store::Query;

use super::order::CHECKOUT;

/// The ids of orders are this and a number.
const PREFIX: &str = "order-";

/// An order of an earlier run.
pub(super) struct Unfinished {
    pub(super) id: InstanceId,
    /// The steps whose results are recorded, in the order in which they came.
    pub(super) done: Vec<String>,
}

/// What the store says about earlier orders.
pub(super) struct Orders {
    /// The oldest that has not ended.
    pub(super) unfinished: Option<Unfinished>,
    /// The number after the highest.
    pub(super) next: u32,
}

/// The id of an order.
pub(super) fn id_of(number: u32) -> String {
    format!("{PREFIX}{number}")
}

/// Looks through all orders of the hub.
pub(super) async fn orders(hub: &Hub) -> Result<Orders, Box<dyn Error>> {
    let (mut unfinished, mut next, mut after) = (None, 1, None);
    loop {
        let query = Query {
            name: Some(CHECKOUT.name().into()),
            prefix: Some(PREFIX.into()),
            after,
            ..Query::default()
        };
        let page = hub.manage().query(query).await?;
        for (id, record) in page.records {
            // An id with something else behind the prefix is not the demo's.
            let Some(number) = id.as_str().strip_prefix(PREFIX).and_then(|number| number.parse::<u32>().ok())
            else {
                continue;
            };
            next = next.max(number.saturating_add(1));
            // A suspended one waits for whoever suspended it.
            if unfinished.is_none() && matches!(record.status, Status::Pending | Status::Running) {
                unfinished = Some(id);
            }
        }
        match page.next {
            None => break,
            more => after = more,
        }
    }
    let unfinished = match unfinished {
        Some(id) => {
            let events = crate::history::read(hub, &id).await?;
            Some(Unfinished { id, done: done(&events) })
        }
        None => None,
    };
    Ok(Orders { unfinished, next })
}

/// The names of the activities and children whose results are in the history.
fn done(events: &[HistoryEvent]) -> Vec<String> {
    let mut names = BTreeMap::new();
    let mut done = Vec::new();
    for each in events {
        match &each.event_type {
            Some(EventType::TaskScheduled(task)) => _ = names.insert(each.event_id, &task.name),
            Some(EventType::SubOrchestrationInstanceCreated(child)) => {
                names.insert(each.event_id, &child.name);
            }
            Some(EventType::TaskCompleted(_) | EventType::SubOrchestrationInstanceCompleted(_)) => {
                let name = event::answers(each).and_then(|answered| names.get(&answered));
                done.extend(name.map(|name| (*name).clone()));
            }
            _ => {}
        }
    }
    done
}
