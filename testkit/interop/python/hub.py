"""A task hub of one test: clients and workers of the published packages, all pointed at it."""

import logging
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any, TypeVar

import grpc
from durabletask import client, worker
from durabletask.azuremanaged.client import DurableTaskSchedulerClient
from durabletask.azuremanaged.worker import DurableTaskSchedulerWorker
from durabletask.internal import orchestrator_service_pb2_grpc as stubs

from shape import assert_shape, shape

# How long anything may take that is expected to happen. Two cores run all test files at once: this is not a latency.
PATIENCE_SECONDS = 60
POLL_SECONDS = 0.02

T = TypeVar("T")


def eventually(what: str, probe: Callable[[], T | None], seconds: float = PATIENCE_SECONDS) -> T:
    """Waits until `probe` gives something true, and returns it."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := probe():
            return found
        time.sleep(POLL_SECONDS)
    raise AssertionError(f"not within {seconds} s: {what}")


class Hub:
    """Everything that a test does with its task hub. Closed at the end of the test, workers first."""

    def __init__(self, host: str, name: str | None = None):
        self.host = host
        self.name = name if name is not None else f"hub{uuid.uuid4().hex[:12]}"
        self._stack = ExitStack()
        self._workers: list[worker.TaskHubGrpcWorker] = []
        self.client = self.new_client()
        self._channel: grpc.Channel | None = None

    def new_client(self, **options: Any) -> DurableTaskSchedulerClient:
        made = DurableTaskSchedulerClient(
            host_address=self.host, taskhub=self.name, token_credential=None, secure_channel=False, **options
        )
        self._stack.callback(made.close)
        return made

    def new_worker(self, *functions: Callable[..., Any], **options: Any) -> DurableTaskSchedulerWorker:
        """A worker that is not started yet. Functions that take `ctx` first are orchestrators, the others activities."""
        made = DurableTaskSchedulerWorker(
            host_address=self.host, taskhub=self.name, token_credential=None, secure_channel=False, **options
        )
        for function in functions:
            first = function.__code__.co_varnames[0]
            (made.add_orchestrator if first == "ctx" else made.add_activity)(function)
        return made

    def run(self, made: DurableTaskSchedulerWorker) -> DurableTaskSchedulerWorker:
        made.start()
        self._workers.append(made)
        return made

    def work(self, *functions: Callable[..., Any], count: int = 1, **options: Any) -> list[DurableTaskSchedulerWorker]:
        """Starts that many workers that can all do the same."""
        return [self.run(self.new_worker(*functions, **options)) for _ in range(count)]

    def stub(self) -> "Stub":
        """The bare protocol on this hub, for what no SDK sends."""
        if self._channel is None:
            self._channel = grpc.insecure_channel(self.host, options=[("grpc.max_receive_message_length", -1)])
            self._stack.callback(self._channel.close)
        return Stub(self._channel, [("taskhub", self.name)] if self.name else [])

    def start(self, name: "str | Callable[..., Any]", input: Any = None, **options: Any) -> str:
        return self.client.schedule_new_orchestration(name, input=input, **options)

    def result(self, instance: str, seconds: float = PATIENCE_SECONDS) -> client.OrchestrationState:
        state = self.client.wait_for_orchestration_completion(instance, timeout=seconds)
        assert state is not None, f"{instance} does not exist"
        return state

    def completed(self, instance: str) -> Any:
        """The output of a run that must have completed."""
        state = self.result(instance)
        status = state.runtime_status
        assert status == client.OrchestrationStatus.COMPLETED, f"{status}: {state.failure_details}"
        assert state.failure_details is None
        return state.get_output()

    def state(self, instance: str) -> client.OrchestrationState:
        state = self.client.get_orchestration_state(instance)
        assert state is not None, f"{instance} does not exist"
        return state

    def status(self, instance: str) -> str:
        return self.state(instance).runtime_status.name

    def until(self, instance: str, status: str) -> None:
        """Waits until the instance has that status."""
        eventually(f"{instance} is {status}", lambda: self.status(instance) == status)

    def until_custom(self, instance: str, value: Any) -> None:
        """Waits until the orchestration says that it has come so far."""
        eventually(f"{instance} says {value}", lambda: self.state(instance).get_custom_status() == value)

    def history(self, instance: str) -> list[str]:
        return shape(self.client.get_orchestration_history(instance))

    def assert_history(self, instance: str, *expected: Any) -> None:
        assert_shape(self.history(instance), *expected)

    def close(self) -> None:
        # At once: each takes its time to close its stream.
        with ThreadPoolExecutor(max_workers=8) as pool:
            list(pool.map(lambda made: made.stop(), self._workers))
        self._stack.close()


class Stub:
    """The generated stub, with the hub's header on every call and a deadline on those that have none."""

    def __init__(self, channel: grpc.Channel, metadata: list[tuple[str, str]]):
        self._inner = stubs.TaskHubSidecarServiceStub(channel)
        self._metadata = metadata

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._inner, name)

        def call(request: Any, timeout: float | None = PATIENCE_SECONDS) -> Any:
            return method(request, timeout=timeout, metadata=self._metadata)

        return call


def quiet(name: str) -> tuple[logging.Logger, list[str]]:
    """A logger whose lines a test can read, for what an SDK says only there."""
    lines: list[str] = []

    class Collect(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    logger = logging.getLogger(f"{name}-{uuid.uuid4().hex}")
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    logger.addHandler(Collect())
    return logger, lines
