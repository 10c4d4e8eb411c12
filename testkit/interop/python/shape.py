"""A history as lines that can be compared.

`TaskScheduled#1 plus_one` has event id 1 and a name, `TaskCompleted<1` answers it and has event id -1. Every event is
rendered and every id is in its line, so two equal lists are two equal histories but for payloads and times. A name may
be left out of neither.

Events that race come in an order that no server can promise: those are a group, `race(...)`, within which order is
free and each may have begun a turn of its own, hence an `OrchestratorStarted` before any of them.
"""

from durabletask import history
from durabletask.client import OrchestrationStatus

# What an event that no action made has for an id (behaviour-13).
NO_ACTION = -1
STARTED = "OrchestratorStarted"
# The first turn of every run.
BEGIN = [STARTED, "ExecutionStarted#0"]


# A turn that may have begun here or not: what follows it was there in time for the turn before, or was not.
MAYBE = "OrchestratorStarted?"


class race(tuple):
    """Lines whose order is not fixed."""

    def __new__(cls, *lines: str):
        return super().__new__(cls, lines)


def render(event: history.HistoryEvent) -> str:
    """One event as one line; an event without a timestamp, or with an id that it must not have, is an error."""
    kind = type(event).__name__.removesuffix("Event")
    assert event.timestamp is not None and event.timestamp.year > 2000, f"{kind} has no timestamp"
    line = kind if event.event_id == NO_ACTION else f"{kind}#{event.event_id}"
    answers = getattr(event, "task_scheduled_id", None)
    answers = getattr(event, "timer_id", answers)
    if answers is not None:
        line += f"<{answers}"
    if isinstance(event, history.ExecutionCompletedEvent):
        return f"{line} {OrchestrationStatus(event.orchestration_status).name}"
    if isinstance(event, history.ExecutionStartedEvent):
        return line
    name = getattr(event, "name", None)
    return f"{line} {name}" if name else line


def shape(events: list[history.HistoryEvent]) -> list[str]:
    return [render(event) for event in events]


def assert_shape(found: list[str], *expected: "str | race | list[str]") -> None:
    """Compares a history with lines, groups of lines, and lists of both."""
    flat: list[str | race] = []
    for item in expected:
        flat.extend(item if isinstance(item, list) else [item])
    rest = list(found)
    for item in flat:
        if isinstance(item, race):
            _take_race(rest, item, found)
        elif item == MAYBE:
            if rest[:1] == [STARTED]:
                rest.pop(0)
        else:
            assert rest and rest[0] == item, _message(item, rest, found)
            rest.pop(0)
    assert not rest, _message("the end", rest, found)


def _take_race(rest: list[str], group: race, found: list[str]) -> None:
    open_lines = list(group)
    while open_lines:
        assert rest, _message(open_lines, rest, found)
        line = rest.pop(0)
        if line == STARTED:
            # A turn begins with something to do: two in a row would be an empty one.
            assert rest and rest[0] != STARTED, _message("an event of the turn", rest, found)
            continue
        assert line in open_lines, _message(open_lines, [line, *rest], found)
        open_lines.remove(line)


def _message(wanted: object, rest: list[str], found: list[str]) -> str:
    position = len(found) - len(rest)
    return f"event {position}: wanted {wanted}, got {rest[:1]}; the whole history:\n  " + "\n  ".join(found)
