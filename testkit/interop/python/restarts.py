"""Activities in flight while the server is killed and stopped again and again: `restarts.py python|rust [SEED]`.

The worker lives through all of it and keeps a journal. `Restarts.check` says what may be in it:

* An activity is begun again only if its answer was lost: the Python SDK drops an answer that it cannot deliver, and says so
  in its log. dauer's own worker keeps answers until a server takes them, so there every activity is begun once.
* An activity whose answer was lost is begun again only after `restart_grace`, counted from the start of the server.
* No answer is lost while the worker is connected.
* Every instance completes with the output of its activity.

Not asserted: that a particular activity is answered at its first attempt. With the Python SDK that is a race between the end
of the activity and the reconnection. That most of them are is asserted, so that the rules above are about something.
"""

import logging
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from deaths import FULL, HAS_SETTINGS, RESTART_GRACE_DEFAULT_SECONDS, Journal, Worker, ended, flags, start
from hub import Hub, eventually
from server import MORTAL, Server


@dataclass(frozen=True)
class Size:
    """How much of it."""

    # Activities that were in flight at a blow.
    spanning: int
    seconds_max: float
    blows: int
    in_flight: int
    # After the worker has reconnected.
    pause_seconds: float
    down_seconds: float
    restart_grace_seconds: float
    # From the last blow until everything has ended: the grace, the longest activity, and a margin.
    heal_seconds: float


SMALL = Size(20, 3.0, 5, 12, 1.0, 0.5, 8.0, 60.0)
LARGE = Size(200, 20.0, 30, 25, 4.0, 1.0, RESTART_GRACE_DEFAULT_SECONDS, 240.0)
SECONDS_MIN = 0.1
# A channel of gRPC becomes usable for answers a moment after the stream on it is open.
CHANNEL_SECONDS = 2.0
# The server's clock for the grace begins before it prints its address.
START_MARGIN_SECONDS = 2.0


def broken(journal: Journal, server: tuple[list[float], list[float]], grace_seconds: float) -> list[str]:
    """What in a journal breaks a rule, with the times when the server was ended and when it listened again."""
    blows, listens = server
    lines, wrong = journal.lines(), []
    for key in {line.key: None for line in lines if line.kind == "BEGIN"}:
        lost = [line.at for line in lines if (line.kind, line.key) == ("LOST", key)]
        begun = [line.at for line in lines if (line.kind, line.key) == ("BEGIN", key)]
        for number, at in enumerate(begun[1:], 1):
            if sum(each < at for each in lost) < number:
                wrong.append(f"{key} was begun again without need:\n{journal.story(key)}")
                break
            waited = at - max(each for each in listens if each < at)
            if waited < grace_seconds - START_MARGIN_SECONDS:
                wrong.append(f"{key} was begun again {waited:.1f} s after the server was back")
    connected = [line.at for line in lines if line.kind == "CONNECTED"]
    for line in lines:
        since = max((at for at in connected if at < line.at - CHANNEL_SECONDS), default=0.0)
        if line.kind == "LOST" and since > max((at for at in blows if at < line.at), default=0.0):
            wrong.append(f"the answer of {line.key} was lost at {line.at:.3f} on a stream from {since:.3f}")
    return wrong


