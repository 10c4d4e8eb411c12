"""Suspend, resume and terminate: events that a worker obeys, in every state an instance can be in."""

from datetime import UTC, datetime, timedelta

import grpc
import pytest
from durabletask import client, history, task

from hub import Hub, eventually
from shape import BEGIN, MAYBE, STARTED


def waits(ctx, _):
    ctx.set_custom_status("waiting")
    return (yield ctx.wait_for_external_event("go"))


def test_suspend_and_resume(hub: Hub, workers: int):
    """behaviour-30: while suspended nothing runs, not even for an event that was waited for; resumed, it goes on."""
    hub.work(waits, count=workers)
    instance = hub.start(waits)
    hub.until_custom(instance, "waiting")
    hub.client.suspend_orchestration(instance, reason="lunch")
    hub.until(instance, "SUSPENDED")
    hub.client.raise_orchestration_event(instance, "go", data="went")
    # Another instance goes all the way: whatever could wrongly be dispatched for the first one has been.
    other = hub.start(waits)
    hub.client.raise_orchestration_event(other, "go", data="other")
    assert hub.completed(other) == "other"
    with pytest.raises(TimeoutError):
        hub.client.wait_for_orchestration_completion(instance, timeout=1)
    assert hub.status(instance) == "SUSPENDED"
    hub.client.resume_orchestration(instance, reason="back")
    assert hub.completed(instance) == "went"
    hub.assert_history(
        instance,
        BEGIN,
        [STARTED, "ExecutionSuspended"],
        [STARTED, "ExecutionResumed", MAYBE, "EventRaised go", "ExecutionCompleted#1 COMPLETED"],
    )
    events = hub.client.get_orchestration_history(instance)
    reasons = {type(event).__name__: event.input for event in events if hasattr(event, "input")}
    assert reasons["ExecutionSuspendedEvent"] == "lunch"
    assert reasons["ExecutionResumedEvent"] == "back"


def test_suspend_and_resume_many_times(hub: Hub, workers: int):
    """behaviour-30: suspending and resuming is not an end; results of work that runs on meanwhile are not lost."""

    def long_work(ctx, _):
        number = 0
        for _ in range(5):
            number = yield ctx.call_activity(plus_one, input=number)
            yield ctx.create_timer(timedelta(milliseconds=60))
        return number

    def plus_one(_, number):
        return number + 1

    hub.work(long_work, plus_one, count=workers)
    instance = hub.start(long_work)
    for _ in range(4):
        hub.client.suspend_orchestration(instance)
        hub.client.resume_orchestration(instance)
    assert hub.completed(instance) == 5
    found = [line for line in hub.history(instance) if line not in (STARTED, "ExecutionSuspended", "ExecutionResumed")]
    expected = ["ExecutionStarted#0"]
    for number in range(5):
        task_id, timer_id = 2 * number + 1, 2 * number + 2
        expected += [f"TaskScheduled#{task_id} plus_one", f"TaskCompleted<{task_id}"]
        expected += [f"TimerCreated#{timer_id}", f"TimerFired<{timer_id}"]
    assert found == [*expected, "ExecutionCompleted#11 COMPLETED"]


def test_resume_of_what_is_not_suspended(hub: Hub):
    """behaviour-30: resuming what is not suspended, or twice, does nothing; this SDK's worker fails on such an event."""
    hub.work(waits)
    instance = hub.start(waits)
    hub.until_custom(instance, "waiting")
    hub.client.resume_orchestration(instance)
    hub.client.suspend_orchestration(instance)
    hub.client.suspend_orchestration(instance)
    hub.until(instance, "SUSPENDED")
    hub.client.resume_orchestration(instance)
    hub.client.resume_orchestration(instance)
    hub.until(instance, "RUNNING")
    hub.client.raise_orchestration_event(instance, "go", data="went")
    assert hub.completed(instance) == "went"
    lines = hub.history(instance)
    assert lines.count("ExecutionResumed") == 1 and lines[-1] == "ExecutionCompleted#1 COMPLETED", lines


