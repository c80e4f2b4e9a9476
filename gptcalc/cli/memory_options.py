"""The options of commands about memory and budgets, each spelled once."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

import typer

from gptcalc import units
from gptcalc.cli.options import number
from gptcalc.errors import InputError, printable


def byte_size(option: str) -> Callable[[Any], int]:
    """A parser of sizes with a unit whose errors name the option."""

    def parse(value: Any) -> int:
        if isinstance(value, int):  # the default
            return value
        try:
            return units.size(value)
        except InputError as error:
            raise error.within(option) from None

    return parse


_SHARE = re.compile(r"(\d{1,9}(?:\.\d{1,9})?|\.\d{1,9})(%?)")


def share(option: str) -> Callable[[Any], Fraction]:
    """A parser of shares: 0.9, 90%."""

    def parse(value: Any) -> Fraction:
        if isinstance(value, Fraction):
            return value
        match = _SHARE.fullmatch(value)
        found = Fraction(match[1]) / (100 if match[2] else 1) if match else Fraction(0)
        if not 0 < found <= 1:
            problem = f"{option}: {printable(value)!r} is not a share above 0 and up to 1"
            raise InputError(problem, "write 0.9 or 90%", "usage")
        return found

    return parse


DType: TypeAlias = Annotated[
    str,
    typer.Option(
        "--dtype", metavar="TYPE",
        help="How weights are stored: bf16, fp8, fp8-block, int8, int4[:GROUP[:sym]], awq, gptq, nf4, nf4-double, "
        "mxfp4, nvfp4, or GGUF's: q8_0, q6_k, q5_k_m, q4_k_m, f16, …; a wrong one lists them all.",
    ),
]  # fmt: skip
PrefillChunk: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--prefill-chunk", metavar="N", parser=number("--prefill-chunk"), show_default=False,
        help="Tokens of one pass of a prefill. Default: all; vllm 2048, llama.cpp 512.",
    ),
]  # fmt: skip
Overhead: TypeAlias = Annotated[
    int,
    typer.Option("--overhead", metavar="SIZE", parser=byte_size("--overhead"), show_default=False,
                 help="Added to each device, such as 1GiB for a runtime's context. Default: none."),
]  # fmt: skip
TP: TypeAlias = Annotated[
    int, typer.Option("--tp", metavar="N", parser=number("--tp"), help="Tensor parallel devices.")
]
PP: TypeAlias = Annotated[int, typer.Option("--pp", metavar="N", parser=number("--pp"), help="Pipeline stages.")]
EP: TypeAlias = Annotated[
    int, typer.Option("--ep", metavar="N", parser=number("--ep"), help="Expert parallel ranks, made from tp and dp.")
]
DP: TypeAlias = Annotated[
    int | None,
    typer.Option("--dp", metavar="N", parser=number("--dp"), show_default=False,
                 help="Data parallel copies, which share the batch. Default: as many as --ep needs."),
]  # fmt: skip
Budget: TypeAlias = Annotated[
    int | None,
    typer.Option("--budget", metavar="SIZE", parser=byte_size("--budget"), show_default=False,
                 help="Memory of each device: 24GiB (2^30 bytes each), 80GB (10^9)."),
]  # fmt: skip
DeviceName: TypeAlias = Annotated[
    str | None,
    typer.Option("--device", metavar="NAME", show_default=False,
                 help="A device by name, such as rtx-4090 or h100-sxm; a wrong one lists them all."),
]  # fmt: skip
Devices: TypeAlias = Annotated[
    int | None,
    typer.Option("--devices", metavar="N", parser=number("--devices"), show_default=False,
                 help="How many devices; tensor parallel unless --tp, --pp, --ep or --dp say otherwise."),
]  # fmt: skip
Utilization: TypeAlias = Annotated[
    Fraction | None,
    typer.Option("--utilization", "--gpu-memory-utilization", metavar="SHARE", parser=share("--utilization"),
                 show_default=False, help="Usable share of a device. Default: 1 with --budget, 0.9 with --device."),
]  # fmt: skip

#: what an engine is told to leave alone, as vLLM's gpu_memory_utilization of 0.9 does
DEVICE_SHARE = Fraction(9, 10)


class Capacity(NamedTuple):
    """One device's memory, and what share of it may be used."""

    bytes: int
    share: Fraction
    title: str


