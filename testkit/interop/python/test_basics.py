"""Chains, fan-out, children, failures and status: output, state and the full history, with one and with two workers."""

import re
from datetime import timedelta

import grpc
from durabletask import client, history, task
from durabletask.internal import orchestrator_service_pb2 as pb

from hub import Hub, eventually
from shape import BEGIN, STARTED, race

EXECUTION_ID = re.compile(r"^[0-9a-f]{32}$")


def plus_one(_, number):
    return number + 1


def chain(ctx, number):
    for _ in range(3):
        number = yield ctx.call_activity(plus_one, input=number)
    return number


def test_nothing(hub: Hub, workers: int):
    """behaviour-12 behaviour-13: a run without actions has three events, the completion's id is that of its action."""

    def nothing(ctx, _):
        return None

    hub.work(nothing, count=workers)
    instance = hub.start(nothing)
    state = hub.result(instance)
    assert (state.instance_id, state.name) == (instance, "nothing")
    assert state.runtime_status == client.OrchestrationStatus.COMPLETED
    assert (state.serialized_input, state.serialized_output, state.serialized_custom_status) == (None, None, None)
    assert state.failure_details is None
    hub.assert_history(instance, BEGIN, "ExecutionCompleted#1 COMPLETED")


def test_chain(hub: Hub, workers: int):
    """behaviour-22 behaviour-23: every action is an event with the action's id, every result is an event without one."""
    hub.work(chain, plus_one, count=workers)
    instance = hub.start(chain, 1)
    assert hub.completed(instance) == 4
    hub.assert_history(
        instance,
        BEGIN,
        "TaskScheduled#1 plus_one",
        [STARTED, "TaskCompleted<1", "TaskScheduled#2 plus_one"],
        [STARTED, "TaskCompleted<2", "TaskScheduled#3 plus_one"],
        [STARTED, "TaskCompleted<3", "ExecutionCompleted#4 COMPLETED"],
    )
    events = hub.client.get_orchestration_history(instance)
    assert [event.input for event in events if isinstance(event, history.TaskScheduledEvent)] == ["1", "2", "3"]
    assert [event.result for event in events if isinstance(event, history.TaskCompletedEvent)] == ["2", "3", "4"]
    assert events[-1].result == "4"


def test_many_chains(hub: Hub, workers: int):
    """behaviour-20: thirty at once; none is confused with another, whichever worker takes its turns."""
    hub.work(chain, plus_one, count=workers)
    instances = [hub.start(chain, number) for number in range(30)]
    assert [hub.completed(instance) for instance in instances] == [number + 3 for number in range(30)]
    shapes = {tuple(hub.history(instance)) for instance in instances}
    assert len(shapes) == 1, shapes


def test_fan_out(hub: Hub, workers: int):
    """behaviour-22: results of a fan-out come in any order, each exactly once."""
    count = 20

    def fan_out(ctx, _):
        results = yield task.when_all([ctx.call_activity(plus_one, input=number) for number in range(count)])
        return sum(results)

    hub.work(fan_out, plus_one, count=workers)
    instance = hub.start(fan_out)
    assert hub.completed(instance) == sum(range(1, count + 1))
    hub.assert_history(
        instance,
        BEGIN,
        [f"TaskScheduled#{number} plus_one" for number in range(1, count + 1)],
        race(*(f"TaskCompleted<{number}" for number in range(1, count + 1))),
        f"ExecutionCompleted#{count + 1} COMPLETED",
    )


def test_children(hub: Hub, workers: int):
    """behaviour-13 behaviour-14: a child knows its parent, and both histories fit together."""

    def child(ctx, number):
        doubled = yield ctx.call_activity(plus_one, input=number)
        return [ctx.parent_instance_id, doubled]

    def parent(ctx, _):
        results = yield task.when_all([ctx.call_sub_orchestrator(child, input=number) for number in range(3)])
        return [ctx.parent_instance_id, results]

    hub.work(parent, child, plus_one, count=workers)
    instance = hub.start(parent)
    assert hub.completed(instance) == [None, [[instance, 1], [instance, 2], [instance, 3]]]
    hub.assert_history(
        instance,
        BEGIN,
        [f"SubOrchestrationInstanceCreated#{number} child" for number in (1, 2, 3)],
        race(*(f"SubOrchestrationInstanceCompleted<{number}" for number in (1, 2, 3))),
        "ExecutionCompleted#4 COMPLETED",
    )
    parent_started = started(hub, instance)
    assert parent_started.parent_instance is None
    for number in (1, 2, 3):
        name = f"{instance}:{number:04x}"
        hub.assert_history(
            name,
            BEGIN,
            "TaskScheduled#1 plus_one",
            [STARTED, "TaskCompleted<1", "ExecutionCompleted#2 COMPLETED"],
        )
        begun = started(hub, name)
        assert begun.orchestration_instance.instance_id == name
        assert EXECUTION_ID.match(begun.orchestration_instance.execution_id)
        assert begun.parent_instance.task_scheduled_id == number
        assert begun.parent_instance.name == "parent"
        assert begun.parent_instance.orchestration_instance == parent_started.orchestration_instance


