"""What a shell offers behind each option: the words that are known there. Loaded when a shell asks, and only then."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from gptcalc.cli.parameters import Parameter
from gptcalc.errors import InputError, did_you_mean, printable
from gptcalc.options import choices, plain

Complete = Callable[[str], list[str]]

SHELLS = ("bash", "zsh", "fish", "powershell", "pwsh")


def script(shell: str, program: str, variable: str) -> str:
    """What a shell is to run so that it asks this program. InputError where the shell is not known."""
    from typer._completion_shared import get_completion_script

    if shell not in SHELLS:
        hint = did_you_mean(shell, SHELLS) or f"one of {', '.join(SHELLS)}"
        raise InputError(f"--show-completion: no shell {printable(shell)!r} is known", hint, "usage")
    return get_completion_script(prog_name=program, complete_var=variable, shell=shell) + "\n"


def completing(command: str, parameter: Parameter) -> Complete | None:
    """What completes a parameter's values; None: files, or nothing."""
    kind = plain(parameter.annotation)[0]
    if (known := choices(kind)) and all(isinstance(word, str) for word in known):
        return lambda incomplete: beginning(incomplete, known)
    if parameter.name == "name" and command in ("keys", "columns"):
        return {"keys": lambda incomplete: beginning(incomplete, places()), "columns": rows_of}[command]
    if parameter.name in ("get", "why"):
        words = {"get": gettable, "why": sums}[parameter.name]
        return lambda incomplete: last(incomplete, words(command))
    if parameter.name in ("columns", "sort", "where", "pareto"):
        return lambda incomplete: column(incomplete, command)
    return BY_NAME.get(parameter.name)


def beginning(incomplete: str, known: Iterable[str]) -> list[str]:
    return [word for word in dict.fromkeys(known) if word.startswith(incomplete)]


def last(incomplete: str, known: Iterable[str]) -> list[str]:
    """The last of several words with commas between them."""
    before, comma, word = incomplete.rpartition(",")
    return [before + comma + found for found in beginning(word, known)]


# --- models -----------------------------------------------------------------------------------------------------------


def model(incomplete: str) -> list[str]:
    """Presets' names, in whatever case; with a / the hub ids that presets list."""
    from gptcalc.sources.preset import names

    if "/" not in incomplete:
        return beginning(incomplete.lower(), names())
    start = incomplete.lower()
    return [alias for alias in hub_ids() if alias.lower().startswith(start)]


def hub_ids() -> Iterator[str]:
    """Read as text: no preset is parsed for this."""
    for line in said("aliases"):
        yield from re.findall(r"[\w.-]+/[\w.-]+", line)


def said(key: str) -> Iterator[str]:
    """What each preset file has behind a key of its own, in one line or in the list below it."""
    from gptcalc.sources import text
    from gptcalc.sources.preset import names, path

    for name in names():
        file = path(name)
        if file is not None and (match := re.search(rf"^{key}:(.*(?:\n  .*)*)", text.read(file), re.MULTILINE)):
            yield match[1].strip()


def family(incomplete: str) -> list[str]:
    return beginning(incomplete.lower(), sorted(set(said("family"))))


def feature(incomplete: str) -> list[str]:
    from gptcalc.report import features
    from gptcalc.sources import load
    from gptcalc.sources.preset import names

    return beginning(incomplete, sorted({word for name in names() for word in features.of(load(name).architecture)}))


# --- keys -------------------------------------------------------------------------------------------------------------


def gettable(command: str) -> list[str]:
    """The keys of a command's JSON, as far as they have names."""
    from gptcalc.cli.results import result
    from gptcalc.report.keys import of_answer, of_rows

    struct = result(command)
    if struct is None:
        return [f"0.{key.key}" for key in of_rows()]
    rows = "0." if command in ("validate", "devices") else ""
    return [rows + key.key.replace(".N.", ".0.") for key in of_answer(struct) if "NAME" not in key.key]


def sums(command: str) -> tuple[str, ...]:
    from gptcalc.analysis.why import SUMS

    return SUMS.get(command, ())


def places() -> list[str]:
    """Sections, keys, and commands with keys of their own."""
    from gptcalc.cli import names
    from gptcalc.report.keys import of_documents

    return [*(word for key in of_documents() for word in (key.place, key.key)), *names()]


def setting(incomplete: str) -> list[str]:
    """KEY= of a preset; of a section SECTION.KEY=, and behind the sign the words that it may be."""
    from gptcalc.document.keys import KINDS
    from gptcalc.report.keys import TOP, of_documents

    words = {}
    for key in of_documents():
        if key.place == TOP or key.place in KINDS:
            words[key.key if key.place == TOP else f"{key.place}.{key.key}"] = key.type
    name, sign, value = incomplete.partition("=")
    if not sign:
        return [f"{word}=" for word in beginning(name, words)]
    known = [word for word in words.get(name, "").split(" | ") if word.islower() and " " not in word]
    return [f"{name}={word}" for word in beginning(value, known)]


# --- options ----------------------------------------------------------------------------------------------------------


def device(incomplete: str) -> list[str]:
    """Behind a number, too: 4xa100-80gb."""
    from gptcalc.sources.devices import names

    match = re.match(r"\d+x", incomplete)
    number = match[0] if match else ""
    return [number + name for name in beginning(incomplete[len(number) :], names())]


def dtype(incomplete: str) -> list[str]:
    from gptcalc.analysis.memory.mixes import MIXES
    from gptcalc.dtypes import FORMATS

    return beginning(incomplete, [*FORMATS, *MIXES])


def cached(incomplete: str) -> list[str]:
    """Of values behind a colon, too: q8_0:q4_0."""
    from gptcalc.dtypes import DTYPES

    keys, colon, values = incomplete.rpartition(":")
    return [keys + colon + name for name in beginning(values, DTYPES)]


def optimizer(incomplete: str) -> list[str]:
    from gptcalc.analysis.memory.optimizer import OPTIMIZERS

    return beginning(incomplete, OPTIMIZERS)


def column(incomplete: str, command: str) -> list[str]:
    """The last of several columns; behind a dash, too, which puts the largest first."""
    from gptcalc.report.keys import ROWS

    before, comma, word = incomplete.rpartition(",")
    dash = "-" if word.startswith("-") else ""
    known = [key.key for key in ROWS[command]() if key.key != "KEY"]
    return [before + comma + dash + key for key in beginning(word.removeprefix("-"), known)]


def switch(incomplete: str) -> list[str]:
    from gptcalc.document.variant import RULES

    return beginning(incomplete, RULES)


def rows_of(incomplete: str) -> list[str]:
    from gptcalc.report.keys import ROWS

    return beginning(incomplete, ROWS)


#: by the parameter's name
BY_NAME: dict[str, Complete] = {
    "model": model, "models": model, "a": model, "b": model, "draft": model, "device": device, "dtype": dtype,
    "kv_dtype": cached, "state_dtype": cached, "optimizer": optimizer, "like": model, "switches": switch,
    "family": family, "feature": feature, "settings": setting,
}  # fmt: skip
