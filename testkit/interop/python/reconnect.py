"""How long workers of the published SDKs take to reconnect after an outage: `reconnect.py OUTAGE_SECONDS [WORKERS]`.

Workers with default settings, each in a process and a task hub of its own. Half of them run an activity during the outage:
an open call keeps a gRPC channel, and with it that channel's own back-off, alive. The server is killed with kill -9. The
figures count from the moment the server listens again.
"""

import logging
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from hub import Hub, eventually
from server import MORTAL, Server

HERE = Path(__file__).parent
# Longer than the longest back-off of gRPC, 120 s and a fifth, and one of an SDK on top.
PATIENCE_SECONDS = 200.0


class Worker:
    """A worker process, and when it said what."""

    def __init__(self, language: str, holds: bool, number: int, host: str):
        self.language, self.holds = language, holds
        self.hub = f"{language}{int(holds)}{number:02}hub"
        if language == "python":
            command = [sys.executable, str(HERE / "reconnect_worker.py")]
        else:
            folder = Path(os.environ["INTEROP_JAVASCRIPT"])
            command = [str(folder / "node_modules/.bin/node"), str(folder / "reconnect.js")]
        self.process = subprocess.Popen(
            [*MORTAL, *command, host, self.hub],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.said: list[tuple[float, str]] = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self.process.stdout:
            self.said.append((time.monotonic(), line.strip()))

    def when(self, what: str, after: float = 0.0) -> float | None:
        return next((at for at, line in list(self.said) if line == what and at > after), None)

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


def measure(folder: Path, outage: float, count: int) -> None:
    server = Server(folder, "--log", "error").start()
    kinds = [(language, holds) for language in ("python", "javascript") for holds in (False, True)]
    workers = [Worker(*kind, number, server.host) for kind in kinds for number in range(count)]
    try:
        for worker in workers:
            eventually(f"{worker.hub} is connected", lambda: worker.when("connected"))
        for worker in workers:
            if worker.holds:
                hub = Hub(server.host, worker.hub)
                hub.start("one")
                hub.close()
                eventually(f"{worker.hub} holds an activity", lambda: worker.when("holds"))
        server.kill()
        # The time itself is measured here: the outage has its length.
        time.sleep(outage)
        server.start()
        back = time.monotonic()
        end = back + PATIENCE_SECONDS
        while time.monotonic() < end and not all(worker.when("connected", back) for worker in workers):
            time.sleep(0.05)
        for kind in kinds:
            times = [worker.when("connected", back) for worker in workers if (worker.language, worker.holds) == kind]
            seconds = sorted(at - back for at in times if at is not None)
            what = f"{kind[0]}, {'with an activity' if kind[1] else 'idle'}, outage of {outage:.0f} s"
            figures = f"median {statistics.median(seconds):.1f} s, longest {seconds[-1]:.1f} s" if seconds else "none"
            print(f"{what}: {len(seconds)} of {len(times)} reconnected, {figures}", flush=True)
    finally:
        for worker in workers:
            worker.end()
        server.stop()


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    seconds, workers = float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 6
    with tempfile.TemporaryDirectory(prefix="dauer-reconnect-") as made:
        measure(Path(made), seconds, workers)
