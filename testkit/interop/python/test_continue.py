"""Continue-as-new: one instance, run after run, while events keep coming."""

import threading
from datetime import timedelta

import pytest
from durabletask import history
from durabletask.internal import orchestrator_service_pb2 as pb

from hub import Hub, eventually
from shape import BEGIN, STARTED


def begun(hub: Hub, instance: str) -> history.ExecutionStartedEvent:
    events = hub.client.get_orchestration_history(instance)
    [found] = [event for event in events if isinstance(event, history.ExecutionStartedEvent)]
    return found


def test_counts(hub: Hub, workers: int):
    """behaviour-28: only the last run's history is left; the instance keeps id, tags, creation; the execution is new."""
    executions = set()

    def waits(ctx, state):
        number, limit = state
        yield ctx.create_timer(timedelta(milliseconds=10))
        # The first turn of this run is in the history by now.
        executions.add(begun(hub, ctx.instance_id).orchestration_instance.execution_id)
        if number < limit:
            ctx.continue_as_new([number + 1, limit])
        return number

    hub.work(waits, count=workers)
    instance = hub.start(waits, [1, 5], tags={"kept": "yes"})
    created = hub.state(instance).created_at
    assert hub.completed(instance) == 5
    assert hub.state(instance).created_at == created
    last = begun(hub, instance)
    assert last.tags == {"kept": "yes"}
    assert last.input == "[5, 5]"
    assert len(executions) == 5 and all(len(execution) == 32 for execution in executions)
    hub.assert_history(instance, BEGIN, "TimerCreated#1", [STARTED, "TimerFired<1", "ExecutionCompleted#2 COMPLETED"])


