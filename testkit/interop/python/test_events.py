"""External events, events between orchestrations, and timers."""

import time
from datetime import UTC, datetime, timedelta

import grpc
import pytest
from durabletask import history, task, worker

from hub import Hub, eventually
from shape import BEGIN, MAYBE, STARTED, race


def collect(ctx, count):
    """Waits for that many events, one after the other."""
    ctx.set_custom_status("waiting")
    found = []
    for _ in range(count):
        found.append((yield ctx.wait_for_external_event("item")))
    return found


def test_events_before_the_start(hub: Hub):
    """behaviour-12 behaviour-33: events raised before any turn follow the start, in order, under their own names."""
    instance = hub.start(collect, 4)
    for number in range(4):
        hub.client.raise_orchestration_event(instance, ["item", "ITEM", "Item", "iTem"][number], data=number)
    assert hub.status(instance) == "PENDING"
    hub.work(collect)
    assert hub.completed(instance) == [0, 1, 2, 3]
    names = ["EventRaised item", "EventRaised ITEM", "EventRaised Item", "EventRaised iTem"]
    hub.assert_history(instance, BEGIN, MAYBE, names, "ExecutionCompleted#1 COMPLETED")


def test_events_one_by_one(hub: Hub, workers: int):
    """behaviour-20 behaviour-33: each event is taken once and in order, however the turns fall."""
    count = 25
    hub.work(collect, count=workers)
    instance = hub.start(collect, count)
    hub.until_custom(instance, "waiting")
    for number in range(count):
        hub.client.raise_orchestration_event(instance, "item", data=number)
    assert hub.completed(instance) == list(range(count))
    hub.assert_history(instance, BEGIN, race(*["EventRaised item"] * count), "ExecutionCompleted#1 COMPLETED")


def test_events_nobody_waits_for(hub: Hub):
    """behaviour-33: an event that is not consumed stays in the history, and does no harm."""

    def deaf(ctx, _):
        yield ctx.wait_for_external_event("right")
        return "heard"

    hub.work(deaf)
    instance = hub.start(deaf)
    hub.client.raise_orchestration_event(instance, "wrong", data="noise")
    eventually("the event is in the history", lambda: "EventRaised wrong" in hub.history(instance))
    hub.client.raise_orchestration_event(instance, "right")
    assert hub.completed(instance) == "heard"
    hub.assert_history(
        instance,
        BEGIN,
        MAYBE,
        ["EventRaised wrong", STARTED, "EventRaised right", "ExecutionCompleted#1 COMPLETED"],
    )
    # Behaviour-49: an instance that has ended drops what comes, without an error.
    hub.client.raise_orchestration_event(instance, "right")
    assert hub.history(instance)[-1] == "ExecutionCompleted#1 COMPLETED"


def test_orchestration_sends_event(hub: Hub, workers: int):
    """behaviour-22 behaviour-32: the target sees EventRaised, the sender EventSent."""

    def receiver(ctx, _):
        return (yield ctx.wait_for_external_event("Greeting"))

    def sender(ctx, target):
        ctx.send_event(target, "Greeting", data={"from": "sender"})
        return "sent"
        yield

    hub.work(receiver, sender, count=workers)
    target = hub.start(receiver)
    source = hub.start(sender, target)
    assert hub.completed(target) == {"from": "sender"}
    assert hub.completed(source) == "sent"
    hub.assert_history(source, BEGIN, "EventSent#1 Greeting", "ExecutionCompleted#2 COMPLETED")
    hub.assert_history(target, BEGIN, MAYBE, "EventRaised Greeting", "ExecutionCompleted#1 COMPLETED")


def test_events_to_nobody(hub: Hub):
    """behaviour-32: an event to an unknown, an ended or its own ending instance is dropped; the sender is not run again."""
    turns = []

    def done(ctx, _):
        return "done"

    def sender(ctx, targets):
        turns.append(1)
        for target in [*targets, ctx.instance_id]:
            ctx.send_event(target, "hello")
        return "sent"
        yield

    hub.work(done, sender)
    ended = hub.start(done)
    hub.completed(ended)
    instance = hub.start(sender, ["nobody-at-all", ended])
    assert hub.completed(instance) == "sent"
    sent = [f"EventSent#{number} hello" for number in (1, 2, 3)]
    hub.assert_history(instance, BEGIN, sent, "ExecutionCompleted#4 COMPLETED")
    # Another instance of the same kind goes all the way through: had the first been dispatched again, it had been now.
    again = hub.start(sender, [])
    hub.completed(again)
    assert len(turns) == 2
    hub.assert_history(ended, BEGIN, "ExecutionCompleted#1 COMPLETED")


def test_timer(hub: Hub, workers: int):
    """behaviour-22 behaviour-35: fires at the time that was asked for, not early, and soon."""

    def waits(ctx, _):
        before = ctx.current_utc_datetime
        yield ctx.create_timer(timedelta(milliseconds=300))
        return (ctx.current_utc_datetime - before).total_seconds()

    hub.work(waits, count=workers)
    instance = hub.start(waits)
    took = hub.completed(instance)
    assert 0.3 <= took, f"fired after {took} s"
    hub.assert_history(
        instance,
        BEGIN,
        "TimerCreated#1",
        [STARTED, "TimerFired<1", "ExecutionCompleted#2 COMPLETED"],
    )
    events = hub.client.get_orchestration_history(instance)
    [created] = [event for event in events if isinstance(event, history.TimerCreatedEvent)]
    [fired] = [event for event in events if isinstance(event, history.TimerFiredEvent)]
    assert fired.fire_at == created.fire_at


