"""Lines as MathML whose symbols can be pointed at, and whose numbers move with a model's sizes."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from gptcalc.report.mathml import MathML

NUMBER = re.compile(r"<mn>(\d+)</mn>")


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

    def open(self, texts: Sequence[str], where: str, sizes: Mapping[tuple[int, int, int], int]) -> str:
        """A line of a model and of its probes: numbers in which these differ say which size they are."""
        base, *others = (self.line(text, where) for text in texts)
        numbers = [NUMBER.findall(text) for text in (base, *others)]
        if all(own == numbers[0] for own in numbers):
            return base
        trios = iter(zip(*numbers, strict=True))

        def marked(match: re.Match[str]) -> str:
            trio = next(trios)
            if len(set(trio)) == 1:
                return match[0]
            first, second, third = map(int, trio)
            return f'<mn data-z="{sizes[first, second, third]}">{match[1]}</mn>'

        return NUMBER.sub(marked, base)


def _said(element: str, name: str, kind: str) -> str:
    """An element with a symbol's name."""
    tag = re.match(r"<\w+", element)
    assert tag is not None
    said = f' data-s="{name}"' + (f' class="{kind}"' if kind else "")
    return element[: tag.end()] + said + element[tag.end() :]
