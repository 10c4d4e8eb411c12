"""A worker of the soak, in a process of its own: `soak_worker.py HOST`. It is killed now and then."""

import sys
import time
from datetime import timedelta

from durabletask import task, worker
from durabletask.grpc_options import GrpcWorkerResiliencyOptions

# A worker that is back soon after the server is: the default waits up to thirty seconds.
SOON = GrpcWorkerResiliencyOptions(reconnect_backoff_base_seconds=0.2, reconnect_backoff_cap_seconds=1.0)


def add(ctx: task.ActivityContext, pair: list[int]) -> int:
    # Long enough to be killed in.
    time.sleep(0.02)
    return pair[0] + pair[1]


def unsteady(ctx: task.ActivityContext, number: int) -> int:
    """Fails two times out of three: its caller tries again."""
    if time.monotonic_ns() % 3:
        raise ValueError("not now")
    return number


RETRY = task.RetryPolicy(first_retry_interval=timedelta(milliseconds=20), max_number_of_attempts=200)


def chain(ctx: task.OrchestrationContext, number: int):
    """number + 1 + 2 + 3, with a nap in between."""
    for step in (1, 2):
        number = yield ctx.call_activity(add, input=[number, step])
    yield ctx.create_timer(timedelta(milliseconds=50))
    return (yield ctx.call_activity(add, input=[number, 3]))


def fan(ctx: task.OrchestrationContext, number: int):
    """The sum of number+0 .. number+4, by activities and children."""
    calls = [ctx.call_activity(add, input=[number, step]) for step in range(3)]
    calls += [ctx.call_sub_orchestrator(leaf, input=number + step) for step in (3, 4)]
    return sum((yield task.when_all(calls)))


def leaf(ctx: task.OrchestrationContext, number: int):
    return (yield ctx.call_activity(unsteady, input=number, retry_policy=RETRY))


def mailbox(ctx: task.OrchestrationContext, taken: list[int]):
    """Takes five numbers, one a run."""
    taken = [*taken, (yield ctx.wait_for_external_event("number"))]
    if len(taken) < 5:
        ctx.continue_as_new(taken, save_events=True)
        return None
    return taken


with worker.TaskHubGrpcWorker(host_address=sys.argv[1], resiliency_options=SOON) as work:
    for orchestrator in (chain, fan, leaf, mailbox):
        work.add_orchestrator(orchestrator)
    for activity in (add, unsteady):
        work.add_activity(activity)
    work.start()
    sys.stdin.read()
