//! Suspending, resuming, terminating and replacing instances, whether or not a host runs them.
//!
//! A run that no host takes a turn of obeys no message. So the client writes in place of the host (`Manage::amend`): at
//! once when the run has not begun or has trouble, and otherwise when its message still waits after two polls and no live
//! session holds the instance. The amendment carries the execution and revision that the client has read: when a host
//! commits first, it is refused, and the client reads again. When the client dies between its message and the
//! amendment, the message waits: a host obeys it, or the next call does.

use std::time::Duration;

use dauer_core::InstanceId;
use dauer_core::ledger::Ledger;
use dauer_core::model::{Class, Control, Hold, Kind, Message, Record, Status};
use dauer_core::turn::{self, Finished, Found};
use dauer_core::{MessageId, SessionId, send};
use dauer_store::{Create, Created, Delivered, DropReason, Fence, Inspection, Refused, Reuse, WaitingClass};

use crate::client::{Client, ClientError, Unusable};
use crate::operate::{carried, unsettled};
use crate::options::{CONTROL_HELD, CONTROL_LOOK_MIN, CONTROL_POLLS, WAIT_POLL};

/// What became of a change from outside.
enum Amended {
    /// It is written.
    Done,
    /// There is nothing to change: the run is as the message wants it.
    Moot,
    /// The run has ended, or is not one that the caller changes.
    Declined,
    /// The instance changed since it was read. It is worth another look.
    Overtaken,
}

impl Client {
    /// Suspends an instance. A run that has not begun does not begin until it is resumed.
    ///
    /// # Errors
    /// As [`Client::raise`], or why the change cannot be written.
    pub async fn suspend(&self, to: &InstanceId, reason: Option<String>) -> Result<(), ClientError> {
        self.control(send::suspend(to.clone(), reason, self.caller())?).await
    }

    /// Resumes an instance.
    ///
    /// # Errors
    /// As [`Client::suspend`].
    pub async fn resume(&self, to: &InstanceId, reason: Option<String>) -> Result<(), ClientError> {
        self.control(send::resume(to.clone(), reason, self.caller())?).await
    }

    /// Terminates an instance, its open children too when `recurse`. No worker need know it.
    ///
    /// # Errors
    /// As [`Client::suspend`].
    pub async fn terminate(
        &self,
        to: &InstanceId,
        output: Option<String>,
        recurse: bool,
    ) -> Result<(), ClientError> {
        self.control(send::terminate(to.clone(), output, recurse, self.caller())?).await
    }

    /// Ends an instance as Terminated at once, without its code. Open children are terminated in their own time when
    /// `recurse`.
    ///
    /// # Errors
    /// [`ClientError::Absent`], [`ClientError::Ended`], or why it cannot be done.
    pub async fn force_terminate(
        &self,
        instance: &InstanceId,
        output: Option<String>,
        recurse: bool,
    ) -> Result<(), ClientError> {
        let message = send::terminate(instance.clone(), output, recurse, self.caller())?;
        let mut attempts = 0;
        loop {
            match self.amend_by(&message, |_| true).await? {
                Amended::Done | Amended::Moot => return Ok(()),
                Amended::Declined => {
                    let (_, record) = self.fenced(instance).await?;
                    if record.status.is_ended() {
                        return Err(ClientError::Ended { instance: instance.clone(), status: record.status });
                    }
                }
                Amended::Overtaken => {}
            }
            self.again(unsettled(), &mut attempts).await?;
        }
    }

    /// Who holds an instance, what waits for it, which tasks are open.
    ///
    /// # Errors
    /// [`ClientError::Refused`] when the store cannot tell.
    pub async fn inspect(&self, instance: &InstanceId) -> Result<Option<Inspection>, ClientError> {
        let mut attempts = 0;
        loop {
            match self.hub().inspect(vec![instance.clone()]).await {
                Ok(found) => return Ok(found.into_iter().next().flatten()),
                Err(refused) => self.again(refused, &mut attempts).await?,
            }
        }
    }

    /// Carries out a control message: by amendment where no host would, or else by sending it.
    async fn control(&self, message: Message) -> Result<(), ClientError> {
        let mut attempts = 0;
        loop {
            match self.amend_by(&message, needs_no_host).await? {
                Amended::Done | Amended::Moot => return Ok(()),
                Amended::Declined => break,
                Amended::Overtaken => self.again(unsettled(), &mut attempts).await?,
            }
        }
        match self.deliver(&message).await? {
            // A repeat may still wait: the client that sent it first has died since.
            Delivered::Applied | Delivered::Dropped(DropReason::Repeat) => self.see_to(&message).await,
            Delivered::Dropped(DropReason::Absent) => Err(ClientError::Absent(message.to)),
            // Ended: nothing is left to control, which is no error (behaviour 31).
            Delivered::Dropped(_) => Ok(()),
        }
    }

