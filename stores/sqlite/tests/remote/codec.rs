//! How calls of a session and their answers go from one process to another. Both are the same build, so that what
//! cannot be read is a defect of the test, and panics.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use dauer_store::{
    Amount, Batch, Cause, Checkpoint, ClaimedTurn, Committed, Completion, Credit, Death, Deaths, Delivered,
    Details, DropReason, Encoded, Epoch, ExecutionId, Fence, Filter, History, Host, HostId, InstanceId, Item,
    Limit, Lost, Mail, Message, MessageId, Next, NextRecord, Queues, Recalled, Record, Refused, Release,
    Revision, SessionId, Slice, Status, StoredBatch, Tags, Task, TaskFence, TaskLease, TaskName, Then,
    Timestamp, Trial, Trouble, VersionRule,
};
use dauer_store_kit::codec;

/// A value that goes to another process.
pub(crate) trait Wire: Sized {
    fn put(&self, out: &mut Vec<u8>);
    fn read_from(input: &mut &[u8]) -> Self;
}

pub(crate) fn bytes_of(value: &impl Wire) -> Vec<u8> {
    let mut out = Vec::new();
    value.put(&mut out);
    out
}

/// A type that is one number, and how to get from one to the other.
macro_rules! number {
    ($($name:ty, $to:expr, $from:expr;)+) => {$(
        impl Wire for $name {
            fn put(&self, out: &mut Vec<u8>) {
                let to: fn(&$name) -> u128 = $to;
                out.extend(to(self).to_le_bytes());
            }

            fn read_from(input: &mut &[u8]) -> Self {
                let (number, rest) = input.split_at(16);
                *input = rest;
                let from: fn(u128) -> $name = $from;
                from(u128::from_le_bytes(number.try_into().unwrap()))
            }
        }
    )+};
}

number! {
    u128, |n| *n, |n| n;
    u64, |n| u128::from(*n), |n| n as u64;
    u32, |n| u128::from(*n), |n| n as u32;
    usize, |n| *n as u128, |n| n as usize;
    bool, |b| u128::from(*b), |n| n != 0;
    Timestamp, |t| u128::from(t.0 as u64), |n| Timestamp(n as u64 as i64);
    Duration, |d| d.as_nanos(), |n| Duration::from_nanos_u128(n);
    Revision, |r| u128::from(r.0), |n| Revision(n as u64);
    Epoch, |e| u128::from(e.0), |n| Epoch(n as u64);
    ExecutionId, |e| e.0, ExecutionId;
    SessionId, |s| s.0, SessionId;
    MessageId, |m| u128::from_be_bytes(m.0), |n| MessageId(n.to_be_bytes());
    DropReason, |r| DropReason::ALL.iter().position(|known| known == r).unwrap() as u128,
        |n| DropReason::ALL[n as usize];
    Status, |s| STATUSES.iter().position(|known| known == s).unwrap() as u128, |n| STATUSES[n as usize];
}

const STATUSES: [Status; 7] = [
    Status::Pending,
    Status::Running,
    Status::Suspended,
    Status::Completed,
    Status::Failed,
    Status::Terminated,
    Status::Canceled,
];

