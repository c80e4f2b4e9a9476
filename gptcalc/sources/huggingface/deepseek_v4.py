"""DeepSeek-V4: attention over compressed entries, several residual streams."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gptcalc.errors import InputError
from gptcalc.sources.huggingface.deepseek import index
from gptcalc.sources.huggingface.experts import EXPERTS
from gptcalc.sources.huggingface.fields import Fields, shown
from gptcalc.sources.huggingface.llama import LLAMA, PREFIX
from gptcalc.sources.huggingface.pattern import listed, stack
from gptcalc.sources.huggingface.reader import Hole, Reader, choice, number, size
from gptcalc.sources.huggingface.rope import positive, rope
from gptcalc.sources.huggingface.tensors import EXPERTS_GATE_UP, Names, bare

#: layer_types -> sections
COMPRESSED_TYPES = {
    "sliding_attention": "local",
    "compressed_sparse_attention": "csa",
    "heavily_compressed_attention": "hca",
}

#: compress_ratios -> sections
RATIOS = {0: "local", 4: "csa", 128: "hca"}


def by_ratio(fields: Fields, n: int) -> Sequence[str]:
    """One ratio a layer, those of multi-token modules behind; without a list the two kinds of entries take turns."""
    ratios = fields.items("compress_ratios")
    if ratios is None:
        return (["hca", "hca"] + ["csa" if i % 2 else "hca" for i in range(n - 2)])[:n]
    if len(ratios) < n:
        raise InputError(f"{fields.within}compress_ratios has {len(ratios)} entries, the model {n} layers")
    for i, ratio in enumerate(ratios):
        if isinstance(ratio, bool) or ratio not in RATIOS or (i >= n and ratio):
            raise fields.unsupported(f"compress_ratios[{i}]", f"{shown(ratio)} is not understood")
    return [RATIOS[ratio] for ratio in ratios[:n]]


#: layers that choose experts by a fixed table where a config says nothing, or null
HASHED = 3


def hashed_first(fields: Fields, n: int) -> Sequence[str]:
    given = fields.size("num_hash_layers", least=0)
    count = min(n, HASHED if given is None else given)
    return ["hashed"] * count + ["moe"] * (n - count)


def rate(kind: str, older: str) -> Hole:
    """How many tokens share an entry in the layers of a kind."""

    def read(fields: Fields) -> int:
        rates = Fields(fields.mapping("compress_rates") or {}, {}, fields.model_type, f"{fields.within}compress_rates.")
        return fields.size(older) or rates.needed(kind)

    return Hole(read)


def turned_share(fields: Fields) -> Any:
    """The share of a head's channels that turn: a factor, or a width."""
    width = fields.size("qk_rope_head_dim")
    if width is not None and not fields.present("partial_rotary_factor"):
        return width / fields.needed("head_dim")
    return fields.number("partial_rotary_factor")


def two_ropes(theta: str, kind: str, scaled: bool) -> Hole:
    """Entries and all that meets them turn with a base and a scaling of their own; YaRN leaves the scores as they are.

    Only a window's keys are not compressed: layers without entries turn as plain models do. The share that turns and
    the base stand beside a scaling for all; the class overwrites those inside it.
    """
    plain = rope(theta, layer_type=kind, fraction=Hole(turned_share), pairing="adjacent", scaled=scaled)

    def read(fields: Fields) -> Any:
        found = plain.read(fields)
        if kind not in (fields.mapping("rope_scaling") or fields.mapping("rope_parameters") or {kind: None}):
            found |= {
                "fraction": turned_share(fields),
                "theta": positive(fields.number(theta), f"{fields.within}{theta}"),
            }
        if found["scaling"] is not None and found["scaling"]["kind"] == "yarn":
            found["scaling"]["attention_factor"] = found["scaling"]["attention_factor"] or 1
        return found

    return Hole(read)


