"""The options that several commands share, each spelled once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal, TypeAlias

import typer

from gptcalc.architecture import Architecture
from gptcalc.errors import InputError


def number(option: str) -> Callable[[Any], int]:
    """A parser of whole numbers from 1 whose errors name the option."""

    def parse(value: Any) -> int:
        if isinstance(value, int):  # the default
            return value
        from gptcalc import units

        try:
            return units.positive(value)
        except InputError as error:
            raise error.within(option) from None

    return parse


def preset_names(incomplete: str) -> list[str]:
    """For shell completion."""
    from gptcalc.sources.preset import names

    return [name for name in names() if name.startswith(incomplete)]


MODEL = "a preset's name, a file or folder (config.json, preset YAML), a hub id that a preset lists, or - for stdin"

Model: TypeAlias = Annotated[
    str, typer.Argument(metavar="MODEL", help=MODEL[0].upper() + MODEL[1:] + ".", autocompletion=preset_names)
]
Models: TypeAlias = Annotated[
    list[str], typer.Argument(metavar="MODEL...", help="Each " + MODEL + ".", autocompletion=preset_names)
]
Set: TypeAlias = Annotated[
    list[str],
    typer.Option(
        "--set", metavar="KEY=VALUE", show_default=False,
        help="Change a key of the preset, such as n_kv_heads=4 or moe.top_k=2; may be repeated.",
    ),
]  # fmt: skip
Batch: TypeAlias = Annotated[
    int, typer.Option("--batch", "--batch-size", metavar="N", parser=number("--batch"), help="Sequences.")
]
Context: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--context", "--max-model-len", metavar="N", parser=number("--context"),
        help="Length of a sequence including the newest token: 8192, 8K (8192), 8k (8000). Default: the model's c.",
    ),
]  # fmt: skip
KVDType: TypeAlias = Annotated[
    str, typer.Option("--kv-dtype", "--kv-cache-dtype", metavar="TYPE", help="Data type of the cache; K:V for two.")
]
StateDType: TypeAlias = Annotated[
    str, typer.Option("--state-dtype", metavar="TYPE", help="Data type of recurrent states.")
]
Phase: TypeAlias = Annotated[
    Literal["prefill", "decode", "train"],
    typer.Option("--phase", help="A prompt, one more token, or a training step (3 × the forward pass)."),
]
Pairs: TypeAlias = Annotated[
    Literal["causal", "full"],
    typer.Option("--pairs", help="Count the pairs that the mask allows, or every query against every key."),
]
Mla: TypeAlias = Annotated[
    Literal["absorbed", "expanded"] | None,
    typer.Option("--mla", help="Form of latent attention. Default: absorbed for decode, else expanded."),
]
MlaCache: TypeAlias = Annotated[
    Literal["latent", "expanded"],
    typer.Option("--mla-cache", help="What latent attention keeps."),
]
Logits: TypeAlias = Annotated[
    Literal["all", "last"], typer.Option("--logits", help="Logits of all new tokens, or of the last.")
]
Engine: TypeAlias = Annotated[
    Literal["ideal", "vllm", "llama.cpp", "transformers"], typer.Option("--engine", help="Who allocates.")
]
Why: TypeAlias = Annotated[
    str | None, typer.Option("--why", metavar="KEY", help="Show the lines that add up to a figure, such as total.")
]
Columns: TypeAlias = Annotated[
    str | None,
    typer.Option("--columns", metavar="KEY,KEY…", help="Which columns, in which order; a wrong name lists them all."),
]
Sort: TypeAlias = Annotated[
    str | None, typer.Option("--sort", metavar="KEY", help="Sort by a column; -KEY puts the largest first.")
]


def context_warnings(architecture: Architecture, context: int | None) -> tuple[str, ...]:
    """A warning where the context exceeds the model's; an error where there is no position for it."""
    c = architecture.c
    if context is None or context <= c:
        return ()
    if architecture.embedding.position == "learned":
        raise InputError(f"--context {context}: {architecture.name} has a learned table of {c} positions", kind="usage")
    return (f"warning: context {context} exceeds the {c} that {architecture.name} is made for",)
