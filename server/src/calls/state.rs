//! How an instance is told to clients.

use futures::stream::{self, StreamExt};
use tonic::Status;
use tonic::metadata::MetadataMap;

use dauer_core::InstanceId;
use dauer_core::model::{Encoded, Kind, Record};
use dauer_hub::Client;
use dauer_proto::{OrchestrationState, OrchestrationStatus, TaskFailureDetails, time};

use crate::gate::header;
use crate::options::INPUTS_AT_ONCE;
use crate::status;

/// The header by which dauer's own clients say that they have no use for inputs, each of which is a read of the store.
const PAYLOADS_HEADER: &str = "dauer-payloads";

/// What it says then.
const OUTPUTS: &str = "outputs";

/// Which payloads are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Payloads {
    None,
    Outputs,
    All,
}

impl Payloads {
    /// What a call asks for.
    pub(crate) fn asked(metadata: &MetadataMap, inputs_and_outputs: bool) -> Self {
        match inputs_and_outputs {
            true if header(metadata, PAYLOADS_HEADER) == Some(OUTPUTS) => Self::Outputs,
            true => Self::All,
            false => Self::None,
        }
    }
}

/// The state of an orchestration, with its payloads when they are asked for (behaviour 47).
pub(crate) async fn told(
    client: &Client,
    (id, record): (&InstanceId, Record),
    payloads: Payloads,
) -> Result<OrchestrationState, Status> {
    let input = match payloads {
        Payloads::All => client.input(id, &record).await.map_err(status::of)?,
        Payloads::None | Payloads::Outputs => None,
    };
    let failure = record.details.failure().map(Encoded::decode::<TaskFailureDetails>).transpose();
    let failure = failure.map_err(|_| Status::data_loss(format!("the failure of '{id}' cannot be read")))?;
    let text = |payload: &dauer_core::model::Payload| payload.as_str().to_owned();
    let times = &record.times;
    Ok(OrchestrationState {
        instance_id: id.to_string(),
        name: record.queue.name.to_string(),
        version: record.queue.version.as_deref().map(str::to_owned),
        orchestration_status: OrchestrationStatus::from(record.status).into(),
        scheduled_start_timestamp: times.scheduled.map(|at| time::from_millis(at.0)),
        // Always set: .NET dereferences them.
        created_timestamp: Some(time::from_millis(times.created.0)),
        last_updated_timestamp: Some(time::from_millis(times.updated.0)),
        input,
        output: record.details.output().filter(|_| payloads != Payloads::None).map(text),
        custom_status: record.details.custom_status().map(text),
        failure_details: failure,
        execution_id: Some(record.execution.to_string()),
        completed_timestamp: times.completed.map(|at| time::from_millis(at.0)),
        parent_instance_id: record.parent.map(|parent| parent.instance.to_string()),
        tags: record.tags.to_map(),
    })
}

/// The states of many, in their order.
pub(crate) async fn all_told(
    client: &Client,
    records: Vec<(InstanceId, Record)>,
    payloads: Payloads,
) -> Result<Vec<OrchestrationState>, Status> {
    let told =
        records.into_iter().map(|(id, record)| async move { told(client, (&id, record), payloads).await });
    let told: Vec<_> = stream::iter(told).buffered(INPUTS_AT_ONCE).collect().await;
    told.into_iter().collect()
}

/// Whether it is an orchestration: entities are told by calls of their own.
pub(crate) fn is_orchestration(record: &Record) -> bool {
    record.queue.kind == Kind::Orchestration
}
