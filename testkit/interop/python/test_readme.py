"""The README's first commands, followed to the letter: a server, a program in Python, a kill in the middle."""

import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

README = Path(__file__).parents[3] / "README.md"
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", README.read_text(), re.S)
# Starting a server, and the whole program, on a machine that is busy elsewhere.
SOON = 60


def block(language: str, number: int) -> str:
    return [text for found, text in BLOCKS if found == language][number]


class Spoken:
    """A process, and the lines that it says."""

    def __init__(self, command: list[str], folder: Path):
        self.process = subprocess.Popen(
            command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True
        )
        self.lines: list[str] = []

    def until(self, wanted: str) -> None:
        """Waits for a line that begins so."""
        timer = threading.Timer(SOON, self.kill)
        timer.start()
        for line in self.process.stdout:
            self.lines.append(line.strip())
            if line.startswith(wanted):
                timer.cancel()
                return
        timer.cancel()
        raise AssertionError(f"it ended without '{wanted}': {self.lines}")

    def kill(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def serve(folder: Path) -> Spoken:
    # What the README has cargo install is what is tested here.
    install, run = block("sh", 0).splitlines()
    assert install == "cargo install --locked --path cli"
    command = [os.environ["DAUER"] if word == "dauer" else word for word in run.split()]
    assert command == [os.environ["DAUER"], "dev", "--demo"]
    server = Spoken(command, folder)
    server.until("grpc http://127.0.0.1:4001")
    return server


def test_program_goes_on_after_the_server_was_killed(tmp_path: Path):
    assert block("sh", 1).split() == ["pip", "install", "durabletask"]
    program = tmp_path / "count.py"
    program.write_text(block("python", 0))
    server = serve(tmp_path)
    first = Spoken([sys.executable, str(program)], tmp_path)
    first.until("step 2")
    server.kill()
    # Its client does not wait for servers that are gone; its instance does.
    first.process.wait(SOON)
    server = serve(tmp_path)
    second = Spoken([sys.executable, str(program)], tmp_path)
    second.until("sum")
    second.process.wait(SOON)
    server.kill()
    assert second.lines[-1] == "sum 15"
    said = [line for line in first.lines + second.lines if line.startswith("step")]
    # Only the step that was in flight may be said again.
    assert sorted(set(said)) == [f"step {number}" for number in range(1, 6)] and len(said) <= 6, said
    assert "step 5" in second.lines
