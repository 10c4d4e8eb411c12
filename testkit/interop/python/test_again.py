"""Rewind, restart, and what may take the place of an instance that is there already."""

import re

import grpc
import pytest
from durabletask import client, history
from durabletask.internal import orchestrator_service_pb2 as pb

from hub import Hub, eventually
from shape import BEGIN, STARTED

# What a client of another language looks for in the message of a refused rewind (behaviour-54).
REFUSED = re.compile(r"not allow|precondition|running", re.IGNORECASE)
INVALID = "Invalid reusable statuses: cannot exclude 'Terminated' while also allowing reuse of running instances"


class Flaky:
    """An activity that fails until it is mended, and counts its calls."""

    def __init__(self):
        self.calls = 0
        self.broken = True

    def run(self, what: str) -> str:
        self.calls += 1
        if self.broken:
            raise RuntimeError("broken")
        return what


def code_of(call) -> grpc.StatusCode:
    with pytest.raises(grpc.RpcError) as raised:
        call()
    return raised.value.code()


def failed(hub: Hub, instance: str) -> None:
    assert hub.result(instance).runtime_status == client.OrchestrationStatus.FAILED


def test_rewind(hub: Hub, workers: int):
    """behaviour-54: what succeeded is not done again, what failed is; the run is a new execution of the same instance."""
    first, second = Flaky(), Flaky()
    first.broken = False

    def good(_, what):
        return first.run(what)

    def bad(_, what):
        return second.run(what)

    def both(ctx, _):
        one = yield ctx.call_activity(good, input="one")
        two = yield ctx.call_activity(bad, input="two")
        return [one, two]

    hub.work(both, good, bad, count=workers)
    instance = hub.start(both)
    failed(hub, instance)
    before = execution(hub, instance)
    hub.client.rewind_orchestration(instance, reason="not mended yet")
    eventually("it ran again", lambda: second.calls == 2)
    failed(hub, instance)
    second.broken = False
    hub.client.rewind_orchestration(instance, reason="mended")
    assert hub.completed(instance) == ["one", "two"]
    assert (first.calls, second.calls) == (1, 3)
    assert execution(hub, instance) != before
    found = hub.history(instance)
    assert "TaskFailed<2" not in found and found.count("ExecutionRewound") == 2, found
    assert found[:6] == [*BEGIN, "TaskScheduled#1 good", STARTED, "TaskCompleted<1", "TaskScheduled#2 bad"], found
    assert found[-2:] == ["TaskCompleted<2", "ExecutionCompleted#3 COMPLETED"], found
    events = hub.client.get_orchestration_history(instance)
    reasons = [event.reason for event in events if isinstance(event, history.ExecutionRewoundEvent)]
    assert reasons == ["not mended yet", "mended"]


def execution(hub: Hub, instance: str) -> str:
    shown = hub.stub().GetInstance(pb.GetInstanceRequest(instanceId=instance)).orchestrationState
    assert re.match("^[0-9a-f]{32}$", shown.executionId.value), shown.executionId
    return shown.executionId.value


def test_rewind_of_a_family(hub: Hub):
    """behaviour-54: failed children are rewound with their parent, and it waits for them."""
    flaky = Flaky()

    def bad(_, what):
        return flaky.run(what)

    def child(ctx, what):
        return (yield ctx.call_activity(bad, input=what))

    def parent(ctx, what):
        return (yield ctx.call_sub_orchestrator(child, input=what))

    hub.work(parent, child, bad)
    instance = hub.start(parent, "data")
    failed(hub, instance)
    flaky.broken = False
    hub.client.rewind_orchestration(instance)
    assert hub.completed(instance) == "data"
    assert hub.completed(f"{instance}:0001") == "data"
    assert flaky.calls == 2
    found = hub.history(instance)
    assert "SubOrchestrationInstanceFailed<1" not in found
    assert found[-2:] == ["SubOrchestrationInstanceCompleted<1", "ExecutionCompleted#2 COMPLETED"], found


