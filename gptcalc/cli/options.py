"""The options that several commands share, each spelled once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from gptcalc.conventions import InferenceRun
from gptcalc.errors import InputError, is_count, printable
from gptcalc.options import Option

if TYPE_CHECKING:
    from fractions import Fraction

    from gptcalc.architecture import Architecture
    from gptcalc.conventions import Run
    from gptcalc.sources import Model as Loaded


def number(option: str, words: Mapping[str, int] = {}, least: int = 1) -> Callable[[Any], int]:
    """A parser of whole numbers from 1, or from 0, some of which have a name; its errors name the option."""

    def parse(value: Any) -> int:
        if isinstance(value, int):  # the default
            return value
        if value in words:
            return words[value]
        from gptcalc import units

        try:
            return units.positive(value) if least else units.count(value)
        except InputError as error:
            raise error.within(option) from None

    return parse


def integer(option: str) -> Callable[[Any], int]:
    """A parser of whole numbers of any sign; its errors name the option."""

    def parse(value: Any) -> int:
        if isinstance(value, int):  # the default
            return value
        if not is_count(value.removeprefix("-"), 18):
            raise InputError(f"{option}: {printable(value)!r} is not a whole number", kind="usage")
        return int(value)

    return parse


def amount(option: str) -> Callable[[Any], Fraction]:
    """A parser of positive decimal numbers: 2.5, 1e6; its errors name the option."""

    def parse(value: Any) -> Fraction:
        from fractions import Fraction

        try:
            found = (
                Fraction(value)
                if len(str(value)) <= 30 and str(value).isascii() and "/" not in str(value)
                else Fraction(0)
            )
        except ValueError:
            found = Fraction(0)
        if not 0 < found < 10**30:
            raise InputError(f"{option}: {printable(str(value))!r} is not a number above 0", "write 2.5", "usage")
        return found

    return parse


def byte_size(option: str) -> Callable[[Any], int]:
    """A parser of sizes with a unit whose errors name the option."""

    def parse(value: Any) -> int:
        if isinstance(value, int):  # the default
            return value
        from gptcalc import units

        try:
            return units.size(value)
        except InputError as error:
            raise error.within(option) from None

    return parse


MODEL = "a preset's name, a file or folder (config.json, preset YAML), a hub id, or - for stdin"

Model: TypeAlias = Annotated[str, Option(MODEL[0].upper() + MODEL[1:] + ".", "MODEL", positional=True)]
Models: TypeAlias = Annotated[list[str], Option("Each " + MODEL + ".", "MODEL...", positional=True)]
Set: TypeAlias = Annotated[
    list[str],
    Option(
        "Change a key of the preset, such as n_kv_heads=4 or moe.top_k=2; may be repeated.", "KEY=VALUE", name="--set"
    ),
]
Draft: TypeAlias = Annotated[
    str | None, Option("A smaller model beside it that proposes tokens (speculative decoding).", "MODEL")
]
With: TypeAlias = Annotated[
    list[str],
    Option(
        "A variant: rope, learned, alibi or none; gqa:N, mha, mla; moe:E:K (E experts of d_ff/K, K a token), dense; "
        "window:W, gdn:K (K of K + 1 layers recurrent), mtp; may be repeated.",
        "SWITCH",
        name="--with",
    ),
]
Plot: TypeAlias = Annotated[bool, Option("Draw it; as an image with -o FILE.svg or FILE.png.")]
Why: TypeAlias = Annotated[
    str | None, Option("Show the lines that add up to a figure; a wrong one lists them all.", "KEY")
]
Columns: TypeAlias = Annotated[
    str | None, Option("Which columns, in which order: gptcalc columns lists them.", "KEY,KEY…")
]
GridColumns: TypeAlias = Annotated[
    str | None,
    Option("Which columns, in which order: the keys that vary, and what gptcalc columns sweep lists.", "KEY,KEY…"),
]
Sort: TypeAlias = Annotated[str | None, Option("Sort by a column; -KEY puts the largest first.", "KEY")]
Where: TypeAlias = Annotated[
    list[str],
    Option(
        "Only rows of which this holds: 'total >= 7B', 'kv_bytes < 1GiB and total < 8e9'; may be repeated.",
        "CONDITION",
    ),
]


def loaded_to_run(reference: str, settings: list[str], dtype: str | None) -> Loaded:
    """A model whose weights are loaded: as the files at hand have them, where no other type is asked for."""
    from gptcalc.sources import load

    found = load(reference, settings)
    if found.tensors is None or settings or dtype is not None:
        return found
    from gptcalc.analysis.stored import weighed

    return weighed(found)


def drafted(reference: str | None, how: Run, dtype: str | None) -> tuple[Architecture | None, tuple[str, ...]]:
    """A model that proposes tokens, and the notes on it. InputError in training."""
    if reference is None:
        return None, ()
    if not isinstance(how, InferenceRun):
        raise InputError(f"--draft {printable(reference)}: nothing is drafted in training", "leave it out", "usage")
    found = loaded_to_run(reference, [], dtype)
    return found.architecture, tuple(found.notes)


def context_warnings(architecture: Architecture, run: Run) -> tuple[str, ...]:
    """A warning where the context exceeds the model's; an error where there is no position for it."""
    length, c = run.length(architecture), architecture.c
    if length <= c:
        return ()
    return (f"warning: context {length} exceeds the {c} that {architecture.name} is made for",)
