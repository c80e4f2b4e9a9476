"""Low-rank adapters (Hu et al. 2021, arXiv:2106.09685): a matrix of inputs × outputs gets rank · (inputs + outputs).

The model's own weights are frozen, in whatever format they are stored (nf4: QLoRA, arXiv:2305.14314). The adapters are
fp32, as PEFT makes them (autocast_adapter_dtype). Matrices that a checkpoint stores as one share one: attn.q+attn.k.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import prod
from typing import NamedTuple

from gptcalc.analysis.memory.weights import Share
from gptcalc.analysis.memory.zero import Parameter
from gptcalc.dtypes import FP32
from gptcalc.equations import Weight
from gptcalc.errors import InputError, printable

#: the paper adapts queries and values, and so does PEFT by default
DEFAULT_TARGETS = ("attn.q", "attn.v")

#: components whose matrices `all` means: what PEFT's all-linear does, and routers are left alone
ALL = ("attention", "recurrent", "mlp", "experts", "shared_experts")

#: short for matrices that are stored as one, and how PEFT's users write targets
QKV = "attn.q+attn.k+attn.v"
GATE_UP = "mlp.gate+mlp.up"
SPELLINGS = {
    "all-linear": "all", "attn.qkv": QKV, "mlp.gate_up": GATE_UP,
    "q_proj": "attn.q", "k_proj": "attn.k", "v_proj": "attn.v", "o_proj": "attn.out",
    "qkv_proj": QKV, "query_key_value": QKV, "c_attn": QKV,
    "gate_proj": "mlp.gate", "up_proj": "mlp.up", "down_proj": "mlp.down", "gate_up_proj": GATE_UP,
}  # fmt: skip

MAX_RANK = 1_000_000


class LoRA(NamedTuple):
    """A rank and what is adapted: keys such as attn.q, fused ones joined by +, or all."""

    rank: int
    targets: tuple[str, ...] = DEFAULT_TARGETS

    def __str__(self) -> str:
        return f"{self.rank}:{','.join(self.targets)}"


class Adapter(NamedTuple):
    """The two matrices beside equal matrices of a device: inputs × rank and rank × outputs, for every expert."""

    target: str
    copies: int
    inputs: int
    outputs: int
    times: int
    experts: bool

    def params(self, rank: int) -> int:
        return self.times * self.copies * rank * (self.inputs + self.outputs)


def parsed(text: str) -> LoRA:
    """RANK or RANK:TARGET,TARGET."""
    rank, colon, targets = text.partition(":")
    example = "write --lora 16 or --lora 16:attn.q,attn.v"
    if not (rank.isdecimal() and len(rank) < 8 and 1 <= int(rank) <= MAX_RANK):
        raise InputError(f"--lora {printable(text)!r}: no rank", example, "usage")
    if not colon:
        return LoRA(int(rank))
    words = [SPELLINGS.get(word, word) for word in targets.split(",")]
    if "" in words:
        raise InputError(f"--lora {printable(text)!r}: no target behind the mark", example, "usage")
    return LoRA(int(rank), ("all",) if "all" in words else tuple(dict.fromkeys(words)))


def adapters(shares: Iterable[Share], chosen: LoRA) -> list[Adapter]:
    """What the targets are on one device (or, of an undivided model, in all)."""
    matrices = [share for share in shares if share.tensor.kind == "matrix" or share.tensor.weight.use == "tokens"]
    return [adapter for target in chosen.targets for adapter in _matching(matrices, target)]


def is_adapted(weight: Weight, chosen: LoRA) -> bool:
    """Whether an adapter reads what the matrix of this weight reads. Of fused matrices it is the first."""
    return any(
        _is_in_all(weight) if target == "all" else target.partition("+")[0] in (weight.key, weight.plain)
        for target in chosen.targets
    )


def check(shares: Iterable[Share], chosen: LoRA) -> None:
    """Every target that was named must be there; of the default ones, one."""
    listed = list(shares)
    missing = [t for t in chosen.targets if not adapters(listed, chosen._replace(targets=(t,)))]
    if not missing or (chosen.targets == DEFAULT_TARGETS and len(missing) < len(DEFAULT_TARGETS)):
        return
    names = sorted({s.tensor.weight.plain for s in listed if s.tensor.kind == "matrix"})
    raise InputError(f"--lora: {printable(missing[0])!r} is no matrix of this model",
                     f"its matrices are {', '.join(names)}; or all", "usage")  # fmt: skip


def _matching(matrices: list[Share], target: str) -> Iterator[Adapter]:
    if target == "all":
        for share in matrices:
            if _is_in_all(share.tensor.weight):
                yield _adapter(share, share.row.name)
        return
    parts = target.split("+")
    groups = [[s for s in matrices if part in (s.tensor.weight.key, s.tensor.weight.plain)] for part in parts]
    if len(parts) == 1:
        for share in groups[0]:
            yield _adapter(share, share.row.name)
    elif all(groups):
        yield from _fused(groups, target)


def _is_in_all(weight: Weight) -> bool:
    return weight.component in ALL and weight.use != "router"


def _fused(groups: list[list[Share]], target: str) -> Iterator[Adapter]:
    """One adapter for matrices that read the same and stand side by side in equally many layers."""
    for parts in zip(*groups, strict=False):
        first, *others = (_adapter(share, target) for share in parts)
        if any((o.inputs, o.copies, o.times) != (first.inputs, first.copies, first.times) for o in others):
            raise InputError(f"--lora {target}: these matrices differ in their inputs", "name them apart", "usage")
        yield first._replace(outputs=first.outputs + sum(o.outputs for o in others))


def _adapter(share: Share, target: str) -> Adapter:
    *copies, inputs, outputs = share.shape
    return Adapter(target, prod(copies), inputs, outputs, share.row.count, share.experts)


def parameters(adapter: Adapter, rank: int, ranks: int) -> tuple[Parameter, Parameter]:
    """The adapter's two matrices, trained in fp32."""
    copies = (adapter.copies,) if adapter.experts else ()
    down, up = (*copies, adapter.inputs, rank), (*copies, rank, adapter.outputs)
    a, b = f"{adapter.target}.lora_a", f"{adapter.target}.lora_b"
    return (
        Parameter(a, a, down, adapter.times, FP32.block_bytes * prod(down), True, ranks),
        Parameter(b, b, up, adapter.times, FP32.block_bytes * prod(up), True, ranks),
    )
