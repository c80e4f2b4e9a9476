"""RWKV-6 and 7, as the flash-linear-attention library has them; RWKV-6 also as its authors' own class has it.

The facts are those of the library's classes (fla-core 0.6) and of modeling_rwkv6.py of the published checkpoints.
Tensors are known by the library's names alone.
"""

from __future__ import annotations

from typing import Any

from gptcalc.errors import InputError
from gptcalc.sources.huggingface.fields import Fields, shown
from gptcalc.sources.huggingface.fla import hybrid
from gptcalc.sources.huggingface.pattern import each, enumerated, expression
from gptcalc.sources.huggingface.reader import Hole, Reader, flag, number
from gptcalc.sources.huggingface.rwkv import HEAD_NORM, heads, narrow
from gptcalc.sources.huggingface.tensors import Held, Names, bare

#: the norms; behind the embedding there is one where a block begins with its norm
NORMS: dict[str, Any] = {
    "norm": {"kind": "layernorm", "eps": number("norm_eps", "layer_norm_epsilon"), "bias": flag("norm_bias")},
    "embedding": {"norm": flag("norm_first")},
    "c": Hole(lambda fields: fields.size("context_length") or fields.needed("max_position_embeddings")),
}

DEFAULTS: dict[str, Any] = {
    "hidden_size": 2048,
    "num_hidden_layers": 24,
    "vocab_size": 32000,
    "max_position_embeddings": 2048,
    "hidden_act": "sqrelu",
    "norm_first": True,
    "norm_bias": True,
    "norm_eps": 1e-5,
    "tie_word_embeddings": False,
}


