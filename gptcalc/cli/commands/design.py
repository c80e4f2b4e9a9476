"""gptcalc design"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated

from gptcalc.cli.answer import Answer, show
from gptcalc.cli.budget import DeviceName, Utilization, room
from gptcalc.cli.commands.sweep import axis, listed
from gptcalc.cli.commands.time import MBU, MFU
from gptcalc.cli.options import MODEL, GridColumns, Where, amount
from gptcalc.conventions import Batch, SweepRun
from gptcalc.errors import InputError, printable
from gptcalc.options import Option

if TYPE_CHECKING:
    from gptcalc.analysis.design.pace import Demand

RESULT = "gptcalc.analysis.design.run:Design"

RATIO = re.compile(r"([A-Za-z_][\w.]*)/([A-Za-z_][\w.]*)=(?:([0-9]+(?:\.[0-9]+)?)\.\.([0-9]+(?:\.[0-9]+)?)|any)")


def command(
    how: SweepRun,
    like: Annotated[str, Option("What it is to be like: " + MODEL + ".", "MODEL")] = "",
    free: Annotated[
        list[str],
        Option(
            "Keys that may change: d,n_layers,d_ff; with ranges d=1024..8192:128,n_kv_heads=1,2,4,8. Without one up to "
            "4 times the model's own; widths in steps of --multiple. May be repeated.",
            "KEYS",
        ),
    ] = [],  # noqa: B006
    fits: Annotated[int | None, Option("Memory that is enough: 8GiB, 24GB.", "SIZE", is_size=True)] = None,
    device: DeviceName = None,
    utilization: Utilization = None,
    where: Where = [],  # noqa: B006
    tokens_per_second: Annotated[
        Fraction | None,
        Option(
            "A decode step is to give so many, all sequences together, as the roofline of --device bounds it.",
            "RATE",
            read=amount("--tokens-per-second"),
        ),
    ] = None,
    mfu: MFU = Fraction(1),
    mbu: MBU = Fraction(1),
    maximize: Annotated[str | None, Option("The most of this column. Default: total.", "KEY")] = None,
    minimize: Annotated[str | None, Option("The least of this column.", "KEY")] = None,
    batch: Batch = 1,
    multiple: Annotated[
        int | None,
        Option("Widths without a range (d, d_ff, v) are multiples of it. Default: 128; of GGUF's mixes 256."),
    ] = None,
    d_head: Annotated[
        str | None,
        Option(
            "Widths that heads may have: 64,128. Default: the model's own; where n_heads is free, 64 and 128, too.",
            "NUMBERS",
        ),
    ] = None,
    ratio: Annotated[
        list[str],
        Option(
            "Between what the ratio of two keys may be: d_ff/d=2..4 and d/n_layers=64..256 (defaults, as far as the "
            "model's own are so); =any for none. May be repeated.",
            "A/B=LOW..HIGH",
        ),
    ] = [],  # noqa: B006
    columns: GridColumns = None,
    top: Annotated[int, Option("How many, the best first.")] = 1,
) -> Answer:
    """The largest or cheapest architecture like a model that meets a budget, by exact search. Exit status 1: none.

    gptcalc design --like llama-3-8b --free d,n_layers,d_ff --fits 8GiB --context 32K --maximize total
    gptcalc design --like llama-3-8b --free n_layers,d_ff --device rtx-4090 --tokens-per-second 60 --mbu 80%
    gptcalc design --like gpt2 --free n_layers,d=256..1024:64 --where 'total >= 50e6' --minimize decode_flops --top 3
    """
    from gptcalc.analysis.design.run import Brief, designed
    from gptcalc.analysis.design.taste import Taste
    from gptcalc.sources import load

    if not like:
        raise InputError("design: like which model?", "give --like llama-3-8b", "usage")
    if maximize is not None and minimize is not None:
        raise InputError("both --maximize and --minimize", "leave one of them out", "usage")
    usable = None if fits is None and device is None else room(fits, device if fits is None else None, utilization)
    if usable is not None and usable[1] > 1:
        problem = f"--device: {usable[1]} devices, how a model is split over which is not searched"
        raise InputError(problem, "name one, or --fits what all of them hold", "usage")
    if usable is None and not where:
        raise InputError("design: no budget", "give --fits 24GiB, --device rtx-4090 or --where 'total < 8e9'", "usage")
    loaded = load(like)
    brief = Brief(
        document=loaded.document, architecture=loaded.architecture, free=keys(free),
        goal=minimize if minimize is not None else f"-{maximize or 'total'}",
        budget=None if usable is None else usable[0], where=tuple(where), batch=batch, top=top,
        columns=None if columns is None else listed(columns, "--columns"),
        demand=None if tokens_per_second is None else demanded(tokens_per_second, device, batch, mfu, mbu),
        taste=Taste(multiple, () if d_head is None else axis_numbers(d_head), dict(map(ratio_of, ratio))), how=how,
    )  # fmt: skip
    found = designed(brief)
    return Answer(found, show("design", found), loaded.notes, 0 if found.designs else 1)


def demanded(rate: Fraction, device: str | None, batch: int, mfu: Fraction, mbu: Fraction) -> Demand:
    """How fast it is to be. InputError where no device is named."""
    from gptcalc.analysis.design.pace import Demand
    from gptcalc.sources.devices import asked

    if device is None:
        raise InputError("--tokens-per-second: on which device?", "add --device rtx-4090", "usage")
    named = asked(device)
    if named.number not in (None, 1):
        raise InputError(f"--tokens-per-second: of one device, not of {named.number}", "name one", "usage")
    return Demand(named.model, float(rate), batch, float(mfu), float(mbu))


def keys(words: list[str]) -> dict[str, tuple[int, ...] | None]:
    """The free keys, each with its values, where any are given: d,n_kv_heads=1,2,4."""
    found: dict[str, tuple[int, ...] | None] = {}
    for setting in re.split(r",(?=\s*[A-Za-z_])", ",".join(words)) if words else ():
        key, equals, _ = setting.partition("=")
        is_key = re.fullmatch(r"[A-Za-z_][\w.]*", key.strip()) is not None
        if not is_key or key.strip() in found:
            problem = "is given twice" if is_key else "is no key"
            raise InputError(f"--free: {printable(setting)!r} {problem}", "write --free d,n_layers=16..64:4", "usage")
        values = axis(setting, "--free")[1] if equals else None
        if values is not None and not all(isinstance(value, int) for value in values):
            raise InputError(f"--free {printable(setting)!r}: not all are whole numbers", "sweep takes words", "usage")
        found[key.strip()] = values  # type: ignore[assignment]
    return found


def axis_numbers(text: str) -> tuple[int, ...]:
    """Whole numbers between commas."""
    from gptcalc.cli.commands.sweep import numbers

    return numbers(text, "--d-head")


def ratio_of(text: str) -> tuple[tuple[str, str], tuple[Fraction, Fraction] | None]:
    """d_ff/d=2..4: two keys, and between what their ratio may be."""
    match = RATIO.fullmatch(text.replace(" ", ""))
    if match is None:
        raise InputError(f"--ratio {printable(text)!r} is no ratio", "write d_ff/d=2..4 or d_ff/d=any", "usage")
    above, below, low, high = match.groups()
    if low is None:
        return (above, below), None
    if Fraction(low) > Fraction(high):
        raise InputError(f"--ratio {printable(text)}: runs downwards", "write the smaller one first", "usage")
    return (above, below), (Fraction(low), Fraction(high))
