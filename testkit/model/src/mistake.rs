//! Deliberate mistakes: each breaks a rule, so that the conformance suite can be shown to find it. Without the feature
//! `mistakes` no model makes one, and every question for one is a constant `false`.

macro_rules! mistakes {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// One deliberate mistake.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        #[cfg_attr(not(feature = "mistakes"), expect(unreachable_pub, reason = "public with the feature"))]
        pub enum Mistake {
            $($(#[doc = $doc])+ $name,)+
        }

        #[cfg(feature = "mistakes")]
        impl Mistake {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];
        }
    };
}

mistakes! {
    /// A message whose id already waits is put into the inbox again.
    AcceptRepeatInInbox,
    /// A late answer to a task makes the hub again that was deleted.
    AnswerMakesHub,
    /// The death of a server counts like that of a process that executes code.
    ServerCountsAsWorker,
    /// A server that dies leaves no mark on its tasks.
    ExpiryLeavesNoMark,
    /// A server that detaches leaves no mark on its tasks.
    DetachLeavesNoMark,
    /// All kinds of trouble share one count.
    TroubleHasOneCount,
    /// A task that a server gives back is marked.
    ReleaseLeavesMark,
    /// A commit's execution is not compared.
    NoExecutionCheck,
    /// A commit's revision is not compared.
    NoRevisionCheck,
    /// A commit's epoch and holder are not compared.
    NoEpochCheck,
    /// An amendment does not raise the epoch.
    AmendKeepsEpoch,
    /// A stale completion in a checkpoint is left out instead of refusing the whole.
    IgnoreStaleCompletion,
    /// A refused checkpoint leaves its tasks behind.
    RefusedLeavesTasks,
    /// A commit sent again after an unknown outcome is refused.
    RepeatIsFenced,
    /// A commit is taken for a repeat whatever its epoch.
    RepeatIgnoresEpoch,
    /// A call that answers "not executed" was executed.
    NotExecutedExecutes,
    /// The hold `Control` admits every message.
    HoldControlAdmitsAll,
    /// The hold `From` admits messages of everyone.
    HoldFromAdmitsAll,
    /// The end of a run keeps messages that are neither start nor rewind.
    EndedKeepsMessages,
    /// The hold `Unborn` admits starts.
    HoldUnbornAdmitsStarts,
    /// A turn of an instance that is suspended before it began comes without its start.
    UnbornWithoutStart,
    /// An amendment takes nothing out of the inbox of an instance that no session ever claimed.
    AmendLeavesUnclaimed,
    /// An inspection leaves out what precedes the inbox.
    InspectHidesPrologue,
    /// An inspection lists all messages, however many wait.
    InspectUnbounded,
    /// An inspection says of every session that it lives.
    InspectExpiredLives,
    /// The list of sessions leaves out those that hold nothing.
    SessionsHideIdle,
    /// The list of sessions says of every session that it lives.
    SessionsExpiredLive,
    /// An inspection leaves out the tasks that sessions hold.
    InspectHidesHeldTasks,
    /// A turn of an instance that has not started comes without its start.
    PendingWithoutStart,
    /// A start to an ended instance never makes it ready.
    EndedHidesStart,
    /// An ended instance is offered under its old queue.
    EndedKeepsOldQueue,
    /// A create comes again when another start has replaced its run, and begins that run again.
    RepeatAfterReplacement,
    /// What is sent to an ended instance behind a start that waits for it is dropped.
    EndedDropsWhatFollowsAStart,
    /// The end of a run drops what waits behind a start.
    EndDropsWhatFollowsAStart,
    /// A start sent to an absent instance is dropped.
    StartToAbsentDropped,
    /// A rewind sent to an absent instance is dropped.
    RewindToAbsentDropped,
    /// A message to an absent entity is dropped.
    EntityNotCreated,
    /// Messages to absent instances are dropped without being counted.
    AbsentNotCounted,
    /// A message for another execution is accepted.
    AcceptOtherExecution,
    /// A turn's batch goes on after a suspend.
    SuspendDoesNotEndBatch,
    /// What waits for a run is given to the next.
    AnswersOutliveTheirRun,
    /// The inbox is given out from its end.
    Lifo,
    /// A message that is no timer is visible before its time.
    DeliverEarly,
    /// The prologue comes after the inbox.
    PrologueAfterInbox,
    /// A commit also consumes what its turn was given before the last message it names.
    ConsumeAll,
    /// A replacement forgets what the turn did not name of the prologue.
    ReplaceForgetsPrologue,
    /// A commit loses its third and further timers.
    LoseTimers,
    /// A commit loses its third and further messages.
    LoseMessages,
    /// A commit loses its third and further tasks.
    LoseTasks,
    /// A commit of which nobody hears is applied without its timers and messages.
    TornCheckpoint,
    /// A new history begins empty, whatever was given.
    ReplaceLosesBatches,
    /// A claim takes turns of a living session that has never renewed.
    ClaimHeld,
    /// Taking over from a dead session does not raise the epoch.
    TakeoverKeepsEpoch,
    /// A session that takes an instance or task again that it gave back does so under the old epoch.
    ReclaimKeepsEpoch,
    /// A session that has expired claims without renewing.
    ExpiredClaims,
    /// A commit is refused as soon as its session has expired.
    ExpiryRefuses,
    /// A renewal raises the epochs of what is held.
    RenewBumpsEpoch,
    /// A renewal does not extend the session.
    RenewDoesNothing,
    /// A renewal does not tell what was lost.
    RenewHidesLost,
    /// After a detach the items stay held until the session expires.
    DetachKeeps,
    /// A session that attaches again a day after it expired is forgotten by that.
    AttachForgetsItself,
    /// An ended instance is offered with the tags of the run that has ended.
    EndedKeepsOldTags,
    /// The proof of a host's death is ignored.
    EndSessionIgnored,
    /// Taking over from an expired session is not counted as an attempt.
    TakeoverUncounted,
    /// Taking over from a session that was ended by proof of death is not counted as an attempt.
    EndSessionUncounted,
    /// A failed release without trouble is not counted as an attempt.
    ReleaseUncounted,
    /// A release that did not fail is counted as an attempt.
    PlainReleaseCounts,
    /// A commit does not reset the attempts.
    AttemptsKept,
    /// A commit does not reset the deaths.
    DeathsKept,
    /// A commit does not reset the deaths during trials.
    TrialDeathsKept,
    /// A reported death counts again when the report is repeated.
    ReportCountedTwice,
    /// A reported death counts whatever deaths the holder knew.
    ReportComparesNothing,
    /// A reported death counts from a session that does not hold the item.
    ReportUnfenced,
    /// A reported death counts when the turn is committed.
    ReportOfKept,
    /// A death during a trial counts like any other.
    TrialUncounted,
    /// A reported death during a trial counts like any other.
    ReportUncountedInTrial,
    /// A trial cannot be closed.
    TrialCloseIgnored,
    /// A takeover leaves a trial open.
    TakeoverKeepsTrial,
    /// A reported death leaves a trial open.
    ReportKeepsTrial,
    /// The end of a server counts as a death during a trial.
    ServerEndCountsInTrial,
    /// A release leaves a trial open.
    ReleaseKeepsTrial,
    /// A detach leaves trials open.
    DetachKeepsTrial,
    /// A commit leaves a trial open.
    CommitKeepsTrial,
    /// An adoption leaves a trial open.
    AdoptKeepsTrial,
    /// A session opens trials of what it does not hold.
    TrialUnfenced,
    /// A session opens trials of turns that it has committed.
    TrialOfKept,
    /// A dump leaves open trials out.
    DumpForgetsTrials,
    /// An adopted task keeps its epoch.
    AdoptKeepsEpoch,
    /// The former holder of an adopted task does not learn of it.
    AdoptHidesLost,
    /// A task that a living session holds is not adopted.
    AdoptSparesLiving,
    /// A task that was released with a delay is not adopted before that is over.
    AdoptWaits,
    /// An adoption counts the death of the last holder.
    AdoptCountsDeath,
    /// An adoption notes the end of the last holder.
    AdoptMovesMark,
    /// A withdrawn task is adopted.
    AdoptTakesWithdrawn,
    /// An expired session adopts tasks.
    ExpiredAdopts,
    /// A later candidate replaces the key of a hub.
    KeyReplaced,
    /// The key of a hub does not make it.
    KeyMakesNoHub,
    /// A dump leaves the key of the hub out.
    DumpForgetsKey,
    /// The delay of a release is ignored.
    DelayIgnored,
    /// The trouble given with a release is not shown.
    TroubleHidden,
    /// A completed task can be completed again.
    CompleteTwice,
    /// A completion is accepted from a session that no longer holds the task.
    StaleTaskEpochAccepted,
    /// The same start again replaces the instance.
    RepeatedStartCreatesAgain,
    /// Replacing an ended instance begins again at revision 0.
    ReplaceResetsRevision,
    /// Replacing an ended instance does not raise the epoch.
    ReplaceKeepsEpoch,
    /// Replacing an ended instance keeps what waited for it.
    ReplaceKeepsInbox,
    /// The reuse policy of a start is ignored.
    ExistsIgnored,
    /// Applied messages are not remembered.
    MemoryOff,
    /// A new run forgets which messages were applied.
    MemoryClearedByReplace,
    /// A start in whose place another one stands is forgotten.
    ReplacedStartForgotten,
    /// After a refused element the rest of a batch is not executed.
    BatchStopsAtFirstRefusal,
    /// A later message postpones an instance that was ready.
    ReadyPostponed,
    /// Claims get work of queues they did not ask for.
    QueueFilterIgnored,
    /// Claims get work without the tags they asked for.
    TagFilterIgnored,
    /// Within a queue the newest comes first.
    NewestFirst,
    /// One queue is emptied before the next has its turn.
    QueueStarved,
    /// A claim answers with nothing while another session holds something of the queue.
    EmptyWhenAnyHeld,
    /// A claim takes what its session keeps.
    ClaimTakesKept,
    /// Claims get more bytes than they asked for.
    BytesIgnored,
    /// The time until something is due is told twice as long.
    NextDueTooLate,
    /// `get` answers with the record before the last commit.
    StaleGet,
    /// A slice of history misses the batch that ends with the event asked for.
    HistoryOffByOne,
    /// A start that is not due yet is not told.
    StartHiddenUntilDue,
    /// A page of a query begins with the last row of the page before.
    QueryRepeatsRow,
    /// A query's conditions are ignored.
    QueryFilterIgnored,
    /// Listing ended instances lists living ones too.
    ListIncludesLiving,
    /// A query finds the oldest first, whatever it asks for.
    OrderIgnored,
    /// Nothing is too large.
    LimitIgnored,
    /// The time in answers stands still.
    NowStandsStill,
    /// Events are decoded and encoded again, without what only a newer dauer knows.
    EventsReencoded,
    /// A dump leaves the memory of applied messages out.
    DumpForgetsMemory,
    /// An entity's early unlocks are not stored.
    RecordForgetsUnlocks,
    /// The messages in a loaded outbox stay there.
    OutboxNotDelivered,
    /// `get` finds instances of other hubs.
    HubsShareInstances,
    /// A hub that was only opened is listed.
    HubsListOpened,
    /// A hub in which a session lives is deleted.
    DeleteHubIgnoresSessions,
    /// The tasks of a terminated run are not withdrawn.
    TerminateKeepsTasks,
    /// The tasks of a completed run are withdrawn.
    CompleteWithdrawsTasks,
    /// A commit leases none of its new tasks to the session.
    TakeIgnored,
    /// A commit that keeps the instance gives it back when nothing has arrived.
    KeepReleases,
    /// A commit that keeps the instance does not tell what has arrived.
    ArrivedEmpty,
    /// A look finds no mail.
    MailForgotten,
    /// A look does not tell when the next mail becomes visible.
    MailNeverDue,
    /// Mail is read whatever the fence says of run, revision and epoch.
    MailUnfenced,
    /// Mail and arrivals have no byte limit.
    MailUnbounded,
    /// The death of a host counts an attempt of what it only kept.
    KeptCountsAttempt,
    /// A task whose result a commit used stays.
    FusedTaskStays,
    /// A start that an amendment has overtaken is not remembered.
    OvertakenStartForgotten,
    /// A message that an amendment carries out without its having waited is not remembered.
    AmendedMessageForgotten,
    /// An amendment carries out a message that was applied before.
    AmendsRepeat,
    /// A removal does not raise the epoch of the hub's floor.
    RemovalKeepsEpochFloor,
    /// A removal does not raise the revision of the hub's floor.
    RemovalKeepsRevisionFloor,
    /// The start of a removed instance is forgotten.
    RemovalForgetsStart,
    /// A dump leaves the hub's floor out.
    DumpForgetsFloor,
    /// A dump leaves the starts of removed instances out.
    DumpForgetsRemovedStarts,
    /// A repeated start is answered with its own execution.
    RepeatNamesOwnExecution,
    /// A retried start without a request id begins another run.
    RetryIgnored,
    /// An equal start without a request id is a repeat, also when it is not marked as a retry.
    EqualIsRepeat,
    /// A purge removes living instances too.
    PurgeLiving,
    /// A purge removes an ended instance for which a start waits.
    PurgeTakesWaitingStart,
    /// A purge removes more than its budget.
    BudgetIgnored,
    /// The scale counts work that is not due as ready.
    ScaleCountsSleeping,
    /// What `next` has returned is returned again.
    NextReturnsTwice,
    /// A number that was recalled still wins.
    RecalledNumberWins,
    /// A recall returns nothing.
    RecallForgets,
    /// A recall returns what was committed and kept.
    RecallReturnsCommitted,
    /// What `next` has not returned does not count against new credit.
    UnreturnedUncounted,
    /// Credit has no limit of items.
    CountIgnored,
    /// Credit is not spent while no call looks.
    CreditWaitsForCalls,
    /// What a write makes ready is won by every session with credit.
    WriteWinsForEach,
    /// A call that waits does not look again at new credit.
    CreditWakesNothing,
    /// An amendment carries out the start of a removed instance.
    AmendsRemovedStart,
    /// The size of an amendment is judged before whether it is a repeat.
    LimitBeforeRepeat,
    /// A retried start is a repeat of a rewind with the likeness of its id.
    RewindIsRetried,
}

/// Which mistake a model makes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Wrong {
    #[cfg(feature = "mistakes")]
    mistake: Option<Mistake>,
}

impl Wrong {
    #[cfg(feature = "mistakes")]
    pub(crate) fn only(mistake: Mistake) -> Self {
        Self { mistake: Some(mistake) }
    }

    /// Whether the model makes this mistake.
    #[cfg(feature = "mistakes")]
    pub(crate) fn makes(self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }

    /// Whether the model makes this mistake.
    #[cfg(not(feature = "mistakes"))]
    #[expect(clippy::unused_self, reason = "the same call with and without the feature")]
    pub(crate) const fn makes(self, _mistake: Mistake) -> bool {
        false
    }
}
