"""Calls as no SDK at hand makes them: useless and repeated answers, odd ids, bytes that are no text, cancelled waits."""

import grpc
import pytest
from durabletask.internal import orchestrator_service_pb2 as pb

from hub import Hub
from raw import COMPLETED, Raw, begin, complete, schedule, text
from shape import BEGIN


def simple(ctx, what):
    return what


def test_useless_completions_are_accepted(hub: Hub):
    """behaviour-7 behaviour-8: a repeated, unknown, malformed or foreign token is answered OK, and changes nothing."""
    begin(hub)
    with Raw(hub) as worker:
        item = worker.orchestrator()
        worker.answer(item, complete(1, "right"))
        assert hub.state("raw").serialized_output == "right"
        for token in (item.completionToken, "unknown", "\x00 €", "x" * 5000):
            worker.answer(item, complete(1, "wrong"), completionToken=token)
            worker.stub.CompleteActivityTask(
                pb.ActivityResponse(instanceId="raw", taskId=1, result=text("wrong"), completionToken=token)
            )
            worker.stub.AbandonTaskActivityWorkItem(pb.AbandonActivityTaskRequest(completionToken=token))
            worker.stub.AbandonTaskOrchestratorWorkItem(pb.AbandonOrchestrationTaskRequest(completionToken=token))
        # Nobody with that name, and no token.
        worker.stub.CompleteOrchestratorTask(pb.OrchestratorResponse(instanceId="nobody", actions=[complete(1, "x")]))
        worker.stub.CompleteActivityTask(pb.ActivityResponse(instanceId="nobody", taskId=1))
        # Behaviour-1: a token is good in its own hub only.
        begin(hub, "second")
        second = worker.orchestrator("second")
        other = Hub(hub.host)
        try:
            other.stub().CompleteOrchestratorTask(
                pb.OrchestratorResponse(
                    instanceId="second", completionToken=second.completionToken, actions=[complete(1, "foreign")]
                )
            )
        finally:
            other.close()
        assert hub.status("second") == "PENDING"
        worker.answer(second, complete(1, "own"))
    assert hub.state("second").serialized_output == "own"
    assert hub.state("raw").serialized_output == "right"
    hub.assert_history("raw", BEGIN, "ExecutionCompleted#1 COMPLETED")


def test_repeated_action_ids(hub: Hub):
    """behaviour-8: nonsense in an answer harms nobody else: the instance goes on, fails or stalls, others run."""
    begin(hub)
    with Raw(hub, workItemFilters=pb.WorkItemFilters(orchestrations=[pb.OrchestrationFilter(name="Raw")])) as worker:
        item = worker.orchestrator()
        try:
            worker.answer(item, schedule(1, "A"), schedule(1, "B"), pb.OrchestratorAction(id=2))
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
        made = hub.new_worker(simple)
        made.use_work_item_filters()
        hub.run(made)
        assert hub.completed(hub.start(simple, "fine")) == "fine"


def test_hub_names_in_a_query_are_ignored(hub: Hub):
    """behaviour-2: the header chooses the hub, whatever the query names."""
    begin(hub)
    query = pb.InstanceQuery(taskHubNames=[text("elsewhere")])
    found = hub.stub().QueryInstances(pb.QueryInstancesRequest(query=query)).orchestrationState
    assert [state.instanceId for state in found] == ["raw"]


def test_start_that_is_sent_again(hub: Hub):
    """behaviour-11: a start that was committed and is sent again by the transport is told apart: it exists already."""
    request = pb.CreateInstanceRequest(instanceId="raw", name="Raw")
    hub.stub().StartInstance(request)
    with pytest.raises(grpc.RpcError) as raised:
        hub.stub().StartInstance(request)
    assert raised.value.code() == grpc.StatusCode.ALREADY_EXISTS
    with Raw(hub) as worker:
        worker.answer(worker.orchestrator(), complete(1, "once"))
    hub.assert_history("raw", BEGIN, "ExecutionCompleted#1 COMPLETED")


