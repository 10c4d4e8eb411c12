"""Activities in flight while the server is killed and stopped again and again, small."""

from pathlib import Path

import pytest

from deaths import FULL, Journal
from restarts import LARGE, SMALL, WORKERS, Restarts, broken


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


# The server ends at 20 and listens again at 21, the grace is ten seconds. The worker connects at 10 and at 23.
BLOWS, LISTENS, GRACE_SECONDS = [20.0], [9.0, 21.0], 10.0
JOURNALS = {
    "answered": (["11 BEGIN a", "12 END a"], None),
    "answered after the restart": (["11 BEGIN a", "26 END a"], None),
    "lost, and again after the grace": (["11 BEGIN a", "20.5 END a", "20.6 LOST a", "32 BEGIN a", "33 END a"], None),
    "again while the first runs": (["11 BEGIN a", "24 BEGIN a", "26 END a", "27 END a"], "without need"),
    "again after its answer": (["11 BEGIN a", "20.5 END a", "32 BEGIN a"], "without need"),
    "twice for one lost answer": (["11 BEGIN a", "20.6 LOST a", "32 BEGIN a", "33 BEGIN a"], "without need"),
    "lost, and again at once": (["11 BEGIN a", "20.6 LOST a", "24 BEGIN a"], "after the server was back"),
    "lost on a stream": (["11 BEGIN a", "15 LOST a"], "on a stream from 10.000"),
    "lost on the new stream": (["11 BEGIN a", "27 LOST a"], "on a stream from 23.000"),
    "lost before the channel is usable": (["11 BEGIN a", "23.5 LOST a"], None),
}


@pytest.mark.parametrize("name", list(JOURNALS))
def test_journal_that_breaks_a_rule_is_found(tmp_path: Path, name: str):
    lines, expected = JOURNALS[name]
    journal = Journal(tmp_path / "journal")
    both = [*lines, "10 CONNECTED -", "23 CONNECTED -"]
    journal.path.write_text("".join(f"{line} 7\n" for line in sorted(both, key=lambda line: float(line.split()[0]))))
    wrong = broken(journal, (BLOWS, LISTENS), GRACE_SECONDS)
    assert [str(expected) in line for line in wrong] == [True] * (expected is not None), wrong
