//! What a server tells of an instance, as a record. What the protocol does not carry is none or zero.

use dauer_core::model::{
    Deaths, Encoded, EntityRecord, Kind, Lock, Parent, Payload, QueueKey, Record, Status, Times, Trouble,
    TroubleKind,
};
use dauer_core::{ExecutionId, InstanceId, MessageId, Revision, Timestamp};
use dauer_proto::{OrchestrationState, event, time};
use dauer_rpc::management::{Instance, Trouble as WireTrouble, TroubleKind as WireKind};
use tonic::Status as Refusal;

/// What stands for the start of an instance where nobody tells which it was.
pub(super) const UNTOLD: MessageId = MessageId([0; 16]);

/// The id and record of an instance.
///
/// # Errors
/// Why it makes no sense.
pub(super) fn of(state: OrchestrationState) -> Result<(InstanceId, Record), String> {
    let status = Status::from(state.orchestration_status());
    let OrchestrationState { instance_id, name, version, execution_id, .. } = state;
    let id = InstanceId::new(instance_id).map_err(|error| error.to_string())?;
    let version = version.filter(|version| !version.is_empty());
    let queue = QueueKey::new(Kind::Orchestration, name, version.as_deref());
    let execution = execution_id.as_deref().and_then(ExecutionId::parse).unwrap_or(ExecutionId(0));
    let at = |stamp: Option<dauer_proto::Timestamp>| -> Result<Option<Timestamp>, String> {
        let millis = stamp.map(|stamp| time::to_millis_ceil(&stamp)).transpose();
        Ok(millis.map_err(|error| error.to_string())?.map(Timestamp))
    };
    let created = at(state.created_timestamp)?.unwrap_or_default();
    let times = Times {
        created,
        accepted: created,
        updated: at(state.last_updated_timestamp)?.unwrap_or_default(),
        scheduled: at(state.scheduled_start_timestamp)?,
        completed: at(state.completed_timestamp)?,
    };
    let parent = state.parent_instance_id.filter(|parent| !parent.is_empty());
    let parent = parent.map(InstanceId::new).transpose().map_err(|error| error.to_string())?;
    let parent = parent
        .map(|instance| Box::new(Parent { instance, execution: ExecutionId(0), event_id: event::NO_ACTION }));
    let mut record = Record {
        status,
        times,
        parent,
        tags: state.tags.into(),
        ..Record::pending(queue, execution, UNTOLD)
    };
    let custom_status = state.custom_status.filter(|status| !status.is_empty());
    record.details.set_custom_status(custom_status.map(Payload::from));
    record.details.set_output(state.output.map(Payload::from));
    record.details.set_failure(state.failure_details.as_ref().map(Encoded::new));
    Ok((id, record))
}

/// The id and record of an instance that the management service has listed.
///
/// # Errors
/// Why it makes no sense.
pub(super) fn listed(instance: Instance) -> Result<(InstanceId, Record), String> {
    let state = instance.state.ok_or("an instance without its state")?;
    let (id, record) = of(state)?;
    let mut record = Record {
        generation: instance.generation,
        revision: Revision(instance.revision),
        history_len: instance.history_events,
        history_bytes: instance.history_bytes,
        attempts: instance.attempts,
        deaths: Deaths {
            workers: instance.worker_deaths,
            servers: instance.server_deaths,
            trials: instance.trial_deaths,
        },
        trouble: instance.trouble.map(trouble).transpose()?.map(Box::new),
        ..record
    };
    if let Some(entity) = instance.entity {
        record.queue = QueueKey::new(Kind::Entity, &*record.queue.name, None);
        record.details.set_entity(Some(EntityRecord {
            state: entity.state.map(Payload::from),
            lock: entity.locked_by.map(lock).transpose()?,
            early_unlocks: Vec::new(),
        }));
    }
    Ok((id, record))
}

/// A lock, of which a server names only the owner.
fn lock(owner: String) -> Result<Lock, String> {
    let owner = InstanceId::new(owner).map_err(|error| error.to_string())?;
    Ok(Lock { section: String::new(), owner, owner_execution: ExecutionId(0) })
}

