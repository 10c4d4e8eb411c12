//! One session's way to the store: what it claims and commits is counted, and what it sends may arrive once more.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use dauer_memory::Call;
use dauer_store::{
    Changes, Checkpoint, ClaimedTurn, Committed, Completion, Delivered, Fence, History, InstanceId, Item,
    Lost, Mail, Manage, MessageId, Queues, Refused, Release, SessionId, Slice, TaskLease, Then, Trouble,
    TroubleKind, WaitingMail, Want, Work,
};
use futures::FutureExt;

use crate::executor::Owner;
use crate::program::POISON;
use crate::unpoisoned;
use crate::wire::Wire;

/// One session's way to the store.
pub(crate) struct Line {
    wire: Wire,
    work: Arc<dyn Work>,
    /// The mail that was read last for each kept instance.
    mail: Mutex<BTreeMap<InstanceId, (Fence, Vec<MessageId>)>>,
}

impl Line {
    pub(crate) fn new(wire: Wire, work: Arc<dyn Work>) -> Self {
        Self { wire, work, mail: Mutex::default() }
    }

    /// Remembers what was read, to see what becomes of it.
    fn note_mail(&self, fences: &[Fence], read: &[Result<Mail, Refused>]) {
        let mut last = unpoisoned(&self.mail);
        for (fence, mail) in fences.iter().zip(read) {
            let Ok(Mail { messages, .. }) = mail else { continue };
            self.wire.network.told.read.fetch_add(messages.len() as u64, Ordering::Relaxed);
            if !messages.is_empty() {
                let messages = messages.iter().map(|message| message.id).collect();
                last.insert(fence.instance.clone(), (fence.clone(), messages));
            }
        }
    }

    /// Counts what is about fusion. A commit at the fence of mail that was read, and which uses none of it, is that of a turn
    /// which results began while the mail was on its way.
    fn note_commits(&self, batch: &[Arc<Checkpoint>], results: &[Result<Committed, Refused>]) {
        let (told, mail) = (&self.wire.network.told, unpoisoned(&self.mail));
        let count = |counter: &AtomicU64, is: bool| counter.fetch_add(u64::from(is), Ordering::Relaxed);
        for (checkpoint, result) in batch.iter().zip(results) {
            let Checkpoint { fence, completions, consumed, history, then, .. } = &**checkpoint;
            count(&told.fenced_commits, matches!(result, Err(Refused::Fenced)));
            if let Err(Refused::Unknown(_)) = result {
                count(&told.unknown_commits, true);
                let now = self.wire.network.journal.look(vec![fence.instance.clone()]).pop().flatten();
                let stands = now.is_some_and(|(now, _)| now.revision > fence.revision);
                count(&told.unknown_committed, stands);
            }
            let Ok(committed) = result else { continue };
            count(&told.fused, !completions.is_empty());
            let kept = *then == Then::Keep && matches!(history, History::Append(_));
            count(&told.arrived, kept && !committed.arrived.is_empty());
            let met = mail.get(&fence.instance).is_some_and(|(read, messages)| {
                read == fence
                    && !completions.is_empty()
                    && !messages.iter().any(|message| consumed.contains(message))
            });
            count(&told.met, met);
        }
    }

    /// Perhaps delivers what a commit has sent once more, after a while: a transport may, and it must have no effect.
    fn send_again(&self, batch: &[Arc<Checkpoint>], results: &[Result<Committed, Refused>]) {
        let network = &self.wire.network;
        let committed = batch.iter().zip(results).filter(|(_, result)| result.is_ok());
        let sent = committed.flat_map(|(checkpoint, _)| checkpoint.timers.iter().chain(&checkpoint.messages));
        for message in sent {
            let Some(delay) = network.plan.message_again() else { continue };
            let (executor, hub, copy) = (network.executor.clone(), Arc::clone(&network.hub), message.clone());
            let way = Arc::clone(network);
            let later = async move {
                executor.sleep_until(executor.now().after(delay)).await;
                if way.arrives(Call::Send) {
                    drop(way.journal.watch_openings([&copy], hub.send(vec![copy.clone()])).await);
                }
            };
            network.executor.spawn(Owner::OUTSIDE, later.boxed());
        }
    }

