"""The types that llama.cpp's quantiser gives to each tensor of a model.

From llama.cpp, src/llama-quant.cpp: llama_tensor_get_type_impl (the mix), tensor_allows_quantization (what stays),
tensor_type_fallback (rows that don't divide into blocks), init_quantize_state_counters (how layers are numbered); and
from its converter (what is stored in F32). As quantised without an importance matrix. Left out: the exceptions for
Falcon, and files in which one matrix holds Q, K and V.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from gptcalc.architecture import (
    Architecture,
    Attention,
    AttentionExperts,
    Block,
    Experts,
    LatentAttention,
    Repeat,
    sublayers,
)
from gptcalc.dtypes import BF16, FP16, FP32, GGML, DType
from gptcalc.equations import Weight
from gptcalc.equations.roles import Use

Q8_0, Q5_1, Q5_0, Q4_1, Q4_0 = (GGML[name] for name in ("q8_0", "q5_1", "q5_0", "q4_1", "q4_0"))
Q2_K, Q3_K, Q4_K, Q5_K, Q6_K = (GGML[f"q{bits}_k"] for bits in (2, 3, 4, 5, 6))

#: each mix and the type that it gives to a matrix without a rule of its own
MIXES = {
    "f16": FP16, "gguf-bf16": BF16, "q8_0": Q8_0, "q6_k": Q6_K, "q5_k_m": Q5_K, "q5_k_s": Q5_K, "q5_1": Q5_1,
    "q5_0": Q5_0, "q4_k_m": Q4_K, "q4_k_s": Q4_K, "q4_1": Q4_1, "q4_0": Q4_0, "q3_k_l": Q3_K, "q3_k_m": Q3_K,
    "q3_k_s": Q3_K, "q2_k": Q2_K,
}  # fmt: skip

#: a type whose blocks don't divide a row gives way to one with smaller blocks
FALLBACK = {Q2_K: Q4_0, Q3_K: Q4_0, Q4_K: Q5_0, Q5_K: Q5_1, Q6_K: Q8_0}


class Traits(NamedTuple):
    """What the rules ask of a model."""

    n_layers: int
    n_experts: int
    heads_per_kv_head: int
    tied: bool

    @property
    def is_70b(self) -> bool:
        """How llama.cpp knows Llama 2's 70B, for which V is small: 80 layers, fewer KV heads than heads."""
        return self.n_layers == 80 and self.heads_per_kv_head > 1


def traits(architecture: Architecture) -> Traits:
    n_experts, ratio = 0, 1
    for block, _ in architecture.groups():
        for mixer in sublayers(block):
            match mixer:
                case Experts(n_experts=n) | Attention(experts=AttentionExperts(n_experts=n)):
                    n_experts = n_experts or n
                case Attention() if ratio == 1:
                    ratio = mixer.n_heads // mixer.n_kv_heads
                case LatentAttention():
                    pass
    return Traits(architecture.n_layers, n_experts, ratio, architecture.head.tying)


#: uses whose type depends on the layer
BY_LAYER: frozenset[Use] = frozenset({"values", "down"})


def more_bits(i: int, n: int) -> bool:
    """The first and last eighth of the layers, and every third between."""
    return i < n // 8 or i >= 7 * n // 8 or (i - n // 8) % 3 == 2


def tensor_type(mix: str, use: Use, row: int, model: Traits, i: int = 0, n: int = 1) -> DType:
    """The type of a matrix with rows of `row` numbers, the i-th of n of its use."""
    default = MIXES[mix]
    if use in ("router", "positions"):
        return FP32
    if default.block == 1:
        return default
    if use == "slices":
        return FP16
    chosen = _chosen(mix, use, row, model, i, n)
    if row % chosen.block:
        chosen = FALLBACK.get(chosen, FP16)
    return chosen if row % chosen.block == 0 else FP16


def _chosen(mix: str, use: Use, row: int, model: Traits, i: int, n: int) -> DType:
    default = MIXES[mix]
    if use == "logits" or (use == "tokens" and model.tied):
        return Q8_0 if row % default.block or default == Q8_0 else Q6_K
    if use == "values":
        return _v(mix, model, i, n)
    if use == "keys":
        return Q8_0 if model.n_experts == 8 else default
    if use == "down":
        return _down(mix, i, n)
    if use == "out":
        if model.n_experts == 8:
            return Q5_K if mix in ("q2_k", "q3_k_s", "q3_k_m", "q4_k_s", "q4_k_m") else default
        return {"q2_k": Q3_K, "q3_k_m": Q4_K, "q3_k_l": Q5_K}.get(mix, default)
    return default


