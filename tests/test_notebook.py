"""The example notebook shows what its cells give: each cell runs, and its stored output is what it gives now.

After a change: `python -m tests.test_notebook` writes what the cells give; read the difference.
"""

from __future__ import annotations

import ast
import json
from typing import Any

from tests import REPOSITORY

NOTEBOOK = REPOSITORY / "docs" / "examples" / "tour.ipynb"


def read() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    return found


def given(source: str, names: dict[str, Any]) -> Any:
    """What a cell gives: its last line's value, where that is an expression."""
    tree = ast.parse(source)
    last = tree.body[-1] if isinstance(tree.body[-1], ast.Expr) else None
    if last is None:
        exec(compile(tree, "cell", "exec"), names)
        return None
    exec(compile(ast.Module(tree.body[:-1], []), "cell", "exec"), names)
    return eval(compile(ast.Expression(last.value), "cell", "eval"), names)


def outputs(value: Any) -> list[dict[str, Any]]:
    """A value as a notebook stores it."""
    if value is None:
        return []
    data = {"text/plain": lines(repr(value))}
    draw = getattr(value, "_repr_html_", None)
    if draw is not None:
        data["text/html"] = lines(draw())
    return [{"output_type": "execute_result", "data": data, "metadata": {}, "execution_count": None}]


def lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def run(notebook: dict[str, Any]) -> list[list[dict[str, Any]]]:
    names: dict[str, Any] = {}
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    return [outputs(given("".join(cell["source"]), names)) for cell in cells]


def test_the_notebook_shows_what_its_cells_give() -> None:
    notebook = read()
    stored = [cell["outputs"] for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert stored == run(notebook)
    assert sum(map(bool, stored)) > 5
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)


def write() -> None:
    notebook = read()
    made = iter(run(notebook))
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"] = next(made)
    NOTEBOOK.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write()
