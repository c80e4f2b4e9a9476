"""gptcalc keys"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from gptcalc.cli.answer import Answer, show
from gptcalc.errors import InputError, did_you_mean, printable
from gptcalc.options import Option

if TYPE_CHECKING:
    from gptcalc.report.keys import Key

RESULT = "gptcalc.report.keys:Key"


def command(
    name: Annotated[
        str | None,
        Option(
            "A section (attn, moe, Rope), a key (window; hidden_size: as configs call it), or a command (params: the "
            "keys of its JSON). Default: a preset's own keys.",
            "NAME",
            positional=True,
        ),
    ] = None,
    every: Annotated[bool, Option("Every section too.", name="--all")] = False,
) -> Answer:
    """What may stand in a preset file, and in each command's JSON: types, defaults, meaning.

    gptcalc keys
    gptcalc keys moe  # of one section
    gptcalc keys kv  # of a command's JSON
    """
    found = _found(name, every)
    return Answer(found, show("keys", found), is_list=True)


def _found(name: str | None, every: bool) -> list[Key]:
    from gptcalc.cli import names
    from gptcalc.report.keys import TOP, of_documents, place_of

    if name is not None and name.lower() in names():
        return _of_command(name.lower())
    keys = of_documents()
    if every and name is None:
        return keys
    place = place_of(name or TOP)
    word = place.lower()
    found = (
        _elsewhere(word, keys)
        or [key for key in keys if key.place == place]
        or [key for key in keys if key.place.lower() == word]
        or [key for key in keys if key.key.lower() == word]
        or [key for key in keys if word in key.key.lower()]
    )
    if not found:
        known = [*(key.place for key in keys), *(key.key for key in keys), *names()]
        hint = did_you_mean(word, known) or "gptcalc keys --all lists them"
        raise InputError(f"keys: no section, key or command {printable(name or '')!r}", hint, "unknown")
    return found


def _elsewhere(word: str, keys: Sequence[Key]) -> list[Key]:
    """What a config.json calls so."""
    from gptcalc.report.keys import TOP, place_of
    from gptcalc.sources.preset import ELSEWHERE

    section, _, own = ELSEWHERE.get(word, "").rpartition(".")
    place = place_of(section or TOP)
    return [key for key in keys if (key.place.lower(), key.key) == (place, own)]


def _of_command(name: str) -> list[Key]:
    """The keys of a command's JSON."""
    from gptcalc.cli.results import result
    from gptcalc.report.keys import ROWS, of_answer

    struct = result(name)
    told = ROWS[name]() if struct is None else of_answer(struct)
    return list({key.key: key for key in reversed(list(told))}.values())[::-1]  # once each, of several structs