def next_tokens(fields: Fields) -> dict[str, Any] | None:
    """Multi-token modules look back through a window only."""
    n = fields.size("num_nextn_predict_layers", least=0)
    return {"n": n, "block": "local+moe"} if n else None


def _compressor(stem: str, published: str, renamed: str) -> tuple[dict[str, str], dict[str, str]]:
    parts = (
        ("kv", "wkv.weight", "kv_proj.weight"),
        ("gate", "wgate.weight", "gate_proj.weight"),
        ("position", "ape", "position_bias"),
        ("norm", "norm.weight", "kv_norm.weight"),
    )
    return (
        {f"{stem}.{part}": f"{published}.{old}" for part, old, _ in parts},
        {f"{stem}.{part}": f"{renamed}.{new}" for part, _, new in parts},
    )


def _v4_layer() -> Names:
    """A layer's tensors, as published and as transformers 5 renames and joins them."""
    published = {
        "attn.norm": "attn_norm.weight",
        "attn.q_a": "attn.wq_a.weight",
        "attn.q_a_norm": "attn.q_norm.weight",
        "attn.q_b": "attn.wq_b.weight",
        "attn.kv": "attn.wkv.weight",
        "attn.kv_norm": "attn.kv_norm.weight",
        "attn.out_a": "attn.wo_a.weight",
        "attn.out_b": "attn.wo_b.weight",
        "attn.sinks": "attn.attn_sink",
        "attn.index.q": "attn.indexer.wq_b.weight",
        "attn.index.weights": "attn.indexer.weights_proj.weight",
        "moe.norm": "ffn_norm.weight",
        "moe.router": "ffn.gate.weight",
        "moe.selection_bias": "ffn.gate.bias",
        "moe.table": "ffn.gate.tid2eid",
        "moe.shared.gate": "ffn.shared_experts.w1.weight",
        "moe.shared.down": "ffn.shared_experts.w2.weight",
        "moe.shared.up": "ffn.shared_experts.w3.weight",
        "moe.gate": "ffn.experts.{e}.w1.weight",
        "moe.down": "ffn.experts.{e}.w2.weight",
        "moe.up": "ffn.experts.{e}.w3.weight",
    }
    renamed = {
        "attn.norm": "input_layernorm.weight",
        "attn.q_a": "self_attn.q_a_proj.weight",
        "attn.q_a_norm": "self_attn.q_a_norm.weight",
        "attn.q_b": "self_attn.q_b_proj.weight",
        "attn.kv": "self_attn.kv_proj.weight",
        "attn.kv_norm": "self_attn.kv_norm.weight",
        "attn.out_a": "self_attn.o_a_proj.weight",
        "attn.out_b": "self_attn.o_b_proj.weight",
        "attn.sinks": "self_attn.sinks",
        "attn.index.q": "self_attn.compressor.indexer.q_b_proj.weight",
        "attn.index.weights": "self_attn.compressor.indexer.scorer.weights_proj.weight",
        "moe.norm": "post_attention_layernorm.weight",
        "moe.router": "mlp.gate.weight",
        "moe.selection_bias": "mlp.gate.e_score_correction_bias",
        "moe.table": "mlp.gate.tid2eid",
        "moe.shared.gate": "mlp.shared_experts.gate_proj.weight",
        "moe.shared.down": "mlp.shared_experts.down_proj.weight",
        "moe.shared.up": "mlp.shared_experts.up_proj.weight",
    }
    for stem, old, new in (
        ("attn.compress", "attn.compressor", "self_attn.compressor"),
        ("attn.index.compress", "attn.indexer.compressor", "self_attn.compressor.indexer"),
    ):
        ours, theirs = _compressor(stem, old, new)
        published, renamed = published | ours, renamed | theirs
    for stem, old, new in (("streams", "hc_attn", "attn_hc"), ("streams2", "hc_ffn", "ffn_hc")):
        published |= {f"{stem}.mix": f"{old}_fn", f"{stem}.base": f"{old}_base", f"{stem}.scale": f"{old}_scale"}
        renamed |= {f"{stem}.mix": f"{new}.fn", f"{stem}.base": f"{new}.base", f"{stem}.scale": f"{new}.scale"}
    stacked = bare(f"{PREFIX}mlp.experts.gate_up_proj", parts=EXPERTS_GATE_UP)
    together = {"moe.gate": stacked, "moe.up": stacked, "moe.down": bare(f"{PREFIX}mlp.experts.down_proj")}
    new_names = {**{stem: bare(PREFIX + name) for stem, name in renamed.items()}, **together}
    own_names = {stem: bare("layers.{l}." + name) for stem, name in published.items()}
    saved = {"attn.kv_norm": (bare("layers.{l}.attn.norm.weight"),)}  # what transformers makes of it when it saves
    return {stem: (own_names[stem], new_names[stem], *saved.get(stem, ())) for stem in own_names}


