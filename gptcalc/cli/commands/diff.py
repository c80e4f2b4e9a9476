"""gptcalc diff"""

from __future__ import annotations

from typing import Annotated

from gptcalc.cli.answer import Answer, show
from gptcalc.cli.options import MODEL, Set, With, context_warnings
from gptcalc.conventions import DiffRun
from gptcalc.options import Option

RESULT = "gptcalc.report.diff:Diff"


def command(
    a: Annotated[str, Option("Each " + MODEL + ".", "MODEL", positional=True)],
    b: Annotated[str, Option("", "MODEL", positional=True)],
    how: DiffRun,
    settings: Set = [],  # noqa: B006
    switches: With = [],  # noqa: B006
    conventions: Annotated[bool, Option("The figures that people quote, each with what it counts.")] = False,
) -> Answer:
    """Two models line by line: fields, parameters, cache, FLOPs, equations.

    Both at the same context: without --context the shorter of the two models' own. --set and --with change the
    second model.

    gptcalc diff llama-2-7b llama-3-8b
    gptcalc diff llama-3-8b llama-3-8b --with mla  # what a change would do
    gptcalc diff gpt2 gpt2-xl --conventions  # the counts that people quote, each named
    """
    from gptcalc.report.diff import diff
    from gptcalc.report.figures import Facts
    from gptcalc.sources import load_each

    left, right = load_each([(a, (), ()), (b, settings, switches)])
    how = how.to(DiffRun, context=how.context or min(left.architecture.c, right.architecture.c))
    sides = (Facts(left.architecture, left.written, how), Facts(right.architecture, right.written, how))
    warnings = [w for side in (left, right) for w in (*side.notes, *context_warnings(side.architecture, how))]
    found = diff(*sides, conventions)
    return Answer(found, show("diff", found), tuple(warnings))