def test_rewind_of_a_purged_child(hub: Hub):
    """behaviour-54: a failed child that was purged in the meantime is made again."""
    flaky = Flaky()

    def child(ctx, what):
        flaky.calls += 1
        if flaky.broken:
            raise RuntimeError("broken")
        return what

    def parent(ctx, what):
        return (yield ctx.call_sub_orchestrator(child, input=what))

    hub.work(parent, child)
    instance = hub.start(parent, "data")
    failed(hub, instance)
    assert hub.client.purge_orchestration(f"{instance}:0001").deleted_instance_count == 1
    flaky.broken = False
    hub.client.rewind_orchestration(instance)
    assert hub.completed(instance) == "data"
    assert flaky.calls == 2
    hub.assert_history(f"{instance}:0001", BEGIN, "ExecutionCompleted#1 COMPLETED")


def test_rewind_is_refused(hub: Hub):
    """behaviour-54: only a failed run; the codes, and a message that every SDK understands."""

    def waits(ctx, _):
        ctx.set_custom_status("waiting")
        return (yield ctx.wait_for_external_event("go"))

    hub.work(waits)
    instance = hub.start(waits)
    hub.until_custom(instance, "waiting")
    assert code_of(lambda: hub.client.rewind_orchestration("nobody")) == grpc.StatusCode.NOT_FOUND
    with pytest.raises(grpc.RpcError) as raised:
        hub.client.rewind_orchestration(instance)
    assert raised.value.code() == grpc.StatusCode.FAILED_PRECONDITION
    assert REFUSED.search(raised.value.details()), raised.value.details()
    hub.client.raise_orchestration_event(instance, "go")
    hub.completed(instance)
    assert code_of(lambda: hub.client.rewind_orchestration(instance)) == grpc.StatusCode.FAILED_PRECONDITION
    hub.assert_history(instance, BEGIN, [STARTED, "EventRaised go", "ExecutionCompleted#1 COMPLETED"])


def test_restart(hub: Hub, workers: int):
    """behaviour-53: the same name, input, version and tags again, under the same id or a new one."""
    runs = []

    def once(ctx, what):
        runs.append([ctx.instance_id, ctx.version, what])
        return what

    hub.work(once, count=workers)
    instance = hub.start(once, "input", tags={"a": "b"}, version="1.2.3")
    assert hub.completed(instance) == "input"
    before = execution(hub, instance)
    assert hub.client.restart_orchestration(instance) == instance
    eventually("it ran again", lambda: len(runs) == 2)
    assert hub.completed(instance) == "input"
    assert execution(hub, instance) != before
    other = hub.client.restart_orchestration(instance, restart_with_new_instance_id=True)
    assert other != instance
    assert hub.completed(other) == "input"
    assert runs == [[instance, "1.2.3", "input"], [instance, "1.2.3", "input"], [other, "1.2.3", "input"]]
    for name in (instance, other):
        hub.assert_history(name, BEGIN, "ExecutionCompleted#1 COMPLETED")
        begun = hub.client.get_orchestration_history(name)[1]
        assert (begun.version, begun.tags) == ("1.2.3", {"a": "b"})


def test_restart_of_a_running_instance(hub: Hub):
    """behaviour-53: refused under its own id, allowed under a new one; unknown is not found."""

    def waits(ctx, what):
        ctx.set_custom_status("waiting")
        yield ctx.wait_for_external_event("go")
        return what

    hub.work(waits)
    instance = hub.start(waits, "x")
    hub.until_custom(instance, "waiting")
    assert code_of(lambda: hub.client.restart_orchestration("nobody")) == grpc.StatusCode.NOT_FOUND
    assert code_of(lambda: hub.client.restart_orchestration(instance)) == grpc.StatusCode.FAILED_PRECONDITION
    hub.client.suspend_orchestration(instance)
    hub.until(instance, "SUSPENDED")
    assert code_of(lambda: hub.client.restart_orchestration(instance)) == grpc.StatusCode.FAILED_PRECONDITION
    other = hub.client.restart_orchestration(instance, restart_with_new_instance_id=True)
    hub.client.raise_orchestration_event(other, "go")
    assert hub.completed(other) == "x"
    assert hub.status(instance) == "SUSPENDED"


def simple(ctx, what):
    return what


def waiting(ctx, what):
    ctx.set_custom_status("waiting")
    yield ctx.wait_for_external_event("go")
    return what


def policy(*names: str) -> pb.OrchestrationIdReusePolicy:
    return pb.OrchestrationIdReusePolicy(
        replaceableStatus=[pb.OrchestrationStatus.Value(f"ORCHESTRATION_STATUS_{name}") for name in names]
    )


