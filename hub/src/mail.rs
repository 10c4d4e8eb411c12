//! Messages for the instances that this host keeps: which instances have some, and reading them.
//!
//! A hint names one instance. A look at the store names all of them. It is made when hints may have been lost, when a message
//! becomes visible by time alone, and at every poll. What was read begins the next turn of the instance, unless something
//! else has begun it meanwhile: then the answer to that turn's commit has the messages.

use std::sync::Arc;
use std::time::Duration;

use futures::future::FutureExt;

use dauer_core::InstanceId;
use dauer_store::{Cause, Fence, Mail, Refused, Steady, WaitingMail};

use crate::dispatch::{Dispatch, Step};
use crate::hold::Ticket;
use crate::options::{DUE_TRUSTED, MAIL_MOMENT, MAIL_READS_MAX};

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
    is_reading: bool,
    /// When the next look is due. One sleep counts, the one that ends first.
    wakes: Option<Steady>,
    /// Looks in a row that named no instance and told of one in a moment.
    fruitless: u32,
}

impl Dispatch {
    /// Messages wait for an instance.
    pub(crate) fn mail_waits(&mut self, instance: &InstanceId) {
        if self.slots.mail_for(instance) && !self.mail.named.contains(instance) {
            self.mail.named.push(instance.clone());
        }
    }

    /// Looks for mail after that time, and at the next poll at the latest.
    pub(crate) fn look_within(&mut self, after: Duration) {
        let until = self.session.env.steady().after(after.min(self.session.options.poll_max));
        if self.mail.wakes.is_none_or(|wakes| until < wakes) {
            self.mail.wakes = Some(until);
            let sleep = self.session.env.sleep_until(until);
            self.steps.push(sleep.map(move |()| Step::MailDue(until)).boxed());
        }
    }

    /// The sleep until then has ended. One that was overtaken by an earlier one asks for nothing.
    pub(crate) fn mail_is_due(&mut self, until: Steady) {
        if self.mail.wakes == Some(until) {
            self.mail.wakes = None;
            self.mail.look = true;
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

    pub(crate) fn mail_named(&mut self, named: Result<WaitingMail, Refused>) {
        self.mail.is_looking = false;
        let mut next = self.session.options.poll_max;
        match named {
            Ok(WaitingMail { instances, next: due }) => {
                instances.iter().for_each(|instance| self.mail_waits(instance));
                let in_a_moment = self.mail.named.is_empty() && due.is_some_and(|due| due <= MAIL_MOMENT);
                self.mail.fruitless = if in_a_moment { self.mail.fruitless.saturating_add(1) } else { 0 };
                // Where it was not there time and again, the store's clock does not move as this host's does.
                let trusted = self.mail.fruitless <= DUE_TRUSTED;
                let least =
                    if trusted { Duration::ZERO } else { self.session.retry_delay(self.mail.fruitless) };
                next = due.map_or(next, |due| due.max(least));
            }
            Err(refused) => {
                tracing::warn!(error = %refused, "the store did not say which instances have mail; it is asked again");
            }
        }
        if self.slots.held() > 0 {
            self.look_within(next);
        }
    }

    /// Reads the messages of named instances that are kept and idle, a few at a time. A host that stops leaves them to the next
    /// holder.
    pub(crate) fn read_mail(&mut self) {
        if self.mail.named.is_empty() || self.mail.is_reading {
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

    pub(crate) fn mail_read(&mut self, read: Vec<Read>) {
        self.mail.is_reading = false;
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
