"""Low-rank adapters (Hu et al. 2021, arXiv:2106.09685): a matrix of inputs × outputs gets rank · (inputs + outputs).

The model's own weights are frozen, in whatever format they are stored (nf4: QLoRA, arXiv:2305.14314). The adapters are
fp32, as PEFT makes them (autocast_adapter_dtype). Matrices that the published class keeps as one share one, and may be
named together: attn.q+attn.k. What words such as q_proj and all mean is PEFT's (0.21, on transformers 5).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import prod
from typing import NamedTuple

from gptcalc.analysis.memory.held import Share
from gptcalc.analysis.memory.zero import Parameter
from gptcalc.architecture import IN_ONE, Q_GATE, Ggml, Storage
from gptcalc.dtypes import FP32
from gptcalc.equations import Weight
from gptcalc.errors import InputError, is_count, printable

#: the paper adapts queries and values, and so does PEFT by default
DEFAULT_TARGETS = ("attn.q", "attn.v")

#: architectures for whose types PEFT has default targets (utils/constants.py), by llama.cpp's name; for others it asks
WITH_DEFAULT: frozenset[Ggml] = frozenset({
    "bloom", "falcon", "gemma", "gemma2", "gemma3", "gemma4", "gpt2", "gptneox", "llama4", "mpt", "nemotron_h", "phi2",
    "qwen2", "qwen3", "starcoder",
})  # fmt: skip
#: names that several types have: for some there are defaults
OF_SEVERAL: frozenset[Ggml] = frozenset({"chatglm", "llama", "stablelm"})

#: `all` is PEFT's all-linear: what is an nn.Linear of the layers, or was one; `every`: every matrix of the layers
ALL, EVERY = "all", "every"

#: components whose matrices that can be
LAYERS = ("attention", "recurrent", "mlp", "experts", "shared_experts")
#: matrices of sublayers of no component
BESIDE = ("looked-up keys", "looked-up values")

#: short for matrices that are stored as one
QKV = "attn.q+attn.k+attn.v"
GATE_UP = "mlp.gate+mlp.up"
FUSED = {"qkv": QKV, "kv": "attn.k+attn.v", "gate_up": GATE_UP, "shared_gate_up": "moe.shared.gate+moe.shared.up"}
#: every published class keeps those of latent attention, of Mamba and of short convolutions so
TOGETHER = (
    "attn.kv_a+attn.k_rope",
    "attn.k_b+attn.v_b",
    "mamba.z+mamba.x",
    "mamba.dt_a+mamba.B+mamba.C",
    "mamba2.z+mamba2.x+mamba2.B+mamba2.C+mamba2.dt",
    "conv.B+conv.C+conv.x",
)
#: architectures whose class has an nn.Linear for its router
LINEAR_ROUTER: frozenset[Ggml] = frozenset({"dbrx", "phimoe"})
#: whose out_proj PEFT refuses to adapt (tuners/tuners_utils.py, _check_lora_target_modules_mamba)
NO_OUT: frozenset[Ggml] = frozenset({"falcon-h1", "mamba", "mamba2", "nemotron_h"})
#: those with experts whose old names are w1, w3 and w2 (_MODEL_TO_CONVERSION_PATTERN: mixtral)
NUMBERED: frozenset[Ggml] = frozenset({"llama", "minimax-01", "minimax-m2"})
#: of experts that became one, each has a rank of its own
EXPERTS_GATE_UP = "moe.gate+moe.up"
SPELLINGS = {"all-linear": ALL, "attn.qkv": QKV, "mlp.gate_up": GATE_UP}

MAX_RANK = 1_000_000

PLAIN = Storage()


class LoRA(NamedTuple):
    """A rank and what is adapted: keys such as attn.q, fused ones joined by +, modules' names, or all."""

    rank: int
    targets: tuple[str, ...] = ()
    storage: Storage = PLAIN

    def __str__(self) -> str:
        return f"{self.rank}:{','.join(self.targets or self.default())}"

    def default(self) -> tuple[str, ...]:
        """What PEFT adapts where nothing is said."""
        return self.storage.lora or ((QKV,) if "qkv" in self.storage.fused else DEFAULT_TARGETS)

    @property
    def assumed(self) -> bool:
        """Whether the targets are the paper's, as nothing says what PEFT would take."""
        return not self.targets and not self.storage.lora and self.storage.gguf in OF_SEVERAL

    def groups(self) -> tuple[str, ...]:
        """The matrices that are one in the published class."""
        fused = [FUSED[word] for word in self.storage.fused]
        return (*fused, *TOGETHER, *IN_ONE.get(self.storage.gguf, ()))

    def resolved(self) -> tuple[str, ...]:
        """The targets as keys; a module's name that the model doesn't have stays as it is."""
        words = self.targets or self.default()
        named = self._experts(words)
        keys = [key for word in words if word not in named for key in self._keys(word)]
        return tuple(dict.fromkeys([*keys, *named.values()]))

    def _keys(self, word: str) -> tuple[str, ...]:
        found = tuple(key for name, key in self._modules() if name == word)
        return found or (SPELLINGS.get(word, word),)

    def _experts(self, words: Sequence[str]) -> dict[str, str]:
        """Words that PEFT takes for names of experts' matrices, with what they mean: no other gate, up and down. What
        became one can only be adapted together (PEFT 0.21, _convert_peft_config_moe)."""
        if not self.storage.lora_experts:
            return {}
        names = self.storage.modules
        gate, up, down = ("w1", "w3", "w2") if self.storage.gguf in NUMBERED else (names.gate, names.up, names.down)
        known = {gate: EXPERTS_GATE_UP, up: EXPERTS_GATE_UP, down: "moe.down", "gate": "moe.router"}
        found = {word: known[word] for word in words if word in known}
        missing = {gate, up} - found.keys()
        if len(missing) == 1:
            (other,) = {gate, up} - missing
            raise InputError(
                f"--lora: PEFT adapts the experts' {other} only with {missing.pop()}, as they are one", kind="usage"
            )
        return found

    def _modules(self) -> Iterator[tuple[str, str]]:
        """What the published class calls its projections, and the keys of each."""
        fused, names = self.storage.fused, self.storage.modules
        for word in fused:
            yield getattr(names, word), FUSED[word]
        if "qkv" not in fused:
            yield names.q, Q_GATE if Q_GATE in self.groups() else "attn.q"
            if "kv" not in fused:
                yield from ((names.k, "attn.k"), (names.v, "attn.v"))
        yield names.out, "attn.out"
        if "gate_up" not in fused:
            yield from ((names.gate, "mlp.gate"), (names.up, "mlp.up"))
        yield names.down, "mlp.down"
        if "shared_gate_up" not in fused:
            yield from ((names.gate, "moe.shared.gate"), (names.up, "moe.shared.up"))
            yield names.down, "moe.shared.down"

    def in_all(self, weight: Weight) -> bool:
        """Whether PEFT's all-linear means this matrix."""
        experts = self.storage.lora_experts
        if weight.component == "experts":
            return experts and weight.use in ("gate", "up", "down")
        if weight.use == "router":
            return (experts or self.storage.gguf in LINEAR_ROUTER) and weight.component == "router"
        if experts and weight.use in ("gate", "up", "down"):
            return False  # PEFT takes their names for the experts'
        return weight.component in LAYERS or weight.use in BESIDE

    def in_every(self, weight: Weight) -> bool:
        return (weight.component in LAYERS and weight.use != "router") or weight.use in BESIDE


