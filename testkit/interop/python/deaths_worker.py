"""A worker for the tests of deaths: `deaths_worker.py HOST HUB JOURNAL [soon]`.

Each line of its journal is one write: TIME KIND KEY PID. Kinds: BEGIN and END of an activity, TURN of an orchestrator that
waits, RECEIVED for a turn on the stream, LOST for an answer that the SDK could not deliver and has dropped, CONNECTED for
a stream. Keys are instance ids. What waits goes on when there is a file `release` beside the journal.
"""

import logging
import os
import re
import sys
import time
from pathlib import Path

from durabletask import task
from durabletask.azuremanaged.worker import DurableTaskSchedulerWorker
from durabletask.grpc_options import GrpcWorkerResiliencyOptions
from durabletask.worker import ConcurrencyOptions

host, hub, journal = sys.argv[1], sys.argv[2], Path(sys.argv[3])
release = journal.with_name("release")
out = os.open(journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
# The SDK's own pool has as many threads as cores and four: what is handed out beyond waits in the SDK, unseen.
THREADS = 128
# A worker that is back soon after the server is: the default waits up to thirty seconds.
SOON = GrpcWorkerResiliencyOptions(reconnect_backoff_base_seconds=0.2, reconnect_backoff_cap_seconds=1.0)
DROPPED = re.compile(r"^Failed to deliver activity response for .* of orchestration ID '([^']*)'")


def note(kind: str, key: str = "-") -> None:
    os.write(out, f"{time.time():.6f} {kind} {key} {os.getpid()}\n".encode())


class Tell(logging.Handler):
    """What the SDK says only in its log."""

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        if message.startswith("Successfully connected"):
            note("CONNECTED")
        elif message == 'Received "orchestratorRequest" work item':
            note("RECEIVED")
        elif dropped := DROPPED.match(message):
            note("LOST", dropped[1])


def until_released() -> None:
    while not release.exists():
        time.sleep(0.02)


def timed(ctx: task.ActivityContext, seconds: float) -> str:
    """Takes its time, whatever becomes of the server."""
    note("BEGIN", ctx.orchestration_id)
    time.sleep(seconds)
    note("END", ctx.orchestration_id)
    return ctx.orchestration_id


def held(ctx: task.ActivityContext, _) -> str:
    note("BEGIN", ctx.orchestration_id)
    until_released()
    note("END", ctx.orchestration_id)
    return ctx.orchestration_id


def poison(ctx: task.ActivityContext, _) -> None:
    """Ends the process at once, without a word."""
    note("BEGIN", ctx.orchestration_id)
    os._exit(1)


def calls(ctx: task.OrchestrationContext, call: list):
    """Calls an activity by its name."""
    return (yield ctx.call_activity(call[0], input=call[1]))


def waits(ctx: task.OrchestrationContext, _):
    """A turn that stays with the worker until it is released."""
    note("TURN", ctx.instance_id)
    until_released()
    return ctx.instance_id


logger = logging.getLogger("deaths")
logger.setLevel(logging.DEBUG)
logger.propagate = False
logger.addHandler(Tell())
worker = DurableTaskSchedulerWorker(
    host_address=host,
    taskhub=hub,
    token_credential=None,
    secure_channel=False,
    logger=logger,
    resiliency_options=SOON if "soon" in sys.argv[4:] else None,
    concurrency_options=ConcurrencyOptions(maximum_thread_pool_workers=THREADS),
)
for orchestrator in (calls, waits):
    worker.add_orchestrator(orchestrator)
for activity in (timed, held, poison):
    worker.add_activity(activity)
worker.start()
sys.stdin.read()
worker.stop()
