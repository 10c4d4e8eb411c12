//! The test of the conformance suite: a model with one deliberate mistake fails the rule that the mistake breaks, and no plain
//! rule beside it. Every rule has a mistake that it finds.

mod support;

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use dauer_conformance::{Call, Fault, HOUR, RULES, Step, World, bounded};
use dauer_model::Mistake::{self, *};

use support::ModelFixture;

/// Each mistake, and the one rule that must find it.
const EXPECTED: &[(Mistake, &str)] = &[
    (AcceptRepeatInInbox, "r01a_a_waiting_message_is_not_taken_twice"),
    (NoExecutionCheck, "r02a_commit_compares_the_execution"),
    (NoRevisionCheck, "r02b_commit_compares_the_revision"),
    (NoEpochCheck, "r02c_commit_compares_the_epoch"),
    (TakeoverKeepsEpoch, "r02c_commit_compares_the_epoch"),
    (AmendKeepsEpoch, "r02d_an_amendment_raises_the_epoch"),
    (IgnoreStaleCompletion, "r02e_a_stale_completion_refuses_the_checkpoint"),
    (RefusedLeavesTasks, "r02f_a_refused_checkpoint_leaves_nothing"),
    (AmendLeavesUnclaimed, "r02g_an_amendment_consumes_the_start"),
    (RepeatIsFenced, "r03a_the_same_commit_again_is_committed"),
    (RepeatIgnoresEpoch, "r03b_the_commit_of_another_epoch_is_no_repeat"),
    (NotExecutedExecutes, "r03c_not_executed_changes_nothing"),
    (RecallForgets, "r03d_a_recall_returns_what_was_won"),
    (RecalledNumberWins, "r03e_a_recalled_number_wins_nothing"),
    (RecallReturnsCommitted, "r03f_a_recall_returns_only_what_is_held"),
    (HoldControlAdmitsAll, "r04a_a_suspended_instance_takes_only_control"),
    (HoldFromAdmitsAll, "r04b_a_locked_instance_takes_its_owners_messages"),
    (EndedKeepsMessages, "r04c_an_ended_instance_drops_messages"),
    (PendingWithoutStart, "r04d_a_pending_turn_carries_its_start_first"),
    (EndedHidesStart, "r04e_an_ended_instance_takes_a_start"),
    (EndedKeepsOldQueue, "r04e_an_ended_instance_takes_a_start"),
    (EndDropsWhatFollowsAStart, "r04f_what_follows_a_start_waits_with_it"),
    (EndedDropsWhatFollowsAStart, "r04f_what_follows_a_start_waits_with_it"),
    (HoldUnbornAdmitsStarts, "r04g_a_suspended_unborn_run_keeps_its_start_back"),
    (UnbornWithoutStart, "r04g_a_suspended_unborn_run_keeps_its_start_back"),
    (RewindToAbsentDropped, "r05a_a_start_creates_an_absent_instance"),
    (StartToAbsentDropped, "r05a_a_start_creates_an_absent_instance"),
    (EntityNotCreated, "r05b_a_message_creates_an_absent_entity"),
    (AbsentNotCounted, "r05c_a_message_to_nobody_is_dropped_and_counted"),
    (AcceptOtherExecution, "r05d_a_message_for_another_execution_is_dropped"),
    (AnswersOutliveTheirRun, "r05d_a_message_for_another_execution_is_dropped"),
    (SuspendDoesNotEndBatch, "r05e_a_batch_ends_with_the_first_suspend"),
    (Lifo, "r06a_messages_of_one_sender_keep_their_order"),
    (DeliverEarly, "r06b_nothing_is_delivered_before_its_time"),
    (PrologueAfterInbox, "r06c_the_prologue_precedes_the_inbox"),
    (ConsumeAll, "r06d_a_commit_consumes_what_it_names"),
    (ReplaceForgetsPrologue, "r06e_what_is_left_of_a_prologue_is_carried_on"),
    (LoseMessages, "r07a_one_commit_does_everything"),
    (LoseTasks, "r07a_one_commit_does_everything"),
    (LoseTimers, "r07a_one_commit_does_everything"),
    (TornCheckpoint, "r07b_a_failed_commit_is_whole_or_absent"),
    (ReplaceLosesBatches, "r07c_a_replacement_brings_its_history"),
    (ClaimHeld, "r08a_what_is_held_is_not_claimable"),
    (ExpiryRefuses, "r08b_expiry_alone_refuses_nothing"),
    (RenewBumpsEpoch, "r08c_a_renewal_keeps_everything"),
    (RenewDoesNothing, "r08c_a_renewal_keeps_everything"),
    (RenewHidesLost, "r08d_a_renewal_tells_what_was_lost"),
    (DetachKeeps, "r08e_detach_gives_everything_back"),
    (EndSessionIgnored, "r08f_the_proof_of_death_ends_a_session"),
    (EndSessionUncounted, "r08f_the_proof_of_death_ends_a_session"),
    (ReclaimKeepsEpoch, "r08g_what_was_given_back_is_claimed_anew"),
    (ExpiredClaims, "r08h_an_expired_session_renews_before_it_claims"),
    (AttachForgetsItself, "r08i_a_session_that_attaches_again_is_renewed"),
    (TakeoverUncounted, "r09a_a_takeover_counts_as_a_death"),
    (ReleaseUncounted, "r09b_a_failed_release_counts_as_an_attempt"),
    (PlainReleaseCounts, "r09c_a_plain_release_counts_nothing"),
    (AttemptsKept, "r09d_a_commit_clears_the_attempts"),
    (DelayIgnored, "r09e_a_release_may_delay"),
    (TroubleHidden, "r09f_trouble_is_shown"),
    (KeptCountsAttempt, "r09g_a_death_counts_nothing_of_a_kept_instance"),
    (TroubleHasOneCount, "r09i_each_kind_of_trouble_has_a_count"),
    (DeathsKept, "r09d_a_commit_clears_the_attempts"),
    (ServerCountsAsWorker, "r09a_a_takeover_counts_as_a_death"),
    (ExpiryLeavesNoMark, "r09h_tasks_of_a_server_are_marked"),
    (DetachLeavesNoMark, "r09h_tasks_of_a_server_are_marked"),
    (ReleaseLeavesMark, "r09h_tasks_of_a_server_are_marked"),
    (TrialDeathsKept, "r09d_a_commit_clears_the_attempts"),
    (ReportCountedTwice, "r09j_a_reported_death_counts_once"),
    (ReportComparesNothing, "r09j_a_reported_death_counts_once"),
    (ReportUnfenced, "r09j_a_reported_death_counts_once"),
    (ReportOfKept, "r09j_a_reported_death_counts_once"),
    (TrialUncounted, "r09k_a_death_during_a_trial_counts_apart"),
    (ReportUncountedInTrial, "r09k_a_death_during_a_trial_counts_apart"),
    (TrialCloseIgnored, "r09k_a_death_during_a_trial_counts_apart"),
    (TakeoverKeepsTrial, "r09k_a_death_during_a_trial_counts_apart"),
    (ReportKeepsTrial, "r09k_a_death_during_a_trial_counts_apart"),
    (ServerEndCountsInTrial, "r09l_a_trial_ends_with_its_hold"),
    (ReleaseKeepsTrial, "r09l_a_trial_ends_with_its_hold"),
    (DetachKeepsTrial, "r09l_a_trial_ends_with_its_hold"),
    (CommitKeepsTrial, "r09l_a_trial_ends_with_its_hold"),
    (AdoptKeepsTrial, "r09l_a_trial_ends_with_its_hold"),
    (TrialUnfenced, "r09m_only_the_holder_opens_a_trial"),
    (TrialOfKept, "r09m_only_the_holder_opens_a_trial"),
    (DumpForgetsTrials, "r09m_only_the_holder_opens_a_trial"),
    (CompleteTwice, "r10a_a_task_is_completed_once"),
    (StaleTaskEpochAccepted, "r10b_only_the_holder_completes_a_task"),
    (MemoryClearedByReplace, "r10c_a_consumed_message_is_remembered"),
    (MemoryOff, "r10c_a_consumed_message_is_remembered"),
    (RepeatAfterReplacement, "r10d_a_start_that_gave_way_is_remembered"),
    (ReplacedStartForgotten, "r10d_a_start_that_gave_way_is_remembered"),
    (AmendedMessageForgotten, "r10e_an_amended_message_is_remembered"),
    (AmendsRepeat, "r10e_an_amended_message_is_remembered"),
    (OvertakenStartForgotten, "r10f_an_overtaken_start_is_remembered"),
    (AmendsRemovedStart, "r10g_an_amendment_names_no_removed_start"),
    (BatchStopsAtFirstRefusal, "r11a_each_item_of_a_batch_is_judged_alone"),
    (ReadyPostponed, "r11b_a_later_message_postpones_nothing"),
    (QueueFilterIgnored, "r12a_credit_filters_by_queue"),
    (TagFilterIgnored, "r12b_credit_filters_by_tags"),
    (NewestFirst, "r12c_the_oldest_is_won_first"),
    (QueueStarved, "r12d_queues_are_served_in_turn"),
    (BytesIgnored, "r12e_no_more_is_won_than_there_is_credit"),
    (CountIgnored, "r12e_no_more_is_won_than_there_is_credit"),
    (EmptyWhenAnyHeld, "r12f_what_is_held_hides_nothing"),
    (NextDueTooLate, "r12g_next_returns_when_something_is_due"),
    (WriteWinsForEach, "r12h_what_becomes_ready_is_won_once"),
    (CreditWakesNothing, "r12i_more_credit_looks_again"),
    (UnreturnedUncounted, "r12j_unreturned_items_count_against_credit"),
    (EndedKeepsOldTags, "r12k_an_ended_instance_has_the_tags_of_its_start"),
    (CreditWaitsForCalls, "r12l_credit_is_spent_while_no_call_waits"),
    (NextReturnsTwice, "r12l_credit_is_spent_while_no_call_waits"),
    (StaleGet, "r13a_get_sees_every_acknowledged_write"),
    (HistoryOffByOne, "r13b_a_history_is_read_in_whole_batches"),
    (QueryRepeatsRow, "r13c_a_query_pages_over_every_instance_once"),
    (QueryFilterIgnored, "r13d_a_query_filters"),
    (ListIncludesLiving, "r13e_a_list_names_the_ended"),
    (OrderIgnored, "r13f_a_query_begins_with_the_newest_when_asked"),
    (StartHiddenUntilDue, "r13g_a_start_is_told_until_its_run_begins"),
    (LimitIgnored, "r14a_beyond_a_limit_is_refused_by_name"),
    (LimitBeforeRepeat, "r14b_a_repeat_is_told_before_a_limit"),
    (NowStandsStill, "r15a_the_stores_clock_goes_on"),
    (DumpForgetsMemory, "r16a_a_dump_holds_everything"),
    (EventsReencoded, "r16b_bytes_are_kept_as_they_came"),
    (RecordForgetsUnlocks, "r16c_values_come_back_whole"),
    (OutboxNotDelivered, "r16d_a_loaded_outbox_is_delivered"),
    (DumpForgetsFloor, "r16e_a_dump_holds_the_values_of_the_hub"),
    (DumpForgetsRemovedStarts, "r16e_a_dump_holds_the_values_of_the_hub"),
    (DumpForgetsKey, "r16e_a_dump_holds_the_values_of_the_hub"),
    (HubsShareInstances, "r17a_hubs_know_nothing_of_each_other"),
    (DeleteHubIgnoresSessions, "r17b_a_hub_exists_from_its_first_write_until_it_is_deleted"),
    (AnswerMakesHub, "r17b_a_hub_exists_from_its_first_write_until_it_is_deleted"),
    (HubsListOpened, "r17b_a_hub_exists_from_its_first_write_until_it_is_deleted"),
    (RepeatedStartCreatesAgain, "r18a_the_same_start_again_is_a_repeat"),
    (ReplaceKeepsEpoch, "r18b_a_start_replaces_an_ended_instance"),
    (ReplaceResetsRevision, "r18b_a_start_replaces_an_ended_instance"),
    (ExistsIgnored, "r18c_a_start_respects_what_is_there"),
    (ReplaceKeepsInbox, "r18c_a_start_respects_what_is_there"),
    (RepeatNamesOwnExecution, "r18d_a_repeat_names_the_run_that_is_there"),
    (EqualIsRepeat, "r18e_an_equal_start_is_a_repeat_only_as_a_retry"),
    (RetryIgnored, "r18e_an_equal_start_is_a_repeat_only_as_a_retry"),
    (RewindIsRetried, "r18f_a_waiting_rewind_is_no_start_to_retry"),
    (TerminateKeepsTasks, "r19a_termination_withdraws_the_tasks"),
    (CompleteWithdrawsTasks, "r19b_tasks_of_a_completed_run_still_run"),
    (FusedTaskStays, "r20a_a_commit_takes_its_own_tasks"),
    (TakeIgnored, "r20a_a_commit_takes_its_own_tasks"),
    (ClaimTakesKept, "r20b_a_kept_instance_stays_with_its_session"),
    (KeepReleases, "r20b_a_kept_instance_stays_with_its_session"),
    (MailForgotten, "r20b_a_kept_instance_stays_with_its_session"),
    (MailNeverDue, "r20b_a_kept_instance_stays_with_its_session"),
    (ArrivedEmpty, "r20c_a_commit_that_keeps_tells_what_arrived"),
    (MailUnfenced, "r20d_mail_is_for_the_holder_at_its_revision"),
    (MailUnbounded, "r20e_mail_has_a_byte_limit"),
    (PurgeLiving, "r21a_a_purge_removes_the_ended_for_good"),
    (PurgeTakesWaitingStart, "r21b_a_waiting_start_prevents_the_purge"),
    (BudgetIgnored, "r21c_a_purge_keeps_to_its_budget"),
    (RemovalKeepsEpochFloor, "r21d_a_new_instance_begins_above_the_removed"),
    (RemovalKeepsRevisionFloor, "r21d_a_new_instance_begins_above_the_removed"),
    (RemovalForgetsStart, "r21e_the_start_of_a_removed_instance_is_known"),
    (ScaleCountsSleeping, "r22a_scale_counts_what_is_ready"),
    (InspectExpiredLives, "r23a_an_inspection_names_the_holder"),
    (InspectHidesPrologue, "r23b_an_inspection_lists_what_waits"),
    (InspectUnbounded, "r23b_an_inspection_lists_what_waits"),
    (InspectHidesHeldTasks, "r23c_an_inspection_lists_the_open_tasks"),
    (SessionsExpiredLive, "r24a_attached_sessions_are_listed_with_liveness"),
    (SessionsHideIdle, "r24a_attached_sessions_are_listed_with_liveness"),
    (AdoptKeepsEpoch, "r25a_an_adopted_task_changes_hands"),
    (AdoptHidesLost, "r25a_an_adopted_task_changes_hands"),
    (AdoptSparesLiving, "r25a_an_adopted_task_changes_hands"),
    (AdoptWaits, "r25a_an_adopted_task_changes_hands"),
    (AdoptCountsDeath, "r25b_an_adoption_counts_nothing"),
    (AdoptMovesMark, "r25b_an_adoption_counts_nothing"),
    (AdoptTakesWithdrawn, "r25c_only_an_open_task_is_adopted"),
    (ExpiredAdopts, "r25c_only_an_open_task_is_adopted"),
    (KeyReplaced, "r25d_the_first_key_of_a_hub_stays"),
    (KeyMakesNoHub, "r25d_the_first_key_of_a_hub_stays"),
];

