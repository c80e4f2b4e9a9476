"""Many devices: how tensors, layers and sequences are split over them.

Tensor parallelism (Shoeybi et al. 2019, arXiv:1909.08053) splits the indices that the equations mark `tp`; K and V are
never split finer than one KV head, so their tensors are replicated where tp exceeds the heads. Pipeline stages take
consecutive layers. Expert parallelism splits the index of the experts. Data parallel ranks hold copies and each takes
its share of the batch. A vocabulary is padded until it divides.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import gcd, prod
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from gptcalc.architecture import (
    Architecture,
    Attention,
    Block,
    CompressedAttention,
    LatentAttention,
    Repeat,
    is_looped,
)
from gptcalc.conventions import InferenceRun, PacedRun, TrainingRun
from gptcalc.equations import Chosen, Index, Line, Reference
from gptcalc.equations.roles import LOOKED_BACK, Role
from gptcalc.errors import InputError

#: engines pad the vocabulary to a multiple of this (vLLM: vllm/model_executor/layers/vocab_parallel_embedding.py,
#: DEFAULT_VOCAB_PADDING_SIZE, and SGLang alike; Megatron-LM: --make-vocab-size-divisible-by is 128)
VOCABULARY_MULTIPLE = {"vllm": 64, "sglang": 64}


#: by what elements are counted
COUNTED_BY: frozenset[Role] = LOOKED_BACK | {"new"}

MAX_STAGES = 1024

R = TypeVar("R", bound=InferenceRun | PacedRun | TrainingRun)


class Layout(Struct, frozen=True):
    """How many ways each thing is split. Experts are spread over the ranks that tp and dp make, as engines do it.

    vLLM with --enable-expert-parallel has ep = tp · dp; SGLang ep ≤ tp; Megatron-LM ep ≤ dp, each expert then split
    over tp. All three follow from one rule: an expert's own width is split over tp as far as ranks are left.
    """

    tp: int = 1
    pp: int = 1
    ep: int = 1
    dp: int = 1

    @property
    def devices(self) -> int:
        return self.tp * self.pp * self.dp

    @property
    def expert_tp(self) -> int:
        """How many ways one expert is split."""
        return min(self.tp, self.tp * self.dp // self.ep)

    def sequences(self, batch: int) -> list[tuple[int, int]]:
        """How many sequences a data parallel rank holds, and how many ranks do so, the fullest first."""
        share, left = divmod(batch, self.dp)
        return [(n, ranks) for n, ranks in ((share + 1, left), (share, self.dp - left)) if ranks]

    def shown(self) -> dict[str, int]:
        return {"tp": self.tp, "pp": self.pp, "ep": self.ep, "dp": self.dp}


def layout(architecture: Architecture, how: InferenceRun | PacedRun | TrainingRun) -> Layout:
    """A checked layout. Without dp there are as many data parallel ranks as the experts need."""
    tp, pp, ep, dp = how.tp, how.pp, how.ep, how.dp
    ranks = dp if dp is not None else ep // gcd(ep, tp)
    found = Layout(tp, pp, ep, ranks)
    if pp > MAX_STAGES:
        raise InputError(f"--pp {pp}: more than {MAX_STAGES} pipeline stages", kind="usage")
    if pp > architecture.n_layers:
        raise InputError(
            f"--pp {pp}: {architecture.name} has {architecture.n_layers} layers, each stage needs one", kind="usage"
        )
    if pp > 1 and architecture.encoder is not None:
        raise InputError(
            f"--pp {pp}: how an encoder and a decoder share pipeline stages is not defined here",
            "--tp divides both",
            "unsupported",
        )
    if pp > 1 and is_looped(architecture):
        raise InputError(
            f"--pp {pp}: how the passes of a loop go through pipeline stages is not defined here",
            "--tp divides it",
            "unsupported",
        )
    if (tp * ranks) % ep:
        raise InputError(
            f"--ep {ep}: does not divide the {tp * ranks} ranks of --tp {tp} and --dp {ranks}",
            f"give --dp {ep // gcd(ep, tp)}",
            "usage",
        )
    return found


def over(architecture: Architecture, devices: int | None, how: R) -> R:
    """The same run over so many devices. Where nothing else is said tensor parallel, with ZeRO data parallel; llama.cpp
    splits by layers, over as many devices as --tensor-split has shares."""
    by_layers = isinstance(how, InferenceRun) and how.engine == "llama.cpp"
    if devices is None and isinstance(how, InferenceRun) and how.tensor_split is not None:
        devices = how.tensor_split.count(",") + 1
    if devices is not None and (how.tp, how.pp, how.ep, how.dp) == (1, 1, 1, None):
        by_ranks = isinstance(how, TrainingRun) and how.zero > 0
        return replace(how, dp=devices) if by_ranks else replace(how, **{"pp" if by_layers else "tp": devices})
    found = layout(architecture, how)
    if devices not in (None, found.devices):
        raise InputError(f"--devices {devices}: --tp, --pp and --dp make {found.devices}", kind="usage")
    return how


def local(indices: Sequence[Index], parallel: Layout, multiple: int = 1) -> list[int]:
    """What each index of one tensor ranges over on one device. Refuses what engines refuse.

    `multiple` is what an engine pads a vocabulary to, besides to a multiple of tp.
    """
    sizes = [index.size for index in indices]
    if parallel.tp == parallel.ep == multiple == 1:
        return sizes
    has_experts = any(index.shard == "ep" for index in indices)
    ways = parallel.expert_tp if has_experts else parallel.tp
    for place, index in enumerate(indices):
        if index.shard == "ep":
            sizes[place] = _split(index, parallel.ep, "ep")
        elif index.shard == "vocab":
            sizes[place] = padded(index.size, multiple, parallel.tp) // parallel.tp
    rest, last = ways, None
    for place, index in enumerate(indices):
        if index.shard in ("tp", "kv"):
            last = index
            taken = min(rest, index.size)
            if index.size % taken or rest % taken:
                raise _refused(whole(indices, index), ways, "tp")
            sizes[place] = index.size // taken
            rest //= taken
    if last is not None and rest > 1 and any(index.shard == "tp" for index in indices):
        raise _refused(whole(indices, last), ways, "tp")
    return sizes


def whole(indices: Sequence[Index], of: Index) -> Index:
    """All heads, where these are those that share one of another index of the tensor."""
    groups = next((other for other in indices if of.symbol.endswith(f"/{other.symbol}")), None)
    if groups is None:
        return of
    return replace(of, symbol=of.symbol.removesuffix(f"/{groups.symbol}"), size=of.size * groups.size)


def held_by_several(architecture: Architecture, parallel: Layout) -> list[str]:
    """What is said of caches that tensor parallelism can't divide so often."""
    mixers = dict.fromkeys(architecture.mixers())
    few = {m.n_kv_heads for m in mixers if isinstance(m, Attention) and m.n_kv_heads < parallel.tp}
    notes = []
    for n in sorted(few):
        heads = f"{n} KV heads, each" if n > 1 else "one KV head, which"
        notes.append(f"--tp {parallel.tp}: {heads} lies on {parallel.tp // n} devices")
    if parallel.tp > 1 and any(isinstance(m, (LatentAttention, CompressedAttention)) for m in mixers):
        notes.append(f"--tp {parallel.tp}: what all heads share of the cache lies on each device")
    return notes


