//! The one list of the rules. Everything else is made from it: the table, the tests of a store, the count.

use futures::future::BoxFuture;

use crate::Fixture;

/// One rule of the contract.
#[derive(Clone, Copy)]
pub struct Rule {
    /// Its number in `dauer_store::rules`.
    pub number: u8,
    /// The function that checks it.
    pub name: &'static str,
    /// Checks it on a store; panics when the store breaks it.
    pub run: for<'a> fn(&'a dyn Fixture) -> BoxFuture<'a, ()>,
}

/// Hands the list of all rules, with what it was given, to another macro of this crate.
#[doc(hidden)]
#[macro_export]
macro_rules! each_rule {
    ($then:ident($($given:tt)*)) => {
        $crate::$then! { ($($given)*)
            1 identity {
                r01a_a_waiting_message_is_not_taken_twice
            }
            2 fence {
                r02a_commit_compares_the_execution
                r02b_commit_compares_the_revision
                r02c_commit_compares_the_epoch
                r02d_an_amendment_raises_the_epoch
                r02e_a_stale_completion_refuses_the_checkpoint
                r02f_a_refused_checkpoint_leaves_nothing
                r02g_an_amendment_consumes_the_start
            }
            3 outcome {
                r03a_the_same_commit_again_is_committed
                r03b_the_commit_of_another_epoch_is_no_repeat
                r03c_not_executed_changes_nothing
                r03d_a_recall_returns_what_was_won
                r03e_a_recalled_number_wins_nothing
                r03f_a_recall_returns_only_what_is_held
            }
            4 readiness {
                r04a_a_suspended_instance_takes_only_control
                r04b_a_locked_instance_takes_its_owners_messages
                r04c_an_ended_instance_drops_messages
                r04d_a_pending_turn_carries_its_start_first
                r04e_an_ended_instance_takes_a_start
                r04f_what_follows_a_start_waits_with_it
                r04g_a_suspended_unborn_run_keeps_its_start_back
            }
            5 delivery {
                r05a_a_start_creates_an_absent_instance
                r05b_a_message_creates_an_absent_entity
                r05c_a_message_to_nobody_is_dropped_and_counted
                r05d_a_message_for_another_execution_is_dropped
                r05e_a_batch_ends_with_the_first_suspend
            }
            6 order {
                r06a_messages_of_one_sender_keep_their_order
                r06b_nothing_is_delivered_before_its_time
                r06c_the_prologue_precedes_the_inbox
                r06d_a_commit_consumes_what_it_names
                r06e_what_is_left_of_a_prologue_is_carried_on
            }
            7 atomic {
                r07a_one_commit_does_everything
                r07b_a_failed_commit_is_whole_or_absent
                r07c_a_replacement_brings_its_history
            }
            8 sessions {
                r08a_what_is_held_is_not_claimable
                r08b_expiry_alone_refuses_nothing
                r08c_a_renewal_keeps_everything
                r08d_a_renewal_tells_what_was_lost
                r08e_detach_gives_everything_back
                r08f_the_proof_of_death_ends_a_session
                r08g_what_was_given_back_is_claimed_anew
                r08h_an_expired_session_renews_before_it_claims
                r08i_a_session_that_attaches_again_is_renewed
            }
            9 attempts {
                r09a_a_takeover_counts_as_a_death
                r09b_a_failed_release_counts_as_an_attempt
                r09c_a_plain_release_counts_nothing
                r09d_a_commit_clears_the_attempts
                r09e_a_release_may_delay
                r09f_trouble_is_shown
                r09g_a_death_counts_nothing_of_a_kept_instance
                r09h_tasks_of_a_server_are_marked
                r09i_each_kind_of_trouble_has_a_count
            }
            9 trials {
                r09j_a_reported_death_counts_once
                r09k_a_death_during_a_trial_counts_apart
                r09l_a_trial_ends_with_its_hold
                r09m_only_the_holder_opens_a_trial
            }
            10 once {
                r10a_a_task_is_completed_once
                r10b_only_the_holder_completes_a_task
                r10c_a_consumed_message_is_remembered
                r10d_a_start_that_gave_way_is_remembered
                r10e_an_amended_message_is_remembered
                r10f_an_overtaken_start_is_remembered
                r10g_an_amendment_names_no_removed_start
            }
            11 batches {
                r11a_each_item_of_a_batch_is_judged_alone
                r11b_a_later_message_postpones_nothing
            }
            12 credit {
                r12a_credit_filters_by_queue
                r12b_credit_filters_by_tags
                r12c_the_oldest_is_won_first
                r12d_queues_are_served_in_turn
                r12e_no_more_is_won_than_there_is_credit
                r12f_what_is_held_hides_nothing
                r12g_next_returns_when_something_is_due
                r12h_what_becomes_ready_is_won_once
                r12i_more_credit_looks_again
                r12j_unreturned_items_count_against_credit
                r12k_an_ended_instance_has_the_tags_of_its_start
                r12l_credit_is_spent_while_no_call_waits
            }
            13 reads {
                r13a_get_sees_every_acknowledged_write
                r13b_a_history_is_read_in_whole_batches
                r13c_a_query_pages_over_every_instance_once
                r13d_a_query_filters
                r13e_a_list_names_the_ended
                r13f_a_query_begins_with_the_newest_when_asked
                r13g_a_start_is_told_until_its_run_begins
            }
            14 limits {
                r14a_beyond_a_limit_is_refused_by_name
                r14b_a_repeat_is_told_before_a_limit
            }
            15 time {
                r15a_the_stores_clock_goes_on
            }
            16 formats {
                r16a_a_dump_holds_everything
                r16b_bytes_are_kept_as_they_came
                r16c_values_come_back_whole
                r16d_a_loaded_outbox_is_delivered
                r16e_a_dump_holds_the_values_of_the_hub
            }
            17 isolation {
                r17a_hubs_know_nothing_of_each_other
                r17b_a_hub_exists_from_its_first_write_until_it_is_deleted
            }
            18 create {
                r18a_the_same_start_again_is_a_repeat
                r18b_a_start_replaces_an_ended_instance
                r18c_a_start_respects_what_is_there
                r18d_a_repeat_names_the_run_that_is_there
                r18e_an_equal_start_is_a_repeat_only_as_a_retry
                r18f_a_waiting_rewind_is_no_start_to_retry
            }
            19 end_of_run {
                r19a_termination_withdraws_the_tasks
                r19b_tasks_of_a_completed_run_still_run
            }
            20 fusion {
                r20a_a_commit_takes_its_own_tasks
                r20b_a_kept_instance_stays_with_its_session
                r20c_a_commit_that_keeps_tells_what_arrived
                r20d_mail_is_for_the_holder_at_its_revision
                r20e_mail_has_a_byte_limit
            }
            21 purge {
                r21a_a_purge_removes_the_ended_for_good
                r21b_a_waiting_start_prevents_the_purge
                r21c_a_purge_keeps_to_its_budget
                r21d_a_new_instance_begins_above_the_removed
                r21e_the_start_of_a_removed_instance_is_known
            }
            22 scale {
                r22a_scale_counts_what_is_ready
            }
            23 inspect {
                r23a_an_inspection_names_the_holder
                r23b_an_inspection_lists_what_waits
                r23c_an_inspection_lists_the_open_tasks
            }
            24 attached {
                r24a_attached_sessions_are_listed_with_liveness
            }
            25 elsewhere {
                r25a_an_adopted_task_changes_hands
                r25b_an_adoption_counts_nothing
                r25c_only_an_open_task_is_adopted
                r25d_the_first_key_of_a_hub_stays
            }
        }
    };
}

