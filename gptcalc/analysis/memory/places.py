"""Where the tensors of a model stand whose type in a GGUF file depends on it, without listing every layer.

How they are numbered is from llama.cpp, src/llama-quant.cpp (init_quantize_state_counters, layer_info).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from msgspec import Struct

from gptcalc.analysis.memory.mixes import Rule, Traits, counted, tensor_type
from gptcalc.architecture import Architecture, Block, Repeat
from gptcalc.dtypes import DType


class Numbered(Struct, frozen=True):
    """A tensor of a block, and whether it counts: of a fused matrix one part does."""

    key: str
    use: Rule
    counts: bool = True


class Progression(Struct, frozen=True):
    """A tensor of a block that is repeated: its repetition r is in layer `layer` + r · `layer_step`, and is the
    (`i` + r · `i_step`)-th of its use."""

    block: Block
    key: str
    use: Rule
    layer: int
    layer_step: int
    i: int
    i_step: int
    times: int
    counts: bool

    def between(self, start: int, stop: int) -> range:
        """The repetitions in these layers."""
        first = max(-(-(start - self.layer) // self.layer_step), 0)
        return range(first, max(min(-(-(stop - self.layer) // self.layer_step), self.times), first))


def progressions(
    architecture: Architecture, tensors: Mapping[Block, Sequence[Numbered]], mix: str, model: Traits
) -> list[Progression]:
    """V is counted; the matrices of feed-forward layers too in dense models, and go by their layer with experts."""
    found = []
    layer, seen = 0, dict[Rule, int]()
    for body, times in _runs(architecture.layers):
        uses = [tensor.use for block in body for tensor in tensors[block] if tensor.counts]
        own = dict(seen)
        for offset, block in enumerate(body, layer):
            for tensor in tensors[block]:
                key, use, counts = tensor.key, tensor.use, tensor.counts
                numbered = use in ("values", "qkv") or counted(mix, model)
                i, step = (own.get(use, 0), uses.count(use)) if numbered else (offset, len(body))
                found.append(Progression(block, key, use, offset, len(body), i, step, times, counts))
                own[use] = own.get(use, 0) + counts
        layer += len(body) * times
        seen = {use: seen.get(use, 0) + times * uses.count(use) for use in {*seen, *uses}}
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
