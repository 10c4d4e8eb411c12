"""What no SDK at hand sends, by a worker that speaks the bare protocol: Go, Java and .NET as they are on the wire."""

import re

from durabletask.internal import orchestrator_service_pb2 as pb
from google.protobuf import timestamp_pb2

from hub import Hub, eventually
from raw import FAILED, Raw, begin, child, complete, kinds, schedule, text, timer
from shape import BEGIN, STARTED, race

EXECUTION_ID = re.compile(r"^[0-9a-f]{32}$")
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_first_work_item(hub: Hub):
    """behaviour-3 behaviour-12 behaviour-13 behaviour-15: what a worker is given first; this one never said Hello."""
    begin(
        hub,
        version=text("1.0"),
        input=text("in"),
        tags={"a": "b"},
        parentTraceContext=pb.TraceContext(traceParent=TRACE),
    )
    with Raw(hub) as worker:
        item = worker.orchestrator("raw")
        request = item.orchestratorRequest
        assert item.completionToken
        assert list(request.pastEvents) == [] and not request.requiresHistoryStreaming
        assert EXECUTION_ID.match(request.executionId.value)
        assert request.entityParameters.HasField("entityMessageReorderWindow")
        assert kinds(request.newEvents) == ["orchestratorStarted", "executionStarted"]
        assert all(event.HasField("timestamp") for event in request.newEvents)
        clock, begun = request.newEvents
        assert (clock.eventId, begun.eventId) == (-1, 0)
        started = begun.executionStarted
        assert (started.name, started.version.value, started.input.value) == ("Raw", "1.0", "in")
        assert dict(started.tags) == {"a": "b"}
        assert started.parentTraceContext.traceParent == TRACE
        assert started.orchestrationInstance.instanceId == "raw"
        assert started.orchestrationInstance.executionId.value == request.executionId.value
        assert not started.HasField("parentInstance")
        # Behaviour-19: nothing has been committed yet.
        assert hub.status("raw") == "PENDING"
        worker.answer(item, complete(0, "out"))
    assert hub.state("raw").serialized_output == "out"
    # Behaviour-23: an id of 0 is an id.
    hub.assert_history("raw", BEGIN, "ExecutionCompleted#0 COMPLETED")


def test_activity_request(hub: Hub):
    """behaviour-16 behaviour-17: what an activity is given."""
    begin(hub)
    with Raw(hub) as worker:
        item = worker.orchestrator()
        trace = pb.TraceContext(traceParent=TRACE)
        worker.answer(
            item,
            schedule(0, "Do", '"x"', version=text("7"), tags={"t": "1"}, parentTraceContext=trace),
            orchestrationTraceContext=pb.OrchestrationTraceContext(spanID=text("span-1")),
        )
        work = worker.activity()
        request = work.activityRequest
        assert (request.name, request.version.value, request.input.value, request.taskId) == ("Do", "7", '"x"', 0)
        assert dict(request.tags) == {"t": "1"}
        assert request.parentTraceContext.traceParent == TRACE
        assert request.orchestrationInstance.instanceId == "raw"
        assert request.orchestrationInstance.executionId.value == item.orchestratorRequest.executionId.value
        assert work.completionToken not in ("", item.completionToken)
        worker.done(work, "")
        second = worker.orchestrator()
        assert second.orchestratorRequest.orchestrationTraceContext.spanID.value == "span-1"
        past, new = second.orchestratorRequest.pastEvents, second.orchestratorRequest.newEvents
        assert kinds(past) == ["orchestratorStarted", "executionStarted", "taskScheduled"]
        assert kinds(new) == ["orchestratorStarted", "taskCompleted"]
        assert past[2].taskScheduled.parentTraceContext.traceParent == TRACE
        # Behaviour-26: an empty result is not an absent one.
        assert new[1].taskCompleted.HasField("result") and new[1].taskCompleted.result.value == ""
        worker.answer(second, complete(1, ""))
    state = hub.stub().GetInstance(pb.GetInstanceRequest(instanceId="raw", getInputsAndOutputs=True)).orchestrationState
    assert state.HasField("output") and state.output.value == ""
    hub.assert_history(
        "raw", BEGIN, "TaskScheduled#0 Do", [STARTED, "TaskCompleted<0", "ExecutionCompleted#1 COMPLETED"]
    )


