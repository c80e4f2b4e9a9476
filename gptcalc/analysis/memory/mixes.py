"""The types that llama.cpp's quantiser gives to each tensor of a model.

From llama.cpp, src/llama-quant.cpp: llama_tensor_get_type_impl (the mix), tensor_allows_quantization (what stays),
tensor_type_fallback (rows that don't divide into blocks), and src/models/ (which models it takes for Llama 2's 70B);
from its converter, conversion/, what is stored in F32.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from gptcalc.architecture import Architecture, Attention, AttentionExperts, Block, Experts, Ggml, Storage, sublayers
from gptcalc.dtypes import BF16, FP16, FP32, GGML, MXFP4, DType
from gptcalc.equations.roles import Use
from gptcalc.errors import InputError, printable

Q8_0, Q5_1, Q5_0, Q4_1, Q4_0 = (GGML[name] for name in ("q8_0", "q5_1", "q5_0", "q4_1", "q4_0"))
Q2_K, Q3_K, Q4_K, Q5_K, Q6_K = (GGML[f"q{bits}_k"] for bits in (2, 3, 4, 5, 6))
IQ1_S, IQ1_M, IQ2_XXS, IQ2_XS, IQ2_S = (GGML[f"iq{name}"] for name in ("1_s", "1_m", "2_xxs", "2_xs", "2_s"))
IQ3_XXS, IQ3_S, IQ4_XS, IQ4_NL = (GGML[f"iq{name}"] for name in ("3_xxs", "3_s", "4_xs", "4_nl"))
TQ1_0, TQ2_0, Q1_0, Q2_0 = (GGML[name] for name in ("tq1_0", "tq2_0", "q1_0", "q2_0"))

#: each mix and the type that it gives to a matrix without a rule of its own
MIXES = {
    "f16": FP16, "gguf-bf16": BF16, "q8_0": Q8_0, "q6_k": Q6_K, "q5_k_m": Q5_K, "q5_k_s": Q5_K, "q5_1": Q5_1,
    "q5_0": Q5_0, "q4_k_m": Q4_K, "q4_k_s": Q4_K, "q4_1": Q4_1, "q4_0": Q4_0, "q3_k_l": Q3_K, "q3_k_m": Q3_K,
    "q3_k_s": Q3_K, "q2_k": Q2_K, "q2_k_s": Q2_K, "iq4_nl": IQ4_NL, "iq4_xs": IQ4_XS, "iq3_m": IQ3_S, "iq3_s": IQ3_S,
    "iq3_xs": IQ3_S, "iq3_xxs": IQ3_XXS, "iq2_m": IQ2_S, "iq2_s": IQ2_XS, "iq2_xs": IQ2_XS, "iq2_xxs": IQ2_XXS,
    "iq1_m": IQ1_M, "iq1_s": IQ1_S, "tq2_0": TQ2_0, "tq1_0": TQ1_0, "q2_0": Q2_0,
    "q1_0": Q1_0, "mxfp4_moe": MXFP4,
}  # fmt: skip

#: what llama-quantize calls some of them besides (tools/quantize/quantize.cpp)
SPELLINGS = {
    "gguf-f16": "f16",
    "bf16-gguf": "gguf-bf16",
    "q3_k": "q3_k_m",
    "q4_k": "q4_k_m",
    "q5_k": "q5_k_m",
    "mxfp4-moe": "mxfp4_moe",
}

#: what the converter leaves in its own type: experts in mxfp4, 16 bits. It widens whatever else is packed
AS_THEY_ARE = frozenset({BF16.name, FP16.name, MXFP4.name})

#: as DeepSeek-V4 is published
FP8_MXFP4 = "fp8-mxfp4"

#: an importance matrix changes the mix: q4_0:imatrix
IMATRIX = ":imatrix"
#: mixes of the smallest types, which have rules of their own; they and some more are refused without such a matrix
LOW = frozenset({"iq1_s", "iq1_m", "iq2_xxs", "iq2_xs", "iq2_s", "iq2_m"})
NEEDS_IMATRIX = LOW | {"iq3_xxs", "q2_k_s"}

#: a type whose blocks don't divide a row gives way to one with smaller blocks
FALLBACK = {
    **dict.fromkeys((IQ1_S, IQ1_M, IQ2_XXS, IQ2_XS, IQ2_S, IQ3_XXS, IQ3_S, IQ4_XS), IQ4_NL),
    **dict.fromkeys((Q2_K, Q3_K, TQ1_0, TQ2_0, Q2_0), Q4_0),
    Q4_K: Q5_0,
    Q5_K: Q5_1,
    Q6_K: Q8_0,
}

#: what a tensor is for; of queries, keys and values in one matrix all three have the same rule
Rule: TypeAlias = Use | Literal["qkv"]

#: uses whose type depends on the layer: in every mix, and in IQ3_XS
MOVING: frozenset[Rule] = frozenset({"values", "qkv", "down"})
FIRST: frozenset[Rule] = frozenset({"gate", "up"})
#: never quantised: stored in 32 bits, and in 16
WIDE: frozenset[Rule] = frozenset({"router", "positions", "coefficients"})
KEPT: frozenset[Rule] = frozenset({"slices", "streams", "low rank", "block index"})

#: types that can be asked for
TYPES = {type_.name: type_ for type_ in (FP32, FP16, BF16, MXFP4, *GGML.values())} | {"f16": FP16, "f32": FP32}

#: converters that take apart what the published class keeps as one matrix (conversion/)
SPLIT: frozenset[Ggml] = frozenset({"baichuan", "bailingmoe", "internlm2"})
#: architectures whose files have queries, keys and values in one matrix, though a class may keep them apart (Sarvam)
JOINED: frozenset[Ggml] = frozenset({"bailingmoe2"})
#: how llama.cpp knows a model like Llama 2's 70B, in which V is small: so many layers, and for some fewer KV heads
BIG: dict[Ggml, tuple[int, bool]] = {
    "llama": (80, True),
    "qwen2": (80, False),
    "deci": (80, False),
    "olmo": (80, False),
    "jais2": (68, False),
}


#: architectures whose files have KV heads by layers: that there are few goes by the first, which may have none
#: (src/llama-hparams.cpp, n_gqa)
BY_LAYER: frozenset[Ggml] = frozenset({"granitehybrid", "jamba", "lfm2", "lfm2moe", "nemotron_h"})


class Mix(Struct, frozen=True):
    """A mix, and what is asked of the quantiser besides."""

    name: str
    imatrix: bool = False
    types: tuple[tuple[str, DType], ...] = ()  # a pattern of tensors' names, and their type, whatever the mix says

    def __str__(self) -> str:
        matrix = IMATRIX if self.imatrix and self.name not in NEEDS_IMATRIX else ""
        return ",".join([self.name + matrix, *(f"{pattern}={type_.name}" for pattern, type_ in self.types)])


def named(word: str) -> Mix | None:
    """A mix by its name, with an importance matrix (q4_0:imatrix), with types of one's own by patterns of tensors'
    names, as llama-quantize's --tensor-type (q4_k_m,blk.[0-3].ffn_down=q6_k); None where there is no such mix."""
    first, *types = word.lower().split(",")
    plain = first.removesuffix(IMATRIX)
    plain = SPELLINGS.get(plain, plain)
    if plain not in MIXES:
        return None
    asked = first.endswith(IMATRIX)
    if (asked or types) and MIXES[plain].block == 1:
        raise InputError(f"{printable(word)!r}: nothing is quantised", f"write {plain}", "usage")
    return Mix(plain, asked or plain in NEEDS_IMATRIX, tuple(_given(text) for text in types))


