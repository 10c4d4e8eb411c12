"""Versions and work item filters: which worker gets which work."""

from durabletask import client, task
from durabletask.worker import (
    ActivityWorkItemFilter,
    OrchestrationWorkItemFilter,
    VersionFailureStrategy,
    VersioningOptions,
    VersionMatchStrategy,
    WorkItemFilters,
)

from hub import Hub, eventually, quiet
from shape import BEGIN, STARTED


def versioned(ctx, _):
    return ctx.version


def other(ctx, _):
    return "other"


def plus_one(_, number):
    return number + 1


def adds(ctx, number):
    return (yield ctx.call_activity(plus_one, input=number))


def strict(version: str, failure: VersionFailureStrategy) -> VersioningOptions:
    return VersioningOptions(version=version, match_strategy=VersionMatchStrategy.STRICT, failure_strategy=failure)


def test_version_reaches_code_and_children(hub: Hub, workers: int):
    """behaviour-28 behaviour-47: the version is part of the start; a child gets its own, or the worker's default."""

    def parent(ctx, _):
        own = ctx.version
        given = yield ctx.call_sub_orchestrator(versioned, version="3.1.4")
        default = yield ctx.call_sub_orchestrator(versioned)
        return [own, given, default]

    for _ in range(workers):
        made = hub.new_worker(parent, versioned)
        made.use_versioning(VersioningOptions(default_version="1.0.0", match_strategy=VersionMatchStrategy.NONE))
        hub.run(made)
    instance = hub.start(parent, version="2.5.0")
    assert hub.completed(instance) == ["2.5.0", "3.1.4", "1.0.0"]
    hub.assert_history(
        instance,
        BEGIN,
        "SubOrchestrationInstanceCreated#1 versioned",
        [STARTED, "SubOrchestrationInstanceCompleted<1", "SubOrchestrationInstanceCreated#2 versioned"],
        [STARTED, "SubOrchestrationInstanceCompleted<2", "ExecutionCompleted#3 COMPLETED"],
    )
    events = hub.client.get_orchestration_history(instance)
    assert [event.version for event in events if hasattr(event, "instance_id")] == ["3.1.4", "1.0.0"]
    assert hub.client.get_orchestration_history(f"{instance}:0001")[1].version == "3.1.4"


def test_mismatch_fails(hub: Hub):
    """behaviour-26: a worker that refuses a version by failing it."""
    made = hub.new_worker(versioned)
    made.use_versioning(strict("2.0.0", VersionFailureStrategy.FAIL))
    hub.run(made)
    instance = hub.start(versioned, version="1.0.0")
    state = hub.result(instance)
    assert state.runtime_status == client.OrchestrationStatus.FAILED
    assert "does not match the worker version" in state.failure_details.message
    found = hub.history(instance)
    assert found[:2] == BEGIN and found[2].endswith(" FAILED") and len(found) == 3, found


def test_mismatch_is_left_to_another_worker(hub: Hub):
    """behaviour-34: a rejected turn comes back unchanged and not at once; the right worker takes it, the other idles."""

    def counted(ctx, _):
        return ctx.version

    logger, lines = quiet("rejecting")
    wrong = hub.new_worker(counted, logger=logger)
    wrong.use_versioning(strict("2.0.0", VersionFailureStrategy.REJECT))
    hub.run(wrong)
    instance = hub.start(counted, version="1.0.0")

    def rejected() -> int:
        return sum(line.startswith("Abandoning orchestration") for line in lines)

    eventually("it was rejected twice", lambda: rejected() >= 2)
    assert hub.status(instance) == "PENDING"
    assert rejected() < 100, "the same worker is asked in a hot loop"
    right = hub.new_worker(counted)
    right.use_versioning(strict("1.0.0", VersionFailureStrategy.REJECT))
    hub.run(right)
    assert hub.completed(instance) == "1.0.0"
    hub.assert_history(instance, BEGIN, "ExecutionCompleted#1 COMPLETED")


