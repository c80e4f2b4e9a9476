"""gptcalc columns"""

from __future__ import annotations

from typing import Annotated

from gptcalc.cli.answer import Answer, show
from gptcalc.errors import InputError, did_you_mean, printable
from gptcalc.options import Option

RESULT = "gptcalc.report.keys:Key"


def command(
    name: Annotated[
        str, Option("Of which command: compare, presets, sweep or design.", "COMMAND", positional=True)
    ] = "compare",
) -> Answer:
    """The columns of compare, presets, sweep and design, for --columns, --sort and --where.

    gptcalc columns
    gptcalc columns sweep
    """
    from gptcalc.report.keys import ROWS

    if name not in ROWS:
        hint = did_you_mean(name, ROWS) or f"there are {', '.join(ROWS)}"
        raise InputError(f"columns: {printable(name)!r} has no columns to choose", hint, "usage")
    found = list(ROWS[name]())
    return Answer(found, show("keys", found), is_list=True)
