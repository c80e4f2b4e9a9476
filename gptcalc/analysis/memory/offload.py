"""llama.cpp's split between devices and their host.

From src/llama-model.cpp (load_tensors): tables that are looked up stay on the host; of the layers the last are on
devices, --n-gpu-layers of them, the output being one; of a tied table there is a copy on each side. Each device has as
many layers as --tensor-split says, one behind the other. What --override-tensor matches stays on the host
(src/llama-model-loader.cpp, create_tensor); --n-cpu-moe is such a pattern, of the experts of the first layers
(common/arg.cpp).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction
from itertools import accumulate, pairwise
from math import lcm

from msgspec import Struct

from gptcalc.analysis.memory.held import Share
from gptcalc.analysis.memory.weights import Weights
from gptcalc.conventions import InferenceRun
from gptcalc.dtypes import dtype
from gptcalc.errors import InputError, printable
from gptcalc.patterns import compiled


class Split(Struct, frozen=True):
    """What is loaded where, and the layers of each device."""

    devices: list[list[Share]]
    host: list[Share]
    ranges: list[tuple[int, int]]


def blocks(weights: Weights) -> int:
    """Layers as a file numbers them."""
    a = weights.architecture
    return a.n_layers + (a.mtp.n if a.mtp is not None and a.storage.mtp else 0)


def check(how: InferenceRun) -> None:
    """Only llama.cpp splits so, and only by layers."""
    if how.flash_attn == "off":
        if how.engine != "llama.cpp":
            raise InputError(
                f"--flash-attn off: --engine {how.engine} has no such choice", "add --engine llama.cpp", "usage"
            )
        if dtype(how.kv_dtype.rpartition(":")[2]).block > 1:
            raise InputError(
                f"--flash-attn off: llama.cpp keeps no values in {how.kv_dtype.rpartition(':')[2]} then",
                "use bf16, or --flash-attn on",
                "usage",
            )
    for name, given in (
        ("--ngl", how.ngl is not None),
        ("--n-cpu-moe", how.n_cpu_moe),
        ("--tensor-split", how.tensor_split),
        ("--override-tensor", how.override_tensor),
    ):
        if given and how.engine != "llama.cpp":
            raise InputError(f"{name}: --engine {how.engine} has no such split", "add --engine llama.cpp", "usage")
        if given and not by_layers(how):
            raise InputError(f"{name}: only where devices have whole layers", "leave --tp, --ep and --dp out", "usage")


def by_layers(how: InferenceRun) -> bool:
    """Whether llama.cpp splits a model by layers, its default."""
    return how.engine == "llama.cpp" and (how.tp, how.ep, how.dp or 1) == (1, 1, 1)


def is_pipelined(weights: Weights, how: InferenceRun) -> bool:
    """Whether several devices work at once (src/llama-context.cpp): all layers are on them, and no tensor elsewhere."""
    everything = how.ngl is None or how.ngl > blocks(weights)
    return by_layers(how) and how.pp > 1 and everything and not how.n_cpu_moe and how.override_tensor is None


def split(weights: Weights, how: InferenceRun) -> Split:
    n = weights.architecture.n_layers
    ranges, output = _ranges(blocks(weights) + 1, how)
    spared = _spared(how.override_tensor)
    devices: list[list[Share]] = [[] for _ in ranges]
    host: list[Share] = list(weights.layers(0, min(ranges[0][0], n)))
    for device, (start, stop) in zip(devices, ranges, strict=True):
        for share, layer in _layers(weights, min(start, n), min(stop, n), how):
            experts = share.experts and layer < how.n_cpu_moe
            (host if experts or _matches(spared, share, layer) else device).append(share)
    ends = [weights.share(entry, 1) for entry in weights.output + weights.second_head()]
    for entry in weights.embedding:
        share = weights.share(entry, 1)
        (host if entry.tensor.kind == "table" else devices[0]).append(share)
        if entry.tensor.weight.key in weights.tied and not weights.second_head():
            ends.append(share)
    for share in ends:
        if output is not None and not _matches(spared, share):
            devices[output].append(share)
        elif share not in host:
            host.append(share)
    return Split(devices, host, [(min(start, n), min(stop, n)) for start, stop in ranges])


def _ranges(layers: int, how: InferenceRun) -> tuple[list[tuple[int, int]], int | None]:
    """The layers of each device, the output being the last, and which of them has that."""
    moved = layers if how.ngl is None else min(how.ngl, layers)
    shares = _shares(how)
    ends = [-(-moved * sum_ // sum(shares)) for sum_ in accumulate(shares, initial=0)]
    ranges = [(layers - moved + start, layers - moved + stop) for start, stop in pairwise(ends)]
    return ranges, next((at for at, (start, stop) in enumerate(ranges) if start < stop == layers), None)


def _shares(how: InferenceRun) -> list[int]:
    """How much of the layers each device has, in whole numbers."""
    if how.tensor_split is None:
        return [1] * how.pp
    words = how.tensor_split.split(",")
    try:
        shares = [Fraction(word) for word in words]
    except (ValueError, ZeroDivisionError):
        shares = []
    if not shares or min(shares) <= 0:
        raise InputError(f"--tensor-split {printable(how.tensor_split)}: not a list of shares", "write 3,1", "usage")
    if len(shares) != how.pp:
        raise InputError(
            f"--tensor-split {printable(how.tensor_split)}: {len(shares)} shares for {how.pp} devices",
            f"add --devices {len(shares)}",
            "usage",
        )
    unit = lcm(*(share.denominator for share in shares))
    return [int(share * unit) for share in shares]


def _spared(text: str | None) -> list[re.Pattern[str]]:
    """Patterns of tensors that stay on the host."""
    found = []
    for word in [] if text is None else text.split(","):
        pattern, equals, place = word.rpartition("=")
        if not equals or not pattern or place.upper() != "CPU":
            raise InputError(
                f"--override-tensor: {printable(word)!r} names no place that is known here",
                "write ffn_.*_exps=CPU",
                "usage",
            )
        found.append(compiled(pattern, "--override-tensor"))
    return found


def _layers(weights: Weights, start: int, stop: int, how: InferenceRun) -> Iterator[tuple[Share, int]]:
    """The tensors of these layers, each with a layer that it is in; one by one only where that matters."""
    if how.override_tensor is not None:
        for layer in range(start, stop):
            yield from ((share, layer) for share in weights.layers(layer, layer + 1))
        return
    middle = min(max(start, how.n_cpu_moe), stop)
    for first, last in ((start, middle), (middle, stop)):
        yield from ((share, first) for share in weights.layers(first, last))


def _matches(patterns: list[re.Pattern[str]], share: Share, layer: int = 0) -> bool:
    if not patterns:
        return False
    from gptcalc.sources.gguf.names import tensor_name

    name = tensor_name(share.tensor.weight.plain, share.fused, layer)
    return any(pattern.search(name) for pattern in patterns)