class Adapter(NamedTuple):
    """The two matrices beside equal matrices of a device: inputs × rank and rank × outputs, for every expert."""

    target: str
    copies: int
    inputs: int
    outputs: int
    times: int
    experts: bool
    ranks: int = 1  # how often the rank: once for each of the experts' matrices that became one

    def params(self, rank: int) -> int:
        return self.times * self.copies * self.ranks * rank * (self.inputs + self.outputs)


def parsed(text: str, storage: Storage = PLAIN) -> LoRA:
    """RANK or RANK:TARGET,TARGET, for a model that is published so."""
    rank, colon, targets = text.partition(":")
    example = "write --lora 16 or --lora 16:attn.q,attn.v"
    if not (is_count(rank) and 1 <= int(rank) <= MAX_RANK):
        raise InputError(f"--lora {printable(text)!r}: no rank", example, "usage")
    if not colon:
        if storage.gguf not in WITH_DEFAULT | OF_SEVERAL:
            raise InputError(
                f"--lora {rank}: PEFT has no default targets for {storage.gguf} and asks for some",
                f"write --lora {rank}:all or --lora {rank}:attn.q,attn.v",
                "usage",
            )
        return LoRA(int(rank), storage=storage)
    words = [SPELLINGS.get(word, word) if word == "all-linear" else word for word in targets.split(",")]
    if "" in words:
        raise InputError(f"--lora {printable(text)!r}: no target behind the mark", example, "usage")
    whole = next((word for word in (EVERY, ALL) if word in words), None)
    if whole == ALL and storage.gguf in NO_OUT:
        raise InputError(
            f"--lora {printable(text)}: PEFT adapts no out_proj of Mamba's models, so it refuses all-linear",
            f"name some, or write --lora {rank}:{EVERY} for every matrix of the layers",
            "usage",
        )
    return LoRA(int(rank), (whole,) if whole is not None else tuple(dict.fromkeys(words)), storage)