/// A type that is a string of bytes.
macro_rules! blob {
    ($($name:ty, $to:expr, $from:expr;)+) => {$(
        impl Wire for $name {
            fn put(&self, out: &mut Vec<u8>) {
                let to: fn(&$name) -> Vec<u8> = $to;
                let bytes = to(self);
                bytes.len().put(out);
                out.extend(bytes);
            }

            fn read_from(input: &mut &[u8]) -> Self {
                let length = usize::read_from(input);
                let (bytes, rest) = input.split_at(length);
                *input = rest;
                let from: fn(&[u8]) -> $name = $from;
                from(bytes)
            }
        }
    )+};
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

blob! {
    String, |s| s.as_bytes().to_vec(), |b| text(b).to_owned();
    InstanceId, |i| i.as_str().as_bytes().to_vec(), |b| InstanceId::new(text(b)).unwrap();
    HostId, |h| h.as_str().as_bytes().to_vec(), |b| HostId::new(text(b)).unwrap();
    Encoded, |e| e.stored().to_vec(), |b| Encoded::from_stored(b.to_vec().into());
    Record, |r| codec::write_record(r), |b| codec::read_record(b).unwrap();
    Message, |m| codec::write_message(m), |b| codec::read_message(b).unwrap();
    Task, |t| codec::write_task(t), |b| codec::read_task(b).unwrap();
    Item, |i| codec::write_item(i), |b| codec::read_item(b).unwrap();
}

/// A type that is the list of its fields.
macro_rules! fields {
    ($($name:ident { $($field:ident),+ })+) => {$(
        impl Wire for $name {
            fn put(&self, out: &mut Vec<u8>) {
                $(self.$field.put(out);)+
            }

            fn read_from(input: &mut &[u8]) -> Self {
                $(let $field = Wire::read_from(input);)+
                Self { $($field),+ }
            }
        }
    )+};
}

fields! {
    Fence { instance, execution, revision, epoch }
    Host { id, session, lease, runs_code }
    Queues { orchestrations, entities, activities }
    Amount { count, bytes }
    Credit { number, first, turns, tasks, queues, tags }
    Next { turns, tasks, mail }
    Recalled { turns, tasks }
    ClaimedTurn { fence, record, messages, more, history, now }
    TaskLease { fence, task, attempts, deaths, mark, now }
    Deaths { workers, servers, trials }
    TaskName { instance, task }
    Death { item, known }
    Trial { item, open }
    Completion { fence, answer }
    Committed { revision, arrived, more, taken, now }
    Mail { messages, more, now }
    StoredBatch { first, revision, epoch, owner, at, batch }
    Slice { batches, next }
    Lost { item }
    Release { item, delay, trouble, failed }
    Checkpoint { fence, consumed, completions, history, record, tasks, timers, messages, take, then }
}

impl<T: Wire> Wire for Vec<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.len().put(out);
        self.iter().for_each(|item| item.put(out));
    }

    fn read_from(input: &mut &[u8]) -> Self {
        (0..usize::read_from(input)).map(|_| T::read_from(input)).collect()
    }
}

impl<T: Wire> Wire for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        self.iter().for_each(|value| value.put(out));
    }

    fn read_from(input: &mut &[u8]) -> Self {
        bool::read_from(input).then(|| T::read_from(input))
    }
}

impl<T: Wire> Wire for Arc<T> {
    fn put(&self, out: &mut Vec<u8>) {
        (**self).put(out);
    }

    fn read_from(input: &mut &[u8]) -> Self {
        Self::new(T::read_from(input))
    }
}

impl Wire for Tags {
    fn put(&self, out: &mut Vec<u8>) {
        self.keys().cloned().collect::<Vec<_>>().put(out);
        self.values().cloned().collect::<Vec<_>>().put(out);
    }

    fn read_from(input: &mut &[u8]) -> Self {
        let keys = Vec::<String>::read_from(input);
        keys.into_iter().zip(Vec::<String>::read_from(input)).collect()
    }
}

impl Wire for () {
    fn put(&self, _out: &mut Vec<u8>) {}

    fn read_from(_input: &mut &[u8]) -> Self {}
}

impl<T: Wire> Wire for Result<T, Refused> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_ok().put(out);
        match self {
            Ok(value) => value.put(out),
            Err(refused) => refused.put(out),
        }
    }

    fn read_from(input: &mut &[u8]) -> Self {
        if bool::read_from(input) { Ok(T::read_from(input)) } else { Err(Refused::read_from(input)) }
    }
}

impl Wire for TaskFence {
    fn put(&self, out: &mut Vec<u8>) {
        Item::Task(self.clone()).put(out);
    }

    fn read_from(input: &mut &[u8]) -> Self {
        match Item::read_from(input) {
            Item::Task(fence) => fence,
            Item::Turn(_) => panic!("a task was sent"),
        }
    }
}

impl Wire for Filter {
    fn put(&self, out: &mut Vec<u8>) {
        let names = match self {
            Self::All => None,
            Self::Names(names) => Some(names),
        };
        names.map(|names| names.keys().map(|name| name.to_string()).collect::<Vec<_>>()).put(out);
        for rule in names.into_iter().flat_map(|names| names.values()) {
            match rule {
                VersionRule::Any => None,
                VersionRule::Listed(listed) => Some(listed.iter().map(|v| v.to_string()).collect::<Vec<_>>()),
            }
            .put(out);
        }
    }

    fn read_from(input: &mut &[u8]) -> Self {
        let Some(names) = Option::<Vec<String>>::read_from(input) else { return Self::All };
        let mut filter = BTreeMap::new();
        for name in names {
            let rule = Option::<Vec<String>>::read_from(input).map_or(VersionRule::Any, |listed| {
                VersionRule::Listed(listed.into_iter().map(Into::into).collect())
            });
            filter.insert(name.into(), rule);
        }
        Self::from_iter(filter)
    }
}