class RustWorker:
    """dauer's own worker over gRPC."""

    def __init__(self, hub: Hub, journal: Journal):
        program = os.environ.get("DAUER_WORKER") or str(Path(os.environ["DAUER"]).with_name("dauer-deaths"))
        url = f"http://{hub.host}?hub={hub.name}"
        command = [*MORTAL, program, "--url", url, "--journal", str(journal.path)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        eventually("the worker is connected", lambda: self.has_ended() or journal.count("CONNECTED"))

    def has_ended(self) -> bool:
        return self.process.poll() is not None

    def kill(self) -> None:
        if not self.has_ended():
            self.process.kill()
        self.process.communicate()


WORKERS: dict[str, Callable[[Hub, Journal], Worker | RustWorker]] = {
    # At full size with the default settings of the SDK.
    "python": lambda hub, journal: Worker(hub, journal, *([] if FULL else ["soon"])),
    "rust": RustWorker,
}


class Restarts:
    """One run. `wrong` has what breaks a rule."""

    def __init__(self, folder: Path, language: str, size: Size, seed: int = 1):
        self.size, self.random, self.language = size, random.Random(seed), language
        self.server = Server(folder, "--log", "error", *flags(restart_grace=round(size.restart_grace_seconds * 1000)))
        self.server.start()
        # When the server began to listen, and when it was killed or stopped.
        self.listens, self.blows, self.how = [time.time()], [], Counter()
        self.hub = Hub(self.server.host)
        self.journal = Journal(folder / "journal")
        self.worker = WORKERS[language](self.hub, self.journal)
        self.started: list[str] = []
        self.spanning: set[str] = set()
        self.wrong: list[str] = []

    def in_flight(self) -> set[str]:
        begun = {line.key for line in self.journal.lines("BEGIN")}
        return begun - {line.key for line in self.journal.lines("END")}

    def fill(self) -> None:
        """Starts instances until enough activities are in flight, and waits until they are."""
        for _ in range(self.size.in_flight - len(self.in_flight())):
            key = f"run-{len(self.started)}"
            seconds = round(self.random.uniform(SECONDS_MIN, self.size.seconds_max), 2)
            self.started.append(start(self.hub, key, "calls", ["timed", seconds]))
        last = self.started[-1]
        eventually(f"{last} begins", lambda: self.journal.count("BEGIN", last), self.size.heal_seconds)

    def blow(self) -> None:
        """Ends the server while activities run, and starts it again."""
        how = ("kill", "stop")[len(self.blows) % 2]
        self.spanning |= self.in_flight()
        self.blows.append(time.time())
        self.how[how] += 1
        getattr(self.server, how)()
        # Those that ended while the server drained did not outlive it, and are begun once all the same.
        time.sleep(self.random.uniform(0, self.size.down_seconds))
        self.server.start()
        self.listens.append(time.time())
        back = self.listens[-1]
        eventually("the worker is back", lambda: self.journal.count("CONNECTED", after=back), self.size.heal_seconds)

    def run(self) -> None:
        while len(self.blows) < self.size.blows or len(self.spanning) < self.size.spanning:
            self.fill()
            time.sleep(self.random.uniform(0, self.size.pause_seconds))
            self.blow()
        deadline = time.monotonic() + self.size.heal_seconds
        for key in self.started:
            left = max(1.0, deadline - time.monotonic())
            state = eventually(f"{key} ends", lambda: ended(self.hub, key), left)
            if state.runtime_status.name != "COMPLETED" or state.get_output() != key:
                self.wrong.append(f"{key} is {state.runtime_status.name}: {state.failure_details}")
        if self.worker.has_ended():
            self.wrong.append("the worker has ended")
        self.check()

    def check(self) -> None:
        """Compares the journal with the rules."""
        grace = self.size.restart_grace_seconds if HAS_SETTINGS else 0.0
        self.wrong += broken(self.journal, (self.blows, self.listens), grace)

    def once(self) -> int:
        """How many of the activities that were in flight at a blow were begun once."""
        begun = Counter(line.key for line in self.journal.lines("BEGIN"))
        return sum(begun[key] == 1 for key in self.spanning)

    def figures(self) -> str:
        lost = self.journal.count("LOST")
        return (
            f"restarts, {self.language} worker: {self.how['kill']} kills and {self.how['stop']} SIGTERMs, "
            f"{len(self.started)} activities, {len(self.spanning)} in flight at one, {self.once()} of these begun once, "
            f"{lost} answers dropped by the SDK, {len(self.wrong)} wrong"
        )

    def close(self) -> None:
        self.worker.kill()
        self.hub.close()
        self.server.stop()


def main(language: str, seed: int) -> int:
    with tempfile.TemporaryDirectory(prefix="dauer-restarts-") as folder:
        restarts = Restarts(Path(folder), language, LARGE if FULL else SMALL, seed)
        try:
            restarts.run()
        finally:
            restarts.close()
        print(restarts.figures())
        for line in restarts.wrong[:20]:
            print(f"  {line}")
    return 1 if restarts.wrong else 0


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    sys.exit(main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1))