def test_resume_before_the_start(hub: Hub):
    """behaviour-30: a resume that comes before the first turn does not reach the worker."""
    instance = hub.start(waits)
    hub.client.resume_orchestration(instance)
    hub.client.raise_orchestration_event(instance, "go", data="went")
    hub.work(waits)
    assert hub.completed(instance) == "went"
    hub.assert_history(instance, BEGIN, MAYBE, "EventRaised go", "ExecutionCompleted#1 COMPLETED")


def test_terminate(hub: Hub, workers: int):
    """behaviour-31: ends with exactly the output that the client gave."""
    hub.work(waits, count=workers)
    instance = hub.start(waits)
    hub.until_custom(instance, "waiting")
    hub.client.terminate_orchestration(instance, output={"why": "enough €"})
    state = hub.result(instance)
    assert state.runtime_status == client.OrchestrationStatus.TERMINATED
    assert state.get_output() == {"why": "enough €"}
    assert state.failure_details is None
    expected = [BEGIN, [STARTED, "ExecutionTerminated", "ExecutionCompleted#1 TERMINATED"]]
    hub.assert_history(instance, *expected)
    # Once more, and what else a client may send: nothing happens, and nothing is an error.
    hub.client.terminate_orchestration(instance, output="again")
    hub.client.suspend_orchestration(instance)
    hub.client.resume_orchestration(instance)
    hub.client.raise_orchestration_event(instance, "go")
    assert hub.state(instance).get_output() == {"why": "enough €"}
    hub.assert_history(instance, *expected)


def test_terminate_suspended(hub: Hub):
    """behaviour-30: a suspended instance can be terminated, and then it is TERMINATED, not SUSPENDED."""
    hub.work(waits)
    instance = hub.start(waits)
    hub.until_custom(instance, "waiting")
    hub.client.suspend_orchestration(instance)
    hub.until(instance, "SUSPENDED")
    hub.client.terminate_orchestration(instance, output="over")
    state = hub.result(instance)
    assert (state.runtime_status.name, state.get_output()) == ("TERMINATED", "over")
    hub.assert_history(
        instance,
        BEGIN,
        [STARTED, "ExecutionSuspended"],
        [STARTED, "ExecutionTerminated", "ExecutionCompleted#1 TERMINATED"],
    )


def test_terminate_pending(hub: Hub):
    """behaviour-19 behaviour-31: started and terminated before any worker came: it ends without its code, it does not stay PENDING."""
    instance = hub.start(waits)
    assert hub.status(instance) == "PENDING"
    hub.client.terminate_orchestration(instance, output="unborn")
    hub.work(waits)
    state = hub.result(instance)
    assert (state.runtime_status.name, state.get_output()) == ("TERMINATED", "unborn")
    hub.assert_history(instance, BEGIN, "ExecutionTerminated", "ExecutionCompleted TERMINATED")


def test_terminate_before_its_time(hub: Hub):
    """behaviour-31 behaviour-36: an instance that waits for its time can be ended, and its code never runs."""
    ran = []

    def never(ctx, _):
        ran.append(ctx.instance_id)

    hub.work(never)
    instance = hub.start(never, start_at=datetime.now(UTC) + timedelta(days=1))
    assert hub.status(instance) == "PENDING"
    hub.client.terminate_orchestration(instance, output="early")
    state = hub.result(instance)
    assert (state.runtime_status.name, state.get_output()) == ("TERMINATED", "early")
    assert ran == []
    found = hub.history(instance)
    assert found[:3] == [*BEGIN, "ExecutionTerminated"], found
    assert len(found) == 4 and found[3].startswith("ExecutionCompleted") and found[3].endswith("TERMINATED"), found


def family(ctx, depth):
    """A parent, its child, its grandchild: the last waits."""
    ctx.set_custom_status("waiting")
    if depth == 0:
        return (yield ctx.wait_for_external_event("go"))
    return (yield ctx.call_sub_orchestrator(family, input=depth - 1))


def names(hub: Hub) -> tuple[str, str, str]:
    parent = hub.start(family, 2)
    child, grandchild = f"{parent}:0001", f"{parent}:0001:0001"
    eventually("the grandchild waits", lambda: hub.client.get_orchestration_state(grandchild))
    hub.until_custom(grandchild, "waiting")
    return parent, child, grandchild