def converted(stored: str) -> str:
    """The types of the file that the converter makes (--outtype auto) of a model that is published in this form."""
    if named(stored) is not None:
        return stored
    if stored == FP8_MXFP4:  # conversion/deepseek.py: what was fp8 becomes Q8_0, what was wide stays so
        return "mxfp4_moe,token_embd=bf16,^output=bf16,compress=bf16,indexer.proj=bf16,mix=fp32"
    return "f16" if stored == FP16.name else "gguf-bf16"


def _given(text: str) -> tuple[str, DType]:
    pattern, equals, name = text.rpartition("=")
    if not pattern or not equals:
        raise InputError(f"--dtype: {printable(text)!r} names no type", "write ffn_down=q6_k", "usage")
    if name not in TYPES:
        raise InputError(
            f"--dtype: {printable(pattern)}: no type {printable(name)!r}", f"one of {', '.join(TYPES)}", "usage"
        )
    return pattern, TYPES[name]


class Traits(Struct, frozen=True):
    """What the rules ask of a model, and of how it is quantised."""

    n_layers: int  # with multi-token-prediction modules, where files hold those as layers
    n_experts: int
    heads_per_kv_head: int
    tied: bool
    architecture: Ggml = "llama"
    fused: bool = False  # queries, keys and values are one matrix
    is_70b: bool = False
    imatrix: bool = False

    @property
    def falcon(self) -> bool:
        """Falcon has rules of its own for the output, the heads' outputs and the down projections."""
        return self.architecture == "falcon"

    @property
    def latent_whole(self) -> bool:
        """One matrix makes keys and values of a latent, and counts as V; elsewhere there are two, turned."""
        return self.architecture == "minicpm3"

    @property
    def wide_router(self) -> bool:
        """All converters store routers in 32 bits but DBRX's."""
        return self.architecture != "dbrx"