@pytest.mark.parametrize("senders", [1, 3])
def test_no_event_is_lost(hub: Hub, workers: int, senders: int):
    """behaviour-28 behaviour-33: every event arrives once, in the order of its sender, although each run takes one."""
    each = 60

    def mailbox(ctx, taken):
        item = yield ctx.wait_for_external_event("item")
        taken = [*taken, item]
        if len(taken) == each * senders:
            return taken
        ctx.continue_as_new(taken, save_events=True)

    hub.work(mailbox, count=workers)
    instance = hub.start(mailbox, [])

    def send(sender: int) -> None:
        own = hub.new_client()
        for number in range(each):
            own.raise_orchestration_event(instance, "item", data=[sender, number])

    threads = [threading.Thread(target=send, args=(sender,)) for sender in range(senders)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    taken = hub.completed(instance)
    for sender in range(senders):
        assert [number for who, number in taken if who == sender] == list(range(each))
    # The last run took the last event and nothing came after it.
    found = hub.history(instance)
    assert found[:2] == BEGIN and found[-2:] == ["EventRaised item", "ExecutionCompleted#1 COMPLETED"], found
    assert found.count("EventRaised item") == 1, found


def test_events_are_dropped_when_not_saved(hub: Hub):
    """behaviour-28: what a run had received and does not carry over is gone; what it had not received is not."""

    def forgetful(ctx, first):
        if first:
            yield ctx.wait_for_external_event("second")
            ctx.continue_as_new(False, save_events=False)
            return
        ctx.set_custom_status("again")
        return (yield ctx.wait_for_external_event("first"))

    instance = hub.start(forgetful, True)
    hub.client.raise_orchestration_event(instance, "first", data="old")
    hub.client.raise_orchestration_event(instance, "second")
    hub.work(forgetful)
    hub.until_custom(instance, "again")
    hub.client.raise_orchestration_event(instance, "first", data="new")
    assert hub.completed(instance) == "new"
    hub.assert_history(instance, BEGIN, [STARTED, "EventRaised first", "ExecutionCompleted#1 COMPLETED"])


def test_stale_timer_is_dropped(hub: Hub, workers: int):
    """behaviour-28: a timer of the run before does not fire into this one, whose ids begin at 1 again."""

    def two_runs(ctx, second):
        if not second:
            ctx.create_timer(timedelta(milliseconds=200))
            ctx.continue_as_new(True)
            return
        before = ctx.current_utc_datetime
        yield ctx.create_timer(timedelta(milliseconds=900))
        return (ctx.current_utc_datetime - before).total_seconds()

    hub.work(two_runs, count=workers)
    instance = hub.start(two_runs, False)
    took = hub.completed(instance)
    assert took >= 0.9, f"woken after {took} s by the timer of the run before"
    hub.assert_history(instance, BEGIN, "TimerCreated#1", [STARTED, "TimerFired<1", "ExecutionCompleted#2 COMPLETED"])


def test_stale_results_are_dropped(hub: Hub):
    """behaviour-25 behaviour-28: activities and children of the run before are carried out; their results are dropped."""
    done = []

    def slow(_, what):
        release.wait(60)
        done.append(what)
        return what

    def child(ctx, what):
        return (yield ctx.call_activity(slow, input=what))

    def two_runs(ctx, second):
        if not second:
            ctx.call_activity(slow, input="activity")
            ctx.call_sub_orchestrator(child, input="child")
            ctx.continue_as_new(True)
            return
        ctx.set_custom_status("second")
        return (yield ctx.call_activity(answer, input="fresh"))

    def answer(_, what):
        answered.wait(60)
        return what

    release, answered = threading.Event(), threading.Event()
    hub.work(two_runs, child, slow, answer)
    instance = hub.start(two_runs, False)
    hub.until_custom(instance, "second")
    release.set()
    # The child of the run before ends: its answer has been sent before the fresh one, and must not be taken for it.
    assert hub.completed(f"{instance}:0002") == "child"
    answered.set()
    assert hub.completed(instance) == "fresh"
    assert sorted(done) == ["activity", "child"]
    hub.assert_history(
        instance, BEGIN, "TaskScheduled#1 answer", [STARTED, "TaskCompleted<1", "ExecutionCompleted#2 COMPLETED"]
    )


def test_same_child_in_every_run(hub: Hub, workers: int):
    """behaviour-24: this SDK names children after the parent and the action: each run asks for the same id."""

    def child(ctx, number):
        return number * 10

    def parent(ctx, state):
        number, sum_so_far = state
        sum_so_far += yield ctx.call_sub_orchestrator(child, input=number)
        if number == 4:
            return sum_so_far
        ctx.continue_as_new([number + 1, sum_so_far])

    hub.work(parent, child, count=workers)
    instance = hub.start(parent, [1, 0])
    assert hub.completed(instance) == 100
    hub.assert_history(
        instance,
        BEGIN,
        "SubOrchestrationInstanceCreated#1 child",
        [STARTED, "SubOrchestrationInstanceCompleted<1", "ExecutionCompleted#2 COMPLETED"],
    )
    assert hub.client.get_orchestration_history(f"{instance}:0001")[1].input == "4"


def test_version_changes_with_the_run(hub: Hub):
    """behaviour-28: the next run may have another version, and keeps the old one otherwise."""

    def upgrade(ctx, versions):
        versions = [*versions, ctx.version]
        if len(versions) == 3:
            return versions
        ctx.continue_as_new(versions, new_version="2.0.0" if len(versions) == 1 else None)

    hub.work(upgrade)
    instance = hub.start(upgrade, [], version="1.0.0")
    assert hub.completed(instance) == ["1.0.0", "2.0.0", "2.0.0"]
    assert begun(hub, instance).version == "2.0.0"
    shown = hub.stub().GetInstance(pb.GetInstanceRequest(instanceId=instance)).orchestrationState
    assert shown.version.value == "2.0.0"
    hub.assert_history(instance, BEGIN, "ExecutionCompleted#1 COMPLETED")


def test_custom_status_is_cleared_and_parent_kept(hub: Hub):
    """behaviour-28: the status of the run before is not that of the next; a child stays its parent's child."""

    def child(ctx, number):
        if number == 0:
            ctx.set_custom_status("first run")
            ctx.continue_as_new(1)
            return
        yield ctx.wait_for_external_event("go")
        return ctx.parent_instance_id

    def parent(ctx, _):
        return (yield ctx.call_sub_orchestrator(child, input=0))

    hub.work(parent, child)
    instance = hub.start(parent)
    name = f"{instance}:0001"
    eventually("the second run has begun", lambda: _second(hub, name))
    assert hub.state(name).serialized_custom_status is None
    assert hub.status(name) == "RUNNING"
    hub.client.raise_orchestration_event(name, "go")
    assert hub.completed(instance) == instance
    hub.assert_history(name, BEGIN, [STARTED, "EventRaised go", "ExecutionCompleted#1 COMPLETED"])


def _second(hub: Hub, name: str) -> bool:
    if hub.client.get_orchestration_state(name) is None:
        return False
    events = hub.client.get_orchestration_history(name)
    return any(isinstance(event, history.ExecutionStartedEvent) and event.input == "1" for event in events)
