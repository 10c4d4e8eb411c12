"""A Python and a JavaScript worker on one hub, each calling what only the other has."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from durabletask import history, task

from hub import Hub
from server import MORTAL
from shape import BEGIN, STARTED, race


def measure(_, text):
    return len(text)


def py_child(ctx, text):
    loud = yield ctx.call_activity("shout", input=text)
    return {"by": "Python", "parent": ctx.parent_instance_id, "loud": loud}


def py_parent(ctx, text):
    loud = yield ctx.call_activity("shout", input=text)
    child = yield ctx.call_sub_orchestrator("js_child", input=text)
    return {"loud": loud, "child": child}


def py_fan_out(ctx, count):
    tasks = []
    for number in range(count):
        tasks += [ctx.call_activity("shout", input=f"n{number}"), ctx.call_activity(measure, input="x" * number)]
    return (yield task.when_all(tasks))


def py_catches(ctx, _):
    try:
        yield ctx.call_sub_orchestrator("js_fails")
    except task.TaskFailedError as error:
        return [error.details.error_type, error.details.message]


@pytest.fixture
def both(hub: Hub) -> Iterator[Hub]:
    made = hub.new_worker(py_child, py_parent, py_fan_out, py_catches, measure)
    made.use_work_item_filters()
    hub.run(made)
    folder = Path(os.environ["INTEROP_JAVASCRIPT"])
    node = folder / "node_modules" / ".bin" / "node"
    peer = subprocess.Popen(
        [*MORTAL, str(node), str(folder / "peer.js"), hub.host, hub.name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert peer.stdout is not None and peer.stdout.readline().strip() == "ready"
    yield hub
    peer.communicate("", timeout=30)


def test_python_calls_javascript(both: Hub):
    """behaviour-14 behaviour-56: activity and child of the other language, and the history is as ever."""
    instance = both.start("py_parent", "hello")
    child = {"by": "JavaScript", "parent": "py_parent", "measured": 5}
    assert both.completed(instance) == {"loud": "HELLO!", "child": child}
    both.assert_history(
        instance,
        BEGIN,
        "TaskScheduled#1 shout",
        [STARTED, "TaskCompleted<1", "SubOrchestrationInstanceCreated#2 js_child"],
        [STARTED, "SubOrchestrationInstanceCompleted<2", "ExecutionCompleted#3 COMPLETED"],
    )
    both.assert_history(
        f"{instance}:0002",
        BEGIN,
        "TaskScheduled#1 measure",
        [STARTED, "TaskCompleted<1", "ExecutionCompleted#2 COMPLETED"],
    )


def test_javascript_calls_python(both: Hub):
    """behaviour-14 behaviour-56: the other way round."""
    instance = both.start("js_parent", "hello")
    answer = both.completed(instance)
    assert answer == {"measured": 5, "child": {"by": "Python", "parent": instance, "loud": "HELLO!"}}
    both.assert_history(
        instance,
        BEGIN,
        "TaskScheduled#1 measure",
        [STARTED, "TaskCompleted<1", "SubOrchestrationInstanceCreated#2 py_child"],
        [STARTED, "SubOrchestrationInstanceCompleted<2", "ExecutionCompleted#3 COMPLETED"],
    )
    events = both.client.get_orchestration_history(instance)
    [created] = [event for event in events if isinstance(event, history.SubOrchestrationInstanceCreatedEvent)]
    both.assert_history(
        created.instance_id,
        BEGIN,
        "TaskScheduled#1 shout",
        [STARTED, "TaskCompleted<1", "ExecutionCompleted#2 COMPLETED"],
    )


def test_fan_out_over_both(both: Hub):
    """behaviour-56: one fan-out whose activities go to two languages."""
    instance = both.start("py_fan_out", 8)
    assert both.completed(instance) == sum(([f"N{number}!", number] for number in range(8)), [])
    both.assert_history(
        instance,
        BEGIN,
        [f"TaskScheduled#{number} {'shout' if number % 2 else 'measure'}" for number in range(1, 17)],
        race(*(f"TaskCompleted<{number}" for number in range(1, 17))),
        "ExecutionCompleted#17 COMPLETED",
    )


def test_failure_crosses_over(both: Hub):
    """behaviour-27: a JavaScript error is caught in Python under its own type and message."""
    instance = both.start("py_catches")
    kind, message = both.completed(instance)
    assert "RangeError" in kind and "out of JavaScript" in message
    both.assert_history(
        instance,
        BEGIN,
        "SubOrchestrationInstanceCreated#1 js_fails",
        [STARTED, "SubOrchestrationInstanceFailed<1", "ExecutionCompleted#2 COMPLETED"],
    )