class Share(Struct, frozen=True):
    """What one device holds of a value: for every `per` tokens `rows` of `width` elements, spread evenly."""

    rows: int  # of what is indexed by expert: as many as the chosen ones on the device
    per: int
    width: int
    is_split: bool

    def elements(self, tokens: int) -> int:
        """Of the fullest device where whole rows lie on one."""
        return -(-tokens * self.rows // self.per) * self.width

    @property
    def each(self) -> int:
        """Of one token, rounded up."""
        return -(-self.rows * self.width // self.per)


def share(line: Line, what: Reference, parallel: Layout) -> Share:
    """A device's share of a symbol as this line indexes it, for one token, one pair of tokens or one entry."""
    return share_of(line, line.indices(what), parallel)


def share_of(line: Line, over: Sequence[Index], parallel: Layout) -> Share:
    """The same of a symbol with these indices."""
    indices = [i for i in over if i.role not in COUNTED_BY]
    sizes = local(indices, parallel)
    chosen = line.condition
    if isinstance(chosen, Chosen) and "experts" in [index.role for index in indices]:
        width = prod([n for n, index in zip(sizes, indices, strict=True) if index.role != "experts"])
        return Share(chosen.active * parallel.expert_tp, parallel.tp, width, True)
    return Share(1, 1, prod(sizes), sizes != [index.size for index in indices])


def padded(rows: int, multiple: int, tp: int) -> int:
    """A vocabulary padded as engines do it: to a multiple of theirs, and so that each device has as many rows."""
    rows = -(-rows // multiple) * multiple
    return -(-rows // tp) * tp


def _split(index: Index, ways: int, option: str) -> int:
    if index.size % ways:
        raise _refused(index, ways, option)
    return index.size // ways


def _refused(index: Index, ways: int, option: str) -> InputError:
    fits = [n for n in range(1, min(index.size, 4096) + 1) if index.size % n == 0]
    shown = ", ".join(map(str, fits if len(fits) <= 12 else [*fits[:11], "…"]))
    problem = f"--{option} {ways}: does not divide {index.symbol} = {index.size}"
    return InputError(problem, f"its divisors are {shown}", "usage")


# --- pipeline stages --------------------------------------------------------------------------------------------------


def stage_ranges(n_layers: int, pp: int) -> list[tuple[int, int]]:
    """The layers of each pipeline stage, from and up to. Layers left over go to the stages before the last.

    As vLLM does it (vllm/distributed/utils.py, get_pp_indices): the last stage, which has the output matrix, comes off
    lightest, and then the first, which has the embedding.
    """
    share, left = divmod(n_layers, pp)
    sizes = [share + (pp - 1 - left <= stage < pp - 1) for stage in range(pp)]
    ends = list(accumulate(sizes))
    return [(end - size, end) for end, size in zip(ends, sizes, strict=True)]


def blocks_between(architecture: Architecture, start: int, stop: int) -> dict[Block, int]:
    """How often each kind of block stands among the layers from `start` up to `stop`."""
    counts: dict[Block, int] = {}
    _count(architecture.layers, 0, 1, start, stop, counts)
    return counts


def _length(item: Block | Repeat) -> int:
    return item.count * sum(_length(part) for part in item.body) if isinstance(item, Repeat) else 1


def _count(
    items: tuple[Block | Repeat, ...], at: int, times: int, start: int, stop: int, counts: dict[Block, int]
) -> int:
    """Count the part of `items`, the first of which is layer `at`, that lies in the range; the layer behind them."""
    for item in items:
        if isinstance(item, Block):
            if start <= at < stop:
                counts[item] = counts.get(item, 0) + times
            at += 1
            continue
        body = sum(_length(part) for part in item.body)
        end = at + item.count * body
        first = min(max(-(-(start - at) // body), 0), item.count)  # whole repetitions from here …
        last = max(min((stop - at) // body, item.count), first)  # … up to here
        if last > first:
            _count(item.body, 0, times * (last - first), 0, body, counts)
        for repetition in {max(first - 1, 0), min(last, item.count - 1)}:  # cut ones at either end
            if not first <= repetition < last:
                begin = at + repetition * body
                _count(item.body, begin, times, start, stop, counts)
        at = end
    return at