def test_id_in_use(hub: Hub):
    """behaviour-46: pending, running and suspended are ALREADY_EXISTS; one that has ended is replaced."""

    def start() -> str:
        return hub.start(waiting, "x", instance_id="same")

    start()
    assert code_of(start) == grpc.StatusCode.ALREADY_EXISTS
    assert hub.status("same") == "PENDING"
    hub.work(waiting)
    hub.until_custom("same", "waiting")
    assert code_of(start) == grpc.StatusCode.ALREADY_EXISTS
    hub.client.suspend_orchestration("same")
    hub.until("same", "SUSPENDED")
    assert code_of(start) == grpc.StatusCode.ALREADY_EXISTS
    hub.client.resume_orchestration("same")
    hub.client.raise_orchestration_event("same", "go")
    assert hub.completed("same") == "x"
    before = execution(hub, "same")
    assert start() == "same"
    hub.client.raise_orchestration_event("same", "go")
    eventually("another execution", lambda: execution(hub, "same") != before)
    assert hub.completed("same") == "x"
    found = hub.history("same")
    assert found.count("ExecutionStarted#0") == 1 and found[-1] == "ExecutionCompleted#1 COMPLETED", found


def test_no_id(hub: Hub):
    """behaviour-46: without an id the server makes one."""
    stub = hub.stub()
    made = stub.StartInstance(pb.CreateInstanceRequest(name="simple")).instanceId
    assert made
    other = stub.StartInstance(pb.CreateInstanceRequest(name="simple")).instanceId
    assert other not in ("", made)
    hub.work(simple)
    hub.completed(made)
    hub.completed(other)


def test_id_too_long(hub: Hub):
    """behaviour-46: one hundred characters are allowed, more are INVALID_ARGUMENT, and nothing is made."""
    hub.work(simple)
    fits, too_long = "i" * 100, "i" * 101
    assert hub.completed(hub.start(simple, 1, instance_id=fits)) == 1
    assert code_of(lambda: hub.start(simple, 1, instance_id=too_long)) == grpc.StatusCode.INVALID_ARGUMENT
    assert hub.client.get_all_orchestration_states() == [hub.client.get_orchestration_state(fits, fetch_payloads=False)]
    # Characters, not bytes.
    wide = "é" * 100
    assert hub.completed(hub.start(simple, 2, instance_id=wide)) == 2


def test_reuse_policy(hub: Hub):
    """behaviour-46: with a policy exactly the named statuses are replaced, an empty one names none."""
    hub.work(simple)
    hub.completed(hub.start(simple, 1, instance_id="done"))

    def start(chosen: pb.OrchestrationIdReusePolicy) -> str:
        return hub.start(simple, 2, instance_id="done", reuse_id_policy=chosen)

    assert code_of(lambda: start(policy())) == grpc.StatusCode.ALREADY_EXISTS
    assert code_of(lambda: start(policy("FAILED", "TERMINATED"))) == grpc.StatusCode.ALREADY_EXISTS
    assert hub.state("done").get_output() == 1
    assert start(policy("COMPLETED")) == "done"
    eventually("it was replaced", lambda: hub.result("done").get_output() == 2)
    hub.assert_history("done", BEGIN, "ExecutionCompleted#1 COMPLETED")


def test_reuse_policy_of_a_running_instance(hub: Hub):
    """behaviour-46: a running one is ended first, if the policy says so and may say so."""
    hub.work(simple, waiting)
    hub.start(waiting, "old", instance_id="busy")
    hub.until_custom("busy", "waiting")

    def start(chosen: pb.OrchestrationIdReusePolicy) -> str:
        return hub.start(simple, "new", instance_id="busy", reuse_id_policy=chosen)

    with pytest.raises(grpc.RpcError) as raised:
        start(policy("RUNNING", "COMPLETED"))
    assert raised.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert INVALID in raised.value.details()
    assert code_of(lambda: start(policy("TERMINATED", "COMPLETED"))) == grpc.StatusCode.ALREADY_EXISTS
    assert hub.status("busy") == "RUNNING"
    assert start(policy("RUNNING", "PENDING", "SUSPENDED", "TERMINATED")) == "busy"
    eventually("it was replaced", lambda: hub.state("busy").name == "simple")
    assert hub.completed("busy") == "new"
    hub.assert_history("busy", BEGIN, "ExecutionCompleted#1 COMPLETED")
