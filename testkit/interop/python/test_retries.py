"""Retries of this SDK: it asks for the same activity again under the same action id, and for a child under the same id."""

from datetime import timedelta

from durabletask import client, task

from hub import Hub
from shape import BEGIN, STARTED

POLICY = task.RetryPolicy(first_retry_interval=timedelta(milliseconds=30), max_number_of_attempts=3)


def test_activity_succeeds_at_last(hub: Hub, workers: int):
    """behaviour-24: several TaskScheduled with one id are legal, and each answer belongs to the last of them."""
    attempts = []

    def flaky(_, number):
        attempts.append(number)
        if len(attempts) < 3:
            raise RuntimeError(f"attempt {len(attempts)}")
        return number

    def stubborn(ctx, number):
        return (yield ctx.call_activity(flaky, input=number, retry_policy=POLICY))

    hub.work(stubborn, flaky, count=workers)
    instance = hub.start(stubborn, 7)
    assert hub.completed(instance) == 7
    assert attempts == [7, 7, 7]
    hub.assert_history(
        instance,
        BEGIN,
        "TaskScheduled#1 flaky",
        [STARTED, "TaskFailed<1", "TimerCreated#2"],
        [STARTED, "TimerFired<2", "TaskScheduled#1 flaky"],
        [STARTED, "TaskFailed<1", "TimerCreated#3"],
        [STARTED, "TimerFired<3", "TaskScheduled#1 flaky"],
        [STARTED, "TaskCompleted<1", "ExecutionCompleted#4 COMPLETED"],
    )


def test_activity_fails_for_good(hub: Hub):
    """behaviour-24: after the last attempt the failure is the code's to handle; here it fails the run."""

    def broken(_, _input):
        raise ValueError("never")

    def stubborn(ctx, _):
        yield ctx.call_activity(broken, retry_policy=POLICY)

    hub.work(stubborn, broken)
    instance = hub.start(stubborn)
    state = hub.result(instance)
    assert state.runtime_status == client.OrchestrationStatus.FAILED
    assert state.failure_details.inner_failure.message == "never"
    hub.assert_history(
        instance,
        BEGIN,
        "TaskScheduled#1 broken",
        [STARTED, "TaskFailed<1", "TimerCreated#2"],
        [STARTED, "TimerFired<2", "TaskScheduled#1 broken"],
        [STARTED, "TaskFailed<1", "TimerCreated#3"],
        [STARTED, "TimerFired<3", "TaskScheduled#1 broken"],
        [STARTED, "TaskFailed<1", "ExecutionCompleted#4 FAILED"],
    )


def test_child_is_replaced_by_its_retry(hub: Hub, workers: int):
    """behaviour-24: a child whose id is taken by one that has ended replaces it; the parent never waits for ever."""
    attempts = []

    def child(ctx, number):
        attempts.append(number)
        if len(attempts) < 3:
            raise RuntimeError(f"attempt {len(attempts)}")
        return number

    def parent(ctx, number):
        return (yield ctx.call_sub_orchestrator(child, input=number, retry_policy=POLICY))

    hub.work(parent, child, count=workers)
    instance = hub.start(parent, 5)
    assert hub.completed(instance) == 5
    assert attempts == [5, 5, 5]
    hub.assert_history(
        instance,
        BEGIN,
        "SubOrchestrationInstanceCreated#1 child",
        [STARTED, "SubOrchestrationInstanceFailed<1", "TimerCreated#2"],
        [STARTED, "TimerFired<2", "SubOrchestrationInstanceCreated#1 child"],
        [STARTED, "SubOrchestrationInstanceFailed<1", "TimerCreated#3"],
        [STARTED, "TimerFired<3", "SubOrchestrationInstanceCreated#1 child"],
        [STARTED, "SubOrchestrationInstanceCompleted<1", "ExecutionCompleted#4 COMPLETED"],
    )
    # Only the last attempt is left of the child.
    hub.assert_history(f"{instance}:0001", BEGIN, "ExecutionCompleted#1 COMPLETED")


def test_child_over_a_running_instance(hub: Hub):
    """behaviour-24: a child id that belongs to a running instance fails the call at once, and leaves that one alone."""

    def waits(ctx, _):
        ctx.set_custom_status("here")
        return (yield ctx.wait_for_external_event("go"))

    def parent(ctx, taken):
        try:
            yield ctx.call_sub_orchestrator(waits, instance_id=taken)
        except task.TaskFailedError as error:
            return error.details.message
        return "not refused"

    hub.work(parent, waits)
    taken = hub.start(waits)
    hub.until_custom(taken, "here")
    instance = hub.start(parent, taken)
    message = hub.completed(instance)
    assert taken in message and message != "not refused"
    hub.assert_history(
        instance,
        BEGIN,
        "SubOrchestrationInstanceCreated#1 waits",
        [STARTED, "SubOrchestrationInstanceFailed<1", "ExecutionCompleted#2 COMPLETED"],
    )
    hub.client.raise_orchestration_event(taken, "go", data="undisturbed")
    assert hub.completed(taken) == "undisturbed"
    hub.assert_history(taken, BEGIN, [STARTED, "EventRaised go", "ExecutionCompleted#1 COMPLETED"])