def traits(architecture: Architecture, imatrix: bool = False) -> Traits:
    n_experts, ratio = 0, 0
    for mixer in architecture.mixers():
        match mixer:
            case Experts(n_experts=n) | Attention(experts=AttentionExperts(n_experts=n)):
                n_experts = n_experts or n
            case Attention() if not ratio:
                ratio = mixer.n_heads // mixer.n_kv_heads
    if architecture.storage.gguf in BY_LAYER and not attends(next(architecture.blocks())):
        ratio = 0
    ratio = ratio or 1
    storage = architecture.storage
    mtp = architecture.mtp.n if architecture.mtp is not None and storage.mtp else 0
    layers, fewer = BIG.get(storage.gguf, (0, False))
    return Traits(
        architecture.n_layers + mtp,
        n_experts,
        ratio,
        architecture.head.tying and not storage.tied_head,
        storage.gguf,
        fused=is_fused(storage),
        is_70b=architecture.n_layers == layers and not (fewer and ratio == 1),
        imatrix=imatrix,
    )


def alike(model: Traits) -> Traits:
    """Of models for which all rules say the same, but for their depth, one."""
    n = model.n_experts
    experts = 0 if n <= 1 else 2 if n < 4 else n if n == 8 else 4
    return replace(
        model, n_layers=0, is_70b=False, n_experts=experts, heads_per_kv_head=4 if model.heads_per_kv_head >= 4 else 1
    )


def is_fused(storage: Storage) -> bool:
    """Whether queries, keys and values are one matrix in its files."""
    return storage.gguf in JOINED or ("qkv" in storage.fused and storage.gguf not in SPLIT)


def attends(block: Block) -> bool:
    return any(isinstance(mixer, Attention) for mixer in sublayers(block))


def by_layer(mix: str) -> frozenset[Rule]:
    """Uses whose type depends on the layer in this mix: of what is not quantised none."""
    if MIXES[mix].block == 1:
        return frozenset()
    return MOVING | FIRST if mix == "iq3_xs" else MOVING


def counted(mix: str, model: Traits) -> bool:
    """Whether down projections are numbered as they come, not by their layers."""
    return model.n_experts <= 1 or mix in LOW


def more_bits(i: int, n: int) -> bool:
    """The first and last eighth of the layers, and every third between."""
    return i < n // 8 or i >= 7 * n // 8 or (i - n // 8) % 3 == 2


def tensor_type(mix: str, use: Rule, row: int, model: Traits, i: int = 0, n: int = 1, stacked: bool = False) -> DType:
    """The type of a matrix with rows of `row` numbers, the i-th of n of its use; `stacked`: several in one tensor."""
    default = MIXES[mix]
    if use in WIDE:
        return FP32 if use != "router" or model.wide_router else FP16
    if default.block == 1:
        return default
    if use in KEPT:
        return FP16
    return fitting(_chosen(mix, use, row, model, i, n, stacked), row)


def fitting(chosen: DType, row: int) -> DType:
    """The type, or where its blocks don't divide the row another."""
    if row % chosen.block and chosen == Q1_0:
        raise InputError(f"q1_0: rows of {row:,} numbers are no whole blocks of {chosen.block}", "llama-quantize stops")
    if row % chosen.block:
        chosen = FALLBACK.get(chosen, FP16)
    return chosen if row % chosen.block == 0 else FP16


def _chosen(mix: str, use: Rule, row: int, model: Traits, i: int, n: int, stacked: bool) -> DType:
    default = MIXES[mix]
    if use == "logits" or (use == "tokens" and model.tied):
        return _output(mix, row, model)
    if mix == "mxfp4_moe":
        return MXFP4 if stacked else Q8_0
    match use:
        case "tokens":
            return _table(mix)
        case "values" | "qkv":
            return _v_low(mix, model) if mix in LOW else _v(mix, model, i, n)
        case "queries" | "keys":
            return _q_k(mix, use == "keys", model)
        case "down":
            return _down_low(mix, i, n) if mix in LOW else _down(mix, model, i, n)
        case "out":
            return _out(mix, model)
        case "gate" | "up" if mix == "iq3_xs" and n // 8 <= i < 7 * n // 8:
            return IQ3_XXS
    return default


