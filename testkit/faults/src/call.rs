//! The operations of the store contract: their names, their arguments and their answers.

use std::fmt;
use std::sync::Arc;

use dauer_store::{
    Checkpoint, Committed, Completion, Create, Created, Credit, Death, Deaths, Delivered, Dump, DumpItem,
    ExecutionId, Fence, Host, HubKey, HubName, IdPage, Inspection, InstanceId, List, Lost, Mail, Message,
    Next, Page, Purge, Purged, Query, Recalled, Record, Refused, Release, Scale, SessionId, SessionInfo,
    Slice, Steady, TaskLease, TaskName, Trial, Work,
};

/// A session that an attach has opened.
#[derive(Clone)]
pub struct Session(pub Arc<dyn Work>);

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Session").field(&self.0.session()).finish()
    }
}

/// An answer that can be a refusal.
trait Refusable: Sized {
    /// The refusal as an answer to `items` items; `None` when the operation has no way to say it.
    fn refused(items: usize, refused: &Refused) -> Option<Self>;

    /// The refusal of each item, `None` where it was not refused.
    fn results(&self) -> Vec<Option<&Refused>>;
}

impl Refusable for () {
    fn refused(_items: usize, _refused: &Refused) -> Option<Self> {
        None
    }

    fn results(&self) -> Vec<Option<&Refused>> {
        Vec::new()
    }
}

impl<T> Refusable for Result<T, Refused> {
    fn refused(_items: usize, refused: &Refused) -> Option<Self> {
        Some(Err(refused.clone()))
    }

    fn results(&self) -> Vec<Option<&Refused>> {
        vec![self.as_ref().err()]
    }
}

impl<T> Refusable for Vec<Result<T, Refused>> {
    fn refused(items: usize, refused: &Refused) -> Option<Self> {
        Some((0..items).map(|_| Err(refused.clone())).collect())
    }

    fn results(&self) -> Vec<Option<&Refused>> {
        self.iter().map(|result| result.as_ref().err()).collect()
    }
}