def started(hub: Hub, instance: str) -> history.ExecutionStartedEvent:
    events = hub.client.get_orchestration_history(instance)
    [found] = [event for event in events if isinstance(event, history.ExecutionStartedEvent)]
    return found


def test_activity_timer_and_child(hub: Hub, workers: int):
    """behaviour-55: exactly these twelve events, without any OrchestratorCompleted, ids rising, all with a time."""

    def child(ctx, _):
        return "child"

    def parent(ctx, number):
        number = yield ctx.call_activity(plus_one, input=number)
        yield ctx.create_timer(timedelta(milliseconds=50))
        return (yield ctx.call_sub_orchestrator(child, input=number))

    hub.work(parent, child, plus_one, count=workers)
    instance = hub.start(parent, 1)
    assert hub.completed(instance) == "child"
    hub.assert_history(
        instance,
        BEGIN,
        "TaskScheduled#1 plus_one",
        [STARTED, "TaskCompleted<1", "TimerCreated#2"],
        [STARTED, "TimerFired<2", "SubOrchestrationInstanceCreated#3 child"],
        [STARTED, "SubOrchestrationInstanceCompleted<3", "ExecutionCompleted#4 COMPLETED"],
    )
    # The clock of the turns; what a turn was given happened before it.
    events = hub.client.get_orchestration_history(instance)
    clock = [event.timestamp for event in events if isinstance(event, history.OrchestratorStartedEvent)]
    assert clock == sorted(clock) and len(clock) == 4


def test_history_of_nobody(hub: Hub):
    """behaviour-55: an instance that is not there has no history, or is not found; it is never an internal error."""
    try:
        assert hub.client.get_orchestration_history("nobody") == []
    except grpc.RpcError as error:
        assert error.code() == grpc.StatusCode.NOT_FOUND


def test_failing_activity_is_handled(hub: Hub, workers: int):
    """behaviour-22: a failure is an event like any other, and code may go on after it."""

    def explode(_, what):
        raise RuntimeError(f"no {what}")

    def careful(ctx, what):
        try:
            yield ctx.call_activity(explode, input=what)
        except task.TaskFailedError as error:
            number = yield ctx.call_activity(plus_one, input=1)
            return [error.details.message, error.details.error_type, number]

    hub.work(careful, explode, plus_one, count=workers)
    instance = hub.start(careful, "bread")
    assert hub.completed(instance) == ["no bread", "builtins.RuntimeError", 2]
    hub.assert_history(
        instance,
        BEGIN,
        "TaskScheduled#1 explode",
        [STARTED, "TaskFailed<1", "TaskScheduled#2 plus_one"],
        [STARTED, "TaskCompleted<2", "ExecutionCompleted#3 COMPLETED"],
    )


class Mailed(Exception):
    """Carries a property, as the SDK lets an exception do."""


class Properties:
    def get_exception_properties(self, exception: BaseException):
        return {"postcode": "12345", "floor": 3} if isinstance(exception, Mailed) else None