fn trouble(wire: WireTrouble) -> Result<Trouble, String> {
    let kind = match WireKind::try_from(wire.kind) {
        Ok(WireKind::Mismatch) => TroubleKind::Mismatch,
        Ok(WireKind::Panic) => TroubleKind::Panic,
        Ok(WireKind::UnknownName) => TroubleKind::UnknownName,
        Ok(WireKind::Undecodable) => TroubleKind::Undecodable,
        Ok(WireKind::NotDurable) => TroubleKind::NotDurable,
        Ok(WireKind::InvalidAnswer) => TroubleKind::InvalidAnswer,
        Ok(WireKind::TooLarge) => TroubleKind::TooLarge,
        Ok(WireKind::HostDied) => TroubleKind::HostDied,
        // A newer server knows more kinds. One instance must not make its whole page unreadable; the reason says more.
        Ok(WireKind::Unspecified) | Err(_) => TroubleKind::InvalidAnswer,
    };
    let since = wire.since.map(|since| time::to_millis_ceil(&since)).transpose();
    let since = Timestamp(since.map_err(|error| error.to_string())?.unwrap_or_default());
    let (reason, attempts, build) = (wire.reason, wire.attempts, wire.build.map(Into::into));
    Ok(Trouble { kind, reason, since, attempts, others: Vec::new(), build })
}

/// What a server answered, if it says that the instance is there.
///
/// # Errors
/// A refusal that says why the answer makes no sense.
pub(super) fn found(
    exists: bool,
    state: Option<OrchestrationState>,
) -> Result<Option<(Record, Option<String>)>, Refusal> {
    let Some(mut state) = state.filter(|_| exists) else { return Ok(None) };
    let input = state.input.take();
    let (_, record) =
        of(state).map_err(|what| Refusal::internal(format!("its answer makes no sense: {what}")))?;
    Ok(Some((record, input)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use dauer_proto::{OrchestrationStatus, failure};

    #[test]
    fn what_is_told_is_kept_and_what_is_not_is_absent() {
        let state = OrchestrationState {
            instance_id: "order-7".into(),
            name: "order".into(),
            version: Some("2".into()),
            orchestration_status: OrchestrationStatus::Failed.into(),
            created_timestamp: Some(time::from_millis(5)),
            last_updated_timestamp: Some(time::from_millis(7)),
            completed_timestamp: Some(time::from_millis(6)),
            output: Some("\"out\"".into()),
            custom_status: Some("\"busy\"".into()),
            failure_details: Some(failure::failure("Broken", "it is")),
            execution_id: Some(ExecutionId(9).to_string()),
            parent_instance_id: Some("cart-1".into()),
            tags: [("zone".to_owned(), "north".to_owned())].into(),
            ..OrchestrationState::default()
        };
        let (id, record) = of(state.clone()).unwrap();
        assert_eq!(
            (id.as_str(), &*record.queue.name, record.queue.version.as_deref()),
            ("order-7", "order", Some("2"))
        );
        assert_eq!((record.status, record.execution), (Status::Failed, ExecutionId(9)));
        let (created, updated) = (Timestamp(5), Timestamp(7));
        assert_eq!(
            record.times,
            Times { created, accepted: created, updated, scheduled: None, completed: Some(Timestamp(6)) }
        );
        assert_eq!(record.details.output().unwrap().as_str(), "\"out\"");
        assert_eq!(record.details.custom_status().unwrap().as_str(), "\"busy\"");
        assert_eq!(record.parent.as_deref().unwrap().instance.as_str(), "cart-1");
        assert_eq!(record.tags.get("zone").map(String::as_str), Some("north"));
        assert!(record.details.failure().is_some() && record.trouble.is_none());
        assert_eq!((record.generation, record.history_len, record.history_bytes), (0, 0, 0));
        assert!(of(OrchestrationState { instance_id: String::new(), ..state.clone() }).is_err());
        assert_eq!(found(false, Some(state)).unwrap(), None, "it says that there is none");
    }
}
