"""The examples, run as a reader would run them: their output is compared with what they promise."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from server import Server

OUTPUTS = {
    "hello_chain": ([], ["Hello Tokyo!", "Hello Seattle!", "Hello London!"]),
    "fan_out": ([], ["10 words on 3 pages"]),
    "approval": (["yes"], ["one espresso machine: ordered"]),
    "approval-refused": (["no"], ["one espresso machine: refused"]),
    "approval-late": ([], ["one espresso machine: nobody answered, passed on to the boss"]),
    "retry": ([], ["Lisbon: sunny, after 3 attempts"]),
}


def output(command: list[str], host: str) -> list[str]:
    environment = {**os.environ, "DAUER_HOST": host}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=90)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("example", OUTPUTS)
def test_python(server: Server, example: str):
    """behaviour-1: without a header, on the default hub."""
    arguments, expected = OUTPUTS[example]
    script = Path(os.environ["INTEROP_EXAMPLES"]) / "python" / f"{example.split('-')[0]}.py"
    assert output([sys.executable, str(script), *arguments], server.host) == expected


@pytest.mark.parametrize("example", OUTPUTS)
def test_javascript(server: Server, example: str):
    """behaviour-1: without a header, on the default hub."""
    arguments, expected = OUTPUTS[example]
    installed = Path(os.environ["INTEROP_JAVASCRIPT"])
    name = example.split("-")[0].replace("_", "-")
    # Beside the packages, where Node looks for them; by a name of its own, since tests run side by side.
    copy = installed / f"example-{example}.js"
    shutil.copy(Path(os.environ["INTEROP_EXAMPLES"]) / "javascript" / f"{name}.js", copy)
    node = installed / "node_modules" / ".bin" / "node"
    assert output([str(node), str(copy), *arguments], server.host) == expected


def test_every_example_is_run():
    """An example that nobody runs is not there for long."""
    examples = Path(os.environ["INTEROP_EXAMPLES"])
    known = {name.split("-")[0] for name in OUTPUTS}
    assert {path.stem for path in (examples / "python").glob("*.py")} == known
    assert {path.stem.replace("-", "_") for path in (examples / "javascript").glob("*.js")} == known