def test_failure_details_are_kept_verbatim(hub: Hub):
    """behaviour-26 behaviour-27: inner failures and properties reach the parent and the client unchanged."""

    def send(_, _input):
        try:
            raise KeyError("street")
        except KeyError as error:
            raise Mailed("no address") from error

    def child(ctx, _):
        yield ctx.call_activity(send)

    def parent(ctx, _):
        yield ctx.call_sub_orchestrator(child)

    hub.work(parent, child, send, exception_properties_provider=Properties())
    instance = hub.start(parent)
    state = hub.result(instance)
    assert state.runtime_status == client.OrchestrationStatus.FAILED

    by_child = hub.client.get_orchestration_history(f"{instance}:0001")
    failed_task = next(event for event in by_child if isinstance(event, history.TaskFailedEvent))
    assert failed_task.failure_details.message == "no address"
    assert failed_task.failure_details.properties == {"postcode": "12345", "floor": 3}
    assert failed_task.failure_details.stack_trace
    child_end = by_child[-1]
    # The SDK wraps: the orchestration's own failure, and the activity's within it.
    assert child_end.failure_details.inner_failure == failed_task.failure_details
    by_parent = hub.client.get_orchestration_history(instance)
    failed_child = next(event for event in by_parent if isinstance(event, history.SubOrchestrationInstanceFailedEvent))
    assert failed_child.failure_details == child_end.failure_details, "the child's failure was rewritten"
    assert by_parent[-1].failure_details == state.failure_details
    assert state.failure_details.inner_failure == child_end.failure_details
    assert state.failure_details.inner_failure.inner_failure.properties["floor"] == 3
    hub.assert_history(
        instance,
        BEGIN,
        "SubOrchestrationInstanceCreated#1 child",
        [STARTED, "SubOrchestrationInstanceFailed<1", "ExecutionCompleted#2 FAILED"],
    )


def test_unknown_orchestrator_fails(hub: Hub):
    """behaviour-26: a failure of the worker itself, whose completion has an action id of its own making."""
    hub.work(chain, plus_one)
    instance = hub.start("unheard_of")
    state = hub.result(instance)
    assert state.runtime_status == client.OrchestrationStatus.FAILED
    assert "OrchestratorNotRegistered" in state.failure_details.error_type
    found = hub.history(instance)
    assert found[:2] == BEGIN and found[2].endswith(" FAILED") and len(found) == 3, found


def test_custom_status(hub: Hub, workers: int):
    """behaviour-26: each answer overwrites the custom status, and one without clears it."""

    def speaks(ctx, _):
        ctx.set_custom_status({"step": 1})
        yield ctx.wait_for_external_event("go")
        ctx.set_custom_status({"step": 2, "text": "zwei €"})
        yield ctx.wait_for_external_event("go")
        ctx.set_custom_status(None)
        yield ctx.wait_for_external_event("go")
        return "said"

    hub.work(speaks, count=workers)
    instance = hub.start(speaks)
    hub.until_custom(instance, {"step": 1})
    hub.client.raise_orchestration_event(instance, "go")
    hub.until_custom(instance, {"step": 2, "text": "zwei €"})
    hub.client.raise_orchestration_event(instance, "go")
    hub.until_custom(instance, None)
    hub.client.raise_orchestration_event(instance, "go")
    assert hub.completed(instance) == "said"
    turn = [STARTED, "EventRaised go"]
    hub.assert_history(instance, BEGIN, turn, turn, turn, "ExecutionCompleted#1 COMPLETED")


def test_tags(hub: Hub):
    """behaviour-17 behaviour-47: tags of an instance and of an activity are kept and shown."""

    def tagged(ctx, number):
        return (yield ctx.call_activity(plus_one, input=number, tags={"colour": "red", "ключ": "значение"}))

    hub.work(tagged, plus_one)
    instance = hub.start(tagged, 1, tags={"team": "night"})
    assert hub.completed(instance) == 2
    assert started(hub, instance).tags == {"team": "night"}
    events = hub.client.get_orchestration_history(instance)
    scheduled = next(event for event in events if isinstance(event, history.TaskScheduledEvent))
    assert scheduled.tags == {"colour": "red", "ключ": "значение"}
    shown = hub.stub().GetInstance(pb.GetInstanceRequest(instanceId=instance)).orchestrationState
    assert dict(shown.tags) == {"team": "night"}
    hub.assert_history(
        instance,
        BEGIN,
        "TaskScheduled#1 plus_one",
        [STARTED, "TaskCompleted<1", "ExecutionCompleted#2 COMPLETED"],
    )


def test_fire_and_forget(hub: Hub):
    """behaviour-25: actions beside a completion are carried out, although nobody waits for them."""
    done = []

    def note(_, what):
        done.append(what)

    def careless(ctx, _):
        ctx.call_activity(note, input="noted")
        return "gone"

    hub.work(careless, note)
    instance = hub.start(careless)
    assert hub.completed(instance) == "gone"
    eventually("the activity ran", lambda: done == ["noted"])
    hub.assert_history(instance, BEGIN, "TaskScheduled#1 note", "ExecutionCompleted#2 COMPLETED")
