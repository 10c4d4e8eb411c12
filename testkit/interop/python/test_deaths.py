"""Servers and workers that die: nothing runs twice without need, nothing healthy fails, poison is bounded.

Short times by flags of the server; with `INTEROP_SIZE=full` its defaults, and activities as long as the issue has them.
"""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from deaths import FULL, Journal, Worker, ended, flags, start
from hub import Hub, eventually
from server import Server

# How long the server is away.
DOWN_SECONDS = 0.5
# How long an activity runs at least, and how long after its worker is connected again.
HOLD_SECONDS = 15.0 if FULL else 4.0
CONNECTED_SECONDS = 2.0
# Far longer than a worker takes after an outage of a second.
RECONNECT_SECONDS = 120.0
# A server that waits for activities on SIGTERM does so for ten seconds.
STOP_SECONDS_MAX = 8.0
# Kills of the server in a row: more than the ten after which a run was failed.
KILLS = 12
# How long a server that is back may take to hand out a turn.
HANDED_OUT_SECONDS = 60.0
# How long the rest of the turns may take once the first is there.
SETTLE_SECONDS = 2.0
# Deaths of workers until poison is recognised: log2 of 512 slots, and seven trials, and two for what overlaps.
DEATHS_MAX = 18
NEIGHBOUR_SECONDS = 8.0 if FULL else 3.0
# Each death may be waited for, each trial has its quiet time, and trials are rare.
ISOLATION_SECONDS = 60 * 60 if FULL else 300
# Longer than workers need to reconnect, longer than any of the tests has an activity in flight.
RESTART_GRACE_MS = 20_000


class World:
    """A server that is killed, the hub on it, and the journal of its workers."""

    def __init__(self, folder: Path, **milliseconds: int):
        self.server = Server(folder, *flags(**milliseconds)).start()
        self.hub = Hub(self.server.host)
        self.folder = folder
        self.journal = Journal(folder / "journal")
        self.workers: list[Worker] = []

    def worker(self) -> Worker:
        # At full size the worker has the default settings of its SDK.
        self.workers.append(Worker(self.hub, self.journal, *([] if FULL else ["soon"])))
        return self.workers[-1]

    def release(self) -> None:
        (self.folder / "release").touch()

    def close(self) -> None:
        for worker in self.workers:
            worker.kill()
        self.hub.close()
        self.server.stop()


@pytest.fixture
def worlds(tmp_path: Path) -> Iterator:
    made: list[World] = []

    def make(**milliseconds: int) -> World:
        made.append(World(tmp_path, **milliseconds))
        return made[-1]

    yield make
    for world in made:
        world.close()


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_restart_in_flight_activity_begins_once(worlds, how: str):
    """The server goes and comes back while a living worker runs an activity: it is not begun again, its result counts."""
    world = worlds(restart_grace=RESTART_GRACE_MS)
    world.worker()
    instance = start(world.hub, "long", "calls", ["held", None])
    eventually("the activity runs", lambda: world.journal.count("BEGIN", instance))
    began = time.monotonic()
    getattr(world.server, how)()
    took = time.monotonic() - began
    # The times themselves are what is tested: how long the server is away, and how long the activity goes on.
    time.sleep(DOWN_SECONDS)
    back = time.time()
    world.server.start()
    eventually("the worker is back", lambda: world.journal.count("CONNECTED", after=back), RECONNECT_SECONDS)
    time.sleep(max(CONNECTED_SECONDS, HOLD_SECONDS - (time.monotonic() - began)))
    world.release()
    state = eventually("the run ends", lambda: ended(world.hub, instance), 120)
    story = world.journal.story(instance)
    assert world.journal.count("BEGIN", instance) == 1, f"begun more than once:\n{story}"
    assert state.runtime_status.name == "COMPLETED", f"{state}\n{story}"
    assert state.get_output() == instance
    assert took < STOP_SECONDS_MAX, f"the server took {took:.1f} s to end by '{how}' with an activity in flight"


def test_killed_servers_fail_nothing_healthy(worlds):
    """Kill -9 again and again, each time with turns and an activity in the hands of a worker that lives."""
    world = worlds(restart_grace=RESTART_GRACE_MS)
    worker = world.worker()
    activity = start(world.hub, "held", "calls", ["held", None])
    eventually("the activity runs", lambda: world.journal.count("BEGIN", activity))
    instances = [start(world.hub, f"waits-{number}", "waits", None) for number in range(50)]
    kills, since = 0, 0.0
    while kills < KILLS:
        deadline = time.monotonic() + HANDED_OUT_SECONDS
        while not world.journal.count("RECEIVED", after=since) and time.monotonic() < deadline:
            time.sleep(0.02)
        if time.monotonic() >= deadline:
            break
        # A server that suspects its turns hands out few of them, and holds all.
        settled = time.monotonic() + SETTLE_SECONDS
        while world.journal.count("RECEIVED", after=since) < len(instances) and time.monotonic() < settled:
            time.sleep(0.02)
        since = time.time()
        world.server.kill()
        kills += 1
        world.server.start()
    # Otherwise the SDK drops the answer of the activity.
    eventually("the worker is back", lambda: world.journal.count("CONNECTED", after=since), RECONNECT_SECONDS)
    world.release()
    failed = []
    for instance in [*instances, activity]:
        state = eventually(f"{instance} ends", lambda: ended(world.hub, instance), 180)
        if state.runtime_status.name != "COMPLETED" or state.get_output() != instance:
            failed.append(f"{instance} is {state.runtime_status.name}: {state.failure_details}")
    handed_out = world.journal.count("RECEIVED")
    text = f"after {kills} kills and {handed_out} turns {len(failed)} of {len(instances) + 1} healthy runs failed"
    assert not failed, "\n".join([text, *failed[:3]])
    assert kills == KILLS, f"no turn was handed out within {HANDED_OUT_SECONDS} s of kill {kills}"
    begun = world.journal.count("BEGIN", activity)
    assert begun == 1, f"the activity of a living worker was begun {begun} times"
    assert not worker.has_ended()


def test_poison_activity_crashes_alone(worlds):
    """An activity that ends its process becomes ActivityCrashed after a bounded number of deaths; its neighbour ends."""
    world = worlds(restart_grace=RESTART_GRACE_MS, reconnect_grace=1_000, trial_quiet=500)
    worker = world.worker()
    neighbour = start(world.hub, "neighbour", "calls", ["timed", NEIGHBOUR_SECONDS])
    eventually("the neighbour runs", lambda: world.journal.count("BEGIN", neighbour))
    poison = start(world.hub, "poison", "calls", ["poison", None])
    deaths = 0
    deadline = time.monotonic() + ISOLATION_SECONDS
    while not (ended(world.hub, poison) and ended(world.hub, neighbour)):
        figures = f"{deaths} workers died; {world.journal.count('BEGIN', neighbour)} begins of the neighbour"
        assert time.monotonic() < deadline, f"not within {ISOLATION_SECONDS} s; {figures}"
        # As a supervisor would.
        if worker.has_ended():
            deaths += 1
            assert deaths <= DEATHS_MAX, f"the poison is not recognised: {figures}"
            worker = world.worker()
        time.sleep(0.05)
    crashed, healthy = ended(world.hub, poison), ended(world.hub, neighbour)
    assert crashed.runtime_status.name == "FAILED", crashed
    assert "ActivityCrashed" in str(crashed.failure_details), crashed.failure_details
    assert healthy.runtime_status.name == "COMPLETED", healthy.failure_details
    assert healthy.get_output() == neighbour
