"""Fan-out and fan-in: the words of many pages are counted at once, and added up when the last page is done.

pip install durabletask
python fan_out.py
"""

import os

from durabletask import task
from durabletask.client import TaskHubGrpcClient
from durabletask.worker import TaskHubGrpcWorker

HOST = os.environ.get("DAUER_HOST", "127.0.0.1:4001")
PAGES = ["a page", "another page of the book", "the last one"]


def count_words(_, page):
    return len(page.split())


def count_book(context, pages):
    counts = yield task.when_all([context.call_activity(count_words, input=page) for page in pages])
    return {"pages": len(counts), "words": sum(counts)}


with TaskHubGrpcWorker(host_address=HOST) as worker, TaskHubGrpcClient(host_address=HOST) as client:
    worker.add_orchestrator(count_book)
    worker.add_activity(count_words)
    worker.start()

    instance = client.schedule_new_orchestration(count_book, input=PAGES)
    state = client.wait_for_orchestration_completion(instance, timeout=30)
    state.raise_if_failed()
    book = state.get_output()
    print(f"{book['words']} words on {book['pages']} pages")