def test_automatic_filters_split_the_work(hub: Hub):
    """behaviour-56: two workers that each know half of the code; neither is given what it does not know."""
    left = hub.new_worker(adds)
    left.use_work_item_filters()
    hub.run(left)
    right = hub.new_worker(plus_one, other)
    right.use_work_item_filters()
    hub.run(right)
    instances = [hub.start(adds, number) for number in range(10)]
    others = [hub.start(other) for _ in range(5)]
    assert [hub.completed(instance) for instance in instances] == list(range(1, 11))
    assert [hub.completed(instance) for instance in others] == ["other"] * 5
    hub.assert_history(
        instances[0],
        BEGIN,
        "TaskScheduled#1 plus_one",
        [STARTED, "TaskCompleted<1", "ExecutionCompleted#2 COMPLETED"],
    )


def test_unmatched_name_stays_pending(hub: Hub):
    """behaviour-56: what no filter names waits for a worker that wants it."""
    filtered = hub.new_worker(versioned, other)
    filtered.use_work_item_filters(WorkItemFilters(orchestrations=[OrchestrationWorkItemFilter("other")]))
    hub.run(filtered)
    unwanted = hub.start(versioned)
    # One after the other, all started after it: it would have had its turn.
    for _ in range(5):
        assert hub.completed(hub.start(other)) == "other"
    assert hub.status(unwanted) == "PENDING"
    hub.work(versioned)
    assert hub.completed(unwanted) is None
    hub.assert_history(unwanted, BEGIN, "ExecutionCompleted#1 COMPLETED")


def test_empty_list_of_a_kind_matches_nothing(hub: Hub):
    """behaviour-56: filters that name orchestrations only mean that no activity is wanted."""
    filtered = hub.new_worker(adds, plus_one)
    filtered.use_work_item_filters(WorkItemFilters(orchestrations=[OrchestrationWorkItemFilter("adds")]))
    hub.run(filtered)
    instance = hub.start(adds, 1)
    eventually("the first turn is done", lambda: hub.history(instance)[2:] == ["TaskScheduled#1 plus_one"])
    # A second one goes as far: the activity of the first had been dispatched by now if it could be.
    second = hub.start(adds, 2)
    eventually("the second too", lambda: hub.history(second)[2:] == ["TaskScheduled#1 plus_one"])
    assert hub.status(instance) == "RUNNING"
    active = hub.new_worker(plus_one)
    active.use_work_item_filters(WorkItemFilters(activities=[ActivityWorkItemFilter("plus_one")]))
    hub.run(active)
    assert (hub.completed(instance), hub.completed(second)) == (2, 3)


def test_versions_of_filters(hub: Hub):
    """behaviour-56: a version list excludes other versions and none; an activity without a version goes by its name."""
    filters = WorkItemFilters(
        orchestrations=[OrchestrationWorkItemFilter("adds", ["1.0.0"])],
        activities=[ActivityWorkItemFilter("plus_one", ["1.0.0"])],
    )
    made = hub.new_worker(adds, plus_one)
    made.use_work_item_filters(filters)
    hub.run(made)
    newer = hub.start(adds, 1, version="2.0.0")
    without = hub.start(adds, 1)
    for _ in range(5):
        exact = hub.start(adds, 1, version="1.0.0")
        assert hub.completed(exact) == 2
    assert (hub.status(newer), hub.status(without)) == ("PENDING", "PENDING")
    hub.work(adds, plus_one)
    assert (hub.completed(newer), hub.completed(without)) == (2, 2)
    for instance in (newer, without, exact):
        hub.assert_history(
            instance,
            BEGIN,
            "TaskScheduled#1 plus_one",
            [STARTED, "TaskCompleted<1", "ExecutionCompleted#2 COMPLETED"],
        )


def test_filtered_children(hub: Hub):
    """behaviour-56: a child is work like any other, and goes where its name is wanted."""

    def parent(ctx, _):
        return (yield task.when_all([ctx.call_sub_orchestrator(other) for _ in range(3)]))

    for function in (parent, other):
        made = hub.new_worker(function)
        made.use_work_item_filters()
        hub.run(made)
    assert hub.completed(hub.start(parent)) == ["other"] * 3
