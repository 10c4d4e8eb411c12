"""A worker in a process of its own, so that a test can kill it: `worker_process.py HOST HUB FOLDER`.

Activities leave a file when they begin. `slow` waits until there is a file `release`, so that a test knows when to kill.
"""

import os
import sys
import time
from pathlib import Path

from durabletask import task
from durabletask.azuremanaged.worker import DurableTaskSchedulerWorker
from durabletask.grpc_options import GrpcWorkerResiliencyOptions

host, hub, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
# A worker that is back soon after the server is: the default waits up to thirty seconds.
SOON = GrpcWorkerResiliencyOptions(reconnect_backoff_base_seconds=0.2, reconnect_backoff_cap_seconds=1.0)


def slow(ctx: task.ActivityContext, number: int) -> int:
    (folder / f"begun-{number}-{os.getpid()}").touch()
    while not (folder / "release").exists():
        time.sleep(0.02)
    return number


def fast(ctx: task.ActivityContext, number: int) -> int:
    return number


def fan_out(ctx: task.OrchestrationContext, count: int):
    results = yield task.when_all([ctx.call_activity(slow, input=number) for number in range(count)])
    return sum(results)


def long_chain(ctx: task.OrchestrationContext, count: int):
    total = 0
    for number in range(count):
        total += yield ctx.call_activity(fast, input=number)
    child = yield ctx.call_sub_orchestrator(short_chain, input=3)
    return total + child


def short_chain(ctx: task.OrchestrationContext, count: int):
    total = 0
    for number in range(count):
        total += yield ctx.call_activity(fast, input=number)
    return total


def stuck(ctx: task.OrchestrationContext, _):
    """An orchestrator that hangs in its own code until it is released."""
    (folder / f"turn-{os.getpid()}").touch()
    while not (folder / "release").exists():
        time.sleep(0.02)
    return "released"


worker = DurableTaskSchedulerWorker(
    host_address=host, taskhub=hub, token_credential=None, secure_channel=False, resiliency_options=SOON
)
for orchestrator in (fan_out, long_chain, short_chain, stuck):
    worker.add_orchestrator(orchestrator)
for activity in (slow, fast):
    worker.add_activity(activity)
worker.start()
print("ready", flush=True)
sys.stdin.read()
worker.stop()
