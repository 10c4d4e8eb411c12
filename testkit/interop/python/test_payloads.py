"""Large payloads: what fits a worker's four mebibytes works, what does not fails loudly and starves nobody."""

import grpc
from durabletask import client, history, task
from durabletask.client import OrchestrationQuery

from hub import Hub, eventually, quiet
from shape import BEGIN, STARTED

MEGABYTE = 1_000_000
# The receive limit of this SDK, and of Java, Go and .NET, which nobody changes (behaviour-10).
LIMIT = 4 * 1024 * 1024
CANARY = "canary-7f1c2d"


def big(_, size):
    return "x" * size


def simple(ctx, what):
    return what


def fetches(ctx, size):
    """One large result, which becomes the output."""
    return (yield ctx.call_activity(big, input=size))


def hoards(ctx, sizes):
    """Large results one after the other: each turn carries those before."""
    total = 0
    for size in sizes:
        total += len((yield ctx.call_activity(big, input=size)))
    return total


def test_three_megabytes(hub: Hub, workers: int):
    """behaviour-10 behaviour-58: a result of 3 MB passes through activity, orchestration, child, state and history."""
    size = 3 * MEGABYTE

    def parent(ctx, _):
        got = yield ctx.call_sub_orchestrator(fetches, input=size)
        return len(got)

    hub.work(parent, fetches, big, count=workers)
    instance = hub.start(parent)
    assert hub.completed(instance) == size
    child = hub.state(f"{instance}:0001")
    assert child.serialized_output == '"' + "x" * size + '"'
    hub.assert_history(
        f"{instance}:0001", BEGIN, "TaskScheduled#1 big", [STARTED, "TaskCompleted<1", "ExecutionCompleted#2 COMPLETED"]
    )
    hub.assert_history(
        instance,
        BEGIN,
        "SubOrchestrationInstanceCreated#1 fetches",
        [STARTED, "SubOrchestrationInstanceCompleted<1", "ExecutionCompleted#2 COMPLETED"],
    )
    [done] = [
        e
        for e in hub.client.get_orchestration_history(instance)
        if hasattr(e, "result") and e.result and len(e.result) > size
    ]
    assert isinstance(done, history.SubOrchestrationInstanceCompletedEvent)


def test_large_input_and_event(hub: Hub):
    """behaviour-58: payloads are opaque text: large, with any character, they come back as they were."""
    odd = '\u0000\u001f"\\/ €😀 \u2028' + "y" * MEGABYTE

    def echoes(ctx, what):
        event = yield ctx.wait_for_external_event("more")
        return [what, event]

    hub.work(echoes)
    instance = hub.start(echoes, odd)
    hub.client.raise_orchestration_event(instance, "more", data=odd)
    assert hub.completed(instance) == [odd, odd]
    found = hub.history(instance)
    assert [line for line in found if line != STARTED] == [
        "ExecutionStarted#0",
        "EventRaised more",
        "ExecutionCompleted#1 COMPLETED",
    ]


def test_pages_of_large_states(hub: Hub):
    """behaviour-50: a page of large states stays below what a client can receive."""
    hub.work(simple)
    what = "z" * (MEGABYTE // 2)
    made = [hub.start(simple, what, instance_id=f"large-{number}") for number in range(6)]
    for instance in made:
        hub.completed(instance)
    query = OrchestrationQuery(fetch_inputs_and_outputs=True)
    states = hub.client.get_all_orchestration_states(query)
    assert [state.instance_id for state in states] == made
    assert all(state.get_output() == what for state in states)


def ends_loudly(hub: Hub, instance: str, lines: list[str]) -> None:
    """The instance fails with a reason that names the limit, the worker never saw the item, and others run."""
    small = [hub.start(simple, number) for number in range(10)]
    assert [hub.completed(name) for name in small] == list(range(10))
    # Without payloads: the input alone may be more than this client can receive.
    state = hub.client.wait_for_orchestration_completion(instance, timeout=60, fetch_payloads=False)
    assert state.runtime_status == client.OrchestrationStatus.FAILED, state
    reason = state.failure_details.message
    assert "bytes" in reason.lower() and any(char.isdigit() for char in reason), reason
    assert not [line for line in lines if "RESOURCE_EXHAUSTED" in line], "the worker was sent more than it can take"
    again = hub.start(simple, "still here")
    assert hub.completed(again) == "still here"


def test_history_too_large_for_the_worker(hub: Hub):
    """behaviour-10: an orchestration whose turn would be over 4 MiB fails with a clear reason; the worker goes on."""
    logger, lines = quiet("fat")
    hub.work(hoards, simple, big, logger=logger)
    fits = hub.start(hoards, [MEGABYTE] * 3)
    instance = hub.start(hoards, [2 * MEGABYTE] * 4)
    ends_loudly(hub, instance, lines)
    assert hub.history(instance)[-1].endswith(" FAILED")
    assert hub.completed(fits) == 3 * MEGABYTE


def test_input_too_large_for_the_worker(hub: Hub):
    """behaviour-10: what no worker could receive is refused, or fails with a clear reason."""
    logger, lines = quiet("fat")
    hub.work(simple, logger=logger)
    try:
        instance = hub.start(simple, "i" * (LIMIT + 1000))
    except grpc.RpcError as error:
        assert error.code() in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.RESOURCE_EXHAUSTED)
        assert hub.completed(hub.start(simple, "still here")) == "still here"
    else:
        ends_loudly(hub, instance, lines)


def test_activity_too_large_for_the_worker(hub: Hub):
    """behaviour-10: an activity whose input no worker could receive fails; code may handle it, others go on."""

    def length(_, what):
        return len(what)

    def sends(ctx, size):
        try:
            return (yield ctx.call_activity(length, input="a" * size))
        except task.TaskFailedError as error:
            return error.details.message

    logger, lines = quiet("fat")
    hub.work(sends, simple, length, logger=logger)
    assert hub.completed(hub.start(sends, 3 * MEGABYTE)) == 3 * MEGABYTE
    instance = hub.start(sends, LIMIT + 1000)
    small = [hub.start(simple, number) for number in range(5)]
    assert [hub.completed(name) for name in small] == list(range(5))
    state = hub.result(instance)
    told = state.failure_details.message if state.failure_details else state.get_output()
    assert "bytes" in told.lower(), told
    assert not [line for line in lines if "RESOURCE_EXHAUSTED" in line], "the worker was sent more than it can take"


def test_payloads_are_never_logged(hub: Hub, server):
    """behaviour-58: a canary in every payload is found in no line of the server's log."""

    def carries(_, what):
        raise RuntimeError(f"{what} failed")

    def canary(ctx, what):
        ctx.set_custom_status(what)
        try:
            yield ctx.call_activity(carries, input=what)
        except task.TaskFailedError:
            pass
        yield ctx.wait_for_external_event("event")
        raise RuntimeError(what)

    hub.work(canary, carries)
    instance = hub.start(canary, CANARY)
    hub.client.raise_orchestration_event(instance, "event", data=CANARY)
    assert hub.result(instance).runtime_status == client.OrchestrationStatus.FAILED
    eventually("the log is there", server.log.exists)
    assert CANARY not in server.log.read_text()
