"""What the tests of deaths share: their sizes, workers that are killed and restarted, and the journal that workers write."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import grpc
from durabletask import client

from hub import PATIENCE_SECONDS, Hub, eventually
from server import MORTAL

# `INTEROP_SIZE=full` runs the server with its default settings, and activities as long as in production.
FULL = os.environ.get("INTEROP_SIZE") == "full"
# A binary from before these flags refuses them: `INTEROP_SETTINGS=off` leaves them out.
HAS_SETTINGS = os.environ.get("INTEROP_SETTINGS") != "off"
# The flags of `dauer serve` for the times that are shortened here.
RESTART_GRACE, RECONNECT_GRACE, TRIAL_QUIET = "--restart-grace", "--reconnect-grace", "--trial-quiet"
# What `dauer serve` uses without the flag.
RESTART_GRACE_DEFAULT_SECONDS = 180.0

SCRIPT = Path(__file__).with_name("deaths_worker.py")
START_SECONDS = 30
ENDED = ("COMPLETED", "FAILED", "TERMINATED", "CANCELED")


def flags(**milliseconds: int) -> list[str]:
    """The flags of a server with short times: `flags(restart_grace=6_000)`. None at full size."""
    names = {"restart_grace": RESTART_GRACE, "reconnect_grace": RECONNECT_GRACE, "trial_quiet": TRIAL_QUIET}
    if FULL or not HAS_SETTINGS:
        return []
    return [part for name, value in milliseconds.items() for part in (names[name], f"{value}ms")]


@dataclass(frozen=True)
class Line:
    """A line of the journal. Times are those of the machine."""

    at: float
    kind: str
    key: str
    pid: int


class Journal:
    """What workers have begun, ended and lost, in their own words, one write for each line."""

    def __init__(self, path: Path):
        self.path = path
        path.touch()

    def lines(self, kind: str | None = None, key: str | None = None, after: float = 0.0) -> list[Line]:
        found = []
        # A line that is not whole yet was not written by a single write.
        for text in self.path.read_text().splitlines():
            at, found_kind, found_key, pid = text.split(" ")
            if (kind in (None, found_kind)) and (key in (None, found_key)) and float(at) > after:
                found.append(Line(float(at), found_kind, found_key, int(pid)))
        return found

    def count(self, kind: str, key: str | None = None, after: float = 0.0) -> int:
        return len(self.lines(kind, key, after))

    def story(self, key: str) -> str:
        """The lines about one key, for the message of a failure."""
        return "\n".join(f"  {line.at:.3f} {line.kind} by {line.pid}" for line in self.lines(key=key))


class Worker:
    """A worker process with the code of `deaths_worker.py`."""

    def __init__(self, hub: Hub, journal: Journal, *arguments: str):
        command = [*MORTAL, sys.executable, str(SCRIPT), hub.host, hub.name, str(journal.path), *arguments]
        self._log = journal.path.with_suffix(".log").open("a")
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=self._log, text=True
        )
        began = time.time()
        pid = self.process.pid
        eventually(
            "the worker is connected",
            lambda: self.has_ended() or any(line.pid == pid for line in journal.lines("CONNECTED", after=began - 1)),
            START_SECONDS,
        )

    def has_ended(self) -> bool:
        return self.process.poll() is not None

    def kill(self) -> None:
        if not self.has_ended():
            self.process.kill()
        self.process.communicate()
        self._log.close()


def state_of(hub: Hub, instance: str) -> client.OrchestrationState | None:
    """The state of an instance, if the server is there."""
    try:
        return hub.client.get_orchestration_state(instance)
    except grpc.RpcError:
        return None


def ended(hub: Hub, instance: str) -> client.OrchestrationState | None:
    state = state_of(hub, instance)
    return state if state is not None and state.runtime_status.name in ENDED else None


def again(call: Callable[[], object], done: grpc.StatusCode, seconds: float = PATIENCE_SECONDS) -> None:
    """Calls until the server answers; `done` is its code for a call whose answer was lost."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            call()
            return
        except grpc.RpcError as error:
            if error.code() == done:
                return
            lost = error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)
            if not lost or time.monotonic() > deadline:
                raise
        time.sleep(0.05)


def start(hub: Hub, instance: str, name: str, input: object) -> str:
    """Starts an instance, also when the server goes away during the call."""
    schedule = lambda: hub.start(name, input, instance_id=instance)  # noqa: E731
    again(schedule, done=grpc.StatusCode.ALREADY_EXISTS)
    return instance