def adapters(shares: Iterable[Share], chosen: LoRA) -> list[Adapter]:
    """What the targets are on one device (or, of an undivided model, in all)."""
    matrices = [share for share in shares if share.tensor.kind == "matrix" or share.tensor.weight.use == "tokens"]
    return [adapter for target in chosen.resolved() for adapter in _matching(matrices, target, chosen)]


def is_adapted(weight: Weight, chosen: LoRA) -> bool:
    """Whether an adapter reads what the matrix of this weight reads. Of fused matrices it is the first."""
    return any(_is_first(weight, target, chosen) for target in chosen.resolved())


def _is_first(weight: Weight, target: str, chosen: LoRA) -> bool:
    if target == EVERY:
        return chosen.in_every(weight)
    if target == ALL:
        later = {part for group in chosen.groups() for part in group.split("+")[1:]}
        return chosen.in_all(weight) and weight.plain not in later
    return target.partition("+")[0] in (weight.key, weight.plain)


def check(shares: Iterable[Share], chosen: LoRA) -> None:
    """Every key that was named must be there; of modules' names and of default targets, one."""
    listed = list(shares)
    missing = [key for key in chosen.resolved() if not adapters(listed, chosen._replace(targets=(key,)))]
    wrong = [key for key in missing if key in chosen.targets and not key.isidentifier()]  # a key, no module
    if not missing or (not wrong and len(missing) < len(chosen.resolved())):
        return
    names = sorted({s.tensor.weight.plain for s in listed if s.tensor.kind == "matrix"})
    raise InputError(
        f"--lora: {printable((wrong or missing)[0])!r} is no matrix of this model",
        f"its matrices are {', '.join(names)}; or all",
        "usage",
    )


def _matching(matrices: list[Share], target: str, chosen: LoRA) -> Iterator[Adapter]:
    if target == EVERY:
        for share in matrices:
            if chosen.in_every(share.tensor.weight):
                yield _adapter(share, share.row.name)
        return
    if target == ALL:
        yield from _linear([share for share in matrices if chosen.in_all(share.tensor.weight)], chosen)
        return
    parts = target.split("+")
    groups = [[s for s in matrices if part in (s.tensor.weight.key, s.tensor.weight.plain)] for part in parts]
    if len(parts) == 1:
        for share in groups[0]:
            yield _adapter(share, share.row.name)
    elif all(groups):
        yield from _fused(groups, target)


def _linear(matrices: Sequence[Share], chosen: LoRA) -> Iterator[Adapter]:
    """Matrices that are one get one adapter; experts' gate and up, too, with twice the rank."""
    groups = [group.split("+") for group in (*chosen.groups(), EXPERTS_GATE_UP)]
    together: list[list[Share]] = []
    newest: dict[str, list[Share]] = {}
    for share in matrices:
        weight = share.tensor.weight
        group = next(("+".join(names) for names in groups if weight.plain in names), weight.key)
        if group not in newest or any(other.tensor.weight.plain == weight.plain for other in newest[group]):
            newest[group] = []  # that of another sublayer
            together.append(newest[group])
        newest[group].append(share)
    for shares in together:
        first, *others = (_adapter(share, "+".join(s.row.name for s in shares)) for share in shares)
        ranks = len(shares) if shares[0].tensor.weight.component == "experts" else 1
        yield first._replace(outputs=first.outputs + sum(other.outputs for other in others), ranks=ranks)


def _fused(groups: list[list[Share]], target: str) -> Iterator[Adapter]:
    """One adapter for matrices that read the same and stand side by side in equally many layers."""
    for parts in zip(*groups, strict=False):
        first, *others = (_adapter(share, target) for share in parts)
        if any((o.inputs, o.copies, o.times) != (first.inputs, first.copies, first.times) for o in others):
            raise InputError(f"--lora {target}: these matrices differ in their inputs", "name them apart", "usage")
        ranks = len(parts) if target == EXPERTS_GATE_UP else 1
        yield first._replace(outputs=first.outputs + sum(o.outputs for o in others), ranks=ranks)


def _adapter(share: Share, target: str) -> Adapter:
    *copies, inputs, outputs = share.shape
    return Adapter(target, prod(copies), inputs, outputs, share.row.count, share.experts)


def parameters(adapter: Adapter, rank: int, ranks: int) -> tuple[Parameter, Parameter]:
    """The adapter's two matrices, trained in fp32."""
    copies = (adapter.copies,) if adapter.experts else ()
    width = rank * adapter.ranks
    down, up = (*copies, adapter.inputs, width), (*copies, width, adapter.outputs)
    a, b = f"{adapter.target}.lora_a", f"{adapter.target}.lora_b"
    return (
        Parameter(a, a, down, adapter.times, FP32.block_bytes * prod(down), True, ranks),
        Parameter(b, b, up, adapter.times, FP32.block_bytes * prod(up), True, ranks),
    )
