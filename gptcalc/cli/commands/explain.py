"""gptcalc explain"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from gptcalc.cli.answer import Answer, Format, document, show
from gptcalc.cli.options import Model, Set, context_warnings, number
from gptcalc.conventions import ExplainRun
from gptcalc.errors import InputError
from gptcalc.options import Option

RESULT = "gptcalc.report.explain:Explanation"


def command(
    model: Model,
    how: ExplainRun,
    settings: Set = [],  # noqa: B006
    part: Annotated[
        str | None, Option("Only this: attention, mlp, experts, router, norm, mla, embedding, …", "PART")
    ] = None,
    layer: Annotated[
        int | None, Option("Only the lines of one layer, counted from 0.", read=number("--layer", least=0))
    ] = None,
    symbols: Annotated[bool, Option("Letters only, no numbers.")] = False,
    numbers: Annotated[bool, Option("The ranges of every line as numbers, too.")] = False,
) -> Answer:
    """Every equation of the forward pass, with indices and ranges, and what each costs.

    gptcalc explain gpt2
    gptcalc explain llama-3-8b --part attention --numbers
    gptcalc explain gpt2 --format latex -o gpt2.tex
    """
    from gptcalc.equations import equations, workload
    from gptcalc.report.explain import Wanted, explanation
    from gptcalc.sources import load

    if symbols and numbers:
        raise InputError("--symbols: with --numbers, nothing is left out", "one of them", "usage")
    loaded = load(model, settings)
    architecture = loaded.architecture
    warnings = (*loaded.notes, *context_warnings(architecture, how))
    work = workload(architecture, how)
    lines = equations(architecture, how.form, how.kept, how.chunks)
    blocks = () if layer is None else tuple(architecture.blocks())
    found = explanation(architecture.name, lines, work, blocks, Wanted(part, layer))
    detail = "symbols" if symbols else "numbers" if numbers else "usual"
    drawn: dict[Format, Callable[[], str]] = {"latex": document("latex", found), "html": document("mathml", found)}
    return Answer(found, show("explained", found, detail), warnings, drawn=drawn)