/// Rules about combinations: a mistake of another rule may fail them too. Each has a mistake that no plain rule finds.
const COMBINED: &[&str] = &[
    "r03d_a_recall_returns_what_was_won",
    "r03e_a_recalled_number_wins_nothing",
    "r03f_a_recall_returns_only_what_is_held",
    "r09k_a_death_during_a_trial_counts_apart",
    "r09l_a_trial_ends_with_its_hold",
    "r10e_an_amended_message_is_remembered",
    "r10g_an_amendment_names_no_removed_start",
    "r12h_what_becomes_ready_is_won_once",
    "r12i_more_credit_looks_again",
    "r12j_unreturned_items_count_against_credit",
    "r12k_an_ended_instance_has_the_tags_of_its_start",
    "r12l_credit_is_spent_while_no_call_waits",
    "r14b_a_repeat_is_told_before_a_limit",
    "r18d_a_repeat_names_the_run_that_is_there",
    "r18e_an_equal_start_is_a_repeat_only_as_a_retry",
    "r18f_a_waiting_rewind_is_no_start_to_retry",
    "r20b_a_kept_instance_stays_with_its_session",
    "r21e_the_start_of_a_removed_instance_is_known",
    "r24a_attached_sessions_are_listed_with_liveness",
    "r25a_an_adopted_task_changes_hands",
    "r25c_only_an_open_task_is_adopted",
];

