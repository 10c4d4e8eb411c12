"""A decision by a human, raced with a timer: who does not answer in time is passed over.

Run it as it is and nobody answers; `python approval.py yes` answers.

    pip install durabletask
    python approval.py yes
"""

import os
import sys
from datetime import timedelta

from durabletask import task
from durabletask.client import TaskHubGrpcClient
from durabletask.worker import TaskHubGrpcWorker

HOST = os.environ.get("DAUER_HOST", "127.0.0.1:4001")
PATIENCE = timedelta(seconds=2)


def purchase(context, order):
    answer = context.wait_for_external_event("approval")
    deadline = context.create_timer(PATIENCE)
    context.set_custom_status("waiting for approval")
    winner = yield task.when_any([answer, deadline])
    if winner is deadline:
        return f"{order}: nobody answered, passed on to the boss"
    return f"{order}: {'ordered' if answer.get_result() == 'yes' else 'refused'}"


with TaskHubGrpcWorker(host_address=HOST) as worker, TaskHubGrpcClient(host_address=HOST) as client:
    worker.add_orchestrator(purchase)
    worker.start()

    instance = client.schedule_new_orchestration(purchase, input="one espresso machine")
    for answer in sys.argv[1:]:
        # Durable, too: it would wait for a worker that is not there yet.
        client.raise_orchestration_event(instance, "approval", data=answer)
    state = client.wait_for_orchestration_completion(instance, timeout=30)
    state.raise_if_failed()
    print(state.get_output())
