"""Lines as MathML whose symbols can be pointed at."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from gptcalc.report.mathml import MathML


class Formula(MathML):
    """MathML with the name of each symbol at its element, and what it is by class: a weight, an index by its hue."""

    def __init__(self, hues: Mapping[str, str], weights: Collection[str]) -> None:
        self.hues = hues
        self.weights = weights

    def name(self, name: str, indices: Sequence[str] = ()) -> str:
        kind = f"h-{self.hues[name]}" if name in self.hues and not indices else "w" if name in self.weights else ""
        return _said(super().name(name, indices), name, kind)

    def function(self, name: str, over: str) -> str:
        return _said(super().function(name, over), name, "fn")

    def sum(self, over: str) -> str:
        return _said(super().sum(over), "Σ", "fn")


def _said(element: str, name: str, kind: str) -> str:
    """An element with a symbol's name."""
    tag = re.match(r"<\w+", element)
    assert tag is not None
    said = f' data-s="{name}"' + (f' class="{kind}"' if kind else "")
    return element[: tag.end()] + said + element[tag.end() :]