/// Makes the table of rules.
#[doc(hidden)]
#[macro_export]
macro_rules! table {
    (() $($number:literal $group:ident { $($rule:ident)* })*) => {
        &[$($($crate::Rule {
            number: $number,
            name: stringify!($rule),
            run: |fixture| Box::pin($crate::rules::$group::$rule(fixture)),
        }),*),*]
    };
}

/// Makes a test of each rule, and one that counts them.
#[doc(hidden)]
#[macro_export]
macro_rules! tests {
    (($fixture:expr, $runner:expr) $($number:literal $group:ident { $($rule:ident)* })*) => {
        $($(
            #[test]
            fn $rule() {
                let fixture = $fixture;
                ($runner)(Box::pin($crate::rules::$group::$rule(&fixture)));
            }
        )*)*

        #[test]
        fn every_rule_has_a_test() {
            let tested = [$($(stringify!($rule)),*),*];
            assert_eq!(tested.len(), $crate::RULES.len());
            assert!($crate::RULES.iter().zip(tested).all(|(rule, tested)| rule.name == tested));
        }
    };
}

/// Every rule of the contract as a test of one store.
///
/// The first argument is an expression that makes a fresh [`Fixture`], evaluated for each test; the second a function
/// that runs a `BoxFuture<'_, ()>` to its end, with a deadline of its own: [`crate::bounded`], or a runtime.
#[macro_export]
macro_rules! suite {
    ($fixture:expr, $runner:expr) => {
        $crate::each_rule! { tests($fixture, $runner) }
    };
}

/// Every rule of the contract.
pub const RULES: &[Rule] = crate::each_rule!(table());
