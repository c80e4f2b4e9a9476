"""Whether two models differ in their sizes alone."""

from __future__ import annotations

from gptcalc.architecture import Architecture
from gptcalc.equations import Equations, equations


def forms(architecture: Architecture) -> tuple[Equations, Equations]:
    return equations(architecture), equations(architecture, "absorbed")


def alike(a: Equations, b: Equations) -> bool:
    """Whether two models have the same lines under the same conditions, whatever their sizes."""
    left, right = ([((stage.name, stage.passes), stage.lines) for stage in model.main] for model in (a, b))
    if [name for name, _ in left] != [name for name, _ in right]:
        return False
    return all(
        len(own) == len(others)
        and all(
            (x.text, x.kind, x.passes, x.condition, x.stored, x.kept)
            == (y.text, y.kind, y.passes, y.condition, y.stored, y.kept)
            for x, y in zip(own, others, strict=True)
        )
        for (_, own), (_, others) in zip(left, right, strict=True)
    )


def written_alike(a: Equations, b: Equations) -> bool:
    """Whether all ranges of two models that are alike are written with the same symbols and numbers. Where a size
    stands as a number in one (`c+9967` rows of positions), no symbol says how it goes on."""
    return all(
        [index.symbol for index in x.ranges().values()] == [index.symbol for index in y.ranges().values()]
        for own, others in zip(a.main, b.main, strict=True)
        for x, y in zip(own.lines, others.lines, strict=True)
    )
