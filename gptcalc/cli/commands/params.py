"""gptcalc params"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from gptcalc.cli.answer import Answer, no_picture, plotted, show
from gptcalc.cli.options import Model, Plot, Set, Why
from gptcalc.cli.progress import each
from gptcalc.errors import InputError
from gptcalc.options import Option

if TYPE_CHECKING:
    from gptcalc.sources import Model as Loaded
    from gptcalc.sources.packed import Weight

#: words of the error about tensors alone, which here is none
EXPECTED = "a checkpoint's header holds tensors"

By: TypeAlias = Literal["component", "group", "tensor"]

RESULT = "gptcalc.analysis.params:Params"


def command(
    model: Model,
    settings: Set = [],  # noqa: B006
    by: Annotated[
        By | None,
        Option("One table alone: by part of the model, by group of layers, or every tensor (as CSV has it)."),
    ] = None,
    why: Why = None,
    plot: Plot = False,
    conventions: Annotated[bool, Option("The figures that people quote instead, each with what it counts.")] = False,
) -> Answer:
    """How many parameters a model has: in all, active for a token, by part, layer group or tensor.

    gptcalc params llama-3-8b
    gptcalc params deepseek-v3 --by group
    gptcalc params ./my-model --get total  # a folder with config.json
    gptcalc params gpt2 --why total  # which lines add up to it
    gptcalc params gpt2 --conventions  # the counts that people quote
    """
    from gptcalc.sources import is_checkpoint, load

    no_picture(why, plot)
    if plot and by not in (None, "component"):
        raise InputError(f"--plot: draws the components, not --by {by}", "leave one of them out", "usage")
    try:
        loaded = load(model, settings)
    except InputError as error:
        if error.kind != "unsupported" or settings or not (os.path.lexists(model) and is_checkpoint(model)):
            raise
        counted = _counted(model, by, error)
        return _drawn(counted, {row.role: row.params for row in counted.data.held}) if plot else counted
    if why is not None:
        from gptcalc.analysis.why import confirmed, why_params

        ledger = confirmed(why_params(loaded.architecture, why), loaded.written)
        return Answer(ledger, show("why", ledger), loaded.notes)
    if conventions:
        from gptcalc.report.customs import quoted

        figures = quoted(loaded.architecture)
        return Answer(figures, show("customs", figures), loaded.notes)
    from gptcalc.analysis.params import params

    found = params(loaded.architecture)
    if loaded.tensors is None or settings:
        answer = Answer(found, show("params", found, by), loaded.notes)
    else:
        answer = _beside(loaded, loaded.tensors, by)
    return _drawn(answer, answer.data.components) if plot else answer


def _drawn(answer: Answer, components: Mapping[str, int]) -> Answer:
    """A bar for each component."""
    from msgspec.structs import replace

    from gptcalc.report.plot import Bars

    name = answer.data.model
    rows = {part.replace("_", " "): {name: n} for part, n in components.items() if n}
    bars = plotted(answer.data, Bars(f"{name}: parameters by component", "count", rows), answer.warnings)
    return replace(answer, view=bars.view, drawn=bars.drawn)


def _beside(loaded: Loaded, path: str, by: By | None) -> Answer:
    """The config's count, and what the tensors beside it are."""
    from gptcalc.analysis.params import params
    from gptcalc.analysis.stored import as_stored, held
    from gptcalc.analysis.stored_result import with_stored
    from gptcalc.report.checkpoint import differences
    from gptcalc.sources.checkpoint import is_absent
    from gptcalc.sources.header import SCHEME
    from gptcalc.sources.huggingface.unread import tolerance

    try:
        found = held(loaded, path, each)
    except InputError as error:
        if error.kind != "unsupported" and not path.startswith(SCHEME) and not is_absent(path):
            raise
        counted = params(loaded.architecture)
        note = f"the tensors beside the config were not compared: {error.message}"
        return Answer(counted, show("params", counted, by), (*loaded.notes, note))
    whole = with_stored(params(as_stored(loaded.architecture, found)), found)
    differ = differences(found.differ, "config" if found.rows is None else "tensors")
    warnings = () if differ is None else (f"warning: {differ}",)
    status = 1 if differ is not None and tolerance().strict else 0
    return Answer(whole, show("params", whole, by), (*loaded.notes, *warnings), status)


def _counted(path: str, by: By | None, why: InputError) -> Answer:
    """What a checkpoint's header lists, where it is not known what model its tensors are."""
    from gptcalc.analysis.stored import by_name
    from gptcalc.report.checkpoint import counted
    from gptcalc.sources.checkpoint import config_beside, header
    from gptcalc.sources.packed import contents

    found = header(path)
    inside = contents(found, config_beside(path))
    if inside.unclear:
        raise unclear(path, inside.unclear)
    counts = counted(path, found, inside, by_name(inside))
    notes = () if EXPECTED in why.message else (f"{why.message}; its tensors are counted by name",)
    return Answer(counts, show("checkpoint", counts, by), (*notes, *found.notes))


def unclear(path: str, weights: Sequence[Weight]) -> InputError:
    """Packed weights whose number can't be told without the config."""
    from gptcalc.errors import file_name, printable

    name = printable(weights[0].tensor.name, 120)
    problem = f"how many weights {name} packs ({len(weights)} such tensors) is not in the header"
    return InputError(f"{file_name(path)}: {problem}", "put the config.json beside it", "checkpoint")
