"""Workers and server, killed at random while clients go on: `soak.py SECONDS [SEED]`.

Every start and every event that was acknowledged is remembered here, in a process that nobody kills. When the time is over
the killing ends, everything has to come to its end, with the right output, and the file is audited.
"""

import json
import logging
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import grpc
from durabletask import client
from server import MORTAL, Server

WORKERS = 3
CLIENTS = 8
# Between two blows, at most.
PAUSE_SECONDS = 3.0
# How long everything that is under way may take once the killing has ended.
HEAL_SECONDS = 120
LOST = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED, grpc.StatusCode.UNKNOWN, grpc.StatusCode.INTERNAL)


def again(call, done=None):
    """Calls until the server answers. What was done although its answer was lost says so by the code `done`."""
    while True:
        try:
            return call()
        except grpc.RpcError as error:
            if error.code() == done:
                return None
            if error.code() not in LOST:
                raise
            time.sleep(0.1)


def expected(kind: str, number: int):
    match kind:
        case "chain":
            return number + 6
        case "fan":
            return 5 * number + 10
        case _:
            return [number + step for step in range(5)]


class Soak:
    def __init__(self, folder: Path, seconds: float, seed: int):
        self.server = Server(folder, "--log", "error", "--restart-grace", "5s", "--reconnect-grace", "2s").start()
        self.random, self.seconds = random.Random(seed), seconds
        self.over = threading.Event()
        self.workers = [self.worker() for _ in range(WORKERS)]
        self.started: dict[str, tuple[str, int]] = {}
        self.lock = threading.Lock()
        self.wrong: list[str] = []
        self.kills = {"server": 0, "worker": 0}

    def worker(self) -> subprocess.Popen:
        program = Path(__file__).with_name("soak_worker.py")
        command = [*MORTAL, sys.executable, str(program), self.server.host]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def one_client(self, number: int) -> None:
        """One instance after the other, each waited for, so that the load fits the machine."""
        hub = client.TaskHubGrpcClient(host_address=self.server.host)
        for count in range(10**9):
            if self.over.is_set():
                return
            kind, value = ("chain", "fan", "mailbox")[count % 3], count % 1000
            instance = f"{kind}-{number}-{count}"
            begin = [] if kind == "mailbox" else value
            again(
                lambda: hub.schedule_new_orchestration(kind, input=begin, instance_id=instance),
                done=grpc.StatusCode.ALREADY_EXISTS,
            )
            with self.lock:
                self.started[instance] = (kind, value)
            if kind == "mailbox":
                self.post(hub, instance, value)
            self.wait(hub, instance, until=self.over)

    def post(self, hub, instance: str, value: int) -> None:
        """An event whose answer was lost may have come: the SDKs have no id for it, so that it is looked for first."""
        for step in range(5):
            sent = False
            while not sent:
                try:
                    hub.raise_orchestration_event(instance, "number", data=value + step)
                    sent = True
                except grpc.RpcError as error:
                    if error.code() not in LOST:
                        raise
                    time.sleep(0.1)
                    # Unknown: this one is left out of the comparison.
                    with self.lock:
                        self.started[instance] = ("doubtful", value)

    def wait(self, hub, instance: str, until: threading.Event | None) -> bool:
        while until is None or not until.is_set():
            try:
                state = hub.wait_for_orchestration_completion(instance, timeout=5)
                if state is not None:
                    return True
            except TimeoutError:
                pass
            except grpc.RpcError as error:
                if error.code() not in LOST:
                    raise
                time.sleep(0.1)
        return False

    def storm(self) -> None:
        end = time.monotonic() + self.seconds
        while time.monotonic() < end:
            time.sleep(self.random.uniform(0.2, PAUSE_SECONDS))
            if self.random.random() < 0.4:
                self.server.kill()
                self.kills["server"] += 1
                time.sleep(self.random.uniform(0, 0.5))
                self.server.start()
            else:
                place = self.random.randrange(WORKERS)
                self.workers[place].kill()
                self.workers[place].wait()
                self.kills["worker"] += 1
                self.workers[place] = self.worker()

    def check(self) -> None:
        hub = client.TaskHubGrpcClient(host_address=self.server.host)
        deadline = time.monotonic() + HEAL_SECONDS
        for instance, (kind, value) in self.started.items():
            state = None
            while state is None or not state.runtime_status.name in ("COMPLETED", "FAILED", "TERMINATED"):
                if time.monotonic() > deadline:
                    self.wrong.append(f"{instance} is stuck: {state and state.runtime_status.name}")
                    break
                state = again(lambda: hub.get_orchestration_state(instance))
                if state is None:
                    self.wrong.append(f"{instance} was acknowledged and is not there")
                    break
                if state.runtime_status.name in ("RUNNING", "PENDING"):
                    time.sleep(0.05)
            else:
                output = json.loads(state.serialized_output or "null")
                if state.runtime_status.name != "COMPLETED":
                    self.wrong.append(f"{instance} is {state.runtime_status.name}: {state.failure_details}")
                elif kind != "doubtful" and output != expected(kind, value):
                    self.wrong.append(f"{instance} gave {output}, expected {expected(kind, value)}")

    def run(self) -> int:
        clients = [threading.Thread(target=self.one_client, args=(number,)) for number in range(CLIENTS)]
        for thread in clients:
            thread.start()
        self.storm()
        self.over.set()
        for thread in clients:
            thread.join()
        self.check()
        for worker in self.workers:
            worker.kill()
            worker.wait()
        self.server.stop()
        file = self.server.folder / "hub.db"
        audit = subprocess.run([os.environ["DAUER"], "audit", str(file)], capture_output=True, text=True)
        verdict = audit.stdout.strip().splitlines()[-1] if audit.stdout else audit.stderr
        doubtful = sum(kind == "doubtful" for kind, _ in self.started.values())
        print(f"soak: {self.seconds:.0f} s, {self.kills['server']} kills of the server, {self.kills['worker']} of workers")
        print(f"soak: {len(self.started)} instances, {doubtful} with an event of unknown outcome, {len(self.wrong)} wrong")
        for line in self.wrong[:20]:
            print(f"  {line}")
        print(f"audit: {verdict}")
        enough = min(self.kills.values()) > 0
        return 0 if not self.wrong and audit.returncode == 0 and enough and self.started else 1


if __name__ == "__main__":
    # The SDK tells of every call.
    logging.disable(logging.WARNING)
    seconds, seed = float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1
    with tempfile.TemporaryDirectory(prefix="dauer-soak-") as folder:
        code = Soak(Path(folder), seconds, seed).run()
    sys.exit(code)
