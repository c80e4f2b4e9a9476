"""GLM-5.3-Flash: delta rules whose decay is channel by channel, every fourth layer latent attention without positions,
to blocks of tokens that an indexer chooses; mixed hyper-connections, whose mean is taken at the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from gptcalc.errors import InputError
from gptcalc.sources.huggingface.deepseek import DEEPSEEK_V3, INDEX_NAMES, LATENT
from gptcalc.sources.huggingface.experts import DENSE_OR_SPARSE, SIGMOID
from gptcalc.sources.huggingface.fields import Fields
from gptcalc.sources.huggingface.glm import own_choice
from gptcalc.sources.huggingface.kimi import KIMI_LINEAR, delta_attention
from gptcalc.sources.huggingface.llama import PREFIX
from gptcalc.sources.huggingface.pattern import FULL, RECURRENT, every, first, listed, stack
from gptcalc.sources.huggingface.reader import Hole, Reader, number, rmsnorm, size
from gptcalc.sources.huggingface.tensors import Names, bare, in_layers

#: what attends is called by several names: by the class, in older files, as published
MIXERS = dict.fromkeys(("indexed_attention", FULL, "deepseek_sparse_attention"), "mla") | {RECURRENT: "kda"}
_mixers = listed("layer_types", MIXERS, every(4, "mla", "kda"))
_choices = listed("indexer_types", {"full": "mla", "shared": "follower"}, own_choice)


def choosing(fields: Fields, n: int) -> Sequence[str]:
    """Each layer that attends chooses for itself: between two there are others, and the class hands nothing past."""
    mixers, choices = _mixers(fields, n), _choices(fields, n)
    for name in ("kda_layers", "full_attn_layers"):
        fields.get(f"linear_attn_config.{name}")  # which the class doesn't read
    for i, (mixer, choice) in enumerate(zip(mixers, choices, strict=True)):
        if mixer == "mla" and choice == "follower":
            problem = f"{fields.within}indexer_types: layer {i} would use the choice of one before it"
            raise InputError(problem, kind="unsupported")
    return mixers


#: what the class takes from within linear_attn_config
WITHIN = tuple(
    f"linear_attn_config.{name}"
    for name in ("num_heads", "head_dim", "short_conv_kernel_size", "gate_lower_bound", "safe_gate")
)


def _blocks(fields: Fields) -> int:
    """How many blocks are chosen; the config counts their tokens."""
    tokens, block = fields.needed("index_topk"), fields.needed("index_kpool")
    if block < 2 or tokens % block:
        fields.wrong(("index_kpool",), f"from 2 on, of which index_topk ({tokens}) is a multiple,", block)
    return int(tokens) // int(block)


def _decay(fields: Fields) -> dict[str, Any]:
    """Bounded from below, unless the config says null, and that it is not safe."""
    floor = fields.number("linear_attn_config.gate_lower_bound", "linear_lower_bound")
    safe = fields.get("linear_attn_config.safe_gate")
    if floor is None and safe is not False and fields.present(*WITHIN):
        floor = -5.0
    width = fields.needed("linear_attn_config.head_dim", "linear_head_dim")
    if floor is not None and floor >= 0:
        fields.wrong(("linear_lower_bound",), "a number below 0", floor)
    return {"over": "channel", "rank": width, **({} if floor is None else {"form": "bounded", "floor": floor})}


def _layer_names() -> Names:
    linear = {stem: name for stem, name in KIMI_LINEAR.names.items() if stem.startswith("linear.")}
    streams = {
        f"{ours}.{part}": (bare(f"hc_{theirs}_{name}"), bare(f"{theirs}_hc.{name}"))
        for ours, theirs in (("streams", "attn"), ("streams2", "ffn"))
        for part, name in (("mix", "fn"), ("base", "base"), ("scale", "scale"))
    }
    pooled = {
        "attn.index.compress.gate": bare("self_attn.indexer.index_kpool_compress_gate"),
        "attn.index.compress.position": bare("self_attn.indexer.index_kpool_compress_ape"),
    }
    return {**linear, **INDEX_NAMES, **in_layers(PREFIX, {**streams, **pooled})}


#: the layer behind the last, which predicts a further token, is left out, as by transformers' class: it has one stream
GLM5_NEXT = replace(
    DEEPSEEK_V3.but(
        document={
            "layers": stack(
                choosing, listed("mlp_layer_types", DENSE_OR_SPARSE, first("first_k_dense_replace", "mlp", "moe"))
            ),
            "rope": None,
            "position": "none",
            "streams": {
                "n": size("hc_mult"),
                "iterations": size("hc_sinkhorn_iters"),
                "eps": number("hc_eps"),
                "end": "mean",
                "norm": rmsnorm(weight=False),
            },
            "kda": {
                **delta_attention(
                    ("linear_attn_config.num_heads", "linear_num_heads"),
                    ("linear_attn_config.head_dim", "linear_head_dim"),
                    ("linear_attn_config.short_conv_kernel_size", "linear_conv_kernel_dim"),
                ),
                "decay": Hole(_decay),
            },
            "mla": {
                **LATENT,
                "d_rope": 0,
                "latent_norm": rmsnorm(),
                "index": {
                    "n_heads": size("index_n_heads"),
                    "d": size("index_head_dim"),
                    "top_k": Hole(_blocks),
                    "block": size("index_kpool"),
                },
            },
            "mlp": {"activation": "swiglu", "clamp": number("swiglu_limit")},
            "moe": {**SIGMOID, "clamp": number("swiglu_limit")},
            "mtp": None,
        },
        defaults={"first_k_dense_replace": 3},
        only={
            "qk_rope_head_dim": 0,
            "index_kpool_always_select_tail": True,
            "index_kpool_compress": True,
            "mla_use_nope": True,
            "mhc": True,
            "hidden_act": ("silu", "swish"),
        },
        irrelevant=(
            "head_dim",
            "rope_theta",
            "rope_scaling",
            "rope_parameters",
            "indexer_rope_interleave",
            "index_topk_freq",
            "index_topk_pattern",
            "index_skip_topk_offset",
            "index_share_for_mtp_iteration",
            "num_nextn_predict_layers",
            "moe_router_dtype",
            "rope_interleave",
        ),
        names=_layer_names(),
    ),
    nested=KIMI_LINEAR.nested,
)

READERS: dict[str, Reader] = {"glm5_next_text": GLM5_NEXT}