def test_without_a_token(hub: Hub):
    """behaviour-21: the Go worker sends no token; instance and task say what is meant."""
    begin(hub)
    with Raw(hub) as worker:
        worker.answer(worker.orchestrator(), schedule(0, "A"), schedule(1, "B"), completionToken="")
        for _ in range(2):
            work = worker.activity()
            worker.done(work, f'"{work.activityRequest.name}"', completionToken="")
        results = {}
        while len(results) < 2:
            item = worker.orchestrator()
            for event in item.orchestratorRequest.newEvents:
                if event.HasField("taskCompleted"):
                    results[event.taskCompleted.taskScheduledId] = event.taskCompleted.result.value
            actions = [complete(2, "all")] if len(results) == 2 else []
            worker.answer(item, *actions, completionToken="")
        assert results == {0: '"A"', 1: '"B"'}
    assert hub.state("raw").serialized_output == "all"
    hub.assert_history(
        "raw",
        BEGIN,
        ["TaskScheduled#0 A", "TaskScheduled#1 B"],
        race("TaskCompleted<0", "TaskCompleted<1"),
        "ExecutionCompleted#2 COMPLETED",
    )


def test_actions_in_any_order(hub: Hub):
    """behaviour-23: the Go worker's actions come in the order of a map; they are carried out in the order of their ids."""
    begin(hub)
    with Raw(hub) as worker:
        soon = timestamp_pb2.Timestamp(seconds=1)
        worker.answer(worker.orchestrator(), schedule(3, "D"), timer(1, soon), schedule(0, "A"), child(2, "Raw", "kid"))
        eventually("the turn is committed", lambda: hub.status("raw") == "RUNNING")
        asked = [line for line in hub.history("raw") if "#" in line]
        assert asked == [
            "ExecutionStarted#0",
            "TaskScheduled#0 A",
            "TimerCreated#1",
            "SubOrchestrationInstanceCreated#2 Raw",
            "TaskScheduled#3 D",
        ]
        hub.client.terminate_orchestration("raw")


def test_two_completions_in_one_answer(hub: Hub):
    """behaviour-23: the first by id wins, whatever the order on the wire; the instance ends once."""
    begin(hub)
    with Raw(hub) as worker:
        item = worker.orchestrator()
        worker.answer(item, complete(5, "second", pb.ORCHESTRATION_STATUS_TERMINATED), complete(4, "first"))
    state = hub.state("raw")
    assert (state.runtime_status.name, state.serialized_output) == ("COMPLETED", "first")
    hub.assert_history("raw", BEGIN, "ExecutionCompleted#4 COMPLETED")


def test_chunked_completion(hub: Hub):
    """behaviour-29: a long answer in parts, as .NET and Java send it, is one turn."""
    begin(hub)
    with Raw(hub) as worker:
        item = worker.orchestrator()
        for index in range(3):
            first = index * 2
            last = index == 2
            actions = [schedule(first, f"T{first}"), schedule(first + 1, f"T{first + 1}")]
            more = {} if index == 0 else {"numEventsProcessed": {"value": 0}}
            worker.answer(item, *actions, isPartial=not last, chunkIndex={"value": index}, **more)
            if not last:
                assert hub.status("raw") == "PENDING", "a part was committed"
        names = sorted(worker.activity().activityRequest.name for _ in range(6))
        assert names == [f"T{number}" for number in range(6)]
        hub.assert_history("raw", BEGIN, [f"TaskScheduled#{number} T{number}" for number in range(6)])
        hub.client.terminate_orchestration("raw")


def test_worker_asks_for_the_history(hub: Hub):
    """behaviour-29: `requiresHistory` is no answer: the same turn comes again, with the whole history."""
    begin(hub)
    with Raw(hub) as worker:
        worker.answer(worker.orchestrator(), schedule(1, "A"))
        worker.done(worker.activity(), "1")
        second = worker.orchestrator()
        worker.answer(second, requiresHistory=True)
        again = worker.orchestrator()
        assert again.completionToken != second.completionToken
        assert kinds(again.orchestratorRequest.pastEvents) == [
            "orchestratorStarted",
            "executionStarted",
            "taskScheduled",
        ]
        assert kinds(again.orchestratorRequest.newEvents) == ["orchestratorStarted", "taskCompleted"]
        worker.answer(again, complete(2, "done"))
    assert hub.state("raw").serialized_output == "done"
    hub.assert_history(
        "raw", BEGIN, "TaskScheduled#1 A", [STARTED, "TaskCompleted<1", "ExecutionCompleted#2 COMPLETED"]
    )


