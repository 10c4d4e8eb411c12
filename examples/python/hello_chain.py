"""A chain: three greetings, one after the other, each of them durable.

pip install durabletask
python hello_chain.py
"""

import os

from durabletask.client import TaskHubGrpcClient
from durabletask.worker import TaskHubGrpcWorker

HOST = os.environ.get("DAUER_HOST", "127.0.0.1:4001")


def say_hello(_, city):
    return f"Hello {city}!"


def hello_cities(context, cities):
    greetings = []
    for city in cities:
        greetings.append((yield context.call_activity(say_hello, input=city)))
    return greetings


with TaskHubGrpcWorker(host_address=HOST) as worker, TaskHubGrpcClient(host_address=HOST) as client:
    worker.add_orchestrator(hello_cities)
    worker.add_activity(say_hello)
    worker.start()

    instance = client.schedule_new_orchestration(hello_cities, input=["Tokyo", "Seattle", "London"])
    state = client.wait_for_orchestration_completion(instance, timeout=30)
    state.raise_if_failed()
    print(*state.get_output(), sep="\n")