impl Wire for Batch {
    fn put(&self, out: &mut Vec<u8>) {
        self.count.put(out);
        self.events.put(out);
        codec::write_trail(&self.consumed, &self.produced)
            .iter()
            .map(|b| u32::from(*b))
            .collect::<Vec<_>>()
            .put(out);
    }

    fn read_from(input: &mut &[u8]) -> Self {
        let (count, events) = (u32::read_from(input), Encoded::read_from(input));
        let trail: Vec<u8> = Vec::<u32>::read_from(input).into_iter().map(|b| b as u8).collect();
        let (consumed, produced) = codec::read_trail(&trail).unwrap();
        Self { count, events, consumed, produced }
    }
}

impl Wire for History {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Append(batch) => {
                true.put(out);
                batch.put(out);
            }
            Self::Replace { execution, batches, prologue } => {
                false.put(out);
                execution.put(out);
                batches.put(out);
                prologue.put(out);
            }
        }
    }

    fn read_from(input: &mut &[u8]) -> Self {
        if bool::read_from(input) {
            return Self::Append(Batch::read_from(input));
        }
        Self::Replace {
            execution: Wire::read_from(input),
            batches: Wire::read_from(input),
            prologue: Wire::read_from(input),
        }
    }
}

impl Wire for Then {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Keep => None,
            Self::Release { delay } => Some(*delay),
        }
        .put(out);
    }

    fn read_from(input: &mut &[u8]) -> Self {
        Option::<Duration>::read_from(input).map_or(Self::Keep, |delay| Self::Release { delay })
    }
}

impl Wire for Delivered {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Applied => None,
            Self::Dropped(reason) => Some(*reason),
        }
        .put(out);
    }

    fn read_from(input: &mut &[u8]) -> Self {
        Option::<DropReason>::read_from(input).map_or(Self::Applied, Self::Dropped)
    }
}

/// Whether it carries details, and a whole record with those that it carries.
impl Wire for NextRecord {
    fn put(&self, out: &mut Vec<u8>) {
        self.details.is_some().put(out);
        self.clone().after(&Details::new()).put(out);
    }

    fn read_from(input: &mut &[u8]) -> Self {
        let carried = bool::read_from(input);
        let record = <Record>::read_from(input);
        let details = record.details.clone();
        NextRecord { details: carried.then(|| details.clone()), ..record.since(&details) }
    }
}

/// Carried inside a record: the encoding of records knows trouble.
impl Wire for Trouble {
    fn put(&self, out: &mut Vec<u8>) {
        let queue = dauer_store::QueueKey::new(dauer_store::Kind::Entity, "x", None);
        let record = Record::pending(queue, ExecutionId(0), MessageId([0; 16]));
        Record { trouble: Some(Box::new(self.clone())), ..record }.put(out);
    }

    fn read_from(input: &mut &[u8]) -> Self {
        *<Record>::read_from(input).trouble.unwrap()
    }
}

impl Wire for Refused {
    fn put(&self, out: &mut Vec<u8>) {
        let cause = |cause: &Cause| cause.to_string();
        let (code, text, numbers) = match self {
            Self::Fenced => (0, String::new(), vec![]),
            Self::NotExecuted(c) => (1, cause(c), vec![]),
            Self::Unknown(c) => (2, cause(c), vec![]),
            Self::TooLarge(limit) => (3, limit.name.to_owned(), vec![limit.found, limit.allowed]),
            Self::Exists(status) => return (4u32.put(out), status.put(out)).1,
            Self::Newer(format) => (5, String::new(), vec![u64::from(*format)]),
            Self::Corrupt(c) => (6, cause(c), vec![]),
            Self::Repeat => (7, String::new(), vec![]),
            other => panic!("the helper does not know {other:?}"),
        };
        u32::put(&code, out);
        text.put(out);
        numbers.put(out);
    }

    fn read_from(input: &mut &[u8]) -> Self {
        let code = u32::read_from(input);
        if code == 4 {
            return Self::Exists(Status::read_from(input));
        }
        let (text, numbers) = (String::read_from(input), Vec::<u64>::read_from(input));
        match code {
            0 => Self::Fenced,
            1 => Self::NotExecuted(Cause::new(text)),
            2 => Self::Unknown(Cause::new(text)),
            // A name in a limit lives for ever; a test can afford that.
            3 => Self::TooLarge(Limit { name: text.leak(), found: numbers[0], allowed: numbers[1] }),
            5 => Self::Newer(numbers[0] as u32),
            7 => Self::Repeat,
            _ => Self::Corrupt(Cause::new(text)),
        }
    }
}
