//! Inspections and sessions as the management service sends them.

use dauer_core::model::{Control, Deaths, Kind, QueueKey};
use dauer_core::{HostId, MessageId, SessionId, Timestamp};
use dauer_proto::time;
use dauer_rpc::management as wire;
use dauer_store::{Holder, Inspection, OpenTask, SessionInfo, Waiting, WaitingClass};

use super::record;
use crate::client::{Attached, Inspected};

/// The instance and what the server found around it.
///
/// # Errors
/// Why it makes no sense.
pub(super) fn of(found: wire::Inspection) -> Result<Inspected, String> {
    let (_, record) = record::listed(found.instance.ok_or("an inspection without its instance")?)?;
    let inspection = Inspection {
        now: stamp(found.now)?.unwrap_or_default(),
        holder: found.holder.map(holder).transpose()?,
        ready_at: stamp(found.ready_at)?,
        waiting: found.waiting,
        messages: found.messages.into_iter().map(waiting).collect::<Result<_, _>>()?,
        open: found.open,
        tasks: found.tasks.into_iter().map(task).collect::<Result<_, _>>()?,
    };
    Ok(Inspected { record, inspection })
}

/// A session, and how many workers are connected to its host.
///
/// # Errors
/// Why it makes no sense.
pub(super) fn session(found: wire::Session) -> Result<Attached, String> {
    let session = SessionInfo {
        id: SessionId(number("session", &found.id)?),
        host: HostId::new(found.host).map_err(|error| error.to_string())?,
        expires_at: stamp(found.expires_at)?.unwrap_or_default(),
        lives: found.lives,
        // A server that does not say it says how many workers its own host has, which executes no code.
        runs_code: found.runs_code.unwrap_or(found.workers.is_none()),
    };
    let workers = found.workers.map(|count| usize::try_from(count).unwrap_or(usize::MAX));
    Ok(Attached { session, workers })
}

fn stamp(at: Option<dauer_proto::Timestamp>) -> Result<Option<Timestamp>, String> {
    let millis = at.map(|at| time::to_millis_ceil(&at)).transpose();
    Ok(millis.map_err(|error| error.to_string())?.map(Timestamp))
}

fn number(what: &str, text: &str) -> Result<u128, String> {
    u128::from_str_radix(text, 16).map_err(|error| format!("the id '{text}' of a {what}: {error}"))
}

fn holder(holder: wire::Holder) -> Result<Holder, String> {
    let host = holder.host.map(HostId::new).transpose().map_err(|error| error.to_string())?;
    Ok(Holder { session: SessionId(number("session", &holder.session)?), host, lives: holder.lives })
}

fn waiting(message: wire::WaitingMessage) -> Result<Waiting, String> {
    let class = match wire::WaitingClass::try_from(message.class) {
        Ok(wire::WaitingClass::Start) => WaitingClass::Start,
        Ok(wire::WaitingClass::Replacement) => WaitingClass::Replacement,
        Ok(wire::WaitingClass::Rewind) => WaitingClass::Rewind,
        Ok(wire::WaitingClass::Suspend) => WaitingClass::Control(Control::Suspend),
        Ok(wire::WaitingClass::Resume) => WaitingClass::Control(Control::Resume),
        Ok(wire::WaitingClass::Terminate) => WaitingClass::Control(Control::Terminate),
        Ok(wire::WaitingClass::Ordinary) => WaitingClass::Ordinary,
        Ok(wire::WaitingClass::Unspecified) | Err(_) => {
            return Err(format!("{} is a class of messages that only a newer client knows", message.class));
        }
    };
    let id = MessageId(number("message", &message.id)?.to_be_bytes());
    Ok(Waiting { id, class, visible_at: stamp(message.visible_at)?.unwrap_or_default() })
}

fn task(task: wire::OpenTask) -> Result<OpenTask, String> {
    let version = task.version.filter(|version| !version.is_empty());
    Ok(OpenTask {
        id: MessageId(number("task", &task.id)?.to_be_bytes()),
        event_id: task.event_id,
        queue: QueueKey::new(Kind::Activity, task.name, version.as_deref()),
        holder: task.holder.map(holder).transpose()?,
        attempts: task.attempts,
        not_before: stamp(task.not_before)?.unwrap_or_default(),
        withdrawn: task.withdrawn,
        deaths: Deaths {
            workers: task.worker_deaths,
            servers: task.server_deaths,
            trials: task.trial_deaths,
        },
        mark: stamp(task.marked_at)?,
    })
}
