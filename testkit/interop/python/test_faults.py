"""Workers and servers that are killed in the middle: nothing is lost, nothing is done twice in the history."""

import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import grpc
import pytest
from durabletask import client
from durabletask.grpc_options import GrpcWorkerResiliencyOptions
from durabletask.internal import orchestrator_service_pb2 as pb

from hub import PATIENCE_SECONDS, Hub, eventually, quiet
from raw import Raw, complete, kinds, schedule
from server import MORTAL, Server
from shape import BEGIN, STARTED, race

SCRIPT = Path(__file__).with_name("worker_process.py")
SOON = GrpcWorkerResiliencyOptions(reconnect_backoff_base_seconds=0.2, reconnect_backoff_cap_seconds=1.0)
# Between two pings of the server (behaviour-4), and a margin for a busy machine. A worker that hears nothing for so long
# reconnects, so it must not happen: hence more than the interval and much less than two.
PING_SECONDS = 30
SILENCE_SECONDS = 40


# The answer of a health check: `status` is field 1, SERVING is 1.
SERVING = b"\x08\x01"


class Process:
    """A worker process that a test may kill."""

    def __init__(self, hub: Hub, folder: Path):
        command = [*MORTAL, sys.executable, str(SCRIPT), hub.host, hub.name, str(folder)]
        with (folder / "worker.log").open("a") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            )
        assert self._process.stdout is not None
        assert self._process.stdout.readline().strip() == "ready"
        self.pid = self._process.pid

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()


@pytest.fixture
def start_worker(hub: Hub, tmp_path: Path) -> Iterator:
    """Makes worker processes, and sees to it that none is left."""
    made: list[Process] = []

    def start() -> Process:
        made.append(Process(hub, tmp_path))
        return made[-1]

    yield start
    for process in made:
        process.kill()


def in_unknown_state(hub: Hub, instance: str) -> client.OrchestrationState | None:
    """A state that is asked for while the server may be away."""
    try:
        return hub.client.get_orchestration_state(instance)
    except grpc.RpcError:
        return None


def until_completed(hub: Hub, instance: str) -> client.OrchestrationState:
    def ended() -> client.OrchestrationState | None:
        state = in_unknown_state(hub, instance)
        return state if state and state.runtime_status.name not in ("PENDING", "RUNNING") else None

    state = eventually(f"{instance} ends", ended)
    assert state.runtime_status == client.OrchestrationStatus.COMPLETED, state
    return state


def test_worker_killed_during_activities(hub: Hub, start_worker, tmp_path: Path):
    """behaviour-7: what the dead worker was doing is done by another, soon, and counts once."""
    first = start_worker()
    instance = hub.start("fan_out", 4)
    eventually("all four run", lambda: len(list(tmp_path.glob(f"begun-*-{first.pid}"))) == 4)
    first.kill()
    second = start_worker()
    eventually("all four run again", lambda: len(list(tmp_path.glob(f"begun-*-{second.pid}"))) == 4, 20)
    (tmp_path / "release").touch()
    assert hub.completed(instance) == 6
    hub.assert_history(
        instance,
        BEGIN,
        [f"TaskScheduled#{number} slow" for number in (1, 2, 3, 4)],
        race(*(f"TaskCompleted<{number}" for number in (1, 2, 3, 4))),
        "ExecutionCompleted#5 COMPLETED",
    )


def test_worker_killed_during_a_turn(hub: Hub, start_worker, tmp_path: Path):
    """behaviour-7 behaviour-19: a turn that was never answered did not happen."""
    first = start_worker()
    instance = hub.start("stuck")
    eventually("the turn runs", lambda: list(tmp_path.glob(f"turn-{first.pid}")))
    first.kill()
    assert hub.status(instance) == "PENDING"
    (tmp_path / "release").touch()
    start_worker()
    assert hub.completed(instance) == "released"
    hub.assert_history(instance, BEGIN, "ExecutionCompleted#1 COMPLETED")