    /// Waits until a host has taken the message, or has held the instance for a while. After two polls, when no live
    /// session holds the instance, the client carries the message out itself.
    async fn see_to(&self, message: &Message) -> Result<(), ClientError> {
        let (mut attempts, mut waited, mut delay) = (0, Duration::ZERO, CONTROL_LOOK_MIN);
        let mut held: Option<(SessionId, Duration)> = None;
        while let Some(seen) = self.still_waits(message).await? {
            // A scheduled start replaces the run at its time.
            if seen.messages.iter().any(|each| each.id == message.id && each.visible_at > seen.now) {
                return Ok(());
            }
            let live = seen.holder.filter(|holder| holder.lives).map(|holder| holder.session);
            held = live.map(|session| held.filter(|(same, _)| *same == session).unwrap_or((session, waited)));
            let left_to_host = held.is_some_and(|(_, since)| waited - since >= CONTROL_HELD);
            if waited < WAIT_POLL * CONTROL_POLLS && !left_to_host {
                self.env().sleep(delay).await;
                waited += delay;
                delay = (delay * 2).min(WAIT_POLL);
                continue;
            }
            if live.is_some() {
                return Ok(());
            }
            match self.amend_by(message, |_| true).await {
                Ok(Amended::Overtaken) => self.again(unsettled(), &mut attempts).await?,
                // The run has ended. The message was dropped with it, or waits behind a rewind that no host takes.
                Ok(Amended::Declined) if !matches!(message.class, Class::Start(_)) => {
                    let waits = self.still_waits(message).await?.is_some();
                    return if waits { Err(ClientError::Engaged(message.to.clone())) } else { Ok(()) };
                }
                Ok(_) | Err(ClientError::Absent(_)) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The instance, while a message that was sent to it waits. A start waits no more when its run is the current one.
    async fn still_waits(&self, message: &Message) -> Result<Option<Inspection>, ClientError> {
        if let Class::Start(_) = message.class
            && self.get(&message.to).await?.is_none_or(|record| record.start == message.id)
        {
            return Ok(None);
        }
        Ok(self.inspect(&message.to).await?.filter(|seen| waits(seen, message)))
    }

    /// Carries a message out in place of a host, if the instance is one that `changes`.
    async fn amend_by(
        &self,
        message: &Message,
        changes: impl Fn(&Record) -> bool,
    ) -> Result<Amended, ClientError> {
        let instance = &message.to;
        let unusable = |source: Unusable| ClientError::History { instance: instance.clone(), source };
        let (fence, record) = self.fenced(instance).await?;
        if record.status.is_ended() {
            // A start that waits behind an ended run is never suspended.
            return match message.class {
                Class::Control(Control::Resume) => Ok(Amended::Declined),
                _ => self.promote((fence, record), changes).await,
            };
        }
        if record.queue.kind == Kind::Entity || !changes(&record) {
            return Ok(Amended::Declined);
        }
        // The turn's time is the store's. This client's clock may be ahead of it.
        let Some(seen) = self.inspect(instance).await? else { return Ok(Amended::Overtaken) };
        // The run goes on until a scheduled replacement is due, unless no host can run it.
        let can_go_on = record.trouble.is_none() && record.hold() != Hold::Unborn;
        if message.visible_at > seen.now && can_go_on {
            return Ok(Amended::Declined);
        }
        let mut ledger = Ledger::new(instance.clone(), record.execution);
        for batch in self.batches(instance, record.execution).await? {
            if batch.batch.consumed.iter().any(|(id, _)| *id == message.id) {
                return Ok(Amended::Moot);
            }
            ledger.absorb(&batch).map_err(|error| unusable(error.into()))?;
        }
        let unborn = ledger.started().is_none();
        let start = if unborn { self.start_waiting(instance).await? } else { None };
        if ledger.events() != record.history_len || unborn && start.is_none() {
            return Ok(Amended::Overtaken);
        }
        let opening = start.as_ref().map(|start| start.id);
        let overtaken = overtaken(&seen, message).filter(|id| Some(*id) != opening).collect();
        let found = Found { fence, record, ledger, start, overtaken, now: seen.now };
        let amended = turn::amend(found, message).map_err(|error| unusable(error.into()))?;
        let Some(Finished { checkpoint, .. }) = amended else { return Ok(Amended::Moot) };
        match self.amend(checkpoint).await {
            Ok(()) => Ok(Amended::Done),
            Err(Refused::Fenced) => Ok(Amended::Overtaken),
            // Another run may be there by now, which the message was not for.
            Err(Refused::Repeat) => Ok(Amended::Moot),
            Err(refused) => Err(refused.into()),
        }
    }

    /// Makes the start that waits for an ended instance its current run, if that is one that `changes`. Until it is the
    /// current run, only a host that knows its code could end, suspend or replace it.
    async fn promote(
        &self,
        (fence, record): (Fence, Record),
        changes: impl Fn(&Record) -> bool,
    ) -> Result<Amended, ClientError> {
        let instance = fence.instance.clone();
        let Some(start) = self.start_waiting(&instance).await? else { return Ok(Amended::Declined) };
        match &start.class {
            Class::Start(begun) if changes(&begun.record(start.id)) => {}
            // Left by a dauer before format 7, which ended the run by force.
            Class::Rewind(begun) if begun.execution == record.execution => {}
            _ => return Ok(Amended::Declined),
        }
        let Some(Inspection { now, .. }) = self.inspect(&instance).await? else {
            return Ok(Amended::Overtaken);
        };
        let unusable = |source: Unusable| ClientError::History { instance: instance.clone(), source };
        let mut ledger = Ledger::new(instance.clone(), record.execution);
        for batch in self.batches(&instance, record.execution).await? {
            ledger.absorb(&batch).map_err(|error| unusable(error.into()))?;
        }
        let found = Found { fence, record, ledger, start: Some(start), overtaken: Vec::new(), now };
        let promoted = turn::promote(found);
        match self.amend(promoted.map_err(|error| unusable(error.into()))?.checkpoint).await {
            // The instance has changed either way: the caller reads it again.
            Ok(()) | Err(Refused::Fenced | Refused::Repeat) => Ok(Amended::Overtaken),
            Err(refused) => Err(refused.into()),
        }
    }

    /// Creates an instance, or replaces the one that is there, as far as the policy allows. A run that no host would end
    /// is replaced by one amendment: with the end and the start in two writes, a client that dies between them loses
    /// both.
    pub(crate) async fn place(&self, create: &Create) -> Result<Created, ClientError> {
        let (ended, living): (Vec<Status>, Vec<Status>) =
            create.reuse.replaceable.iter().partition(|status| status.is_ended());
        let Some(begun) = carried(&create.start.class).filter(|_| !living.is_empty()) else {
            return self.create(create).await;
        };
        // The store recognises a repeat before it looks at the policy, and refuses what lives.
        let gently = Create { reuse: Reuse { replaceable: ended }, ..create.clone() };
        let replaces = |record: &Record| needs_no_host(record) && living.contains(&record.status);
        let mut attempts = 0;
        loop {
            let created = match self.create(&gently).await {
                Err(ClientError::Refused(Refused::Exists(status))) if living.contains(&status) => {
                    match self.amend_by(&create.start, replaces).await {
                        Ok(Amended::Done) => return Ok(Created::New(begun.execution)),
                        Ok(Amended::Declined) => self.create(create).await?,
                        // The next look finds that it is a repeat, or another run.
                        Ok(Amended::Moot | Amended::Overtaken) | Err(ClientError::Absent(_)) => {
                            self.again(unsettled(), &mut attempts).await?;
                            continue;
                        }
                        Err(error) => return Err(error),
                    }
                }
                // The client that sent it first may have died before a host took it.
                Ok(repeat @ Created::Repeat(_)) => repeat,
                created => return created,
            };
            self.see_to(&create.start).await?;
            return Ok(created);
        }
    }
}

/// Whether the client changes a run itself, without a message: it has not begun, or has trouble.
fn needs_no_host(record: &Record) -> bool {
    record.is_unborn() || record.trouble.is_some()
}

/// The waiting messages that an amendment by `message` drops, because they came before it and would change what it has
/// changed. A start overtakes control messages and earlier replacements that are due; a suspend or resume overtakes earlier
/// ones. A terminate overtakes nothing: the end of the run drops all but starts, and those were acknowledged.
fn overtaken(seen: &Inspection, message: &Message) -> impl Iterator<Item = MessageId> {
    let starts = matches!(message.class, Class::Start(_));
    let suspends = matches!(message.class, Class::Control(Control::Suspend | Control::Resume));
    let before = seen.messages.iter().take_while(|each| each.id != message.id);
    let due = before.filter(|each| each.visible_at <= seen.now);
    let overtakes = move |class| match class {
        WaitingClass::Control(Control::Suspend | Control::Resume) => starts || suspends,
        WaitingClass::Control(Control::Terminate) | WaitingClass::Replacement => starts,
        WaitingClass::Start | WaitingClass::Rewind | WaitingClass::Ordinary => false,
    };
    due.filter(move |each| overtakes(each.class)).map(|each| each.id)
}

/// Whether a message waits, as far as the list goes. When it is cut off before the ordinary messages, any control
/// message may be among the rest. A start that is not listed does not count: its id may be one that the store never saw.
fn waits(seen: &Inspection, message: &Message) -> bool {
    let listed = seen.messages.iter().any(|each| each.id == message.id);
    let cut = (seen.messages.len() as u64) < seen.waiting && !matches!(message.class, Class::Start(_));
    let only_first = || seen.messages.last().is_some_and(|last| last.class != WaitingClass::Ordinary);
    listed || cut && only_first()
}
