"""A retry: the first two calls of a flaky service fail, the third succeeds, and the waits in between are durable timers.

pip install durabletask
python retry.py
"""

import os
from datetime import timedelta

from durabletask.client import TaskHubGrpcClient
from durabletask.task import RetryPolicy
from durabletask.worker import TaskHubGrpcWorker

HOST = os.environ.get("DAUER_HOST", "127.0.0.1:4001")
POLICY = RetryPolicy(first_retry_interval=timedelta(milliseconds=200), max_number_of_attempts=5, backoff_coefficient=2)

attempts = 0


def fetch_weather(_, city):
    global attempts
    attempts += 1
    if attempts < 3:
        raise ConnectionError(f"attempt {attempts}: no connection to {city}")
    return f"{city}: sunny, after {attempts} attempts"


def weather(context, city):
    return (yield context.call_activity(fetch_weather, input=city, retry_policy=POLICY))


with TaskHubGrpcWorker(host_address=HOST) as worker, TaskHubGrpcClient(host_address=HOST) as client:
    worker.add_orchestrator(weather)
    worker.add_activity(fetch_weather)
    worker.start()

    instance = client.schedule_new_orchestration(weather, input="Lisbon")
    state = client.wait_for_orchestration_completion(instance, timeout=30)
    state.raise_if_failed()
    print(state.get_output())