    /// With `Network::without_revision` a stale turn pretends to be the next one.
    fn pretend(&self, mut batch: Vec<Arc<Checkpoint>>) -> Vec<Arc<Checkpoint>> {
        let network = &self.wire.network;
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

#[async_trait]
impl Work for Line {
    fn session(&self) -> SessionId {
        self.work.session()
    }

    async fn claim_turns(&self, want: Want) -> Result<Vec<ClaimedTurn>, Refused> {
        self.wire.call(Call::ClaimTurns, self.work.claim_turns(want)).await
    }

    async fn await_turns(&self, want: Want) -> Result<Vec<ClaimedTurn>, Refused> {
        let claimed = self.wire.call(Call::ClaimTurns, self.work.await_turns(want)).await?;
        self.wire.network.told.awaited.fetch_add(claimed.len() as u64, Ordering::Relaxed);
        Ok(claimed)
    }

    async fn waiting_mail(&self) -> Result<WaitingMail, Refused> {
        self.wire.call(Call::WaitingMail, self.work.waiting_mail()).await
    }

    async fn mail(&self, fences: Vec<Fence>) -> Vec<Result<Mail, Refused>> {
        let read = self.wire.call(Call::Mail, self.work.mail(fences.clone())).await;
        self.note_mail(&fences, &read);
        read
    }

    async fn load_history(&self, fence: &Fence, from: u32, max_bytes: usize) -> Result<Slice, Refused> {
        self.wire.call(Call::LoadHistory, self.work.load_history(fence, from, max_bytes)).await
    }

    async fn commit_turns(&self, batch: Vec<Arc<Checkpoint>>) -> Vec<Result<Committed, Refused>> {
        let sent = async {
            let work = self.work.commit_turns(self.pretend(batch.clone()));
            let results = self.wire.network.journal.watch(&batch, false, work).await;
            self.wire.tell(&results);
            results
        };
        let results = self.wire.call(Call::CommitTurns, sent).await;
        self.note_commits(&batch, &results);
        self.send_again(&batch, &results);
        let (work, journal) = (Arc::clone(&self.work), Arc::clone(&self.wire.network.journal));
        self.wire.echo(Call::CommitTurns, &results, || {
            let again = async move {
                let commits = work.commit_turns(batch.clone());
                drop(journal.watch(&batch, false, commits).await);
            };
            again.boxed()
        });
        results
    }

    async fn claim_activities(&self, want: Want) -> Result<Vec<TaskLease>, Refused> {
        self.wire.call(Call::ClaimActivities, self.work.claim_activities(want)).await
    }

    async fn complete_activities(&self, batch: Vec<Completion>) -> Vec<Result<Delivered, Refused>> {
        let work = Arc::clone(&self.work);
        let results = self.wire.call(Call::CompleteActivities, work.complete_activities(batch.clone())).await;
        self.wire.tell(&results);
        let again = async move { drop(work.complete_activities(batch).await) };
        self.wire.echo(Call::CompleteActivities, &results, || again.boxed());
        results
    }

    async fn renew(&self) -> Result<Vec<Lost>, Refused> {
        let renewed = self.wire.call(Call::Renew, self.work.renew()).await;
        let work = Arc::clone(&self.work);
        self.wire.echo(Call::Renew, [&renewed], || async move { drop(work.renew().await) }.boxed());
        renewed
    }

    async fn release(&self, items: Vec<Release>) -> Vec<Result<(), Refused>> {
        for Release { item, trouble, .. } in &items {
            if let (Item::Turn(Fence { instance, .. }), Some(Trouble { kind, reason, .. })) = (item, trouble)
            {
                // Poison stalls everywhere, and new code on hosts that do not have it yet.
                let poison = instance.as_str() == POISON;
                self.wire.network.told.poisoned.fetch_add(u64::from(poison), Ordering::Relaxed);
                let lacks_code = self.wire.old && *kind == TroubleKind::UnknownName;
                // What a worker that is elsewhere has abandoned.
                let abandoned = reason.contains("gave the turn back");
                if !poison && !lacks_code && !abandoned {
                    let text = format!(
                        "a turn of {instance} was stalled, which no program does: {kind:?}: {reason}"
                    );
                    unpoisoned(&self.wire.network.stalled).push(text);
                }
            }
        }
        let work = Arc::clone(&self.work);
        let released = self.wire.call(Call::Release, work.release(items.clone())).await;
        self.wire.echo(Call::Release, &released, || async move { drop(work.release(items).await) }.boxed());
        released
    }

    async fn next_due(&self, queues: &Queues) -> Result<Option<Duration>, Refused> {
        self.wire.call(Call::NextDue, self.work.next_due(queues)).await
    }

    async fn detach(&self) -> Result<(), Refused> {
        let left = self.wire.call(Call::Detach, self.work.detach()).await;
        let work = Arc::clone(&self.work);
        self.wire.echo(Call::Detach, [&left], || async move { drop(work.detach().await) }.boxed());
        left
    }

    fn changes(&self) -> Changes {
        self.work.changes()
    }
}