def _output(mix: str, row: int, model: Traits) -> DType:
    default = MIXES[mix]
    if mix == "mxfp4_moe" or model.falcon or row % default.block or default == Q8_0:
        return Q8_0
    return Q5_K if mix in LOW or mix == "iq3_xxs" else Q6_K


def _table(mix: str) -> DType:
    if mix in ("iq1_s", "iq1_m", "iq2_xxs", "iq2_xs"):
        return Q2_K
    if mix in ("iq2_s", "iq2_m", "iq3_xxs"):
        return IQ3_S
    return Q4_K if mix in ("tq1_0", "tq2_0", "q2_0") else MIXES[mix]


def _v_low(mix: str, model: Traits) -> DType:
    if model.heads_per_kv_head >= 4 or model.n_experts >= 4:
        return Q4_K
    return IQ3_S if mix in ("iq2_s", "iq2_m") else Q2_K


def _v(mix: str, model: Traits, i: int, n: int) -> DType:
    if model.n_experts == 8:
        return Q8_0
    chosen, few = MIXES[mix], model.heads_per_kv_head >= 4
    match mix:
        case "q2_k":
            chosen = Q4_K if few else Q3_K
        case "q2_k_s" | "iq3_xs" | "iq3_s" if few:
            chosen = Q4_K
        case "iq3_xxs":
            chosen = Q4_K if few else IQ3_XXS if model.imatrix else IQ3_S
        case "iq3_m":
            chosen = Q4_K
        case "iq4_nl" | "iq4_xs" if few:
            chosen = Q5_K
        case "q3_k_m":
            chosen = Q5_K if i < 2 else Q4_K
        case "q3_k_l":
            chosen = Q5_K
        case "q4_k_m" | "q5_k_m" if more_bits(i, n):
            chosen = Q6_K
        case "q4_k_s" if i < 4:
            chosen = Q5_K
    return Q5_K if model.is_70b and chosen in (Q3_K, Q4_K) else chosen


def _q_k(mix: str, keys: bool, model: Traits) -> DType:
    if keys and model.n_experts == 8:
        return Q4_K if mix in LOW else Q8_0
    return {"iq3_xs": IQ3_XXS, "iq3_xxs": IQ2_S}.get(mix, MIXES[mix])


def _out(mix: str, model: Traits) -> DType:
    default = MIXES[mix]
    if model.falcon and mix not in LOW:
        return Q4_K if mix == "q3_k_l" else default
    if model.n_experts == 8:
        raised = ("q2_k", "q3_k_s", "q3_k_m", "q4_k_s", "q4_k_m",
                  "iq3_xxs", "iq3_xs", "iq3_s", "iq3_m", "iq4_nl", "iq4_xs")  # fmt: skip
        return Q5_K if mix in raised or mix in LOW else default
    return {
        "iq1_s": IQ2_XXS,
        "iq1_m": IQ2_XXS,
        "iq2_s": IQ3_S,
        "iq2_m": IQ3_S,
        "iq3_xxs": IQ3_S,
        "iq3_m": Q4_K,
        "q2_k": Q3_K,
        "q3_k_m": Q4_K,
        "q3_k_l": Q5_K,
    }.get(mix, default)


def _down_low(mix: str, i: int, n: int) -> DType:
    if i >= n // 8:
        return MIXES[mix]
    return IQ3_S if mix in ("iq2_s", "iq2_m") else Q2_K


def _down(mix: str, model: Traits, i: int, n: int) -> DType:
    first = i < n // 8
    match mix:
        case "q2_k":
            return Q3_K
        case "q2_k_s" if first:
            return Q4_K
        case "iq3_xxs" if not model.imatrix:
            return Q4_K if first else Q3_K
        case "iq3_m" if first or (model.n_experts == 8 and more_bits(i, n)):
            return Q4_K
        case "q3_k_m":
            if i < n // 16:
                return Q5_K
            return Q4_K if not model.falcon or more_bits(i, n) else Q3_K
        case "q3_k_l":
            return Q4_K if model.falcon else Q5_K
        case "q4_k_m" if model.falcon:
            return Q6_K if i < n // 16 else Q5_K if more_bits(i, n) else Q4_K
        case "q4_k_m" | "q5_k_m" if more_bits(i, n):
            return Q6_K
        case "iq4_nl" | "iq4_xs" if first and not model.imatrix:
            return Q5_K
        case "q4_k_s" if first and not model.falcon:
            return Q5_K
        case "q4_0" if first and model.imatrix:
            return Q4_1
        case "q5_0" if first and model.imatrix:
            return Q5_1
    return MIXES[mix]
