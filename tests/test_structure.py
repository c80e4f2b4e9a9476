"""Data flows one way: no room imports one above it, and the two accounts never see each other."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import gptcalc

PACKAGE = Path(gptcalc.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))

#: from the ground up; rooms on one floor do not see each other
FLOORS = [
    {"errors"},
    {"units", "dtypes", "answers", "patterns"},
    {"where"},
    {"architecture", "options"},
    {"document", "conventions"},
    {"sources", "equations", "reference"},
    {"analysis"},
    {"validate", "tracing"},
    {"report"},
    {"api", "cli"},
    {"__main__"},
]
FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}


def imported(path: Path) -> set[str]:
    """The rooms that a module imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            whole = node.module == "gptcalc"
            names = [f"gptcalc.{alias.name}" for alias in node.names] if whole else [node.module]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        found |= {name.split(".")[1] for name in names if name.startswith("gptcalc.")}
    return found


def room(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_room_looks_up_or_sideways(path: Path) -> None:
    here = room(path)
    if here == "__init__":
        return  # the Python API offers what all rooms have
    wrong = {other for other in imported(path) - {here} if FLOOR[other] >= FLOOR[here]}
    assert not wrong


@pytest.mark.parametrize("path", [p for p in MODULES if room(p) in ("equations", "analysis")], ids=lambda p: p.name)
def test_the_analyses_never_see_the_witness(path: Path) -> None:
    assert not imported(path) & {"reference", "validate", "tracing"}


def test_every_room_stands_on_a_floor() -> None:
    assert {room(path) for path in MODULES} - {"__init__"} == set(FLOOR)


def module(path: Path) -> str:
    return ".".join(("gptcalc", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Not even for types, or late. A package's own door (its __init__) may be looked through from inside."""
    known = {module(path) for path in MODULES}
    doors = {module(path) for path in MODULES if path.name == "__init__.py"}
    sees: dict[str, set[str]] = {}
    for path in MODULES:
        names = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module:
                names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        sees[module(path)] = (names & known) - doors
    done: set[str] = set()

    def visit(name: str, way: tuple[str, ...]) -> None:
        assert name not in way, " -> ".join((*way[way.index(name) :], name))
        if name not in done:
            for other in sorted(sees[name]):
                visit(other, (*way, name))
            done.add(name)

    for name in sorted(sees):
        visit(name, ())