def test_one_of_two_workers_killed(hub: Hub, start_worker, tmp_path: Path):
    """behaviour-7: the other worker, which was there all along, takes over without being restarted."""
    first, second = start_worker(), start_worker()
    instances = [hub.start("fan_out", 3) for _ in range(3)]
    eventually("nine activities run", lambda: len(list(tmp_path.glob("begun-*"))) >= 3)
    first.kill()
    (tmp_path / "release").touch()
    assert [hub.completed(instance) for instance in instances] == [3, 3, 3]
    second.kill()


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Server]:
    """A server that a test may kill."""
    folder = tmp_path / "server"
    folder.mkdir()
    # Workers die with the server in some of these tests: their activities rest for this long.
    running = Server(folder, "--restart-grace", "10s", "--reconnect-grace", "2s").start()
    yield running
    running.stop()


@pytest.fixture
def own_hub(own: Server) -> Iterator[Hub]:
    made = Hub(own.host)
    yield made
    made.close()


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_server_killed_in_the_middle(own: Server, own_hub: Hub, tmp_path: Path, how: str):
    """behaviour-6: the server is killed again and again; the same worker comes back, and every run is as if nothing was."""
    workers = [Process(own_hub, tmp_path) for _ in range(2)]
    try:
        instances = []
        for _ in range(3):
            instances += [own_hub.start("long_chain", 12) for _ in range(4)]
            eventually("it is under way", lambda: len(own_hub.history(instances[-1])) > 6)
            getattr(own, how)()
            own.start()
            eventually("the client is back", lambda: in_unknown_state(own_hub, instances[0]))
        for instance in instances:
            assert until_completed(own_hub, instance).get_output() == sum(range(12)) + 3
        expected = [*BEGIN, "TaskScheduled#1 fast"]
        for number in range(1, 12):
            expected += [STARTED, f"TaskCompleted<{number}", f"TaskScheduled#{number + 1} fast"]
        expected += [STARTED, "TaskCompleted<12", "SubOrchestrationInstanceCreated#13 short_chain"]
        expected += [STARTED, "SubOrchestrationInstanceCompleted<13", "ExecutionCompleted#14 COMPLETED"]
        for instance in instances:
            assert own_hub.history(instance) == expected
    finally:
        for worker in workers:
            worker.kill()


def test_server_killed_while_it_waits(own: Server, own_hub: Hub, tmp_path: Path):
    """behaviour-6 behaviour-35: timers, waiting events and pending starts are there after a kill."""

    def sleeper(ctx, _):
        yield ctx.create_timer(timedelta(seconds=2))
        return "woken"

    def listener(ctx, _):
        ctx.set_custom_status("listening")
        return (yield ctx.wait_for_external_event("go"))

    def starter(ctx, what):
        return what

    own_hub.work(sleeper, listener, starter, resiliency_options=SOON)
    asleep, listening = own_hub.start(sleeper), own_hub.start(listener)
    due = own_hub.start(starter, "due", start_at=datetime.now(UTC) + timedelta(seconds=2))
    own_hub.until_custom(listening, "listening")
    eventually("the timer is set", lambda: "TimerCreated#1" in own_hub.history(asleep))
    own_hub.client.raise_orchestration_event(listening, "noise")
    own.kill()
    own.start()
    eventually("the client is back", lambda: in_unknown_state(own_hub, asleep))
    own_hub.client.raise_orchestration_event(listening, "go", data="heard")
    assert until_completed(own_hub, listening).get_output() == "heard"
    assert until_completed(own_hub, asleep).get_output() == "woken"
    assert until_completed(own_hub, due).get_output() == "due"
    own_hub.assert_history(asleep, BEGIN, "TimerCreated#1", [STARTED, "TimerFired<1", "ExecutionCompleted#2 COMPLETED"])
    own_hub.assert_history(due, BEGIN, "ExecutionCompleted#1 COMPLETED")


def test_drain(own: Server, own_hub: Hub):
    """behaviour-6: asked to stop, the server ends its streams as UNAVAILABLE, never CANCELLED, and leaves with 0."""
    stub = own_hub.stub()
    stub.StartInstance(pb.CreateInstanceRequest(instanceId="raw", name="Raw"))
    worker = Raw(own_hub)
    worker.answer(worker.orchestrator(), schedule(1, "A"))
    held = worker.activity()
    assert own.stop() == 0
    assert worker.ended.wait(PATIENCE_SECONDS)
    assert worker.code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.OK), worker.code
    own.start()
    # It did not wait for the activity, and the next process takes its answer. Nothing is handed out again.
    eventually("the server is back", lambda: _done(worker, held))
    worker.close()
    worker = Raw(own_hub)
    item = worker.orchestrator("raw")
    assert kinds(item.orchestratorRequest.newEvents) == ["orchestratorStarted", "taskCompleted"]
    worker.close()


