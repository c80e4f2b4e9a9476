"""Which option was meant by a word that is none of a command's. Loaded where one was wrong, and only then."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from typing import get_args

from gptcalc.cli.answer import SUFFIXES, Command, Format

#: what other programs call a parameter; what is a spelling of the option stands with it
ELSEWHERE = {
    **dict.fromkeys(("c", "seq_len", "seqlen", "seq_length", "sequence_length", "max_length", "n_ctx"), "context"),
    **dict.fromkeys(("gpu", "gpus", "hardware"), "device"),
    **dict.fromkeys(("vram", "ram", "gpu_memory"), "budget"),
    **dict.fromkeys(("precision", "quant", "weight_dtype", "torch_dtype"), "dtype"),
    **dict.fromkeys(("cache_type_k", "cache_dtype", "kv_precision"), "kv_dtype"),
    **dict.fromkeys(("b", "bs", "batchsize"), "batch"),
    **dict.fromkeys(("filter", "query"), "where"),
    **dict.fromkeys(("fields", "select"), "columns"),
    **dict.fromkeys(("limit", "head"), "top"),
}
#: two words are near from here on (difflib's measure)
NEAR = 0.75


def option_meant(given: str, command: Command, program: str, name: str) -> str | None:
    """A hint: another spelling, a form of the answer, a word of other programs, or a command that has the option."""
    word = given.lstrip("-").replace("-", "_").lower()
    spelled = {own.lstrip("-"): own for parameter in command.parameters for own in parameter.words}
    bare = given.lstrip("-")
    form = word if word in get_args(Format) else SUFFIXES.get(f".{word}")
    if form is not None:
        return f"did you mean --format {form}?"
    called = ELSEWHERE.get(word)
    for parameter in command.parameters:
        if parameter.name == called and parameter.words:
            return f"did you mean {parameter.words[0]}?"
    if len(bare) > 1:
        near = get_close_matches(bare, spelled, n=1, cutoff=NEAR) or [own for own in spelled if own.startswith(bare)]
        if near:
            return f"did you mean {spelled[near[0]]}?"
    others = list(_with(given, name))
    return f"{program} {', '.join(others[:4])} {'has' if len(others) == 1 else 'have'} it" if others else None


def _with(given: str, name: str) -> Iterator[str]:
    """The other commands that have the option."""
    from gptcalc.cli import function, names

    for other in names():
        if other != name and any(given in parameter.words for parameter in Command(function(other)).parameters):
            yield other