/// Mistakes that hardly any rule survives.
const BROAD: &[Mistake] = &[NextReturnsTwice, ReadyPostponed];

/// The rules that a store with that mistake fails, each with its complaint.
fn failed_rules(mistake: Mistake) -> Vec<(&'static str, String)> {
    let failed = RULES.iter().filter_map(|rule| {
        let fixture = ModelFixture::with(|model| model.with_mistake(mistake));
        let run = catch_unwind(AssertUnwindSafe(|| bounded((rule.run)(&fixture))));
        run.err().map(|panic| (rule.name, complaint(&*panic)))
    });
    failed.collect()
}

fn complaint(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without words").to_owned()
}

/// Whether the complaint is of that rule: a check that failed, or a call that did not return.
fn is_of(complaint: &str, rule: &str) -> bool {
    complaint.starts_with(rule) || complaint.contains("is still waiting after")
}

/// What is wrong with a mistake's line of the matrix, if anything.
fn verdict(mistake: Mistake, expected: &str) -> Option<String> {
    let mut failed = failed_rules(mistake);
    failed.retain(|(name, _)| *name == expected || !COMBINED.contains(name));
    if BROAD.contains(&mistake) && failed.iter().any(|(name, _)| *name == expected) {
        return None;
    }
    match &failed[..] {
        [(name, complaint)] if *name == expected && is_of(complaint, expected) => None,
        _ => Some(format!("{mistake:?} should fail {expected} alone, but fails {failed:#?}")),
    }
}

