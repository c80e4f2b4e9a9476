"""gptcalc explain"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, NoReturn

from gptcalc.cli.answer import Answer, Format, document, show
from gptcalc.cli.options import Model, Set, context_warnings, number
from gptcalc.conventions import ExplainRun
from gptcalc.errors import InputError
from gptcalc.options import Option

if TYPE_CHECKING:
    from gptcalc.sources import Model as Loaded

RESULT = "gptcalc.report.explain:Explanation"


def command(
    model: Model,
    how: ExplainRun,
    beside: Annotated[
        str | None,
        Option("A second one, beside the first on the page that --format html makes.", "MODEL", positional=True),
    ] = None,
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
    from gptcalc.sources import load_each

    if beside is not None and (part or layer is not None):
        raise InputError("explain: two models are shown whole", "leave --part and --layer out", "usage")
    if symbols and numbers:
        raise InputError("--symbols: with --numbers, nothing is left out", "one of them", "usage")
    loaded, *others = load_each([(model, settings, ()), *([(beside, (), ())] if beside is not None else [])])
    architecture = loaded.architecture
    warnings = (*(note for one in (loaded, *others) for note in one.notes), *context_warnings(architecture, how))
    work = workload(architecture, how)
    lines = equations(architecture, how.form, how.kept, how.chunks)
    blocks = () if layer is None else tuple(architecture.blocks())
    found = explanation(architecture.name, lines, work, blocks, Wanted(part, layer))
    detail = "symbols" if symbols else "numbers" if numbers else "usual"
    page = document("mathml", found) if part or layer is not None else _page([loaded, *others], how)
    drawn: dict[Format, Callable[[], str]] = {"latex": document("latex", found), "html": page}
    if others:
        return Answer(_two, _two, warnings, drawn={"html": page})
    return Answer(found, show("explained", found, detail), warnings, drawn=drawn)


def _two() -> NoReturn:
    """Only the page has room for two."""
    hint = "add -o FILE.html; gptcalc diff shows which equations differ"
    raise InputError("explain: two models are a page", hint, "usage")


def _page(models: list[Loaded], how: ExplainRun) -> Callable[[], str]:
    """The models as a page that opens at the run's length and phase."""

    def text() -> str:
        from gptcalc.report.page import document
        from gptcalc.report.page.data import Shown

        words = {"phase": how.phase, **({} if how.context is None else {"context": how.context})}
        start = [{"m": model.architecture.name, **words} for model in models]
        return document([Shown(model.architecture, model.document) for model in models], start)

    return text