def test_history_streaming(hub: Hub):
    """behaviour-10: a worker that can is given a long history in pieces, by StreamInstanceHistory."""
    begin(hub)
    payload = '"' + "x" * 900_000 + '"'
    with Raw(hub, capabilities=[pb.WORKER_CAPABILITY_HISTORY_STREAMING]) as worker:
        item = worker.orchestrator()
        assert not item.orchestratorRequest.requiresHistoryStreaming
        for number in range(1, 6):
            worker.answer(item, schedule(number, "Big"))
            worker.done(worker.activity(), payload)
            item = worker.orchestrator()
        request = item.orchestratorRequest
        assert request.requiresHistoryStreaming and list(request.pastEvents) == []
        assert kinds(request.newEvents) == ["orchestratorStarted", "taskCompleted"]
        chunks = list(
            worker.stub.StreamInstanceHistory(
                pb.StreamInstanceHistoryRequest(
                    instanceId="raw", executionId=request.executionId, forWorkItemProcessing=True
                )
            )
        )
        assert len(chunks) > 1 and max(chunk.ByteSize() for chunk in chunks) < 4 * 1024 * 1024
        past = [event for chunk in chunks for event in chunk.events]
        turn = ["taskScheduled", "orchestratorStarted", "taskCompleted"]
        assert kinds(past) == ["orchestratorStarted", "executionStarted", *turn * 4, "taskScheduled"]
        worker.answer(item, complete(6, "streamed"))
    assert hub.state("raw").serialized_output == "streamed"


def test_lost_stream_gives_its_items_back(hub: Hub):
    """behaviour-4 behaviour-7: what a lost stream held goes to another at once; the old token is accepted and dropped."""
    begin(hub)
    first = Raw(hub)
    held = first.orchestrator()
    first.close()
    with Raw(hub) as second:
        again = second.orchestrator()
        assert again.completionToken != held.completionToken
        assert kinds(again.orchestratorRequest.newEvents) == kinds(held.orchestratorRequest.newEvents)
        second.answer(again, schedule(1, "A"))
        work = second.activity()
    with Raw(hub) as third:
        redone = third.activity()
        assert redone.activityRequest == work.activityRequest
        third.done(redone, "1")
        second.done(work, "2")
        last = third.orchestrator()
        third.answer(last, complete(2, "end"))
        second.answer(again, complete(9, "too late"))
    assert hub.state("raw").serialized_output == "end"
    hub.assert_history(
        "raw", BEGIN, "TaskScheduled#1 A", [STARTED, "TaskCompleted<1", "ExecutionCompleted#2 COMPLETED"]
    )


def test_capacity(hub: Hub):
    """behaviour-9: no stream holds more items than it asked for; an answer makes room for one more."""
    begin(hub)
    with Raw(hub, maxConcurrentOrchestrationWorkItems=1, maxConcurrentActivityWorkItems=2) as worker:
        worker.answer(worker.orchestrator(), *(schedule(number, "A") for number in range(1, 8)))
        held = [worker.activity(), worker.activity()]
        results = 0
        while held:
            # An orchestration's turn may come in between: it is not an activity and has a limit of its own.
            assert worker.waiting() <= 1, "more than the limit"
            worker.done(held.pop(0), "1")
            results += 1
            while results + len(held) < 7 and len(held) < 2:
                item = worker.item()
                if item.HasField("activityRequest"):
                    held.append(item)
                else:
                    worker.answer(item)
        item = worker.orchestrator()
        while (
            sum(
                kind == "taskCompleted"
                for kind in kinds([*item.orchestratorRequest.pastEvents, *item.orchestratorRequest.newEvents])
            )
            < 7
        ):
            worker.answer(item)
            item = worker.orchestrator()
        worker.answer(item, complete(8, "seven"))
    assert hub.state("raw").serialized_output == "seven"


