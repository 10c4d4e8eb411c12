"""One server for each test file, one task hub for each test."""

from collections.abc import Iterator

import pytest

from hub import Hub
from server import Server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    # Workers are killed here, and none comes again: what they had is begun again soon.
    running = Server(tmp_path_factory.mktemp("server"), "--reconnect-grace", "2s").start()
    yield running
    running.stop()


@pytest.fixture
def hub(server: Server, request: pytest.FixtureRequest) -> Iterator[Hub]:
    made = Hub(server.host)
    yield made
    made.close()
    if not server.is_alive():
        pytest.fail(f"the server is gone after {request.node.name}:\n{server.tail()}")


@pytest.fixture(params=[1, 2], ids=["one-worker", "two-workers"])
def workers(request: pytest.FixtureRequest) -> int:
    """How many workers a central test runs with."""
    return request.param
