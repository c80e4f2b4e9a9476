"""gptcalc trace"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

from gptcalc.cli.answer import Answer, show, write_file_bytes
from gptcalc.cli.options import Model, Set, context_warnings, integer
from gptcalc.cli.progress import bar
from gptcalc.conventions import Run
from gptcalc.errors import InputError, printable
from gptcalc.options import Option

if TYPE_CHECKING:
    from gptcalc.architecture import Architecture
    from gptcalc.report.trace import Show
    from gptcalc.sources import Model as Loaded
    from gptcalc.sources.checkpoint import Checkpoint


#: a token's number; one outside the vocabulary is refused by name
TOKEN = re.compile(r"-?[0-9]{1,12}")

RESULT = "gptcalc.tracing:Trace"


def command(
    how: Run,
    model: Model = "",
    settings: Set = [],  # noqa: B006
    tokens: Annotated[str | None, Option("Token ids: run for real, on these.", "N,N…")] = None,
    text: Annotated[str | None, Option("The bytes of a text as tokens, such as for byte-demo.", "TEXT")] = None,
    decoder_tokens: Annotated[
        str | None,
        Option("Of an encoder-decoder: what its decoder reads.", "N,N…"),
    ] = None,
    decode: Annotated[int, Option("The last N tokens go one by one through the cache.", read=integer("--decode"))] = 0,
    generate: Annotated[
        int | None,
        Option("Continue greedily for N tokens."),
    ] = None,
    save: Annotated[
        str | None,
        Option("Write logits and hidden states (and decode_logits).", "OUT.npz"),
    ] = None,
    float64: Annotated[bool, Option("Compute in float64.")] = False,
    attention: Annotated[bool, Option("Save attention weights too.")] = False,
    values: Annotated[bool, Option("What attention computes, step by step, head by head.")] = False,
    heatmap: Annotated[bool, Option("Attention weights as shades.")] = False,
    example: Annotated[bool, Option("Attention by hand: Q = K = I, V = [[2, 1], [1, 3]].")] = False,
    seed: Annotated[int, Option("Of the small copy's random weights.", read=integer("--seed"))] = 0,
) -> Answer:
    """Runs the model in NumPy: shapes stage by stage; with --text or --tokens real runs, values and logits.

    A folder with config.json and model.safetensors runs its true weights; anything else a small copy of the
    architecture with random weights.

    gptcalc trace llama-3-8b --context 8K  # full size, shapes alone
    gptcalc trace byte-demo --text "To be" --values
    gptcalc trace byte-demo --text "To be or not" --heatmap
    gptcalc trace byte-demo --example  # attention by hand
    """
    from msgspec.structs import replace

    from gptcalc import tracing
    from gptcalc.sources import load

    if example:
        by_hand = tracing.example()
        return Answer(by_hand, show("trace", by_hand, "values"))
    if not model:
        raise InputError("trace: no MODEL", "name one, or --example", "usage")
    if text is not None:
        if tokens is not None:
            raise InputError("--text: the tokens are said by --tokens already", "one of them", "usage")
        tokens = ",".join(map(str, text.encode("utf-8", "surrogateescape")))
    seen: Show = "values" if values else "heatmap" if heatmap else "steps"
    loaded = load(model, settings)
    if decode < 0:
        raise InputError(f"--decode {decode}: expected a whole number from 0", kind="usage")
    if tokens is None and decoder_tokens is None:
        for option, given in (
            ("--generate", generate),
            ("--save", save),
            ("--attention", attention or None),
            ("--values", values or None),
            ("--heatmap", heatmap or None),
        ):
            if given is not None:
                raise InputError(f"{option} needs --tokens", "such as --tokens 5,23,7", "usage")
        warnings = (*loaded.notes, *context_warnings(loaded.architecture, how))
        source = how.source_length(loaded.architecture)
        length = tracing.usual_length(loaded.architecture) if how.context is None else how.length(loaded.architecture)
        found = tracing.shapes(loaded.architecture, length, decode, source)
        return Answer(found, show("trace", found), warnings)
    for name in ("context", "source"):
        if getattr(how, name) is not None:
            raise InputError(f"--{name} goes without --tokens: the tokens are the {name}", kind="usage")
    read, new = _sequences(loaded.architecture, tokens, decoder_tokens)
    with bar(generate or 0) as step, _said_as("--text" if text is not None else "--tokens"):
        made = tracing.run(
            loaded.architecture, _weights(model, loaded), new,
            source=read, decode=decode, generate=generate or 0, float64=float64, attention=attention, seed=seed,
            values=seen != "steps", progress=lambda token: step(f"token {token}"),
        )  # fmt: skip
    if seen != "steps" and not made.trace.values:
        problem = f"{loaded.architecture.name} has no attention of queries against keys of its heads"
        raise InputError(f"--{seen}: {problem}", "latents and states are not drawn", "unsupported")
    if save is not None:
        _save(save, made.arrays)
    said = None if text is None else text.encode("utf-8", "replace").decode()  # what no text can hold is a ?
    found = replace(made.trace, text=said)
    return Answer(found, show("trace", found, seen), loaded.notes)


def _sequences(a: Architecture, tokens: str | None, second: str | None) -> tuple[list[int] | None, list[int]]:
    """What an encoder reads, and what the layers read."""
    encoder = a.encoder
    if encoder is None:
        if second is not None or tokens is None:
            raise InputError(f"--decoder-tokens: {a.name} has no encoder beside its layers", "give --tokens", "usage")
        return None, _ids(tokens)
    if second is None:
        raise InputError(f"--decoder-tokens is missing: {a.name} reads one sequence and writes another", kind="usage")
    if encoder.front is not None and tokens is not None:
        raise InputError(
            f"--tokens: the encoder of {a.name} reads frames of sound, here noise", "leave it out", "usage"
        )
    if encoder.front is None and tokens is None:
        raise InputError(f"--tokens is missing: what the encoder of {a.name} reads", kind="usage")
    return None if tokens is None else _ids(tokens), _ids(second, "--decoder-tokens")


@contextmanager
def _said_as(option: str) -> Iterator[None]:
    """What is wrong with the tokens, under the option that they were given by."""
    try:
        yield
    except InputError as error:
        place, _, problem = error.message.partition(": ")
        if place != "tokens":
            raise
        hint = error.hint or ("byte-demo has a row for each byte" if option == "--text" else None)
        raise InputError(f"{option}: {problem}", hint, "usage") from None


def _ids(text: str, option: str = "--tokens") -> list[int]:
    words = text.replace(" ", ",").split(",")
    for word in words:
        if word and not TOKEN.fullmatch(word):
            raise InputError(f"{option}: {printable(word)!r} is not a token's number", "such as 5,23,7", "usage")
    return [int(word) for word in words if word]


def _weights(reference: str, loaded: Loaded) -> Checkpoint | None:
    """The true weights, where the model is a folder (or a file in one) that has them."""
    from gptcalc.sources import GGUF

    folder = reference if os.path.isdir(reference) else os.path.dirname(reference)
    if loaded.model_type in (None, GGUF) or not folder or not os.path.isdir(folder):
        return None
    if not any(name.endswith((".safetensors", ".safetensors.index.json")) for name in os.listdir(folder)):
        return None
    from gptcalc.sources import tensor_names
    from gptcalc.sources.checkpoint import Checkpoint

    return Checkpoint(folder, tensor_names(loaded))


def _save(path: str, arrays: Mapping[str, object]) -> None:
    from io import BytesIO

    import numpy as np

    buffer = BytesIO()
    np.savez(buffer, **arrays)  # type: ignore[arg-type]
    write_file_bytes(path, buffer.getvalue(), "--save")
