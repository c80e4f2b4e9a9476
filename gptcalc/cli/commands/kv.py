"""gptcalc kv"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gptcalc.cli.answer import Answer, no_picture, plotted, show
from gptcalc.cli.options import Models, Plot, Set, Why, context_warnings
from gptcalc.conventions import RoomRun
from gptcalc.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gptcalc.analysis.memory.cache import KVCache
    from gptcalc.architecture import Architecture

RESULT = "gptcalc.analysis.memory.cache:KVCache"

#: points of a picture
PARTS = 8


def command(
    models: Models,
    how: RoomRun,
    settings: Set = [],  # noqa: B006
    why: Why = None,
    plot: Plot = False,
) -> Answer:
    """What the cache of keys and values takes, recurrent states with it.

    gptcalc kv llama-3-8b --context 8K --batch 4
    gptcalc kv deepseek-v3 --context 128K --kv-dtype fp8
    gptcalc kv llama-3-8b --bytes 20GiB  # how many tokens that holds
    gptcalc kv llama-3.1-70b --context 32K --tp 8  # on each of eight devices
    gptcalc kv llama-3-8b gemma-2-9b deepseek-v3 --context 8K --plot
    """
    from gptcalc.analysis.memory.cache import cached
    from gptcalc.sources import load_all

    no_picture(why, plot)
    if why is not None and how.tp > 1:
        raise InputError("--why: its lines are those of the whole cache", "leave --tp out", "usage")
    if len(models) > 1 and not plot:
        raise InputError("kv: several models are a picture", "add --plot; compare has a row for each", "usage")
    loaded = load_all(models, settings)
    warnings = tuple(note for one in loaded for note in (*one.notes, *context_warnings(one.architecture, how)))
    architectures = [one.architecture for one in loaded]
    if len(architectures) > 1:
        return _lines(architectures, how, warnings)
    (architecture,) = architectures
    if plot:
        return _stacked(architecture, how, warnings)
    found = cached(architecture, how)
    if why is not None:
        from gptcalc.analysis.why import why_kv

        ledger = why_kv(architecture, how, found, why)
        return Answer(ledger, show("why", ledger), warnings)
    return Answer(found, show("kv", found), warnings)


def _growing(architecture: Architecture, how: RoomRun) -> list[KVCache]:
    """The cache at each eighth of the context; the last is the command's answer."""
    from gptcalc.analysis.memory.cache import cached

    length = how.length(architecture)
    lengths = dict.fromkeys(max(1, length * part // PARTS) for part in range(1, PARTS + 1))
    return [cached(architecture, how.to(RoomRun, context=n)) for n in lengths]


def _stacked(architecture: Architecture, how: RoomRun, warnings: tuple[str, ...]) -> Answer:
    """One model's, by kinds of layers."""
    from gptcalc.report.plot import Bars

    found = _growing(architecture, how)
    rows: dict[str, dict[str, int]] = {}
    for at in found:
        row = rows.setdefault(f"{at.context:,}", {})
        for group in at.groups:  # a kind of layer may keep keys and a state
            row[group.name] = row.get(group.name, 0) + group.bytes
    return plotted(found[-1], Bars(f"{architecture.name}: cache by context", "bytes", rows), warnings)


def _lines(architectures: Sequence[Architecture], how: RoomRun, warnings: tuple[str, ...]) -> Answer:
    """Several models', a line each, as far as each is made for where no context is asked."""
    from gptcalc import units
    from gptcalc.report.lines import Line, Lines

    found = [_growing(architecture, how) for architecture in architectures]
    lines = [Line(each[-1].model, [(at.context, at.bytes) for at in each]) for each in found]
    kept = " and ".join(dict.fromkeys(each[-1].kv_dtype for each in found))
    title = f"{kept} cache of {units.sequences(how.batch)} by context"
    return plotted([each[-1] for each in found], Lines(title, "tokens", "bytes", lines), warnings, "lines")
