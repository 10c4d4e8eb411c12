"""Which test shows which behaviour: `python table.py` prints the table of the README, a test compares it."""

import ast
import re
from collections import defaultdict
from pathlib import Path

HOME = Path(__file__).resolve().parent.parent
NUMBER = re.compile(r"behaviour-(\d+)", re.IGNORECASE)
JAVASCRIPT = re.compile(r"""^ *it\(\s*["'`](.+?)["'`],""", re.MULTILINE | re.DOTALL)
# Entities, which the server does not have yet.
ENTITIES = range(37, 46)
BEHAVIOURS = [number for number in range(1, 60) if number not in ENTITIES]


def by_behaviour() -> dict[int, list[str]]:
    """For each behaviour the tests that name it, as `file::test`."""
    found: dict[int, list[str]] = defaultdict(list)
    for path in sorted((HOME / "python").glob("test_*.py")):
        text = path.read_text()
        lines = text.splitlines()
        functions = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
        for function in functions:
            if function.name.startswith("test_"):
                for number in NUMBER.findall("\n".join(lines[function.lineno - 1 : function.end_lineno])):
                    found[int(number)].append(f"{path.stem}::{function.name}")
    for path in sorted((HOME / "javascript").glob("*.test.js")):
        for match in JAVASCRIPT.finditer(path.read_text()):
            name = NUMBER.sub("", match[1]).rstrip(" :")
            for number in NUMBER.findall(match[1]):
                found[int(number)].append(f"{path.name}: {name}")
    return {number: sorted(set(names)) for number, names in found.items()}


def table() -> str:
    lines = ["| behaviour | tests |", "|---|---|"]
    for number, names in sorted(by_behaviour().items()):
        lines.append(f"| {number} | {'<br>'.join(names)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