def test_no_capacity_given(hub: Hub):
    """behaviour-9: 0 is no limit given, and never none."""
    with Raw(hub) as worker:
        for number in range(20):
            begin(hub, f"raw-{number}")
        items = [worker.orchestrator() for _ in range(20)]
        assert {item.orchestratorRequest.instanceId for item in items} == {f"raw-{number}" for number in range(20)}
        for item in items:
            worker.answer(item, complete(1, "ok"))
    assert all(hub.status(f"raw-{number}") == "COMPLETED" for number in range(20))


def test_abandon(hub: Hub):
    """behaviour-34: the same batch again, later, under another token; it counts for nothing in the history."""
    begin(hub)
    with Raw(hub) as worker:
        first = worker.orchestrator()
        worker.abandon(first)
        second = worker.orchestrator()
        assert second.completionToken != first.completionToken
        assert kinds(second.orchestratorRequest.newEvents) == ["orchestratorStarted", "executionStarted"]
        worker.answer(second, schedule(1, "A"))
        work = worker.activity()
        worker.stub.AbandonTaskActivityWorkItem(pb.AbandonActivityTaskRequest(completionToken=work.completionToken))
        again = worker.activity()
        assert again.completionToken != work.completionToken and again.activityRequest == work.activityRequest
        worker.done(again, "1")
        worker.answer(worker.orchestrator(), complete(2, "ok"))
    hub.assert_history(
        "raw", BEGIN, "TaskScheduled#1 A", [STARTED, "TaskCompleted<1", "ExecutionCompleted#2 COMPLETED"]
    )


def test_one_turn_at_a_time(hub: Hub):
    """behaviour-20: while a turn is out, an event waits for the next, on whichever stream."""
    begin(hub)
    with Raw(hub) as worker, Raw(hub) as other:
        hub.stub().RaiseEvent(pb.RaiseEventRequest(instanceId="raw", name="before"))
        item = eventually("a turn", lambda: next((w.item() for w in (worker, other) if w.waiting()), None))
        hub.stub().RaiseEvent(pb.RaiseEventRequest(instanceId="raw", name="during"))
        begin(hub, "sentinel")
        busy = eventually("the sentinel", lambda: next((w.item() for w in (worker, other) if w.waiting()), None))
        assert busy.orchestratorRequest.instanceId == "sentinel"
        worker.answer(busy, complete(1))
        assert worker.waiting() + other.waiting() == 0
        worker.answer(item)
        second = eventually("the next turn", lambda: next((w.item() for w in (worker, other) if w.waiting()), None))
        seen = kinds(item.orchestratorRequest.newEvents) + kinds(second.orchestratorRequest.newEvents)
        assert seen.count("eventRaised") == 2
        assert second.orchestratorRequest.newEvents[-1].eventRaised.name == "during"
        worker.answer(second, complete(1, "ok"))
    assert hub.state("raw").serialized_output == "ok"


def test_failure_details_of_the_worker(hub: Hub):
    """behaviour-26 behaviour-27: everything in them is kept: inner failures, properties, and that a retry is useless."""
    begin(hub)
    inner = pb.TaskFailureDetails(errorType="Inner", errorMessage="deep", isNonRetriable=True)
    details = pb.TaskFailureDetails(
        errorType="My.Error", errorMessage="bad", stackTrace=text("at line 1"), innerFailure=inner, isNonRetriable=True
    )
    details.properties["n"].number_value = 3
    details.properties["list"].list_value.extend(["a", None, True])
    with Raw(hub) as worker:
        worker.answer(worker.orchestrator(), child(1, "Raw", "kid"))
        kid = worker.orchestrator("kid")
        begun = kid.orchestratorRequest.newEvents[1].executionStarted
        assert begun.parentInstance.orchestrationInstance.instanceId == "raw"
        worker.answer(kid, complete(1, None, FAILED, failureDetails=details))
        parent = worker.orchestrator("raw")
        [failed] = [e for e in parent.orchestratorRequest.newEvents if e.HasField("subOrchestrationInstanceFailed")]
        assert failed.subOrchestrationInstanceFailed.failureDetails == details
        worker.answer(parent, complete(2, None, FAILED, failureDetails=details))
    state = hub.stub().GetInstance(pb.GetInstanceRequest(instanceId="raw", getInputsAndOutputs=True)).orchestrationState
    assert state.failureDetails == details