def test_timer_in_the_past(hub: Hub):
    """behaviour-35: what is over fires at once."""

    def late(ctx, _):
        yield ctx.create_timer(datetime(2001, 1, 1, tzinfo=UTC))
        return "at once"

    hub.work(late)
    instance = hub.start(late)
    assert hub.completed(instance) == "at once"
    hub.assert_history(instance, BEGIN, "TimerCreated#1", [STARTED, "TimerFired<1", "ExecutionCompleted#2 COMPLETED"])


def test_timer_of_twenty_years(hub: Hub):
    """behaviour-35: a timer may be far away; this worker does not split it."""

    def patient(ctx, _):
        ctx.set_custom_status("waiting")
        yield ctx.create_timer(timedelta(days=365 * 20))

    hub.work(patient)
    instance = hub.start(patient)
    hub.until_custom(instance, "waiting")
    events = hub.client.get_orchestration_history(instance)
    [created] = [event for event in events if isinstance(event, history.TimerCreatedEvent)]
    assert created.fire_at - datetime.now(UTC) > timedelta(days=365 * 20 - 1)
    hub.client.terminate_orchestration(instance)
    hub.until(instance, "TERMINATED")
    hub.assert_history(
        instance, BEGIN, "TimerCreated#1", [STARTED, "ExecutionTerminated", "ExecutionCompleted#2 TERMINATED"]
    )


def test_timer_in_pieces(hub: Hub):
    """behaviour-22 behaviour-35: the core worker splits a long timer; each piece fires at exactly the time it asked for."""
    interval = timedelta(milliseconds=200)

    def waits(ctx, _):
        before = ctx.current_utc_datetime
        yield ctx.create_timer(timedelta(milliseconds=500))
        return (ctx.current_utc_datetime - before).total_seconds()

    with worker.TaskHubGrpcWorker(
        host_address=hub.host, metadata=[("taskhub", hub.name)], maximum_timer_interval=interval
    ) as made:
        made.add_orchestrator(waits)
        made.start()
        instance = hub.start(waits)
        assert hub.completed(instance) >= 0.5
    hub.assert_history(
        instance,
        BEGIN,
        "TimerCreated#1",
        [STARTED, "TimerFired<1", "TimerCreated#2"],
        [STARTED, "TimerFired<2", "TimerCreated#3"],
        [STARTED, "TimerFired<3", "ExecutionCompleted#4 COMPLETED"],
    )
    events = hub.client.get_orchestration_history(instance)
    asked = [event.fire_at for event in events if isinstance(event, history.TimerCreatedEvent)]
    fired = [event.fire_at for event in events if isinstance(event, history.TimerFiredEvent)]
    assert asked == fired
    assert [later - earlier for earlier, later in zip(asked, asked[1:], strict=False)] == [interval, interval / 2]


def test_timer_raced_with_event(hub: Hub, workers: int):
    """behaviour-35: the loser of a race is delivered and ignored; it neither fails nor restarts anything."""

    def approval(ctx, seconds):
        event = ctx.wait_for_external_event("approval")
        timer = ctx.create_timer(timedelta(seconds=seconds))
        ctx.set_custom_status("asked")
        winner = yield task.when_any([event, timer])
        if winner is timer:
            return "too late"
        yield ctx.create_timer(timedelta(seconds=seconds))
        return event.get_result()

    hub.work(approval, count=workers)
    approved, forgotten = hub.start(approval, 0.5), hub.start(approval, 0.2)
    hub.until_custom(approved, "asked")
    hub.client.raise_orchestration_event(approved, "approval", data="yes")
    assert hub.completed(approved) == "yes"
    assert hub.completed(forgotten) == "too late"
    turn = [STARTED, "EventRaised approval", "TimerCreated#2"]
    hub.assert_history(
        approved, BEGIN, "TimerCreated#1", turn, race("TimerFired<1", "TimerFired<2"), "ExecutionCompleted#3 COMPLETED"
    )
    hub.assert_history(forgotten, BEGIN, "TimerCreated#1", [STARTED, "TimerFired<1", "ExecutionCompleted#2 COMPLETED"])


def test_scheduled_start(hub: Hub):
    """behaviour-19 behaviour-36: PENDING until its time, then it runs, and its clock says now."""

    def punctual(ctx, _):
        return ctx.current_utc_datetime.timestamp()

    hub.work(punctual)
    due = datetime.now(UTC) + timedelta(seconds=1.5)
    later = hub.start(punctual, start_at=due)
    at_once = hub.start(punctual, start_at=datetime(1970, 1, 1, tzinfo=UTC))
    before = time.time()
    assert hub.completed(at_once) is not None
    # The clock of the first turn is the present, not the time that was asked for.
    [first, *_] = hub.client.get_orchestration_history(at_once)
    assert first.timestamp.timestamp() > before - 60
    assert hub.status(later) == "PENDING"
    hub.completed(later)
    [first, *_] = hub.client.get_orchestration_history(later)
    assert first.timestamp >= due - timedelta(milliseconds=1)
    for instance in (later, at_once):
        hub.assert_history(instance, BEGIN, "ExecutionCompleted#1 COMPLETED")


def test_event_to_nobody_is_not_found(hub: Hub):
    """behaviour-49: the client that raises an event to an instance that is not there is told so."""
    with pytest.raises(grpc.RpcError) as raised:
        hub.client.raise_orchestration_event("nobody", "hello")
    assert raised.value.code() == grpc.StatusCode.NOT_FOUND