#[test]
#[expect(clippy::print_stdout, reason = "the summary of the matrix, shown with --nocapture")]
fn every_mistake_fails_exactly_the_rule_it_breaks() {
    // The panics are the point; a thousand of their reports are not.
    let reporting = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let wrong: Vec<String> =
        EXPECTED.iter().filter_map(|(mistake, expected)| verdict(*mistake, expected)).collect();
    std::panic::set_hook(reporting);

    println!("{} mistakes x {} rules, {} lines wrong", EXPECTED.len(), RULES.len(), wrong.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_mistake_and_every_rule_is_in_the_table() {
    let mistakes: BTreeSet<Mistake> = EXPECTED.iter().map(|(mistake, _)| *mistake).collect();
    assert_eq!(mistakes.len(), EXPECTED.len(), "each mistake has one line");
    let missing: Vec<_> = Mistake::ALL.iter().filter(|mistake| !mistakes.contains(mistake)).collect();
    assert!(missing.is_empty(), "mistakes without a rule: {missing:?}");
    let found: BTreeSet<&str> = EXPECTED.iter().map(|(_, rule)| *rule).collect();
    let rules: BTreeSet<&str> = RULES.iter().map(|rule| rule.name).collect();
    let untested: Vec<_> = rules.difference(&found).collect();
    assert!(untested.is_empty(), "rules that no mistake fails: {untested:?}");
    for rule in COMBINED {
        let mut own = EXPECTED.iter().filter(|(_, expected)| expected == rule);
        let needed =
            own.any(|(mistake, _)| failed_rules(*mistake).iter().all(|(name, _)| COMBINED.contains(name)));
        assert!(needed, "{rule} finds no mistake that all plain rules overlook");
    }
    let unknown: Vec<_> = found.difference(&rules).collect();
    assert!(unknown.is_empty(), "rules that do not exist: {unknown:?}");
}

/// A store that cannot write everything at once sends tasks first, which does no harm, and loses what it has not sent
/// when it dies. The mistake must be that one: a commit without its tasks would be noticed too, for another reason.
#[test]
fn a_torn_commit_keeps_its_tasks_and_loses_the_rest() {
    let fixture = ModelFixture::with(|model| model.with_mistake(TornCheckpoint));
    bounded(Box::pin(async {
        let w = World::open(&fixture, "torn").await;
        w.start("order").await;
        let session = w.session().await;
        let turn = session.turn().await;
        let step = Step::of(&turn).tasks([w.task(&turn, "pay")]).timers([w.timer(&turn, w.at(HOUR))]);
        let torn = w.faulted(Call::CommitTurns, Fault::UnknownNotDone, session.try_commit(step)).await;
        assert!(torn.is_err(), "nobody hears of it");
        let stored = w.snapshot().await;
        assert_eq!((stored.tasks().count(), stored.waiting("order").len()), (1, 0), "its tasks and timers");
    }));
}