def inner(ratio: float) -> Hole:
    """What a channel mixing has inside: a multiple of the width, rounded up to 32."""

    def read(fields: Fields) -> int:
        given = fields.size("intermediate_size")
        width = int(fields.needed("hidden_size") * (fields.number("hidden_ratio") or ratio))
        return given or -(-width // 32) * 32

    return Hole(read)


# --- RWKV-6 -----------------------------------------------------------------------------------------------------------


def is_authors(fields: Fields) -> bool:
    """Whether a config is written for the authors' own class."""
    return fields.present("head_size") or fields.present("attention_hidden_size")


def finch(fields: Fields) -> dict[str, Any]:
    """Time mixing of RWKV-6."""
    if is_authors(fields):
        large = fields.needed("hidden_size") == 4096
        size = fields.needed("head_size")
        ranks = {"shift_rank": 64 if large else 32, "decay_rank": 128 if large else 64}
        return {"n_heads": heads(fields), "d_k": size, "d_v": size, **ranks, "out_norm": HEAD_NORM}
    d, n = fields.needed("hidden_size"), fields.needed("num_heads")
    widths = [int(d * (fields.number(name) or 1)) for name in ("expand_k", "expand_v")]
    for name, width in zip(("expand_k", "expand_v"), widths, strict=True):
        if width % n:
            raise InputError(f"{fields.within}{name}: {width} channels are no multiple of {n} heads")
    return {
        "n_heads": n,
        "d_k": widths[0] // n,
        "d_v": widths[1] // n,
        "shift_rank": fields.needed("proj_low_rank_dim"),
        "decay_rank": fields.needed("gate_low_rank_dim"),
        "out_norm": {"kind": "layernorm", "bias": True, "eps": fields.number("norm_eps")},
    }


_channels: Names = {
    "channelmix.norm": "ffn_norm",
    "channelmix.up": ("ffn.key.linear", "ffn.key"),
    "channelmix.down": "ffn.value",
    "channelmix.receptance": "ffn.receptance.linear",
    "channelmix.up_mix": (bare("ffn.key.mu"), bare("ffn.x_k")),
    "channelmix.receptance_mix": bare("ffn.receptance.mu"),
}

_finch: Names = {
    "matrixmix.norm": "attn_norm",
    **{
        f"matrixmix.{key}": f"attn.{name}_proj.linear"
        for key, name in {"receptance": "r", "k": "k", "v": "v", "gate": "g"}.items()
    },
    "matrixmix.out": "attn.o_proj",
    "matrixmix.out_norm": "attn.g_norm",
    "matrixmix.bonus": bare("attn.bonus"),
    "matrixmix.decay_a": "attn.w_proj.linear.lora.0",
    "matrixmix.decay_b": "attn.w_proj.linear.lora.2",
    "matrixmix.shift_mix": bare("attn.x_proj.0.mu"),
    "matrixmix.shift_a": "attn.x_proj.0.linear",
    "matrixmix.shift_b": Held("attn.", stored="each out,in", weight="x_proj.2.weight", bias="x_bias"),
}

#: behind the embedding, where a block begins with its norm
_first: Names = {"embedding.norm": "model.layers.0.pre_norm"}

RWKV6 = hybrid(
    "matrixmix",
    {
        **NORMS,
        "matrixmix": Hole(finch),
        "channelmix": {
            "d_ff": Hole(lambda fields: narrow(fields) if is_authors(fields) else inner(3.5).read(fields)),
            "share": "before",
        },
    },
    {
        **DEFAULTS, "expand_k": 0.5, "expand_v": 1.0, "hidden_ratio": 3.5, "num_heads": 4, "proj_low_rank_dim": 32,
        "gate_low_rank_dim": 64, "head_size_divisor": 8, "layer_norm_epsilon": 1e-5, "head_size": 64,
    },
    {"hidden_act": "sqrelu"},
    {**_finch, **_channels},
    feed_forward="channelmix",
).but(
    irrelevant=("rescale_every", "num_attention_heads", "model_version"),
    called=("Rwkv6ForCausalLM", "RWKV6ForCausalLM"),
    names=_first,
)  # fmt: skip

# --- RWKV-7 -----------------------------------------------------------------------------------------------------------


def rank(name: str, factor: float, by_head: bool) -> Hole:
    """A bottleneck's width: given, or about so many times the root of the width, a multiple of 32."""

    def read(fields: Fields) -> int:
        if name not in fields.values or fields.values[name] is not None:
            return fields.needed(name)
        root = factor * float(fields.needed("hidden_size")) ** 0.5
        nearest: int = round((root * width(fields) / 64 if by_head else root) / 32)
        return max(32, nearest * 32)

    return Hole(read)


def width(fields: Fields) -> int:
    """Channels of a head's keys."""
    given = fields.size("head_dim")
    return given if given is not None else fields.needed("hidden_size") // fields.needed("num_heads")


def n_heads(fields: Fields) -> int:
    return fields.needed("hidden_size") // width(fields)


def value_width(fields: Fields) -> int:
    """Channels of a head's values, which are as many in all layers."""
    given = fields.get("value_dim")
    widths = given if isinstance(given, list) else [given or fields.needed("hidden_size")]
    if not widths or any(not isinstance(each, int) or each != widths[0] for each in widths):
        raise fields.unsupported(
            "value_dim", f"values of other widths from layer to layer are not supported yet: {shown(given)}"
        )
    return int(widths[0]) // n_heads(fields)


def layers(fields: Fields) -> str:
    """The first layer gives its values to those behind it."""
    n = fields.needed("num_hidden_layers")
    kinds = list(each(enumerated("attn.layers", "attn", "mixed", "mixed"), fields, n))
    if kinds[0] == "attn":
        raise fields.unsupported("attn.layers", "without the first layer there are no values to mix with")
    return expression([f"{kind}+channelmix" for kind in ["deltamix", *kinds[1:]]])


_goose: Names = {
    "deltamix.norm": "attn_norm",
    "deltamix.receptance": "attn.r_proj",
    "deltamix.k": "attn.k_proj",
    "deltamix.v": "attn.v_proj",
    "deltamix.out": "attn.o_proj",
    "deltamix.out_norm": "attn.g_norm",
    "deltamix.bonus": bare("attn.r_k"),
    "deltamix.key_direction": bare("attn.k_k"),
    "deltamix.key_rate": bare("attn.k_a"),
    **{
        f"deltamix.{key}_{half}": f"attn.{name}_lora.lora.{place}"
        for key, name in {"decay": "w", "rate": "a", "gate": "g", "value": "v"}.items()
        for half, place in (("a", 0), ("b", 2))
    },
    **{
        f"deltamix.{key}_mix": bare(f"attn.x_{name}")
        for key, name in {"receptance": "r", "decay": "w", "k": "k", "v": "v", "rate": "a", "gate": "g"}.items()
    },
}

_delta: dict[str, Any] = {
    "n_heads": Hole(n_heads),
    "d_k": Hole(width),
    "d_v": Hole(value_width),
    "decay_rank": rank("decay_low_rank_dim", 2.5, True),
    "rate_rank": rank("a_low_rank_dim", 2.5, True),
    "gate_rank": rank("gate_low_rank_dim", 5, False),
    "out_norm": {
        "kind": "layernorm",
        "bias": True,
        "eps": Hole(lambda fields: (fields.number("norm_eps") or 1e-5) * width(fields)),
    },
}

RWKV7 = hybrid(
    "deltamix",
    {
        **NORMS,
        "layers": Hole(layers),
        "deltamix": _delta,
        "mixed": {"like": "deltamix", "value_rank": rank("v_low_rank_dim", 1.7, True)},
        "channelmix": {"d_ff": inner(4), "share": "before", "gated": False},
    },
    {
        **DEFAULTS,
        "hidden_ratio": 4,
        "head_dim": 64,
        "decay_low_rank_dim": 64,
        "gate_low_rank_dim": 128,
        "a_low_rank_dim": 64,
        "v_low_rank_dim": 16,
    },
    {"hidden_act": "sqrelu"},
    {**_goose, **_channels},
    feed_forward="channelmix",
).but(called=("RWKV7ForCausalLM",), names=_first)

READERS: dict[str, Reader] = {"rwkv6": RWKV6, "rwkv7": RWKV7}