V4_NAMES: Names = {
    "embedding.token": (bare("embed.weight"), bare("model.embed_tokens.weight")),
    "final_norm": (bare("norm.weight"), bare("model.norm.weight")),
    "head": (bare("head.weight"), bare("lm_head.weight")),
    "head.streams.mix": (bare("hc_head_fn"), bare("model.hc_head.hc_fn")),
    "head.streams.base": (bare("hc_head_base"), bare("model.hc_head.hc_base")),
    "head.streams.scale": (bare("hc_head_scale"), bare("model.hc_head.hc_scale")),
    **_v4_layer(),
}

DEEPSEEK_V4 = LLAMA.but(
    document={
        "layers": stack(
            listed("layer_types", COMPRESSED_TYPES, by_ratio, longer=True),
            listed("mlp_layer_types", {"hash_moe": "hashed", "moe": "moe"}, hashed_first, longer=True),
        ),
        "n_kv_heads": None,
        "d_head": None,
        "d_ff": None,
        "rope": None,
        "bias": None,
        "streams": {"n": size("hc_mult"), "iterations": size("hc_sinkhorn_iters"), "eps": number("hc_eps")},
        "csa": {
            "d_head": size("head_dim"),
            "q_rank": size("q_lora_rank"),
            "n_groups": size("o_groups"),
            "out_rank": size("o_lora_rank"),
            "window": size("sliding_window"),
            "sinks": True,
            "rope": two_ropes("compress_rope_theta", "compress", True),
            "compress": {
                "every": rate("compressed_sparse_attention", "compress_rate_csa"),
                "overlap": True,
                "index": index(),
            },
        },
        "hca": {"like": "csa", "compress": {"every": rate("heavily_compressed_attention", "compress_rate_hca")}},
        "local": {"like": "csa", "rope": two_ropes("rope_theta", "main", False), "compress": "none"},
        "moe": {
            **{key: hole for key, hole in EXPERTS.items() if key != "normalize"},
            "n_shared": 1,
            "router": choice("scoring_func", sqrtsoftplus="sqrtsoftplus", softmax="softmax", sigmoid="sigmoid"),
            "selection_bias": True,
            "clamp": number("swiglu_limit"),
        },
        "hashed": {"like": "moe", "selection_bias": False, "choice": "hash"},
        "mtp": Hole(next_tokens),
    },
    defaults={
        "partial_rotary_factor": 0.125,
        "num_hash_layers": HASHED,
        "compress_rates": {"compressed_sparse_attention": 4, "heavily_compressed_attention": 128},
    },
    vendor={"n_shared_experts": "DeepSeek"},
    only={"topk_method": "noaux_tc", "n_shared_experts": 1, "num_key_value_heads": 1, "norm_topk_prob": True},
    names=V4_NAMES,
)

READERS: dict[str, Reader] = {
    "deepseek_v4": DEEPSEEK_V4,
    "deepseek_ref": DEEPSEEK_V4.but(like="deepseek_v4"),
}