def _done(worker: Raw, held: pb.WorkItem) -> bool:
    """Whether the server is there to take the answer."""
    try:
        worker.done(held, "1")
    except grpc.RpcError:
        return False
    return True


def test_drain_takes_answers(own: Server, own_hub: Hub):
    """behaviour-4 behaviour-6: what a worker finishes while the server drains counts: it is not done again."""
    own_hub.stub().StartInstance(pb.CreateInstanceRequest(instanceId="raw", name="Raw"))
    worker = Raw(own_hub)
    worker.answer(worker.orchestrator(), schedule(1, "A"))
    held = worker.activity()
    # It drains for as long as a turn is out.
    own_hub.stub().StartInstance(pb.CreateInstanceRequest(instanceId="slow", name="Slow"))
    turn = worker.orchestrator("slow")
    with ThreadPoolExecutor() as pool, grpc.insecure_channel(own.host) as channel:
        check = channel.unary_unary("/grpc.health.v1.Health/Check")
        assert check(b"", timeout=10) == SERVING
        stopping = pool.submit(own.stop)
        eventually("it drains", lambda: check(b"", timeout=10) != SERVING)
        worker.done(held, "1")
        worker.answer(turn, complete(1, "ok"))
        assert stopping.result() == 0
    assert worker.ended.wait(PATIENCE_SECONDS)
    assert worker.code == grpc.StatusCode.UNAVAILABLE
    own.start()
    # A stream of the same channel connects again as soon as it can.
    item = eventually("the server is back", lambda: _first(own_hub))
    assert kinds(item.orchestratorRequest.newEvents) == ["orchestratorStarted", "taskCompleted"]
    assert item.orchestratorRequest.newEvents[1].taskCompleted.result.value == "1"


def _first(hub: Hub) -> pb.WorkItem | None:
    """The first item of a new stream, if the server is there yet."""
    worker = Raw(hub)
    try:
        return worker.item(2)
    except AssertionError:
        return None
    finally:
        worker.close()


def test_wait_ends_when_the_server_stops(own: Server, own_hub: Hub):
    """behaviour-48: a client that waits is told when the server goes; its wait does not keep the server."""
    own_hub.stub().StartInstance(pb.CreateInstanceRequest(instanceId="raw", name="Raw"))
    stub = own_hub.stub()._inner
    request = pb.GetInstanceRequest(instanceId="raw")
    wait = stub.WaitForInstanceCompletion.future(request, metadata=[("taskhub", own_hub.name)])
    assert not wait.done()
    began = time.monotonic()
    assert own.stop() == 0
    assert time.monotonic() - began < 20
    assert eventually("the wait ends", lambda: wait.done() and wait.code()) == grpc.StatusCode.UNAVAILABLE


def test_idle_worker_stays_connected(hub: Hub):
    """behaviour-4: a worker that would reconnect after a silence hears a ping in time, and never does."""

    def simple(ctx, what):
        return what

    logger, lines = quiet("idle")
    options = GrpcWorkerResiliencyOptions(silent_disconnect_timeout_seconds=SILENCE_SECONDS)
    with Raw(hub, workItemFilters=pb.WorkItemFilters()) as silent:
        hub.run(hub.new_worker(simple, logger=logger, resiliency_options=options))
        began = time.monotonic()
        eventually("a ping", lambda: silent.pings, PING_SECONDS + 15)
        # Past the worker's patience, counted from its start: it has had its ping or it has reconnected.
        eventually("the silence is over", lambda: time.monotonic() - began > SILENCE_SECONDS + 1)
        assert silent.waiting() == 0
    assert hub.completed(hub.start(simple, "awake")) == "awake"
    connected = [line for line in lines if line.startswith("Successfully connected")]
    assert len(connected) == 1, lines
