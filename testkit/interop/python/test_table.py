"""The table of the README is what the tests say, and no behaviour is without one."""

from table import BEHAVIOURS, HOME, by_behaviour, table


def test_every_behaviour_has_a_test():
    assert [number for number in BEHAVIOURS if number not in by_behaviour()] == []


def test_the_readme_holds_the_table():
    readme = (HOME / "README.md").read_text()
    assert table() in readme, "run `python table.py` and put its output into README.md"