def test_terminate_recursively(hub: Hub, workers: int):
    """behaviour-31: with `recursive` every descendant ends too."""
    hub.work(family, count=workers)
    parent, child, grandchild = names(hub)
    hub.client.terminate_orchestration(parent, output="all", recursive=True)
    for instance in (parent, child, grandchild):
        assert hub.result(instance).runtime_status == client.OrchestrationStatus.TERMINATED
    assert hub.state(parent).get_output() == "all"
    ended = [STARTED, "ExecutionTerminated", "ExecutionCompleted#2 TERMINATED"]
    for instance in (parent, child):
        hub.assert_history(instance, BEGIN, "SubOrchestrationInstanceCreated#1 family", ended)
    hub.assert_history(grandchild, BEGIN, [STARTED, "ExecutionTerminated", "ExecutionCompleted#1 TERMINATED"])
    events = hub.client.get_orchestration_history(parent)
    assert [event.recurse for event in events if isinstance(event, history.ExecutionTerminatedEvent)] == [True]


def test_terminate_only_the_parent(hub: Hub):
    """behaviour-31: without `recursive` the children go on, and their answers to the dead parent are dropped."""
    hub.work(family)
    parent, child, grandchild = names(hub)
    hub.client.terminate_orchestration(parent, output="me", recursive=False)
    assert hub.result(parent).runtime_status == client.OrchestrationStatus.TERMINATED
    assert hub.status(child) == "RUNNING"
    hub.client.raise_orchestration_event(grandchild, "go", data="fine")
    assert hub.completed(grandchild) == "fine"
    assert hub.completed(child) == "fine"
    hub.assert_history(
        parent,
        BEGIN,
        "SubOrchestrationInstanceCreated#1 family",
        [STARTED, "ExecutionTerminated", "ExecutionCompleted#2 TERMINATED"],
    )
    hub.assert_history(
        child,
        BEGIN,
        "SubOrchestrationInstanceCreated#1 family",
        [STARTED, "SubOrchestrationInstanceCompleted<1", "ExecutionCompleted#2 COMPLETED"],
    )


def test_terminated_child_fails_its_parent(hub: Hub):
    """behaviour-27: to the parent a terminated child has failed, with details that code can read."""

    def parent(ctx, _):
        try:
            yield ctx.call_sub_orchestrator(waits)
        except task.TaskFailedError as error:
            return [error.details.error_type, error.details.message]

    hub.work(parent, waits)
    instance = hub.start(parent)
    child = f"{instance}:0001"
    eventually("the child is there", lambda: hub.client.get_orchestration_state(child))
    hub.until_custom(child, "waiting")
    hub.client.terminate_orchestration(child)
    kind, message = hub.completed(instance)
    assert kind and child in message, (kind, message)
    hub.assert_history(
        instance,
        BEGIN,
        "SubOrchestrationInstanceCreated#1 waits",
        [STARTED, "SubOrchestrationInstanceFailed<1", "ExecutionCompleted#2 COMPLETED"],
    )


def test_terminate_while_continuing_as_new(hub: Hub):
    """behaviour-31: an instance that continues as new all the time is still terminated by one call."""

    def restless(ctx, number):
        yield ctx.create_timer(timedelta(milliseconds=5))
        ctx.continue_as_new(number + 1)

    hub.work(restless)
    instance = hub.start(restless, 0)
    eventually("it has run a few times", lambda: int(hub.state(instance).serialized_input or 0) > 3)
    hub.client.terminate_orchestration(instance, output="rest")
    state = hub.result(instance)
    assert (state.runtime_status.name, state.get_output()) == ("TERMINATED", "rest")
    found = hub.history(instance)
    assert found[:2] == BEGIN and "ExecutionTerminated" in found and found[-1].endswith(" TERMINATED"), found


def test_control_of_nobody(hub: Hub):
    """behaviour-49: suspend and resume say that there is no such instance; terminate is silent, or says so too."""
    for call in (hub.client.suspend_orchestration, hub.client.resume_orchestration):
        with pytest.raises(grpc.RpcError) as raised:
            call("nobody")
        assert raised.value.code() == grpc.StatusCode.NOT_FOUND
    try:
        hub.client.terminate_orchestration("nobody")
    except grpc.RpcError as error:
        assert error.code() == grpc.StatusCode.NOT_FOUND