macro_rules! calls {
    ($($(#[$doc:meta])+ $op:ident { $($field:ident: $type:ty),* } -> $answer:ty,)+) => {
        /// The name of an operation.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Op {
            $($(#[$doc])+ $op,)+
        }

        impl Op {
            /// All operations.
            pub const ALL: &'static [Self] = &[$(Self::$op,)+];

            /// Its name.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$op => stringify!($op),)+
                }
            }
        }

        /// A call with its arguments.
        #[derive(Debug, Clone)]
        #[expect(missing_docs, reason = "each field is the parameter of the operation with that name")]
        pub enum Call {
            $($(#[$doc])+ $op { $($field: $type),* },)+
        }

        impl Call {
            /// Its operation.
            #[must_use]
            pub const fn op(&self) -> Op {
                match self {
                    $(Self::$op { .. } => Op::$op,)+
                }
            }

            /// The refusal as the answer to this call, for each item of a batch; `None` when the operation cannot be
            /// refused.
            #[must_use]
            pub fn refuse(&self, refused: &Refused) -> Option<Answer> {
                let items = self.items();
                match self.op() {
                    $(Op::$op => <$answer as Refusable>::refused(items, refused).map(Answer::$op),)+
                }
            }
        }

        /// The answer to a call.
        #[derive(Debug, Clone)]
        pub enum Answer {
            $($(#[$doc])+ $op($answer),)+
        }

        impl Answer {
            /// The operation that it answers.
            #[must_use]
            pub const fn op(&self) -> Op {
                match self {
                    $(Self::$op(_) => Op::$op,)+
                }
            }

            /// The refusal of each item, `None` where it was not refused. Empty where the operation cannot be refused.
            #[must_use]
            pub fn results(&self) -> Vec<Option<&Refused>> {
                match self {
                    $(Self::$op(answer) => answer.results(),)+
                }
            }
        }
    };
}

calls! {
    /// `Store::hubs`.
    Hubs {} -> Result<Vec<HubName>, Refused>,
    /// `Store::has_hub`.
    HasHub { name: HubName } -> Result<bool, Refused>,
    /// `Store::delete_hub`.
    DeleteHub { name: HubName } -> Result<(), Refused>,
    /// `Store::close`.
    Close {} -> (),
    /// `Manage::create`.
    Create { batch: Vec<Create> } -> Vec<Result<Created, Refused>>,
    /// `Manage::send`.
    Send { batch: Vec<Message> } -> Vec<Result<Delivered, Refused>>,
    /// `Manage::amend`.
    Amend { checkpoint: Box<Checkpoint> } -> Result<Committed, Refused>,
    /// `Manage::get`.
    Get { ids: Vec<InstanceId> } -> Result<Vec<Option<(Fence, Record)>>, Refused>,
    /// `Manage::inspect`.
    Inspect { ids: Vec<InstanceId> } -> Result<Vec<Option<Inspection>>, Refused>,
    /// `Manage::sessions`.
    Sessions {} -> Result<Vec<SessionInfo>, Refused>,
    /// `Manage::query`.
    Query { query: Query } -> Result<Page, Refused>,
    /// `Manage::list`.
    List { list: List } -> Result<IdPage, Refused>,
    /// `Manage::read_history`.
    ReadHistory {
        instance: InstanceId, execution: Option<ExecutionId>, from: u32, max_bytes: usize
    } -> Result<Slice, Refused>,
    /// `Manage::read_start`.
    ReadStart { instance: InstanceId } -> Result<Option<Message>, Refused>,
    /// `Manage::purge`.
    Purge { purge: Purge } -> Result<Purged, Refused>,
    /// `Manage::retry`.
    Retry { ids: Vec<InstanceId> } -> Result<usize, Refused>,
    /// `Manage::key`.
    Key { candidate: HubKey } -> Result<HubKey, Refused>,
    /// `Manage::attach`.
    Attach { host: Host } -> Result<Session, Refused>,
    /// `Manage::end_session`.
    EndSession { session: SessionId } -> Result<(), Refused>,
    /// `Manage::scale`.
    Scale {} -> Result<Scale, Refused>,
    /// `Manage::dump`.
    Dump { after: Option<String> } -> Result<Dump, Refused>,
    /// `Manage::load`.
    Load { items: Vec<DumpItem> } -> Result<(), Refused>,
    /// `Work::credit`.
    Credit { credit: Credit } -> (),
    /// `Work::next`. `until` is `None` where it looks once.
    Next { until: Option<Steady> } -> Result<Next, Refused>,
    /// `Work::recall`.
    Recall { first: u64, last: u64 } -> Result<Recalled, Refused>,
    /// `Work::mail`.
    Mail { fences: Vec<Fence> } -> Vec<Result<Mail, Refused>>,
    /// `Work::load_history`.
    LoadHistory { fence: Fence, from: u32, max_bytes: usize } -> Result<Slice, Refused>,
    /// `Work::commit_turns`.
    CommitTurns { batch: Vec<Arc<Checkpoint>> } -> Vec<Result<Committed, Refused>>,
    /// `Work::complete_activities`.
    CompleteActivities { batch: Vec<Completion> } -> Vec<Result<Delivered, Refused>>,
    /// `Work::renew`.
    Renew {} -> Result<Vec<Lost>, Refused>,
    /// `Work::release`.
    Release { items: Vec<Release> } -> Vec<Result<(), Refused>>,
    /// `Work::adopt`.
    Adopt { tasks: Vec<TaskName> } -> Vec<Result<Option<TaskLease>, Refused>>,
    /// `Work::died`.
    Died { deaths: Vec<Death> } -> Vec<Result<Deaths, Refused>>,
    /// `Work::trial`.
    Trial { trials: Vec<Trial> } -> Vec<Result<(), Refused>>,
    /// `Work::detach`.
    Detach {} -> Result<(), Refused>,
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Call {
    /// How many items the call has that are answered one by one; 1 where it has one answer.
    #[must_use]
    pub fn items(&self) -> usize {
        match self {
            Self::Create { batch } => batch.len(),
            Self::Send { batch } => batch.len(),
            Self::Mail { fences } => fences.len(),
            Self::CommitTurns { batch } => batch.len(),
            Self::CompleteActivities { batch } => batch.len(),
            Self::Release { items } => items.len(),
            Self::Adopt { tasks } => tasks.len(),
            Self::Died { deaths } => deaths.len(),
            Self::Trial { trials } => trials.len(),
            Self::Hubs {}
            | Self::HasHub { .. }
            | Self::DeleteHub { .. }
            | Self::Close {}
            | Self::Amend { .. }
            | Self::Get { .. }
            | Self::Inspect { .. }
            | Self::Sessions {}
            | Self::Query { .. }
            | Self::List { .. }
            | Self::ReadHistory { .. }
            | Self::ReadStart { .. }
            | Self::Purge { .. }
            | Self::Retry { .. }
            | Self::Key { .. }
            | Self::Attach { .. }
            | Self::EndSession { .. }
            | Self::Scale {}
            | Self::Dump { .. }
            | Self::Load { .. }
            | Self::Credit { .. }
            | Self::Next { .. }
            | Self::Recall { .. }
            | Self::LoadHistory { .. }
            | Self::Renew {}
            | Self::Detach {} => 1,
        }
    }
}