# What Go and Java know; anything else fails the orchestration there (behaviour-18). eventSent is the exception that cannot
# be helped: the worker itself has asked for it.
CLASSIC = {
    "executionStarted",
    "executionTerminated",
    "executionSuspended",
    "executionResumed",
    "taskScheduled",
    "taskCompleted",
    "taskFailed",
    "subOrchestrationInstanceCreated",
    "subOrchestrationInstanceCompleted",
    "subOrchestrationInstanceFailed",
    "timerCreated",
    "timerFired",
    "orchestratorStarted",
    "eventRaised",
}


def test_rewound_run_on_the_wire(hub: Hub):
    """behaviour-18 behaviour-54: a rewound run is an ordinary one to its worker: no kind of event that Go or Java lack."""
    begin(hub)
    with Raw(hub) as worker:
        first = worker.orchestrator()
        worker.answer(first, schedule(1, "Good"), schedule(2, "Bad"))
        seen = 0
        for _ in range(2):
            work = worker.item()
            while not work.HasField("activityRequest"):
                worker.answer(work)
                work = worker.item()
            broken = work.activityRequest.name == "Bad"
            details = pb.TaskFailureDetails(errorType="E", errorMessage="bad") if broken else None
            worker.done(work, None if broken else "1", failureDetails=details)
        while seen < 2:
            item = worker.orchestrator()
            events = [*item.orchestratorRequest.pastEvents, *item.orchestratorRequest.newEvents]
            seen = sum(kind in ("taskCompleted", "taskFailed") for kind in kinds(events))
            failure = pb.TaskFailureDetails(errorType="E", errorMessage="bad")
            worker.answer(item, *([complete(3, None, FAILED, failureDetails=failure)] if seen == 2 else []))
        assert hub.status("raw") == "FAILED"
        hub.stub().RewindInstance(pb.RewindInstanceRequest(instanceId="raw", reason=text("again")))
        executions, asked = set(), []
        while "taskCompleted" not in asked:
            item = worker.item()
            if item.HasField("activityRequest"):
                assert item.activityRequest.name == "Bad"
                worker.done(item, "2")
                continue
            request = item.orchestratorRequest
            executions.add(request.executionId.value)
            assert set(kinds([*request.pastEvents, *request.newEvents])) <= CLASSIC
            assert kinds(request.newEvents)[0] == "orchestratorStarted"
            asked = kinds(request.newEvents)
            begun = next(event for event in request.pastEvents if event.HasField("executionStarted"))
            # It keeps the execution in which it began: code may have derived ids from it.
            began = first.orchestratorRequest.executionId.value
            assert begun.executionStarted.orchestrationInstance.executionId.value == began
            # A worker whose activity is not in the history any more asks for it again.
            known = [event.eventId for event in request.pastEvents if event.HasField("taskScheduled")]
            missing = [] if 2 in known else [schedule(2, "Bad")]
            worker.answer(item, *([complete(3, "whole")] if "taskCompleted" in asked else missing))
        assert len(executions) == 1 and first.orchestratorRequest.executionId.value not in executions
    assert hub.state("raw").serialized_output == "whole"


def test_nothing_exotic_on_the_wire(hub: Hub):
    """behaviour-18 behaviour-30: suspended and resumed, with events, timers and a child: only kinds that all SDKs know."""
    begin(hub)
    with Raw(hub) as worker:
        soon = timestamp_pb2.Timestamp(seconds=1)
        worker.answer(worker.orchestrator(), timer(1, soon), child(2, "Raw", "kid"))
        stub = hub.stub()
        stub.SuspendInstance(pb.SuspendRequest(instanceId="raw"))
        stub.RaiseEvent(pb.RaiseEventRequest(instanceId="raw", name="x"))
        stub.ResumeInstance(pb.ResumeRequest(instanceId="raw"))
        seen: set[str] = set()
        wanted = {
            "timerFired",
            "subOrchestrationInstanceCompleted",
            "executionSuspended",
            "executionResumed",
            "eventRaised",
        }
        while not wanted <= seen:
            item = worker.orchestrator()
            found = kinds([*item.orchestratorRequest.pastEvents, *item.orchestratorRequest.newEvents])
            assert set(found) <= CLASSIC
            own = item.orchestratorRequest.instanceId == "raw"
            seen |= set(found) if own else set()
            done = not own or wanted <= seen
            worker.answer(item, *([complete(9, "done")] if done else []))
    assert hub.state("raw").serialized_output == "done"