def test_force_terminate(hub: Hub):
    """behaviour-57: ends in storage at once, without a worker; what cannot be ended so is returned."""
    begin(hub, "stuck")
    begin(hub, "done")
    with Raw(hub) as worker:
        for _ in range(2):
            item = worker.orchestrator()
            actions = [complete(1, "done")] if item.orchestratorRequest.instanceId == "done" else []
            worker.answer(item, *actions)
    request = pb.SkipGracefulOrchestrationTerminationsRequest(
        instanceBatch=pb.InstanceBatch(instanceIds=["stuck", "done", "nobody"]), reason=text("now")
    )
    left = hub.stub().SkipGracefulOrchestrationTerminations(request).unterminatedInstanceIds
    assert sorted(left) == ["done", "nobody"]
    assert hub.status("stuck") == "TERMINATED"
    found = hub.history("stuck")
    assert found[:2] == BEGIN and found[-1].endswith(" TERMINATED"), found


def test_task_hub_calls(hub: Hub):
    """behaviour-59: only Java calls them; they may do nothing, they must not fail."""
    stub = hub.stub()
    stub.CreateTaskHub(pb.CreateTaskHubRequest())
    begin(hub)
    assert hub.status("raw") == "PENDING"


def test_ids_with_an_odd_look(hub: Hub):
    """behaviour-46: an id is text: whatever fits in a hundred characters comes back as it was."""
    names = ["with space", "slash/and:colon", "ünïcödé-€-😀", "%2e%2e", "'quote\"", "..", "a" * 100]
    hub.work(simple)
    for name in names:
        assert hub.completed(hub.start(simple, name, instance_id=name)) == name
        hub.assert_history(name, BEGIN, "ExecutionCompleted#1 COMPLETED")
    shown = hub.stub().QueryInstances(pb.QueryInstancesRequest(query=pb.InstanceQuery())).orchestrationState
    assert [state.instanceId for state in shown] == names
    # What cannot be shown is refused.
    with pytest.raises(grpc.RpcError) as raised:
        hub.start(simple, instance_id="tab\tand\nline")
    assert raised.value.code() == grpc.StatusCode.INVALID_ARGUMENT


def test_bytes_that_are_not_utf8(hub: Hub):
    """behaviour-46: a string that is none is refused as an argument, and the server goes on."""
    channel = grpc.insecure_channel(hub.host)
    try:
        call = channel.unary_unary("/TaskHubSidecarService/StartInstance", request_serializer=lambda raw: raw)
        with pytest.raises(grpc.RpcError) as raised:
            # Field 1, three bytes, none of which begins a character.
            call(b"\x0a\x03\xff\xfe\xfd", timeout=10)
    finally:
        channel.close()
    assert raised.value.code() in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.INTERNAL)
    hub.work(simple)
    assert hub.completed(hub.start(simple, 1)) == 1


def test_health_and_reflection(hub: Hub):
    """behaviour-1: what a probe and a tool like grpcurl ask: health, and which services there are."""
    channel = grpc.insecure_channel(hub.host)
    try:
        check = channel.unary_unary("/grpc.health.v1.Health/Check")
        # `status` is field 1, SERVING is 1.
        assert check(b"", timeout=10) == b"\x08\x01"
        assert check(b"\x0a\x15TaskHubSidecarService", timeout=10) == b"\x08\x01"
        reflect = channel.stream_stream("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo")
        # `list_services` is field 7, a string.
        [answer] = list(reflect(iter([b"\x3a\x01*"]), timeout=10))
        assert b"TaskHubSidecarService" in answer
    finally:
        channel.close()


def test_abandoned_waits(hub: Hub):
    """behaviour-48: waits whose clients are gone are let go of; the answer to the others comes."""
    begin(hub)
    stub = hub.stub()._inner
    metadata = [("taskhub", hub.name)]
    request = pb.GetInstanceRequest(instanceId="raw")
    waits = [stub.WaitForInstanceCompletion.future(request, metadata=metadata) for _ in range(200)]
    for wait in waits[:190]:
        wait.cancel()
    with Raw(hub) as worker:
        worker.answer(worker.orchestrator(), complete(1, "end"))
    for wait in waits[190:]:
        answer = wait.result(timeout=30)
        assert answer.exists and answer.orchestrationState.orchestrationStatus == COMPLETED