def capacity(budget: int | None, device: str | None, utilization: Fraction | None) -> Capacity:
    """What --budget or --device give."""
    if (budget is None) == (device is None):
        problem = "both --budget and --device" if budget is not None else "neither --budget nor --device"
        raise InputError(problem, "give --budget 24GiB or --device rtx-4090", "usage")
    if budget == 0:
        raise InputError("--budget: no memory at all", "write 24GiB or 80GB", "usage")
    if budget is not None:
        return Capacity(budget, utilization or Fraction(1), units.short_bytes(budget))
    from gptcalc.sources import devices

    found = devices.device(device or "")
    return Capacity(found.memory, utilization or DEVICE_SHARE, found.title)


def room(budget: int | None, device: str | None, utilization: Fraction | None) -> int | None:
    """Usable bytes of a device, where a budget or a device is given."""
    if budget is None and device is None:
        return None
    found = capacity(budget, device, utilization)
    return int(found.bytes * found.share)


# --- training ---------------------------------------------------------------------------------------------------------

Sequences: TypeAlias = Annotated[
    int | None,
    typer.Option("--batch", "--batch-size", metavar="N", parser=number("--batch"), show_default=False,
                 help="Sequences; in training those of a step over all data parallel ranks. Default: 1, in training "
                 "one micro-batch a rank."),
]  # fmt: skip
Train: TypeAlias = Annotated[
    bool, typer.Option("--training", help="A training step: gradients, optimiser states, what the backward pass keeps.")
]
OptimizerName: TypeAlias = Annotated[
    str | None,
    typer.Option("--optimizer", metavar="NAME", show_default=False,
                 help="adam (default, mixed precision with fp32 master weights), adam-bf16, adam-8bit, sgd, …; a wrong "
                 "one lists them all."),
]  # fmt: skip
Gradients: TypeAlias = Annotated[
    Literal["fp32", "bf16"] | None,
    typer.Option("--gradients", show_default=False, help="Their type. Default: the optimiser's."),
]
Zero: TypeAlias = Annotated[
    int | None,
    typer.Option("--zero", metavar="STAGE", min=0, max=3, show_default=False,
                 help="ZeRO over --dp ranks: 1 optimiser states, 2 gradients too, 3 weights too (FSDP)."),
]  # fmt: skip
Offload: TypeAlias = Annotated[
    Literal["none", "optimizer", "parameters"] | None,
    typer.Option("--offload", show_default=False, help="What is kept in the host's memory."),
]
Recompute: TypeAlias = Annotated[
    Literal["none", "selective", "full"] | None,
    typer.Option("--recompute", show_default=False, help="Activations made again in the backward pass."),
]
Lora: TypeAlias = Annotated[
    str | None,
    typer.Option("--lora", metavar="RANK[:TARGETS]", show_default=False,
                 help="Train adapters only: 8, 16:attn.q,attn.v, 8:all."),
]  # fmt: skip
AttentionKernel: TypeAlias = Annotated[
    Literal["flash", "eager"] | None,
    typer.Option("--attention", show_default=False, help="flash (default), or scores kept whole."),
]
SequenceParallel: TypeAlias = Annotated[
    bool, typer.Option("--sequence-parallel", help="Split what tensor parallelism leaves whole along the sequence.")
]
MicroBatch: TypeAlias = Annotated[
    int | None,
    typer.Option("--micro-batch", metavar="N", parser=number("--micro-batch"), show_default=False,
                 help="Sequences of one pass of one rank. Default: its share of the batch."),
]  # fmt: skip


#: what is only about inference, with its defaults
INFERENCE = {
    "kv_dtype": "bf16", "state_dtype": "fp32", "phase": "prefill", "engine": "ideal", "mla_cache": "latent",
    "logits": "last", "prefill_chunk": None,
}  # fmt: skip
#: what is about both
SHARED = ("dtype", "overhead")


def chosen(training: bool, **values: Any) -> dict[str, Any]:
    """Of all options' values those of the kind of run that is asked for; InputError where one is of the other kind."""
    of_training = {k: v for k, v in values.items() if k not in INFERENCE and k not in SHARED and v not in (None, False)}
    of_inference = {name: values[name] for name in INFERENCE}
    if not training:
        if of_training:
            name = next(iter(of_training)).replace("_", "-")
            raise InputError(f"--{name} is about training", "add --training", "usage")
        return of_inference | {name: values[name] for name in SHARED}
    for name, value in of_inference.items():
        if value not in (INFERENCE[name], "train"):
            raise InputError(f"--{name.replace('_', '-')} is about inference, not --training", "leave it out", "usage")
    return of_training | {name: values[name] for name in SHARED}
