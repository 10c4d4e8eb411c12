//! What a session sends and gets: what it commits is counted, and what its commits send may arrive once more.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use dauer_faults::{Answer, Call, Destination, Op};
use dauer_store::{
    Checkpoint, Committed, Fence, History, Item, Mail, Refused, Release, SessionId, Then, Trouble,
    TroubleKind,
};
use futures::FutureExt;

use crate::executor::Owner;
use crate::program::POISON;
use crate::unpoisoned;
use crate::wire::Wire;

impl Wire {
    /// Writes down what is asked for, whatever becomes of it.
    pub(crate) fn note_asked(&self, call: &Call) {
        match call {
            Call::Attach { host } => unpoisoned(&self.network.opened).push((self.owner, host.session)),
            Call::Release { items } => self.note_releases(items),
            _ => {}
        }
    }

    /// A turn is given back as impossible where there is a reason only.
    fn note_releases(&self, items: &[Release]) {
        for Release { item, trouble, .. } in items {
            let (Item::Turn(Fence { instance, .. }), Some(Trouble { kind, reason, .. })) = (item, trouble)
            else {
                continue;
            };
            // Poison stalls everywhere, and new code on hosts that do not have it yet.
            let poison = instance.as_str() == POISON;
            self.network.told.poisoned.fetch_add(u64::from(poison), Ordering::Relaxed);
            let lacks_code = self.old && *kind == TroubleKind::UnknownName;
            // What a worker that is elsewhere has abandoned.
            let abandoned = reason.contains("gave the turn back");
            if !poison && !lacks_code && !abandoned {
                let text =
                    format!("a turn of {instance} was stalled, which no program does: {kind:?}: {reason}");
                unpoisoned(&self.network.stalled).push(text);
            }
        }
    }

    /// Writes down what a session was told.
    pub(crate) fn note_session(&self, call: &Call, answer: &Answer, to: &Destination<'_>) {
        let Some(session) = to.session().map(|session| session.session()) else { return };
        match (call, answer) {
            (Call::Mail { fences }, Answer::Mail(read)) => self.note_mail(session, fences, read),
            (Call::CommitTurns { batch }, Answer::CommitTurns(results)) => {
                self.note_commits(session, batch, results);
                self.send_again(batch, results);
            }
            _ => {}
        }
    }

    /// Remembers what was read, to see what becomes of it.
    fn note_mail(&self, session: SessionId, fences: &[Fence], read: &[Result<Mail, Refused>]) {
        let mut last = unpoisoned(&self.mail);
        for (fence, mail) in fences.iter().zip(read) {
            let Ok(Mail { messages, .. }) = mail else { continue };
            self.network.told.read.fetch_add(messages.len() as u64, Ordering::Relaxed);
            if !messages.is_empty() {
                let messages = messages.iter().map(|message| message.id).collect();
                last.insert((session, fence.instance.clone()), (fence.clone(), messages));
            }
        }
    }

    /// Commits a batch, and writes down what it changed.
    pub(crate) async fn commit(&self, batch: Vec<Arc<Checkpoint>>, to: &Destination<'_>) -> Answer {
        let sent = async {
            let batch = self.pretend(batch.clone());
            match to.carry_out(Call::CommitTurns { batch }).await {
                Answer::CommitTurns(results) => results,
                other => unreachable!("CommitTurns was answered as {}", other.op()),
            }
        };
        Answer::CommitTurns(self.network.journal.watch(&batch, false, sent).await)
    }

    /// Counts what is about fusion. A commit at the fence of mail that was read, and which uses none of it, is that of a turn
    /// which results began while the mail was on its way.
    fn note_commits(
        &self,
        session: SessionId,
        batch: &[Arc<Checkpoint>],
        results: &[Result<Committed, Refused>],
    ) {
        let (told, mail) = (&self.network.told, unpoisoned(&self.mail));
        let count = |counter: &AtomicU64, is: bool| counter.fetch_add(u64::from(is), Ordering::Relaxed);
        for (checkpoint, result) in batch.iter().zip(results) {
            let Checkpoint { fence, completions, consumed, history, then, .. } = &**checkpoint;
            count(&told.fenced_commits, matches!(result, Err(Refused::Fenced)));
            if let Err(Refused::Unknown(_)) = result {
                count(&told.unknown_commits, true);
                let now = self.network.journal.look(vec![fence.instance.clone()]).pop().flatten();
                let stands = now.is_some_and(|(now, _)| now.revision > fence.revision);
                count(&told.unknown_committed, stands);
            }
            let Ok(committed) = result else { continue };
            count(&told.fused, !completions.is_empty());
            let kept = *then == Then::Keep && matches!(history, History::Append(_));
            count(&told.arrived, kept && !committed.arrived.is_empty());
            let met = mail.get(&(session, fence.instance.clone())).is_some_and(|(read, messages)| {
                read == fence
                    && !completions.is_empty()
                    && !messages.iter().any(|message| consumed.contains(message))
            });
            count(&told.met, met);
        }
    }

    /// Perhaps delivers what a commit has sent once more, after a while: a transport may, and it must have no effect.
    fn send_again(&self, batch: &[Arc<Checkpoint>], results: &[Result<Committed, Refused>]) {
        let network = &self.network;
        let committed = batch.iter().zip(results).filter(|(_, result)| result.is_ok());
        let sent = committed.flat_map(|(checkpoint, _)| checkpoint.timers.iter().chain(&checkpoint.messages));
        for message in sent {
            let Some(delay) = network.plan.message_again() else { continue };
            let (executor, hub, copy) = (network.executor.clone(), Arc::clone(&network.hub), message.clone());
            let way = Arc::clone(network);
            let later = async move {
                executor.sleep_until(executor.now().after(delay)).await;
                if way.arrives(Op::Send) {
                    drop(way.journal.watch_openings([&copy], hub.send(vec![copy.clone()])).await);
                }
            };
            network.executor.spawn(Owner::OUTSIDE, later.boxed());
        }
    }

    /// With `Network::without_revision` a stale turn pretends to be the next one.
    fn pretend(&self, mut batch: Vec<Arc<Checkpoint>>) -> Vec<Arc<Checkpoint>> {
        let network = &self.network;
        if network.without_revision {
            for checkpoint in &mut batch {
                let current = network.journal.look(vec![checkpoint.fence.instance.clone()]).pop().flatten();
                if let Some((current, _)) = current {
                    Arc::make_mut(checkpoint).fence.revision = current.revision;
                }
            }
        }
        batch
    }
}
