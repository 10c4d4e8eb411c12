//! The record of an instance: whole, or as base and details beside columns.

use std::collections::BTreeMap;

use bytes::Bytes;
use dauer_store::{
    Deaths, Details, Encoded, EntityRecord, Hold, InstanceId, Lock, NextRecord, Parent, Payload, QueueKey,
    Record, Revision, Times, Timestamp, Trouble, TroubleKind,
};

use super::blob::Blob;
use super::code::{kind_code, kind_of, status_code, status_of, trouble_code, trouble_of};
use super::{Read, Unreadable, execution, instance_id, message_id, seal, unseal};

/// A queue as a field of a message.
#[derive(Clone, PartialEq, prost::Message)]
pub struct WireQueue {
    #[prost(uint32, tag = "1")]
    kind: u32,
    #[prost(string, tag = "2")]
    name: String,
    #[prost(string, optional, tag = "3")]
    version: Option<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct WireTrouble {
    #[prost(uint32, tag = "1")]
    kind: u32,
    #[prost(string, tag = "2")]
    reason: String,
    #[prost(int64, tag = "3")]
    since: i64,
    #[prost(uint32, tag = "4")]
    attempts: u32,
    #[prost(message, repeated, tag = "5")]
    others: Vec<WireAttempts>,
    #[prost(string, optional, tag = "6")]
    build: Option<String>,
}

/// Attempts of one kind of trouble.
#[derive(Clone, PartialEq, prost::Message)]
struct WireAttempts {
    #[prost(uint32, tag = "1")]
    kind: u32,
    #[prost(uint32, tag = "2")]
    attempts: u32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct WireParent {
    #[prost(string, tag = "1")]
    instance: String,
    #[prost(bytes = "vec", tag = "2")]
    execution: Vec<u8>,
    #[prost(int32, tag = "3")]
    event_id: i32,
}

#[derive(Clone, PartialEq, prost::Message)]
struct WireLock {
    #[prost(string, tag = "1")]
    section: String,
    #[prost(string, tag = "2")]
    owner: String,
    #[prost(bytes = "vec", tag = "3")]
    owner_execution: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct WireEntity {
    #[prost(string, optional, tag = "1")]
    state: Option<String>,
    #[prost(message, optional, tag = "2")]
    lock: Option<WireLock>,
    #[prost(string, repeated, tag = "3")]
    early_unlocks: Vec<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct WireRecord {
    #[prost(message, optional, tag = "1")]
    queue: Option<WireQueue>,
    #[prost(bytes = "vec", tag = "2")]
    execution: Vec<u8>,
    #[prost(uint32, tag = "3")]
    generation: u32,
    #[prost(uint64, tag = "4")]
    revision: u64,
    #[prost(uint32, tag = "5")]
    status: u32,
    /// 1 open, 2 control, 3 from, 4 ended.
    #[prost(uint32, tag = "6")]
    hold: u32,
    #[prost(string, optional, tag = "7")]
    hold_from: Option<String>,
    #[prost(int64, tag = "8")]
    created: i64,
    #[prost(int64, tag = "9")]
    updated: i64,
    #[prost(int64, optional, tag = "10")]
    scheduled: Option<i64>,
    #[prost(int64, optional, tag = "11")]
    completed: Option<i64>,
    #[prost(uint32, tag = "12")]
    history_len: u32,
    #[prost(uint64, tag = "13")]
    history_bytes: u64,
    #[prost(uint32, tag = "14")]
    attempts: u32,
    #[prost(message, optional, tag = "15")]
    trouble: Option<WireTrouble>,
    #[prost(bytes = "vec", tag = "16")]
    start: Vec<u8>,
    #[prost(message, optional, tag = "17")]
    parent: Option<WireParent>,
    #[prost(btree_map = "string, string", tag = "18")]
    tags: BTreeMap<String, String>,
    #[prost(string, optional, tag = "19")]
    custom_status: Option<String>,
    #[prost(string, optional, tag = "20")]
    output: Option<String>,
    #[prost(bytes = "bytes", optional, tag = "21")]
    failure: Option<Bytes>,
    #[prost(bytes = "bytes", optional, tag = "22")]
    trace: Option<Bytes>,
    #[prost(message, optional, tag = "23")]
    entity: Option<WireEntity>,
    #[prost(int64, tag = "24")]
    accepted: i64,
    /// Those of workers in the low half, those of servers in the high half.
    #[prost(uint64, tag = "25")]
    deaths: u64,
    #[prost(uint32, tag = "26")]
    trials: u32,
}

/// Writes a whole record.
#[must_use]
pub fn write_record(record: &Record) -> Vec<u8> {
    seal(&to_wire(record))
}

/// Writes the record of a checkpoint like a whole one: details that it does not carry are absent. Not to be read again.
pub(super) fn write_next(record: &NextRecord) -> Vec<u8> {
    seal(&to_wire(&record.clone().after(&Details::new())))
}

/// Reads a whole record.
pub fn read_record(bytes: &[u8]) -> Read<Record> {
    from_wire(unseal(bytes)?)
}

/// The fields of a record that are constant during a run.
#[derive(Clone, PartialEq, prost::Message)]
struct WireBase {
    #[prost(bytes = "vec", tag = "1")]
    start: Vec<u8>,
    #[prost(message, optional, tag = "2")]
    parent: Option<WireParent>,
    #[prost(btree_map = "string, string", tag = "3")]
    tags: BTreeMap<String, String>,
    #[prost(int64, optional, tag = "4")]
    scheduled: Option<i64>,
    #[prost(int64, tag = "5")]
    accepted: i64,
}

/// The fields of a record that change seldom and may be large.
#[derive(Clone, PartialEq, prost::Message)]
struct WireDetails {
    #[prost(string, optional, tag = "1")]
    hold_from: Option<String>,
    #[prost(message, optional, tag = "2")]
    trouble: Option<WireTrouble>,
    #[prost(string, optional, tag = "3")]
    custom_status: Option<String>,
    #[prost(string, optional, tag = "4")]
    output: Option<String>,
    #[prost(bytes = "bytes", optional, tag = "5")]
    failure: Option<Bytes>,
    #[prost(bytes = "bytes", optional, tag = "6")]
    trace: Option<Bytes>,
    #[prost(message, optional, tag = "7")]
    entity: Option<WireEntity>,
}

/// Whether two records have the same base.
#[must_use]
pub fn same_base(a: &Record, b: &Record) -> bool {
    let times = |record: &Record| (record.times.scheduled, record.times.accepted);
    a.start == b.start && a.parent == b.parent && a.tags == b.tags && times(a) == times(b)
}

/// Writes the base of a record: its start, parent, tags, scheduled and accepted time.
#[must_use]
pub fn write_base(record: &Record) -> Vec<u8> {
    seal(&WireBase {
        start: record.start.0.to_vec(),
        parent: record.parent.as_deref().map(parent_to_wire),
        tags: record.tags.to_map(),
        scheduled: record.times.scheduled.map(|time| time.0),
        accepted: record.times.accepted.0,
    })
}

/// Reads only the tags of a base.
pub fn read_tags(bytes: &[u8]) -> Read<BTreeMap<String, String>> {
    Ok(unseal::<WireBase>(bytes)?.tags)
}

/// Reads a base into a record.
pub fn read_base(bytes: &[u8], record: &mut Record) -> Read<()> {
    let wire: WireBase = unseal(bytes)?;
    record.start = message_id(&wire.start)?;
    record.parent = wire.parent.map(parent_from_wire).transpose()?;
    record.tags = wire.tags.into();
    record.times.scheduled = wire.scheduled.map(Timestamp);
    record.times.accepted = Timestamp(wire.accepted);
    Ok(())
}

/// Writes the details of a record: its lock owner, trouble, custom status, output, failure, trace and entity. `None` if all
/// of them are absent.
#[must_use]
pub fn write_details(record: &Record) -> Option<Vec<u8>> {
    let details = &record.details;
    // The owner of a lock is that of the details, too.
    if details.is_empty() && record.trouble.is_none() {
        return None;
    }
    let details = WireDetails {
        hold_from: owner_of(record.hold()).map(ToString::to_string),
        trouble: record.trouble.as_deref().map(trouble_to_wire),
        custom_status: text(details.custom_status()),
        output: text(details.output()),
        failure: blob(details.failure()),
        trace: blob(details.trace()),
        entity: details.entity().map(entity_to_wire),
    };
    Some(seal(&details))
}

/// Reads details into a record whose status and length of history have been read. `hold` is the code of its hold.
///
/// # Errors
/// [`Unreadable::Damaged`] also if the record is held otherwise by its status, its history and its lock.
pub fn read_details(bytes: Option<&[u8]>, hold: u32, record: &mut Record) -> Read<()> {
    let wire: WireDetails = bytes.map(unseal).transpose()?.unwrap_or_default();
    record.trouble = wire.trouble.map(trouble_from_wire).transpose()?;
    let entity = wire.entity.map(entity_from_wire).transpose()?;
    record.details = details((wire.output, wire.custom_status), (wire.failure, wire.trace), entity);
    check_hold(record, hold)
}

/// The stored code must be that of the hold which follows from the rest of the record: queries and looks of a store filter by
/// it. The owner beside it is that of the time at which the details were written, and is not read: the lock has it.
fn check_hold(record: &Record, code: u32) -> Read<()> {
    let agrees = hold_code(record.hold()) == code;
    if agrees { Ok(()) } else { Err(Unreadable::of("a hold that does not follow from its record")) }
}

fn details(
    (output, custom_status): (Option<String>, Option<String>),
    (failure, trace): (Option<Bytes>, Option<Bytes>),
    entity: Option<EntityRecord>,
) -> Details {
    let mut details = Details::new();
    details.set_output(output.map(Payload::from));
    details.set_custom_status(custom_status.map(Payload::from));
    details.set_failure(failure.map(Encoded::from_stored));
    details.set_trace(trace.map(Encoded::from_stored));
    details.set_entity(entity);
    details
}

fn owner_of(hold: Hold<&InstanceId>) -> Option<&InstanceId> {
    match hold {
        Hold::From(owner) => Some(owner),
        Hold::Open | Hold::Control | Hold::Unborn | Hold::Ended => None,
    }
}

/// The code of a hold.
#[must_use]
pub fn hold_code(hold: Hold<&InstanceId>) -> u32 {
    match hold {
        Hold::Open => 1,
        Hold::Control => 2,
        Hold::From(_) => 3,
        Hold::Ended => 4,
        Hold::Unborn => 5,
    }
}

fn text(payload: Option<&Payload>) -> Option<String> {
    payload.map(|payload| payload.as_str().to_owned())
}

fn blob(blob: Option<&Encoded>) -> Option<Bytes> {
    blob.map(|blob| blob.stored().clone())
}

fn trouble_to_wire(trouble: &Trouble) -> WireTrouble {
    let count = |(kind, attempts): &(TroubleKind, u32)| WireAttempts {
        kind: trouble_code(*kind),
        attempts: *attempts,
    };
    let others = trouble.others.iter().map(count);
    WireTrouble {
        kind: trouble_code(trouble.kind),
        reason: trouble.reason.clone(),
        since: trouble.since.0,
        attempts: trouble.attempts,
        others: others.collect(),
        build: trouble.build.as_deref().map(str::to_owned),
    }
}

pub(super) fn parent_to_wire(parent: &Parent) -> WireParent {
    WireParent {
        instance: parent.instance.to_string(),
        execution: parent.execution.0.to_be_bytes().to_vec(),
        event_id: parent.event_id,
    }
}

/// A queue as a field of a message.
#[must_use]
pub fn queue_to_wire(queue: &QueueKey) -> WireQueue {
    WireQueue {
        kind: kind_code(queue.kind),
        name: queue.name.to_string(),
        version: queue.version.as_deref().map(str::to_owned),
    }
}

/// Writes the fields of [`queue_to_wire`].
pub fn write_queue(blob: &mut Blob, queue: &QueueKey) {
    blob.number(1, kind_code(queue.kind).into());
    blob.bytes(2, queue.name.as_bytes());
    if let Some(version) = queue.version.as_deref() {
        blob.each(3, version.as_bytes());
    }
}

/// The queue of a field.
pub fn queue_from_wire(queue: Option<WireQueue>) -> Read<QueueKey> {
    let queue = queue.ok_or_else(|| Unreadable::of("a missing queue"))?;
    Ok(QueueKey {
        kind: kind_of(queue.kind)?,
        name: queue.name.into(),
        version: queue.version.map(Into::into),
    })
}

fn to_wire(record: &Record) -> WireRecord {
    let details = &record.details;
    WireRecord {
        queue: Some(queue_to_wire(&record.queue)),
        execution: record.execution.0.to_be_bytes().to_vec(),
        generation: record.generation,
        revision: record.revision.0,
        status: status_code(record.status),
        hold: hold_code(record.hold()),
        hold_from: owner_of(record.hold()).map(ToString::to_string),
        created: record.times.created.0,
        updated: record.times.updated.0,
        scheduled: record.times.scheduled.map(|time| time.0),
        completed: record.times.completed.map(|time| time.0),
        history_len: record.history_len,
        history_bytes: record.history_bytes,
        attempts: record.attempts,
        trouble: record.trouble.as_deref().map(trouble_to_wire),
        start: record.start.0.to_vec(),
        parent: record.parent.as_deref().map(parent_to_wire),
        tags: record.tags.to_map(),
        custom_status: text(details.custom_status()),
        output: text(details.output()),
        failure: blob(details.failure()),
        trace: blob(details.trace()),
        entity: details.entity().map(entity_to_wire),
        accepted: record.times.accepted.0,
        deaths: record.deaths.to_bits(),
        trials: record.deaths.trials,
    }
}

fn entity_to_wire(entity: &EntityRecord) -> WireEntity {
    WireEntity {
        state: entity.state.as_ref().map(|state| state.as_str().to_owned()),
        lock: entity.lock.as_ref().map(|lock| WireLock {
            section: lock.section.clone(),
            owner: lock.owner.to_string(),
            owner_execution: lock.owner_execution.0.to_be_bytes().to_vec(),
        }),
        early_unlocks: entity.early_unlocks.clone(),
    }
}

fn from_wire(wire: WireRecord) -> Read<Record> {
    let entity = wire.entity.map(entity_from_wire).transpose()?;
    let record = Record {
        queue: queue_from_wire(wire.queue)?,
        execution: execution(&wire.execution)?,
        generation: wire.generation,
        revision: Revision(wire.revision),
        status: status_of(wire.status)?,
        times: Times {
            created: Timestamp(wire.created),
            accepted: Timestamp(wire.accepted),
            updated: Timestamp(wire.updated),
            scheduled: wire.scheduled.map(Timestamp),
            completed: wire.completed.map(Timestamp),
        },
        history_len: wire.history_len,
        history_bytes: wire.history_bytes,
        attempts: wire.attempts,
        deaths: Deaths::from_bits(wire.deaths, wire.trials),
        trouble: wire.trouble.map(trouble_from_wire).transpose()?,
        start: message_id(&wire.start)?,
        parent: wire.parent.map(parent_from_wire).transpose()?,
        tags: wire.tags.into(),
        details: details((wire.output, wire.custom_status), (wire.failure, wire.trace), entity),
    };
    check_hold(&record, wire.hold)?;
    Ok(record)
}

fn trouble_from_wire(wire: WireTrouble) -> Read<Box<Trouble>> {
    let count = |count: WireAttempts| Ok::<_, Unreadable>((trouble_of(count.kind)?, count.attempts));
    let others = wire.others.into_iter().map(count).collect::<Read<_>>()?;
    Ok(Box::new(Trouble {
        kind: trouble_of(wire.kind)?,
        reason: wire.reason,
        since: Timestamp(wire.since),
        attempts: wire.attempts,
        others,
        build: wire.build.map(Into::into),
    }))
}

pub(super) fn parent_from_wire(wire: WireParent) -> Read<Box<Parent>> {
    Ok(Box::new(Parent {
        instance: instance_id(wire.instance)?,
        execution: execution(&wire.execution)?,
        event_id: wire.event_id,
    }))
}

fn entity_from_wire(wire: WireEntity) -> Read<EntityRecord> {
    let lock = wire.lock.map(|lock| {
        Ok::<_, Unreadable>(Lock {
            section: lock.section,
            owner: instance_id(lock.owner)?,
            owner_execution: execution(&lock.owner_execution)?,
        })
    });
    Ok(EntityRecord {
        state: wire.state.map(Payload::from),
        lock: lock.transpose()?,
        early_unlocks: wire.early_unlocks,
    })
}
