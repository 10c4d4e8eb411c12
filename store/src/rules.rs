//! The rules of the contract.
//!
//! A store is right when it keeps them all. Each rule names the functions of `dauer-conformance` that check it; the
//! suite runs them on every store and has no way to leave one out. Where a rule speaks of "the instance", it means one
//! instance of one hub: no operation needs two of them in one transaction.
//!
//! # 1. Identity
//!
//! A message is its id. Ids are made by `dauer_core::identity` from what the message is about, so that the same thing
//! sent again has the same id, in any process and after any crash. A message whose id already waits in the target's
//! inbox, or before it in the prologue, is answered `Dropped(Repeat)` and stored once; one with another id is another
//! message, whatever it says.
//!
//! *Checked by* `r01a_a_waiting_message_is_not_taken_twice`.
//!
//! # 2. Fence
//!
//! A commit carries the execution, revision and epoch it was claimed with; the store compares all three in the
//! transaction that writes, and answers `Fenced` when one differs. The revision grows by one with each commit and is
//! never reset, nor is it the number of commits: a new instance begins at the floor of its hub (rule 21). The epoch grows
//! when an instance changes hands. An amendment compares execution and revision, not the
//! epoch, which it raises, and leaves the instance without a holder. It may consume what waits for an instance that no session
//! ever claimed, its start included, and name messages that do not wait. A checkpoint with the result of a task that its session
//! does not hold is refused as a whole. What is refused has no effect that anyone can see.
//!
//! *Checked by* `r02a_commit_compares_the_execution`, `r02b_commit_compares_the_revision`,
//! `r02c_commit_compares_the_epoch`, `r02d_an_amendment_raises_the_epoch`,
//! `r02e_a_stale_completion_refuses_the_checkpoint`, `r02f_a_refused_checkpoint_leaves_nothing`,
//! `r02g_an_amendment_consumes_the_start`.
//!
//! # 3. Outcome
//!
//! `NotExecuted` means that nothing happened. `Unknown` means that nobody can say, and the caller sends the same commit
//! again: when the record stands one revision further, and the same epoch brought it there, the answer is `Committed`
//! as it was the first time; when another epoch did, it is `Fenced`. A caller may drop any call. What a lost answer of
//! [`crate::Work::next`] contained is the session's until [`crate::Work::recall`] returns it. A recall names the numbers of
//! credit that the host has not heard of. From then on nothing is won with them.
//!
//! *Checked by* `r03a_the_same_commit_again_is_committed`, `r03b_the_commit_of_another_epoch_is_no_repeat`,
//! `r03c_not_executed_changes_nothing`, `r03d_a_recall_returns_what_was_won`, `r03e_a_recalled_number_wins_nothing`,
//! `r03f_a_recall_returns_only_what_is_held`.
//!
//! # 4. Readiness
//!
//! An instance is ready when a message is visible and the record's hold admits it ([`crate::Hold::admits`]); a turn
//! gets visible, admitted messages only. What is not admitted waits, except that an ended instance drops and counts all
//! but starts and rewinds, those that waited when it ended too. What comes behind a waiting start or rewind waits with it,
//! if it is for no run in particular or for the one that this begins; what is for the run that has ended is dropped. A
//! turn of a pending instance carries its start, first,
//! even when the start is not due and something else woke it. So does a turn of an instance that is suspended before it
//! began ([`crate::Hold::Unborn`]), and its start alone never makes it ready. An ended instance for which a start waits is offered
//! under the queue of that start, whose code will run.
//!
//! *Checked by* `r04a_a_suspended_instance_takes_only_control`, `r04b_a_locked_instance_takes_its_owners_messages`,
//! `r04c_an_ended_instance_drops_messages`, `r04d_a_pending_turn_carries_its_start_first`,
//! `r04e_an_ended_instance_takes_a_start`, `r04f_what_follows_a_start_waits_with_it`,
//! `r04g_a_suspended_unborn_run_keeps_its_start_back`.
//!
//! # 5. Delivery
//!
//! A message to an absent instance: a start or rewind creates it, one to `@name@key` creates that entity, all else is
//! dropped. The record of a new instance is that of the start's [`crate::Opening`]. A message that names an execution is for
//! that run: it is dropped when another is current or none is, on arrival and when the run it waited for gives way. Every drop
//! is counted under its reason and shown by `dump`. A turn's batch ends with the first suspend, which it includes, and says
//! that more waits.
//!
//! *Checked by* `r05a_a_start_creates_an_absent_instance`, `r05b_a_message_creates_an_absent_entity`,
//! `r05c_a_message_to_nobody_is_dropped_and_counted`, `r05d_a_message_for_another_execution_is_dropped`,
//! `r05e_a_batch_ends_with_the_first_suspend`.
//!
//! # 6. Order
//!
//! Messages of one sender to one target come in the order they were sent; between senders nothing is promised. Nothing
//! comes before its time by the store's clock. The prologue of a run comes before the inbox, in its order. A commit
//! takes exactly the messages it names; the others stay in their places, and what a replacement does not name of the
//! old prologue stays behind the new one.
//!
//! *Checked by* `r06a_messages_of_one_sender_keep_their_order`, `r06b_nothing_is_delivered_before_its_time`,
//! `r06c_the_prologue_precedes_the_inbox`, `r06d_a_commit_consumes_what_it_names`,
//! `r06e_what_is_left_of_a_prologue_is_carried_on`.
//!
//! # 7. Atomic
//!
//! Consumed messages, completions, history, record, tasks, timers and messages of a checkpoint are there together or
//! not at all, whatever fails. Storage that cannot write them at once keeps messages to others in the sender's outbox
//! until their targets have them; the outbox counts as sent. A replaced history is the new one, whole.
//!
//! *Checked by* `r07a_one_commit_does_everything`, `r07b_a_failed_commit_is_whole_or_absent`,
//! `r07c_a_replacement_brings_its_history`.
//!
//! # 8. Sessions
//!
//! What a session holds nobody else gets, until the session ends: by `detach`, by expiry on the store's clock, or by
//! `end_session`. From then on anyone may have it, however late they come. One renewal keeps all it holds, under
//! unchanged fences, and tells what was lost. Expiry alone refuses nothing that is held: as long as nobody has taken
//! an item over, its holder may still commit or complete it. But a session that has expired must renew before it
//! claims more, or two of them would take everything from each other. What a session gave back and claims again has a
//! new epoch: whatever it still sends for the first claim does not pass. A session that attaches again is renewed, however
//! long ago it expired.
//!
//! *Checked by* `r08a_what_is_held_is_not_claimable`, `r08b_expiry_alone_refuses_nothing`,
//! `r08c_a_renewal_keeps_everything`, `r08d_a_renewal_tells_what_was_lost`, `r08e_detach_gives_everything_back`,
//! `r08f_the_proof_of_death_ends_a_session`, `r08g_what_was_given_back_is_claimed_anew`,
//! `r08h_an_expired_session_renews_before_it_claims`, `r08i_a_session_that_attaches_again_is_renewed`.
//!
//! # 9. Attempts
//!
//! The attempts of a turn or task grow by one when it is taken from a session that expired or was ended by proof, and
//! when it is released as failed; not by a detach or a plain release, nor when the session had committed the instance under
//! its epoch. They are durable before the item is handed out,
//! and zero after a commit. A release may delay the next claim; its trouble is shown in the record until the next
//! commit.
//!
//! *Checked by* `r09a_a_takeover_counts_as_an_attempt`, `r09b_a_failed_release_counts_as_an_attempt`,
//! `r09c_a_plain_release_counts_nothing`, `r09d_a_commit_clears_the_attempts`, `r09e_a_release_may_delay`,
//! `r09f_trouble_is_shown`, `r09g_a_death_counts_nothing_of_a_kept_instance`.
//!
//! # 10. Applied once
//!
//! A completion is applied when its session holds the task under that epoch; else it is answered `Dropped(NotHeld)`,
//! which is no error. An instance remembers the ids of the messages it consumed (a day and ten thousand of them, by
//! default), across runs and starts: the same again is `Dropped(Repeat)`. A start is known as long as the record names it, and
//! remembered like any other message once the record names another one. What was dropped is not remembered: when it comes
//! again it is judged again. A message that an amendment carries out is remembered, whether it ever waited or not; an
//! amendment that names a remembered message, or the start of a removed instance, is refused as `Repeat`. A waiting start
//! that an amendment takes out and does not begin is remembered too, by the instance and by the hub (rule 21).
//!
//! *Checked by* `r10a_a_task_is_completed_once`, `r10b_only_the_holder_completes_a_task`,
//! `r10c_a_consumed_message_is_remembered`,
//! `r10d_a_start_that_gave_way_is_remembered`, `r10e_an_amended_message_is_remembered`,
//! `r10f_an_overtaken_start_is_remembered`, `r10g_an_amendment_names_no_removed_start`.
//!
//! # 11. Batches
//!
//! A batch is answered item by item, in its order, and every item is judged as if it were alone. A store may join all
//! writes that wait into one transaction. A message touches the time at which its target is ready only to make it
//! earlier.
//!
//! *Checked by* `r11a_each_item_of_a_batch_is_judged_alone`, `r11b_a_later_message_postpones_nothing`.
//!
//! # 12. Credit
//!
//! A session wins items of the queues and with the tags that its credit names ([`crate::Work::credit`]), and no more than the
//! credit has room for: `count` items, about `bytes` bytes, the first item whatever its size. What it has won and
//! [`crate::Work::next`] has not returned counts against the credit. The oldest of a queue comes first, and queues take turns. A
//! session wins nothing that it holds, and what another session holds hides nothing. An empty answer means that nothing was
//! ready. Work that a call of the same handle makes ready is won by a waiting session in that write, where the store can; else
//! the session looks at once. `next` ends its wait when the first thing in those queues, or the first message for a held
//! instance, becomes ready by time alone. More room, other queues or other tags look again. The cost of a look does not depend
//! on histories, on what sleeps, or on other queues. An ended instance for which a start waits has the queue and the tags of that
//! start.
//!
//! *Checked by* `r12a_credit_filters_by_queue`, `r12b_credit_filters_by_tags`, `r12c_the_oldest_is_won_first`,
//! `r12d_queues_are_served_in_turn`, `r12e_no_more_is_won_than_there_is_credit`, `r12f_what_is_held_hides_nothing`,
//! `r12g_next_returns_when_something_is_due`, `r12h_what_becomes_ready_is_won_once`,
//! `r12i_more_credit_looks_again`, `r12j_unreturned_items_count_against_credit`,
//! `r12k_an_ended_instance_has_the_tags_of_its_start`, `r12l_credit_is_spent_while_no_call_waits`.
//!
//! # 13. Reads
//!
//! `get`, `load_history`, `read_history` and `read_start` see every acknowledged write. Histories come in whole batches from the one
//! that holds the event asked for, at least one at a time. `query`, `list` and `scale` may lag and say by how much;
//! their pages hold every match once, by creation or completion, a query's from either end. What no page of the same
//! order ended with is refused as `Cursor`.
//!
//! *Checked by* `r13a_get_sees_every_acknowledged_write`, `r13b_a_history_is_read_in_whole_batches`,
//! `r13c_a_query_pages_over_every_instance_once`, `r13d_a_query_filters`, `r13e_a_list_names_the_ended`,
//! `r13f_a_query_begins_with_the_newest_when_asked`, `r13g_a_start_is_told_until_its_run_begins`.
//!
//! # 14. Limits
//!
//! What [`crate::StoreLimits`] allows is taken, split and re-armed as the storage needs. Beyond is `TooLarge`, with the
//! limit, what was found and what is allowed, and nothing changes. An amendment that is a `Repeat` (rule 10) is answered so
//! whatever its size.
//!
//! *Checked by* `r14a_beyond_a_limit_is_refused_by_name`, `r14b_a_repeat_is_told_before_a_limit`.
//!
//! # 15. Time
//!
//! One clock per store judges sessions and due times, comes with every claim, commit and inspection, and is what records and
//! histories are stamped with. It never goes backwards. The time a run ended stays, whatever is committed to it later,
//! and so does the time of creation, when a commit of the same start names none, or one of another start names it: a run
//! that goes on as the child of a rewound parent.
//! Stores take time, chance and concurrency from [`crate::Env`] alone.
//!
//! *Checked by* `r15a_the_stores_clock_goes_on`.
//!
//! # 16. Formats
//!
//! Every field of a message, task, batch or record comes back as it was written, but for revision and times, which the
//! store sets. Event bytes come back as they went in, with the parts that only a newer dauer understands. `dump` yields
//! everything, what an instance remembers and the values of the hub itself included; `load` puts it into an empty hub, on any store, which then goes on
//! where the first one stopped.
//!
//! *Checked by* `r16a_a_dump_holds_everything`, `r16b_bytes_are_kept_as_they_came`, `r16c_values_come_back_whole`,
//! `r16d_a_loaded_outbox_is_delivered`, `r16e_a_dump_holds_the_values_of_the_hub`.
//!
//! # 17. Isolation
//!
//! Hubs on one store share its clock and nothing else: what is in one cannot be got, found, claimed, reached or dumped
//! from another.
//!
//! A hub exists from its first instance, message or session until it is deleted; opening and reading create none.
//! `hubs` lists those that exist, by name. `delete_hub` removes a hub and all that is in it, and leaves one alone in which a
//! session lives.
//!
//! *Checked by* `r17a_hubs_know_nothing_of_each_other`, `r17b_a_hub_exists_from_its_first_write_until_it_is_deleted`.
//!
//! # 18. Create
//!
//! The id of a start only recognises repeats; the run that it begins is drawn at random by its client. A start equal to
//! `record.start`, to one that waits, or to one that is remembered because another has replaced its run (rule 10) or its
//! instance was removed (rule 21), is a repeat, before any policy is asked, and changes nothing. A repeat is answered with
//! the run of the start that is there or waits, and with none when only its id is remembered. A start that its transport
//! marks as a retry is also a repeat of any start of the same likeness that was accepted within two minutes; unmarked, it is
//! a start of its own. A rewind is no start in this. Otherwise an absent instance is created; an
//! ended one in a replaceable status is replaced, record, history and tasks in one write, with a revision that goes on and
//! a higher epoch; a living one in a replaceable status gets the start into its inbox; all else is `Exists`. An ended
//! instance for which a start or rewind waits counts as pending: what was acknowledged first is carried out.
//!
//! *Checked by* `r18a_the_same_start_again_is_a_repeat`, `r18b_a_start_replaces_an_ended_instance`,
//! `r18c_a_start_respects_what_is_there`, `r18d_a_repeat_names_the_run_that_is_there`,
//! `r18e_an_equal_start_is_a_repeat_only_as_a_retry`, `r18f_a_waiting_rewind_is_no_start_to_retry`.
//!
//! # 19. End of a run
//!
//! When a run is terminated, tasks that nobody holds are withdrawn, and held ones are not run again when their holder
//! dies. When it completes or fails, its tasks still run. Either way their answers are dropped.
//!
//! *Checked by* `r19a_termination_withdraws_the_tasks`, `r19b_tasks_of_a_completed_run_still_run`.
//!
//! # 20. Fusion and keep
//!
//! A commit with `take` leases the first so many of its new tasks to its session in the same write, each under epoch 1:
//! nobody had them before, and a session that never learns what became of the commit can give them back by that. Their
//! results may go into a later checkpoint of the session, which ends the tasks without any message. A commit with `Keep`
//! leaves the instance with the session under the same epoch and answers with what has arrived. No claim returns it,
//! nor anything else that its session holds. When a message for it becomes visible, on delivery or by time alone, [`crate::Work::next`]
//! names it; each look names all such instances. The session reads the messages with [`crate::Work::mail`]. That compares run, revision, epoch and holder, and
//! changes nothing: the messages wait until a commit consumes them. Arrivals and mail are in order, have at most
//! [`crate::StoreLimits::mail_bytes`], the first message whatever its size, and say whether more waits.
//!
//! *Checked by* `r20a_a_commit_takes_its_own_tasks`, `r20b_a_kept_instance_stays_with_its_session`,
//! `r20c_a_commit_that_keeps_tells_what_arrived`, `r20d_mail_is_for_the_holder_at_its_revision`,
//! `r20e_mail_has_a_byte_limit`.
//!
//! # 21. Purge
//!
//! A purge removes ended instances and nothing else, and none for which a start or rewind waits. Late messages do not
//! bring a purged one back. A purge by query removes no more than its budget and says whether to call again.
//!
//! Each hub has one floor, an epoch and a revision. A removal raises it, in the same write, above the epoch and the revision
//! of the removed instance. A new instance begins at the floor, so that no fence and no claim of a removed instance passes
//! for a later one. The ids of starts that were accepted within the last two minutes outlive the removal, in the same write:
//! a retried start begins no second run. The hub remembers as many as [`crate::StoreLimits::removed_starts`] says; beyond,
//! the oldest are forgotten and counted.
//!
//! *Checked by* `r21a_a_purge_removes_the_ended_for_good`, `r21b_a_waiting_start_prevents_the_purge`,
//! `r21c_a_purge_keeps_to_its_budget`, `r21d_a_new_instance_begins_above_the_removed`,
//! `r21e_the_start_of_a_removed_instance_is_known`.
//!
//! # 22. Scale
//!
//! The scale counts, for each kind of work, what is ready and what is held, and nothing that sleeps.
//!
//! *Checked by* `r22a_scale_counts_what_is_ready`.
//!
//! # 23. Inspect
//!
//! `inspect` sees every acknowledged write, tells the store's time, and has nothing for an absent instance. It names the session and host that
//! hold an instance or a task, and says whether that session lives (rule 8). It counts all messages that wait, before
//! the inbox and in it, and lists the first [`crate::INSPECTED_MAX`]: starts, rewinds and control before ordinary
//! messages. It says from when the next turn can be claimed. It counts and lists all tasks that are not answered, those included that a commit has taken (rule 20).
//!
//! *Checked by* `r23a_an_inspection_names_the_holder`, `r23b_an_inspection_lists_what_waits`,
//! `r23c_an_inspection_lists_the_open_tasks`.
//!
//! # 24. List of sessions
//!
//! `sessions` sees every acknowledged write, and creates no hub. It lists each session that has attached and has neither
//! detached nor been forgotten, in the order of their ids, with its host and the end of its lease. A session lives until it
//! expires or is ended (rule 8); where the store can prove that a host is dead, its session does not live. A renewal
//! moves the end of the lease. A store may forget a session that does not live and holds nothing.
//!
//! *Checked by* `r24a_attached_sessions_are_listed_with_liveness`.
