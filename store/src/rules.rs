//! The rules of the contract. A store keeps all of them.
//!
//! "Checks" lists the functions of `dauer-conformance` that check a rule, by prefix. The suite runs all. A rule is about
//! one instance of one hub. No operation needs two instances in one transaction.
//!
//! # 1. Identity
//!
//! The id alone identifies a message. A message sent again has the same id, in any process and after any crash
//! (`dauer_core::identity`). A message whose id waits in the target's inbox or prologue is `Dropped(Repeat)` and stored
//! once. Another id is another message, whatever its content. Checks: `r01a`.
//!
//! # 2. Fence
//!
//! A commit carries the fence of its claim. In the transaction that writes it, the store compares execution, revision,
//! epoch and holder, and answers `Fenced` if one differs. Each claim of an instance or task raises its epoch. Each commit
//! raises the revision by one. The revision begins at the hub's floor (rule 21) and is never reset.
//!
//! An amendment compares only execution and revision, raises the epoch and leaves no holder. It may consume messages of
//! an instance that no session ever claimed, its start included, and name messages that do not wait. A checkpoint with
//! the result of a task that its session does not hold is `Fenced`. A refused checkpoint has no visible effect. Checks:
//! `r02a`-`r02g`.
//!
//! # 3. Outcome
//!
//! `NotExecuted` means that nothing happened. After `Unknown` the caller sends the same commit again. If it was the last
//! commit of the instance, the answer is `Committed`, with the same revision and the taken tasks that are still held. If
//! another epoch or amendment made that revision, the answer is `Fenced`. A caller may drop any call. The session holds
//! what a lost answer of [`crate::Work::next`] contained; [`crate::Work::recall`] returns it. Credit up to the last
//! recalled number wins nothing more. Checks: `r03a`-`r03f`.
//!
//! # 4. Readiness
//!
//! An instance is ready when a visible message waits that its hold admits ([`crate::Record::hold`]). A pending instance
//! that a rewind created also admits rewinds. A turn gets only such messages; others wait. An ended instance drops all
//! but starts and rewinds, also what waited when it ended. A message behind a waiting start or rewind waits with it if it
//! names no execution or the one that this begins.
//!
//! A turn of a pending instance begins with its start, due or not. So does a turn of an instance that was suspended
//! before it began ([`crate::Hold::Unborn`]); its start alone does not make it ready. An ended instance for which a start
//! waits is offered under the queue and tags of that start. Checks: `r04a`-`r04g`.
//!
//! # 5. Delivery
//!
//! A start or rewind creates an absent instance, with the record of its [`crate::Opening`]. A message to an absent
//! `@name@key` creates that entity. Others are dropped. A message that names an execution is dropped, except by rule 4,
//! on arrival if that run is not current, and when that run gives way. Drops are counted by reason and shown by `dump`. A
//! turn's batch ends with the first suspend, included, and says whether more waits. Checks: `r05a`-`r05e`.
//!
//! # 6. Order
//!
//! Messages of one sender to one target come in the order sent, but none before its time by the store's clock. Between
//! senders there is no order. The prologue of a run precedes the inbox, in its order. A commit takes exactly the messages
//! that it names; others keep their places. A new prologue precedes what is left of the old one. Checks: `r06a`-`r06e`.
//!
//! # 7. Atomic
//!
//! Consumed messages, completions, history, record, tasks, timers and messages of a checkpoint are written together or
//! not at all, whatever fails. Storage that cannot do so keeps messages to others in the sender's outbox until delivery;
//! they count as sent. A replaced history is the new one alone. Checks: `r07a`-`r07c`.
//!
//! # 8. Sessions
//!
//! No other session gets what a session holds until that session ends: by `detach`, by expiry on the store's clock, or by
//! `end_session`. Then any session may, however late. Expiry alone refuses nothing: the holder may commit or complete an
//! item until another session has taken it. An expired session must renew before it wins more. A renewal keeps all items
//! under unchanged fences and returns the lost ones. Attaching again renews, however long ago the session expired. Calls
//! for a claim that was given back have no effect, even if the same session won the item again. Checks: `r08a`-`r08i`.
//!
//! # 9. Attempts and deaths
//!
//! The attempts of a turn or task grow by one when it is released as failed. Its deaths grow by one when it is won from an
//! expired or ended session: those of servers apart ([`crate::Host::runs_code`]). A detach, a plain release, or the end of
//! a session that committed the instance under its epoch does not count. Attempts and deaths are durable before the item
//! is handed out, and zero after a commit. A release may delay the next claim; its trouble stays in the record until the
//! next commit.
//!
//! A task that leaves the session of a server because the session ends, by detach too, is marked with the time of that
//! end: a worker may still execute it. A later end of that kind moves the mark; nothing else does. Each
//! kind of trouble has a count of its own, until the next commit.
//!
//! A server reports a worker that died with an item which the server holds ([`crate::Work::died`]). The report counts once, as
//! the death of a worker, if the server knew the deaths before it. The server holds the item as before. A turn that is
//! committed under its epoch is not reported. The new deaths are durable before the answer.
//!
//! The holder opens a trial of an item that begins alone ([`crate::Work::trial`]). The death of a worker during a trial counts
//! in [`crate::Deaths::trials`] too, and ends the trial. So do, without counting, the end of a server, release, detach,
//! commit, completion and adoption: an open trial has a holder. Checks: `r09a`-`r09m`.
//!
//! # 10. Applied once
//!
//! A completion is applied if its session holds the task under that epoch; otherwise it is `Dropped(NotHeld)`, which is
//! no error. An instance remembers the ids of consumed messages, except answers, across runs and starts
//! ([`dauer_core::limits::MEMORY_AGE_MAX`], [`dauer_core::limits::MEMORY_IDS_MAX`]). Sent again, they are
//! `Dropped(Repeat)`. A start is known while the record names it, and remembered once the record names another. Dropped
//! messages are not remembered.
//!
//! Messages that an amendment consumes are remembered even if they never waited. An amendment that consumes or begins
//! with a remembered message, or the start of a removed instance, is `Repeat`. A waiting start that an amendment takes
//! out and does not begin is remembered by the instance and the hub (rule 21). Checks: `r10a`-`r10g`.
//!
//! # 11. Batches
//!
//! Each item of a batch is judged alone and answered in its place. A store may join all waiting writes in one
//! transaction. A message can make its target ready earlier, never later. Checks: `r11a`-`r11b`.
//!
//! # 12. Credit
//!
//! A session wins only what its credit admits ([`crate::Work::credit`], [`crate::Amount`]). The oldest item of a queue is
//! won first; queues take turns. A session wins nothing that it holds; what others hold hides nothing. An empty answer
//! means that nothing was ready.
//!
//! Where the store can, a write wins what it makes ready for a session of its handle with credit, even while no
//! [`crate::Work::next`] waits. It must do so for starts in that session's commits, unless older work may be ready.
//! Otherwise the session looks at once. `next` returns when an item of its queues, or a message for a held instance,
//! becomes ready by time alone. A look's cost does not depend on histories, sleeping items or other queues. Checks:
//! `r12a`-`r12l`.
//!
//! # 13. Reads
//!
//! `get`, `load_history`, `read_history` and `read_start` see every acknowledged write. Histories come in whole batches,
//! at least one, from the one with the requested event. `query`, `list` and `scale` may lag; a query says by how much.
//! Pages contain each match once, by creation or completion, a query's from either end. A malformed cursor, or one of the
//! other order, is refused as `Cursor`. Checks: `r13a`-`r13g`.
//!
//! # 14. Limits
//!
//! A store takes what [`crate::StoreLimits`] allows, and splits and re-arms as its storage needs. What is larger is
//! `TooLarge` with its [`crate::Limit`], and changes nothing. An amendment that is a `Repeat` (rule 10) is so whatever
//! its size. Checks: `r14a`-`r14b`.
//!
//! # 15. Time
//!
//! One clock per store judges sessions and due times, stamps records and histories, and never goes backwards. Claims,
//! commits and inspections return its time. The end of a run never moves. The creation time stays when a commit of the
//! same start names none, or one of another start names it: the child of a rewound parent. A store uses the caller's
//! [`crate::Env`] only to wait in `next`. Checks: `r15a`.
//!
//! # 16. Formats
//!
//! Messages, tasks, batches and records come back as written, except what the store sets: a record's revision, times,
//! history length, attempts, deaths and trouble, and a past `visible_at`. Event bytes stay unchanged, unknown parts included.
//! `dump` yields everything, with the memory of instances and the hub's values. `load` puts it into an empty hub of any
//! store, which goes on where the first stopped; damaged items are refused. Checks: `r16a`-`r16e`.
//!
//! # 17. Isolation
//!
//! Hubs of one store share only its clock: nothing in one can be got, found, claimed, reached or dumped from another. A
//! hub exists from its first instance, message or session until it is deleted. Opening, reading, a refused call and a
//! late answer to a task create none. `hubs` lists them by name. `delete_hub` removes a hub and its content, unless a session in it lives. Checks: `r17a`-`r17b`.
//!
//! # 18. Create
//!
//! A start's id only recognises repeats. A start repeats `record.start`, one that waits, or one that is remembered after
//! its run was replaced (rule 10) or its instance removed (rule 21). If its transport marks it as a retry, it also
//! repeats any start of its likeness accepted within [`dauer_core::limits::START_RETRY_MAX`]. A rewind is no start here.
//! A repeat is recognised before any policy, is answered [`crate::Created::Repeat`], and changes only the count of drops.
//!
//! Otherwise an absent instance is created. An ended one in a replaceable status is replaced: record, history and tasks
//! in one write, with a higher revision and epoch. A living one in a replaceable status gets the start into its inbox.
//! All else is `Exists`. An ended instance for which a start or rewind waits counts as pending. Checks: `r18a`-`r18f`.
//!
//! # 19. End of a run
//!
//! When a run is terminated, unheld tasks are withdrawn, and held ones do not run again when their holder dies. After
//! another end, tasks still run. Either way, their answers are dropped. Checks: `r19a`-`r19b`.
//!
//! # 20. Fusion and keep
//!
//! A commit with `take` leases the first `take` of its new tasks to its session in the same write. All have epoch 1, so
//! that the session can release them after an unknown outcome. Their results may go into a later checkpoint of the
//! session, which ends the tasks without a message.
//!
//! A commit with `Keep` leaves a living instance with the session under the same epoch and returns the messages that
//! arrived. No claim returns it. When a message for it becomes visible, on delivery or by time alone,
//! [`crate::Work::next`] names it; each look names all such instances. [`crate::Work::mail`] reads the messages and
//! changes nothing. Arrivals and mail are in order, keep to [`crate::StoreLimits::mail_bytes`], and say whether more
//! waits. Checks: `r20a`-`r20e`.
//!
//! # 21. Purge
//!
//! A purge removes only ended instances for which no start or rewind waits. Late messages do not bring them back. A purge
//! by query removes at most its budget and says whether to call again.
//!
//! Each hub has a floor: an epoch and a revision. A removal raises it above those of the removed instance, in the same
//! write. New instances begin at the floor, so that no fence of a removed one passes. In the same write the hub remembers
//! the instance's start until [`dauer_core::limits::START_RETRY_MAX`] after its acceptance, so that a retry begins no
//! second run. Beyond [`crate::StoreLimits::removed_starts`] the oldest are forgotten and counted. Checks: `r21a`-`r21e`.
//!
//! # 22. Scale
//!
//! `scale` counts ready and held work by kind, nothing that sleeps. Checks: `r22a`.
//!
//! # 23. Inspect
//!
//! `inspect` sees every acknowledged write, fills each field of [`crate::Inspection`] as described there, and returns
//! `None` for an absent instance. Checks: `r23a`-`r23c`.
//!
//! # 24. List of sessions
//!
//! `sessions` sees every acknowledged write and creates no hub. It lists, by id, each session that attached and was
//! neither detached nor forgotten ([`crate::SessionInfo`]). A renewal moves the end of the lease. A store may forget a
//! session that does not live and holds nothing. Checks: `r24a`.
//!
//! # 25. Workers elsewhere
//!
//! A session adopts an open task ([`crate::Work::adopt`]): it becomes the holder under a higher epoch, whichever session
//! held the task, before any delay is over, and without credit. Attempts, deaths and mark stay. The former holder loses the
//! task, and its results are stale. A task that is not open, or was withdrawn, is not adopted. The session must be able to
//! claim (rule 8).
//!
//! A hub has one key ([`crate::Manage::key`]): the first candidate, for ever. It is part of a dump. Checks: `r25a`-`r25d`.
