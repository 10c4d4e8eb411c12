//! Reading the messages of instances that this host keeps.
//!
//! The store names instances with messages ([`Work::next`](dauer_store::Work::next)). What is read begins the next turn of the
//! instance, unless something else has begun it meanwhile: then the answer to that turn's commit has the messages.
//!
//! Invariants:
//! - One read at a time. An instance waits for a read at most once.
//! - Messages that were read begin a turn only at the revision at which they were read.

use std::sync::Arc;

use futures::future::FutureExt;

use dauer_core::InstanceId;
use dauer_store::{Cause, Fence, Mail, Refused};

use super::hold::Ticket;
use super::{Dispatch, Step};
use crate::options::MAIL_READS_MAX;

/// What the store answered for one instance.
pub(super) struct Read {
    ticket: Ticket,
    fence: Fence,
    mail: Result<Mail, Refused>,
}

/// What is to be read.
#[derive(Default)]
pub(super) struct Mailbox {
    /// Instances with messages.
    named: Vec<InstanceId>,
    is_reading: bool,
}

impl Dispatch {
    /// Messages wait for an instance.
    pub(super) fn mail_waits(&mut self, instance: InstanceId) {
        if self.slots.mail_for(&instance) && !self.mail.named.contains(&instance) {
            self.mail.named.push(instance);
        }
    }

    /// Reads the messages of named instances that are kept and idle, a few at a time. A host that stops leaves them to the next
    /// holder.
    pub(super) fn read_mail(&mut self) {
        // During a trial no turn begins.
        if self.mail.named.is_empty() || self.mail.is_reading || self.suspects.is_closed() {
            return;
        }
        let few = self.mail.named.len().min(MAIL_READS_MAX);
        let named: Vec<_> = self.mail.named.drain(..few).collect();
        let idle: Vec<_> = named.iter().filter_map(|instance| self.slots.idle(instance)).collect();
        if idle.is_empty() || self.stopping {
            return;
        }
        self.mail.is_reading = true;
        let session = Arc::clone(&self.session);
        let read = async move {
            let fences = idle.iter().map(|(_, fence)| fence.clone()).collect();
            let answers = session.work.mail(fences).await;
            // What a store does not answer it leaves unknown; none should.
            let missing = || Err(Refused::Unknown(Cause::new("the store gave no answer")));
            let answers = answers.into_iter().chain(std::iter::repeat_with(missing));
            let read = idle.into_iter().zip(answers);
            Step::MailRead(read.map(|((ticket, fence), mail)| Read { ticket, fence, mail }).collect())
        };
        self.steps.push(read.boxed());
    }

    pub(super) fn mail_read(&mut self, read: Vec<Read>) {
        self.mail.is_reading = false;
        for Read { ticket, fence, mail } in read {
            // Something else has begun its next turn.
            if !self.slots.is_idle_at(ticket, &fence) {
                continue;
            }
            let instance = fence.instance.clone();
            match mail {
                Ok(_) if self.suspects.is_closed() => self.mail_waits(instance),
                Ok(mail) => {
                    self.clock.hear(mail.now, &*self.session.env);
                    let bytes_max = self.session.options.claim_bytes_max;
                    if let Some(begin) = self.slots.begin_mail(&fence, mail, bytes_max) {
                        self.begin(begin);
                    }
                }
                Err(Refused::Fenced) => {
                    tracing::warn!(%instance, "a kept instance is held by another session");
                    self.finish(&instance);
                }
                Err(refused) => {
                    tracing::warn!(%instance, error = %refused, "mail could not be read; trying again");
                    let again = self.session.sleep(self.session.retry_delay(1));
                    self.steps.push(again.map(|()| Step::MailWaits(instance)).boxed());
                }
            }
        }
    }
}
