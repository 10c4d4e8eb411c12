"""Activities in flight while the server is killed and stopped again and again, small."""

from pathlib import Path

import pytest

from deaths import FULL
from restarts import LARGE, SMALL, WORKERS, Restarts


@pytest.mark.parametrize("language", list(WORKERS))
def test_restarts_begin_no_activity_twice(tmp_path: Path, language: str):
    """behaviour-5 behaviour-6: what a living worker runs is begun once, whatever becomes of the server."""
    restarts = Restarts(tmp_path, language, LARGE if FULL else SMALL)
    try:
        restarts.run()
        assert not restarts.wrong, "\n".join([restarts.figures(), *restarts.wrong[:20]])
        # Otherwise the rules were about nothing.
        assert restarts.once() >= len(restarts.spanning) / 2, restarts.figures()
    finally:
        restarts.close()