def _v(mix: str, model: Traits, i: int, n: int) -> DType:
    chosen = MIXES[mix]
    if model.n_experts == 8:
        return Q8_0
    if mix == "q2_k":
        chosen = Q4_K if model.heads_per_kv_head >= 4 else Q3_K
    elif mix == "q3_k_m":
        chosen = Q5_K if i < 2 else Q4_K
    elif mix == "q3_k_l":
        chosen = Q5_K
    elif mix in ("q4_k_m", "q5_k_m") and more_bits(i, n):
        chosen = Q6_K
    elif mix == "q4_k_s" and i < 4:
        chosen = Q5_K
    return Q5_K if model.is_70b and chosen in (Q3_K, Q4_K) else chosen


def _down(mix: str, i: int, n: int) -> DType:
    if mix == "q2_k":
        return Q3_K
    if mix == "q3_k_m":
        return Q5_K if i < n // 16 else Q4_K
    if mix == "q3_k_l":
        return Q5_K
    if mix in ("q4_k_m", "q5_k_m") and more_bits(i, n):
        return Q6_K
    if mix == "q4_k_s" and i < n // 8:
        return Q5_K
    return MIXES[mix]


class Progression(NamedTuple):
    """A tensor of a block that is repeated: its repetition r is in layer `layer` + r · `layer_step`, and is the
    (`i` + r · `i_step`)-th of its use."""

    block: Block
    key: str
    use: Use
    layer: int
    layer_step: int
    i: int
    i_step: int
    times: int

    def between(self, start: int, stop: int) -> range:
        """The repetitions in these layers."""
        first = max(-(-(start - self.layer) // self.layer_step), 0)
        return range(first, max(min(-(-(stop - self.layer) // self.layer_step), self.times), first))


def progressions(
    architecture: Architecture, weights: Mapping[Block, Sequence[Weight]], model: Traits
) -> list[Progression]:
    """Where the tensors in BY_LAYER stand, without listing every layer.

    V is counted; the down projections are counted in dense models and go by their layer where there are experts.
    """
    found = []
    layer, seen = 0, dict.fromkeys(BY_LAYER, 0)
    for body, times in _runs(architecture.layers):
        uses = [weight.use for block in body for weight in weights[block]]
        own = dict(seen)
        for offset, block in enumerate(body, layer):
            for weight in weights[block]:
                use = weight.use
                by_layer = use == "down" and model.n_experts > 1
                i, step = (offset, len(body)) if by_layer else (own[use], uses.count(use))
                found.append(Progression(block, weight.key, use, offset, len(body), i, step, times))
                own[use] += 1
        layer += len(body) * times
        seen = {use: n + times * uses.count(use) for use, n in seen.items()}
    return found


def _runs(items: Iterable[Block | Repeat]) -> Iterator[tuple[list[Block], int]]:
    """The layers as sequences of blocks, each with how often it is repeated."""
    for item in items:
        if isinstance(item, Block):
            yield [item], 1
        elif item.count == 1:
            yield from _runs(item.body)
        else:
            yield [block for body, times in _runs(item.body) for _ in range(times) for block in body], item.count


def kinds(mix: str, place: Progression, repetitions: range, n: int, model: Traits) -> Iterator[tuple[DType, int, int]]:
    """The types that a repeated tensor gets: each with an i that has it and how many do.

    Between the places where a rule begins or ends, the type depends on i by its remainder by 3 only (`more_bits`).
    """
    edges = {repetitions.start, repetitions.stop}
    for edge in (2, 4, n // 16, n // 8, 7 * n // 8):
        at = -(-(edge - place.i) // place.i_step)
        if at in repetitions:
            edges.add(at)
    ordered = sorted(edges)
    for low, high in pairwise(ordered):
        for first in range(low, min(low + 3, high)):
            i = place.i + first * place.i_step
            yield tensor_type(mix, place.use, 256, model, i, n), i, len(range(first, high, 3))
