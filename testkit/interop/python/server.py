"""One `dauer serve` of our own: its SQLite file and its port stay the same when it is killed and started again."""

import os
import queue
import re
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import TextIO

# A start opens a database and binds a port; a machine that runs all test files at once may be slow at it.
START_SECONDS = 30
# A stop drains the streams: the server's own limit is below this.
STOP_SECONDS = 30
# Where the system can, a server dies with the tests that started it, however those end.
MORTAL = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
LINE = re.compile(r"^grpc http://(\S+)$")


class Server:
    """A server process. `host` is what an SDK wants to have: an address without a scheme."""

    def __init__(self, folder: Path, *arguments: str):
        self.folder = folder
        self.arguments = list(arguments)
        self.log = folder / "server.log"
        self.host = "127.0.0.1:0"
        self._process: subprocess.Popen[str] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None, "the server was never started"
        return self._process.pid

    def start(self) -> "Server":
        program = os.environ.get("DAUER")
        assert program, "DAUER must hold the absolute path of the dauer binary"
        command = [program, "serve", "--store", f"sqlite:{self.folder / 'hub.db'}"]
        command += ["--grpc", self.host, "--http", "off", *self.arguments]
        with self.log.open("a") as log:
            self._process = subprocess.Popen(
                MORTAL + command, stdout=subprocess.PIPE, stderr=log, text=True, cwd=self.folder
            )
        self.host = self._address()
        return self

    def _address(self) -> str:
        """Reads the line that says where the server listens; whatever else it prints is read and dropped, or it would
        wait for us when the pipe is full."""
        assert self._process is not None and self._process.stdout is not None
        stdout, lines = self._process.stdout, queue.Queue[str]()
        threading.Thread(target=_pour, args=(stdout, lines), daemon=True).start()
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                line = lines.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"no address within {START_SECONDS} s:\n{self.tail()}") from None
            if not line:
                raise AssertionError(f"the server ended with {self._process.wait()}:\n{self.tail()}")
            if matched := LINE.match(line.strip()):
                return matched[1]

    def kill(self) -> None:
        """As a power cut would."""
        self._signal(signal.SIGKILL)

    def stop(self) -> int:
        """As an operator would: asks it to drain, and waits until it is gone."""
        return self._signal(signal.SIGTERM)

    def _signal(self, number: signal.Signals) -> int:
        if self._process is None:
            return 0
        process, self._process = self._process, None
        if process.poll() is None:
            process.send_signal(number)
        try:
            return process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            text = f"the server did not stop within {STOP_SECONDS} s of {number.name}:\n{self.tail()}"
            raise AssertionError(text) from None

    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def tail(self) -> str:
        return self.log.read_text()[-4000:] if self.log.exists() else ""


def _pour(source: TextIO, lines: "queue.Queue[str]") -> None:
    """Every line, and an empty one at the end."""
    with source:
        for line in source:
            lines.put(line)
    lines.put("")
