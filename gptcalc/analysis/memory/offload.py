"""llama.cpp's split between a device and its host.

From src/llama-model.cpp (load_tensors): tables that are looked up stay on the host; of the layers the last are on the
device, --n-gpu-layers of them, the output being one; of a tied table there is a copy on each side. --n-cpu-moe leaves
the experts of the first layers on the host (common/arg.cpp).
"""

from __future__ import annotations

from typing import NamedTuple

from gptcalc.analysis.memory.weights import Share, Weights
from gptcalc.conventions import InferenceRun
from gptcalc.dtypes import dtype
from gptcalc.errors import InputError


class Split(NamedTuple):
    """What is loaded where, and the first layer on the device."""

    device: list[Share]
    host: list[Share]
    first: int


def blocks(weights: Weights) -> int:
    """Layers as a file numbers them."""
    a = weights.architecture
    return a.n_layers + (a.mtp.n if a.mtp is not None and a.storage.mtp else 0)


def check(how: InferenceRun) -> None:
    """Only llama.cpp splits so, and here only for one device."""
    if how.flash_attn == "off":
        if how.engine != "llama.cpp":
            raise InputError(f"--flash-attn off: --engine {how.engine} has no such choice",
                             "add --engine llama.cpp", "usage")  # fmt: skip
        if dtype(how.kv_dtype.rpartition(":")[2]).block > 1:
            raise InputError(f"--flash-attn off: llama.cpp keeps no values in {how.kv_dtype.rpartition(':')[2]} then",
                             "use bf16, or --flash-attn on", "usage")  # fmt: skip
    for name, given in (("--ngl", how.ngl is not None), ("--n-cpu-moe", how.n_cpu_moe)):
        if given and how.engine != "llama.cpp":
            raise InputError(f"{name}: --engine {how.engine} has no such split", "add --engine llama.cpp", "usage")
        if given and (how.tp, how.pp, how.ep) != (1, 1, 1):
            raise InputError(f"{name}: only with one device", "leave --tp, --pp and --ep out", "usage")


def split(weights: Weights, how: InferenceRun) -> Split:
    n = weights.architecture.n_layers
    first = 0 if how.ngl is None else min(max(blocks(weights) + 1 - how.ngl, 0), n)
    ends = how.ngl is None or how.ngl > 0  # whether the output is on the device
    device: list[Share] = []
    host: list[Share] = []
    output = [weights.share(entry, 1) for entry in weights.output + weights.second_head()]
    tied = {tensor.weight.key for line in weights.model.output.lines for tensor in line.tensors() if tensor.weight.tied}
    for entry in weights.embedding:
        share = weights.share(entry, 1)
        (host if entry.tensor.kind == "table" else device).append(share)
        if entry.tensor.weight.key in tied and not weights.second_head():
            output.append(share)
    host += weights.layers(0, first)
    spared = max(first, min(how.n_cpu_moe, n))
    for share in weights.layers(first, spared):
        (host if share.experts else device).append(share)
    device += weights.layers(spared, n)
    if ends:
        return Split([*device, *output], host, first)
    return Split(device, [*host, *(share for share in output if share not in host)], first)
