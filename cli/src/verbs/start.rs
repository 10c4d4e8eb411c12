//! `dauer start`: an orchestration, from now on or later.

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use dauer::{InstanceId, OpenError, RequestId, Reuse, Status, Store, Timestamp};
use dauer_core::send::StartRequest;
use uuid::Uuid;

use super::filter::parse_tag;
use super::launch::{Launched, Wait, follow};
use super::place::Place;
use crate::error::Failure;
use crate::output::Common;
use crate::payload;
use crate::time::parse_time;

/// What `dauer start` is told.
#[derive(Args)]
pub(crate) struct Start {
    #[command(flatten)]
    pub(crate) common: Common,
    /// The orchestration's name, as a worker registers it.
    name: String,
    /// The id of the new instance. Without it: one that nobody has.
    #[arg(long)]
    pub(crate) id: Option<String>,
    /// The version of the code that is to run it. Without it: the code that is registered without one.
    #[arg(long)]
    version: Option<String>,
    /// The input: JSON, @FILE, or - for standard input; at most 16 MiB.
    #[arg(long, value_name = "JSON|@FILE|-", allow_negative_numbers = true)]
    input: Option<String>,
    /// A label to find it by, any number of times.
    #[arg(long = "tag", value_name = "KEY=VALUE", value_parser = parse_tag)]
    tags: Vec<(String, String)>,
    /// Not before this time: 2026-12-24T18:00:00Z, or +2h for in two hours.
    #[arg(long, value_name = "TIME|+DURATION", value_parser = parse_time, allow_hyphen_values = true)]
    at: Option<Timestamp>,
    /// Which instance of the same id may be replaced: `never` none, `ended` one that has ended, `any` also a living one,
    /// which is terminated; or statuses.
    #[arg(long, value_name = "POLICY", value_enum, value_delimiter = ',', default_value = "ended")]
    reuse_policy: Vec<Policy>,
    /// A text of your choice. The same start again with the same text has no effect, so that it can be repeated when
    /// nobody knows whether it happened.
    #[arg(long, value_name = "TEXT")]
    request_id: Option<String>,
    #[command(flatten)]
    wait: Wait,
}

/// What may be replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Policy {
    Never,
    Ended,
    Any,
    Pending,
    Running,
    Suspended,
    Completed,
    Failed,
    Terminated,
    Canceled,
}

/// The examples in the help.
pub(crate) const START_EXAMPLES: &str = "\
Examples:
  dauer start hello --input '\"world\"' --wait --timeout 30s
  dauer start checkout --id order-7 --input @order.json --tag zone=north --store sqlite:shop.db
  dauer start report --at +2h --request-id nightly-2026-12-24 -o json";

/// Starts an instance. Store and task hub are created if they are not there: a worker may come later.
pub(crate) async fn start(arguments: Start) -> Result<ExitCode, Failure> {
    let reuse = reuse(&arguments.reuse_policy)?;
    let key = match &arguments.request_id {
        None => Uuid::new_v4().as_u128(),
        Some(text) => RequestId::new(text)?.as_u128(),
    };
    // From the key, so that the same request without an id is the same instance, as for every other client.
    let id = InstanceId::new(arguments.id.unwrap_or_else(|| format!("{key:032x}")))?;
    let request = StartRequest {
        version: arguments.version,
        input: payload::read("input", arguments.input.as_deref())?,
        tags: arguments.tags.into_iter().collect(),
        scheduled: arguments.at,
        ..StartRequest::new(id.clone(), arguments.name)
    };
    let common = &arguments.common;
    let (place, new_store) = open(common)?;
    let result = Box::pin(async {
        let before = place.hubs_if_listed().await?;
        let hub = place.hub();
        let created = hub.client().raw().start_requested(request, reuse, key).await?;
        let name = place.named().cloned().unwrap_or_default();
        let new_hub = before.is_some_and(|hubs| !hubs.contains(&name));
        // A new store without a hub in its URL has been told already.
        if new_hub && (place.named().is_some() || !new_store) {
            common.note(&format!("note: there was no task hub '{name}'; it is new"));
        }
        follow(&hub, Launched::new(id, key, created), &arguments.wait, common).await
    })
    .await;
    let result = match result {
        Err(error) => Err(place.explain(error).await),
        done => done,
    };
    place.close().await;
    result
}

/// Opens a store, and says so when it is new: it may be a wrong name. Returns whether it is.
fn open(common: &Common) -> Result<(Place, bool), Failure> {
    match Place::existing(&common.store) {
        Err(OpenError::Missing { url }) if url.starts_with("memory:") => {
            Err(Failure::Usage("what is started in memory: is gone at once; give sqlite:FILE"))
        }
        Err(OpenError::Missing { url }) => {
            let store = Store::open(&url)?;
            common.note(&format!("note: there was no store {url}; it is new"));
            Ok((Place::Store(store), true))
        }
        opened => Ok((opened?, false)),
    }
}

fn reuse(policies: &[Policy]) -> Result<Reuse, Failure> {
    let mut replaceable = Vec::new();
    let ended = Reuse::default().replaceable;
    for policy in policies {
        match policy {
            Policy::Never if policies.len() > 1 => {
                return Err(Failure::Usage("--reuse-policy never excludes all others"));
            }
            Policy::Never => {}
            Policy::Ended => replaceable.extend(&ended),
            Policy::Any => {
                replaceable.extend(&ended);
                replaceable.extend([Status::Pending, Status::Running, Status::Suspended]);
            }
            Policy::Pending => replaceable.push(Status::Pending),
            Policy::Running => replaceable.push(Status::Running),
            Policy::Suspended => replaceable.push(Status::Suspended),
            Policy::Completed => replaceable.push(Status::Completed),
            Policy::Failed => replaceable.push(Status::Failed),
            Policy::Terminated => replaceable.push(Status::Terminated),
            Policy::Canceled => replaceable.push(Status::Canceled),
        }
    }
    Ok(Reuse { replaceable })
}
