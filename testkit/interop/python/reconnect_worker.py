"""A Python worker with default settings for `reconnect.py`: `reconnect_worker.py HOST HUB`. Prints a line per connection."""

import logging
import sys
import threading

from durabletask import task
from durabletask.azuremanaged.worker import DurableTaskSchedulerWorker

host, hub = sys.argv[1], sys.argv[2]
ended = threading.Event()


def hold(ctx: task.ActivityContext, _) -> None:
    """Runs until the worker ends."""
    print("holds", flush=True)
    ended.wait()


def one(ctx: task.OrchestrationContext, _):
    yield ctx.call_activity(hold)


class Tell(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        if record.getMessage().startswith("Successfully connected"):
            print("connected", flush=True)


logger = logging.getLogger("reconnect")
logger.setLevel(logging.INFO)
logger.propagate = False
logger.addHandler(Tell())
worker = DurableTaskSchedulerWorker(
    host_address=host, taskhub=hub, token_credential=None, secure_channel=False, logger=logger
)
worker.add_orchestrator(one)
worker.add_activity(hold)
worker.start()
sys.stdin.read()
ended.set()
worker.stop()
