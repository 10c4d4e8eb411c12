"""Queries, lists of ids, and purge."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import grpc
import pytest
from durabletask import client
from durabletask.client import OrchestrationQuery, OrchestrationStatus
from durabletask.internal import orchestrator_service_pb2 as pb

from hub import Hub, eventually
from shape import BEGIN, STARTED


def simple(ctx, what):
    return what


def fails(ctx, _):
    raise RuntimeError("no")


def waits(ctx, _):
    ctx.set_custom_status("waiting")
    return (yield ctx.wait_for_external_event("go"))


def parent(ctx, _):
    return (yield ctx.call_sub_orchestrator(simple, input="child"))


def now() -> datetime:
    return datetime.now(UTC)


def ids(states: list[client.OrchestrationState]) -> list[str]:
    return [state.instance_id for state in states]


def pages(hub: Hub, size: int, **query) -> list[list[str]]:
    """Walks through the pages as they are on the wire, and checks the tokens (behaviour-50)."""
    found, seen, token = [], set(), None
    while True:
        asked = pb.InstanceQuery(maxInstanceCount=size, **query)
        if token is not None:
            asked.continuationToken.value = token
        answer = hub.stub().QueryInstances(pb.QueryInstancesRequest(query=asked))
        found.append([state.instanceId for state in answer.orchestrationState])
        if not answer.HasField("continuationToken"):
            return found
        token = answer.continuationToken.value
        assert token and token not in seen, f"token {token!r} again"
        seen.add(token)


def test_query_pages(hub: Hub):
    """behaviour-50: in the order of creation, each once, and the last page has no token."""
    hub.work(simple)
    made = [hub.start(simple, number, instance_id=f"page-{number:02}") for number in range(23)]
    for instance in made:
        hub.completed(instance)
    found = pages(hub, 10)
    assert sum(found, []) == made
    assert [len(page) for page in found if page] == [10, 10, 3]
    # A limit of 0, and the largest number, which this SDK sends, both mean no limit.
    assert sum(pages(hub, 0), []) == made
    assert sum(pages(hub, 2**31 - 1), []) == made
    assert ids(hub.client.get_all_orchestration_states()) == made
    assert ids(hub.client.get_all_orchestration_states(OrchestrationQuery(max_instance_count=4))) == made


def test_query_filters(hub: Hub):
    """behaviour-50: by status, prefix and time of creation, from inclusive; payloads only when asked for."""
    hub.work(simple, fails, waits)
    before = now() - timedelta(seconds=1)
    good = hub.start(simple, "payload", instance_id="a-good")
    hub.completed(good)
    tick(hub, good)
    bad = hub.start(fails, instance_id="a-bad")
    hub.result(bad)
    middle = hub.state(bad).created_at.replace(tzinfo=UTC)
    tick(hub, bad)
    open_one = hub.start(waits, instance_id="b-open")
    hub.until_custom(open_one, "waiting")

    def query(**filters) -> list[str]:
        return ids(hub.client.get_all_orchestration_states(OrchestrationQuery(**filters)))

    assert query() == [good, bad, open_one]
    assert query(runtime_status=[OrchestrationStatus.COMPLETED]) == [good]
    assert query(runtime_status=[OrchestrationStatus.FAILED, OrchestrationStatus.RUNNING]) == [bad, open_one]
    assert query(runtime_status=[OrchestrationStatus.TERMINATED]) == []
    assert query(instance_id_prefix="a-") == [good, bad]
    assert query(instance_id_prefix="a-", runtime_status=[OrchestrationStatus.FAILED]) == [bad]
    assert query(created_time_from=before) == [good, bad, open_one]
    assert query(created_time_from=middle) == [bad, open_one]
    assert query(created_time_from=now() + timedelta(hours=1)) == []
    assert query(created_time_to=before) == []
    assert query(created_time_to=middle + timedelta(milliseconds=5)) == [good, bad]
    [without] = hub.client.get_all_orchestration_states(OrchestrationQuery(instance_id_prefix="a-good"))
    assert (without.serialized_input, without.serialized_output) == (None, None)
    assert without.name == "simple" and without.runtime_status == OrchestrationStatus.COMPLETED
    wanted = OrchestrationQuery(instance_id_prefix="a-good", fetch_inputs_and_outputs=True)
    [full] = hub.client.get_all_orchestration_states(wanted)
    assert (full.get_input(), full.get_output()) == ("payload", "payload")


def tick(hub: Hub, instance: str) -> None:
    """Waits until whatever is created next is visibly later than that instance."""
    created = hub.state(instance).created_at.replace(tzinfo=UTC)
    eventually("the clock has moved on", lambda: now() - created > timedelta(milliseconds=20))


def test_state_fields(hub: Hub):
    """behaviour-47: both timestamps always, payloads only when asked for, parent and execution when there are."""
    hub.work(parent, simple)
    instance = hub.start(parent, "input")
    assert hub.completed(instance) == "child"
    stub = hub.stub()
    bare = stub.GetInstance(pb.GetInstanceRequest(instanceId=instance)).orchestrationState
    assert bare.HasField("createdTimestamp") and bare.HasField("lastUpdatedTimestamp")
    assert bare.HasField("completedTimestamp")
    assert not bare.HasField("input") and not bare.HasField("output")
    assert not bare.HasField("parentInstanceId")
    full = stub.GetInstance(pb.GetInstanceRequest(instanceId=instance, getInputsAndOutputs=True)).orchestrationState
    assert (full.input.value, full.output.value) == ('"input"', '"child"')
    child = stub.GetInstance(pb.GetInstanceRequest(instanceId=f"{instance}:0001")).orchestrationState
    assert child.parentInstanceId.value == instance
    answer = stub.GetInstance(pb.GetInstanceRequest(instanceId="nobody"))
    assert not answer.exists
    assert hub.client.get_orchestration_state("nobody") is None


def test_list_of_ids(hub: Hub):
    """behaviour-51: only what has ended, in pages; the token holds the last id and is absent at the end."""
    hub.work(simple, fails, waits)
    begun = now() - timedelta(seconds=1)
    done = [hub.start(simple, instance_id=f"done-{number}") for number in range(5)]
    broken = hub.start(fails, instance_id="broken")
    for instance in [*done, broken]:
        hub.result(instance)
    running = hub.start(waits)
    hub.until_custom(running, "waiting")
    found, token, sizes = [], None, []
    while True:
        page = hub.client.list_instance_ids(page_size=4, continuation_token=token)
        found += page.items
        sizes.append(len(page.items))
        token = page.continuation_token
        if token is None:
            break
        assert page.items[-1] in token, f"{token!r} does not hold {page.items[-1]!r}"
    assert sorted(found) == sorted([*done, broken])
    assert [size for size in sizes if size] == [4, 2]
    everything = hub.client.list_instance_ids()
    assert sorted(everything.items) == sorted([*done, broken]) and everything.continuation_token is None
    failed = hub.client.list_instance_ids(runtime_status=[OrchestrationStatus.FAILED])
    assert failed.items == [broken]
    window = hub.client.list_instance_ids(completed_time_from=begun, completed_time_to=now() + timedelta(seconds=1))
    assert sorted(window.items) == sorted([*done, broken])
    assert hub.client.list_instance_ids(completed_time_from=now() + timedelta(hours=1)).items == []
    assert hub.client.list_instance_ids(completed_time_to=begun).items == []
    # An empty key, as other SDKs send it, is no key.
    answer = hub.stub().ListInstanceIds(pb.ListInstanceIdsRequest(lastInstanceKey={"value": ""}))
    assert sorted(answer.instanceIds) == sorted([*done, broken])
    assert not answer.HasField("lastInstanceKey")


def test_purge_one(hub: Hub):
    """behaviour-52: what has ended is removed with its history; the unknown and the living are counted as none."""
    hub.work(simple, waits)
    instance = hub.start(simple, 1)
    hub.completed(instance)
    result = hub.client.purge_orchestration(instance)
    assert (result.deleted_instance_count, result.is_complete) == (1, True)
    assert hub.client.get_orchestration_state(instance) is None
    assert instance not in hub.client.list_instance_ids().items
    assert hub.client.purge_orchestration(instance).deleted_instance_count == 0
    assert hub.client.purge_orchestration("nobody").deleted_instance_count == 0
    living = hub.start(waits)
    hub.until_custom(living, "waiting")
    assert hub.client.purge_orchestration(living).deleted_instance_count == 0
    assert hub.status(living) == "RUNNING"
    hub.client.raise_orchestration_event(living, "go", data="alive")
    assert hub.completed(living) == "alive"
    hub.assert_history(living, BEGIN, [STARTED, "EventRaised go", "ExecutionCompleted#1 COMPLETED"])
    # Its id is free again.
    assert hub.completed(hub.start(simple, 2, instance_id=instance)) == 2


@pytest.mark.parametrize("recursive", [True, False])
def test_purge_children(hub: Hub, recursive: bool):
    """behaviour-52: with `recursive` children go too, and are counted."""
    hub.work(parent, simple)
    instance = hub.start(parent)
    hub.completed(instance)
    result = hub.client.purge_orchestration(instance, recursive=recursive)
    assert result.deleted_instance_count == (2 if recursive else 1)
    assert (hub.client.get_orchestration_state(f"{instance}:0001") is None) == recursive


def test_purge_by_filter(hub: Hub):
    """behaviour-52: by status and time of creation; what has not ended is left alone, whatever the filter says."""
    hub.work(simple, fails, waits)
    begun = now() - timedelta(seconds=1)
    good = [hub.start(simple, number) for number in range(3)]
    bad = hub.start(fails)
    for instance in [*good, bad]:
        hub.result(instance)
    living = hub.start(waits)
    hub.until_custom(living, "waiting")
    purge = hub.client.purge_orchestrations_by
    assert purge(created_time_from=now() + timedelta(hours=1)).deleted_instance_count == 0
    assert purge(created_time_to=begun).deleted_instance_count == 0
    failed = purge(created_time_from=begun, runtime_status=[OrchestrationStatus.FAILED])
    assert (failed.deleted_instance_count, failed.is_complete) == (1, True)
    assert hub.client.get_orchestration_state(bad) is None
    rest = purge(created_time_from=begun, created_time_to=now() + timedelta(seconds=1))
    assert (rest.deleted_instance_count, rest.is_complete) == (3, True)
    assert ids(hub.client.get_all_orchestration_states()) == [living]


def test_purge_batch(hub: Hub):
    """behaviour-52: many ids at once, at most five hundred."""
    hub.work(simple)
    made = [hub.start(simple, number) for number in range(5)]
    for instance in made:
        hub.completed(instance)
    batch = pb.InstanceBatch(instanceIds=[*made, "nobody"])
    answer = hub.stub().PurgeInstances(pb.PurgeInstancesRequest(instanceBatch=batch, isOrchestration=True))
    assert answer.deletedInstanceCount == 5
    assert hub.client.get_all_orchestration_states() == []
    too_many = pb.InstanceBatch(instanceIds=[f"i{number}" for number in range(501)])
    with pytest.raises(grpc.RpcError) as raised:
        hub.stub().PurgeInstances(pb.PurgeInstancesRequest(instanceBatch=too_many, isOrchestration=True))
    assert raised.value.code() == grpc.StatusCode.INVALID_ARGUMENT


def test_hubs_are_apart(hub: Hub, server):
    """behaviour-1: the header chooses the hub; without it there is a default one."""
    hub.work(simple)
    hub.completed(hub.start(simple, "here", instance_id="same-id"))
    other = Hub(server.host)
    try:
        assert other.client.get_orchestration_state("same-id") is None
        assert other.start(simple, "there", instance_id="same-id") == "same-id"
        assert other.status("same-id") == "PENDING"
    finally:
        other.close()
    with client.TaskHubGrpcClient(host_address=server.host) as bare:
        assert bare.get_orchestration_state("same-id") is None
    assert hub.state("same-id").get_output() == "here"


@pytest.mark.parametrize("name", ["default", "my-task-hub", "MyHub", "hub2"])
def test_hub_names(server, name: str):
    """behaviour-1: names as the scheduler allows them, with hyphens; a hub is there from its first use on."""
    made = Hub(server.host, name)
    try:
        made.work(simple)
        assert made.completed(made.start(simple, name)) == name
    finally:
        made.close()


def test_wait(hub: Hub):
    """behaviour-19 behaviour-48: waits end by a deadline, or with the state; nobody's wait is not an error status."""
    instance = hub.start(waits)
    with pytest.raises(TimeoutError):
        hub.client.wait_for_orchestration_start(instance, timeout=0.5)
    hub.work(waits)
    begun = hub.client.wait_for_orchestration_start(instance, timeout=30)
    assert begun.runtime_status == OrchestrationStatus.RUNNING
    with pytest.raises(TimeoutError):
        hub.client.wait_for_orchestration_completion(instance, timeout=0.5)
    hub.client.raise_orchestration_event(instance, "go", data="done")
    assert hub.client.wait_for_orchestration_completion(instance, timeout=30).get_output() == "done"
    for wait in (hub.client.wait_for_orchestration_start, hub.client.wait_for_orchestration_completion):
        try:
            assert wait("nobody", timeout=0.5) is None
        except TimeoutError:
            pass


def test_wait_for_what_is_not_there_yet(hub: Hub):
    """behaviour-48: a wait for an instance that appears later is answered, or says that there is none; never an error."""
    hub.work(simple)
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(hub.client.wait_for_orchestration_completion, "later", timeout=30)
        hub.start(simple, "came", instance_id="later")
        state = waiting.result()
    assert state is None or state.get_output() == "came"
