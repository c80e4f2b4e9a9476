"""gptcalc types"""

from __future__ import annotations

from typing import Annotated

from gptcalc.cli.answer import Answer, show
from gptcalc.errors import InputError, printable
from gptcalc.options import Option

RESULT = "gptcalc.report.types:Read"


def command(
    pattern: Annotated[str | None, Option("Part of a model_type, such as qwen.", "PATTERN", positional=True)] = None,
) -> Answer:
    """The model types of config.json files that are read, and why others are not.

    gptcalc types llama
    """
    from gptcalc.report.types import known

    word = (pattern or "").lower()
    found = [one for one in known() if word in one.type]
    if not found:
        raise InputError(f"types: no model_type has {printable(word)!r} in it", "leave it out to see all", "unknown")
    return Answer(found, show("types", found), is_list=True)
