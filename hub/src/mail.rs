//! Messages for the instances that this host keeps: which instances have some, and reading them.
//!
//! A hint names one instance. A look at the store names all of them. It is made when hints may have been lost, when a message may
//! have become visible by time alone, and at every poll. What was read begins the next turn of the instance, unless something
//! else has begun it meanwhile: then the answer to that turn's commit has the messages.

use std::sync::Arc;

use futures::future::FutureExt;

use dauer_core::InstanceId;
use dauer_store::{Cause, Fence, Mail, Refused};

use crate::dispatch::{Dispatch, Step};
use crate::hold::Ticket;

/// What the store answered for one instance.
pub(crate) struct Read {
    ticket: Ticket,
    fence: Fence,
    mail: Result<Mail, Refused>,
}

/// What is to be looked for and read.
#[derive(Default)]
pub(crate) struct Mailbox {
    /// Instances with messages that are to be read.
    named: Vec<InstanceId>,
    /// A look is wanted.
    pub(crate) look: bool,
    is_looking: bool,
    is_polling: bool,
}

impl Dispatch {
    /// Messages wait for an instance.
    pub(crate) fn mail_waits(&mut self, instance: &InstanceId) {
        if self.slots.mail_for(instance) && !self.mail.named.contains(instance) {
            self.mail.named.push(instance.clone());
        }
        self.poll_for_mail();
    }

    /// Looks for mail at every poll, as long as an instance is held.
    pub(crate) fn poll_for_mail(&mut self) {
        if !self.mail.is_polling {
            self.mail.is_polling = true;
            let poll = self.session.sleep(self.session.options.poll_max);
            self.steps.push(poll.map(|()| Step::MailPoll).boxed());
        }
    }

    pub(crate) fn mail_is_polled(&mut self) {
        self.mail.is_polling = false;
        self.mail.look = true;
        if self.slots.held() > 0 {
            self.poll_for_mail();
        }
    }

    /// Asks the store which held instances have mail, one look at a time.
    pub(crate) fn look_for_mail(&mut self) {
        if !self.mail.look || self.mail.is_looking || self.stopping {
            return;
        }
        self.mail.look = false;
        if self.slots.held() > 0 {
            self.mail.is_looking = true;
            let session = Arc::clone(&self.session);
            self.steps.push(async move { Step::MailNamed(session.work.waiting_mail().await) }.boxed());
        }
    }

    pub(crate) fn mail_named(&mut self, named: Result<Vec<InstanceId>, Refused>) {
        self.mail.is_looking = false;
        match named {
            Ok(named) => named.iter().for_each(|instance| self.mail_waits(instance)),
            // The next poll looks again.
            Err(refused) => {
                tracing::warn!(error = %refused, "the store did not say which instances have mail; it is asked again");
            }
        }
    }

    /// Reads the messages of all named instances that are kept and idle. A host that stops leaves them to the next holder.
    pub(crate) fn read_mail(&mut self) {
        if self.mail.named.is_empty() {
            return;
        }
        let named = std::mem::take(&mut self.mail.named);
        let idle: Vec<_> = named.iter().filter_map(|instance| self.slots.idle(instance)).collect();
        if idle.is_empty() || self.stopping {
            return;
        }
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

    pub(crate) fn mail_read(&mut self, read: Vec<Read>) {
        for Read { ticket, fence, mail } in read {
            let instance = fence.instance.clone();
            // Something else has begun its next turn.
            if self.slots.idle(&instance) != Some((ticket, fence.clone())) {
                continue;
            }
            match mail {
                Ok(mail) => {
                    self.hear(mail.now);
                    let bytes_max = self.session.options.claim_bytes_max;
                    if let Some(begin) = self.slots.begin_mail(&fence, mail, bytes_max) {
                        self.begin(begin, false);
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
