"""DeepSeek: latent attention, a few dense layers first, then experts with shared ones beside them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gptcalc.errors import InputError
from gptcalc.sources.huggingface.llama import LLAMA, PREFIX, temperature
from gptcalc.sources.huggingface.mixtures import EXPERT_NAMES, groups, shared_experts
from gptcalc.sources.huggingface.pattern import Units, every, first, listed, stack
from gptcalc.sources.huggingface.reader import (
    Fields,
    Hole,
    choice,
    flag,
    number,
    optional,
    rmsnorm,
    shown,
    sites,
    size,
    when,
)
from gptcalc.sources.huggingface.rope import rope
from gptcalc.sources.huggingface.tensors import EXPERTS_GATE_UP, Held, Names, bare, fused, in_layers
from gptcalc.sources.huggingface.vendors import MUP

LATENT_NAMES: Names = in_layers(
    PREFIX,
    {
        "attn.q": "self_attn.q_proj",
        "attn.q_a": "self_attn.q_a_proj",
        "attn.q_a_norm": "self_attn.q_a_layernorm",
        "attn.q_b": "self_attn.q_b_proj",
        **fused("self_attn.kv_a_proj_with_mqa", (("attn.kv_a", "kv_rank"), ("attn.k_rope", "d_rope"))),
        "attn.kv_a_norm": "self_attn.kv_a_layernorm",
        **fused("self_attn.kv_b_proj", (("attn.k_b", "d_nope"), ("attn.v_b", "d_v")), groups="n_heads"),
    },
)

SHARED_NAMES = in_layers(
    PREFIX, {**shared_experts("mlp.shared_experts"), "moe.selection_bias": bare("mlp.gate.e_score_correction_bias")}
)

#: a multi-token-prediction module is stored as one more layer
MTP_NAMES = in_layers(
    PREFIX, {"embedding_norm": "enorm", "hidden_norm": "hnorm", "projection": "eh_proj", "norm": "shared_head.norm"}
)


LATENT: dict[str, Any] = {
    "q_rank": optional("q_lora_rank"),
    "kv_rank": size("kv_lora_rank"),
    "d_nope": size("qk_nope_head_dim"),
    "d_rope": size("qk_rope_head_dim"),
    "d_v": size("v_head_dim"),
    "bias": when("attention_bias", when(optional("q_lora_rank"), ["q_a", "kv_a", "out"], ["kv_a", "out"])),
    "latent_norm": rmsnorm(1e-6),
}

EXPERTS: dict[str, Any] = {
    "n_experts": size("n_routed_experts", "num_local_experts", "num_experts"),
    "top_k": size("num_experts_per_tok"),
    "d_ff": size("moe_intermediate_size"),
    "n_shared": optional("n_shared_experts", least=0),
    "normalize": flag("norm_topk_prob"),
    "route_scale": number("routed_scaling_factor"),
}

DENSE_OR_SPARSE = {"dense": "mlp", "sparse": "moe"}

#: dense layers first, then experts in every moe_layer_freq-th
SPARSE: Units = listed(
    "mlp_layer_types",
    DENSE_OR_SPARSE,
    first("first_k_dense_replace", "mlp", every("moe_layer_freq", "moe", "mlp", offset=0)),
)

DEEPSEEK_V2 = LLAMA.but(
    defaults={"moe_layer_freq": 1},
    document={
        "layers": stack("mla", SPARSE),
        "n_kv_heads": None,
        "d_head": None,
        "rope": rope(fraction=None, pairing="adjacent"),
        "bias": None,
        "mla": LATENT,
        "moe": {**EXPERTS, "groups": groups(score="max", method="group_limited_greedy")},
    },
    only={"scoring_func": "softmax", "topk_method": ("greedy", "group_limited_greedy")},
    irrelevant=("num_key_value_heads", "head_dim", "qk_head_dim", "first_k_dense_replace", "moe_layer_freq"),
    names={**EXPERT_NAMES, **LATENT_NAMES, **SHARED_NAMES},
)

SIGMOID: dict[str, Any] = {**EXPERTS, "router": "sigmoid", "selection_bias": True, "groups": groups()}

DEEPSEEK_V3 = DEEPSEEK_V2.but(
    document={
        "rope": rope(fraction=None, pairing=when("rope_interleave", "adjacent", "half")),
        "moe": SIGMOID,
        "mtp": optional("num_nextn_predict_layers", "num_mtp_layers", least=0),
    },
    defaults={"rope_interleave": True},
    only={"scoring_func": "sigmoid", "topk_method": "noaux_tc"},
    names=MTP_NAMES,
)

#: relatives whose first layer is dense where the config doesn't say more
FIRST_DENSE = DEEPSEEK_V3.but(defaults={"first_k_dense_replace": 1})

#: with a norm behind the experts
AXK1 = FIRST_DENSE.but(
    document={"moe": {**SIGMOID, "norm_at": "sandwich"}},
    names=in_layers(PREFIX, {"moe.post_norm": "post_mlp_layernorm"}),
)

# --- sparse attention -------------------------------------------------------------------------------------------------

INDEX_NAMES = in_layers(
    PREFIX,
    {
        "attn.index.q": "self_attn.indexer.wq_b",
        "attn.index.k": "self_attn.indexer.wk",
        "attn.index.k_norm": "self_attn.indexer.k_norm",
        "attn.index.weights": "self_attn.indexer.weights_proj",
    },
)


def index(**more: Any) -> dict[str, Any]:
    return {"n_heads": size("index_n_heads"), "d": size("index_head_dim"), "top_k": size("index_topk"), **more}


def own_choice(fields: Fields, n: int) -> Sequence[str]:
    """Which layers choose their keys themselves: a pattern of F and S, or after some first ones every so many."""
    pattern = fields.get("index_topk_pattern")
    step, offset = (fields.size("index_topk_freq") or 1, fields.size("index_skip_topk_offset", least=0))
    if isinstance(pattern, str):
        if len(pattern) != n or set(pattern) - {"F", "S"}:
            raise InputError(f"{fields.within}index_topk_pattern: expected {n} letters F or S, found {shown(pattern)}")
        return ["mla" if letter == "F" else "follower" for letter in pattern]
    begin = 2 if offset is None else offset
    return ["mla" if max(i - begin + 1, 0) % step == 0 else "follower" for i in range(n)]


DEEPSEEK_V32 = DEEPSEEK_V3.but(
    document={"rope": rope(fraction=None, pairing="adjacent"), "mla": {**LATENT, "index": index()}},
    only={"layer_types": None},
    irrelevant=("layer_types", "rope_interleave", "indexer_rope_interleave"),
    names=INDEX_NAMES,
)


def modules(fields: Fields) -> int:
    """Multi-token-prediction modules; each chooses its keys itself, whatever the last layer does."""
    return fields.size("num_nextn_predict_layers", "num_mtp_layers", least=0) or 0


_glm_index = index(pairing=when("indexer_rope_interleave", "adjacent", "half"))

GLM_MOE_DSA = DEEPSEEK_V32.but(
    document={
        "layers": stack(listed("indexer_types", {"full": "mla", "shared": "follower"}, own_choice), SPARSE),
        "mla": {**LATENT, "index": _glm_index},
        "follower": {"like": "mla", "index": {**_glm_index, "shared": True}},
        "mtp": {"n": Hole(modules), "block": "mla+moe"},
    },
    defaults={"indexer_rope_interleave": True},
    irrelevant=("index_topk_freq", "index_skip_topk_offset", "index_topk_pattern", "index_share_for_mtp_iteration"),
)

# --- others with latent attention -------------------------------------------------------------------------------------

MISTRAL4 = DEEPSEEK_V3.but(
    document={"mla": {**LATENT, "temperature": Hole(temperature)}, "moe": {**EXPERTS, "groups": groups(score="top2")}},
    defaults={
        "rope_parameters": {
            "rope_type": "yarn",
            "factor": 128.0,
            "original_max_position_embeddings": 8192,
            "mscale": 1.0,
            "mscale_all_dim": 1.0,
            "llama_4_scaling_beta": 0.1,
        }
    },
    only={"scoring_func": "softmax"},
)


def rotating(fields: Fields, n: int) -> Sequence[str]:
    """Layers without rotation by a list of flags, else every fourth; each has latents and a choice of its own."""
    flags = fields.items("no_rope_layers")
    step = fields.size("no_rope_layer_interval") or 4
    rotates = [(i + 1) % step for i in range(n)] if flags is None else flags[:n]
    if len(rotates) != n:
        raise InputError(f"{fields.within}no_rope_layers has {len(rotates)} entries, the model {n} layers")
    sources, choices = fields.items("kv_source_layers"), fields.items("indexer_types")
    if sources is not None and sources != list(range(n)):
        raise fields.unsupported("kv_source_layers", "shared latents are not understood")
    if choices is not None and set(choices) != {"full"}:
        raise fields.unsupported("indexer_types", "shared choices are not understood")
    return ["mla" if flag else "nope" for flag in rotates]


def whole_head(fields: Fields) -> int:
    """Where nothing turns, all of a head's channels come from the latent."""
    return fields.needed("qk_nope_head_dim") + fields.needed("qk_rope_head_dim")


MISTRAL_LARGE4 = DEEPSEEK_V2.but(
    document={
        "layers": stack(rotating, SPARSE),
        "softcap": number("final_logit_softcapping"),
        "learned_frequencies": True,
        "mla": {
            **{key: hole for key, hole in LATENT.items() if key != "q_rank"},
            "bias": when("attention_bias", ["kv_a", "out"]),
            "latent_norm": rmsnorm(),
            "ssmax": True,
            "index": index(pairing="adjacent", q_norm={"kind": "layernorm", "eps": 1e-6}, ssmax=True),
        },
        "nope": {"like": "mla", "position": "none", "d_nope": Hole(whole_head), "d_rope": 0},
        "moe": {**EXPERTS, "normalize": True, "groups": groups()},
    },
    only={"scoring_func": "softmax", "indexer_rope_interleave": True, "rope_interleave": True, "layer_types": None},
    irrelevant=("layer_types", "num_key_value_heads"),
    names={
        **INDEX_NAMES,
        "rope.alpha": bare("model.rotary_emb.alpha"),
        **in_layers(
            PREFIX,
            {
                "attn.ssmax.scale": bare("self_attn.softmax_scaling.scale"),
                "attn.ssmax": Held("self_attn.softmax_scaling", bias=".bias"),
                "attn.index.q_norm": "self_attn.indexer.q_input_norm",
                "attn.index.ssmax.scale": bare("self_attn.indexer.softmax_scaling.scale"),
                "attn.index.ssmax": Held("self_attn.indexer.softmax_scaling", bias=".bias"),
            },
        ),
    },
)

YOUTU = DEEPSEEK_V3.but(document={"layers": stack("mla", "mlp"), "moe": None, "mtp": None})


def heads_share(fields: Fields) -> int:
    return fields.size("v_head_dim") or fields.needed("hidden_size") // fields.needed("num_attention_heads")


MINICPM3 = YOUTU.but(
    document={
        "rope": rope(fraction=None),
        "mla": {**LATENT, "d_v": Hole(heads_share)},
        "bias": sites(mlp="mlp_bias"),
        **MUP,
    },
    irrelevant=("rope_interleave",),
)

# --- LongCat: two latent attentions, two MLPs and experts across them in each layer -----------------------------------


def numbered(entries: Names, number: int) -> Names:
    """The weights of one of a block's attentions, stored as self_attn.0 and self_attn.1; ours are attn and attn2."""
    ours = "attn." if number == 0 else f"attn{number + 1}."

    def moved(entry: str | Held) -> str | Held:
        if isinstance(entry, str):
            return entry.replace("self_attn.", f"self_attn.{number}.")
        parts = tuple((part.replace("attn.", ours, 1), width) for part, width in entry.parts)
        return Held(entry.module.replace("self_attn.", f"self_attn.{number}."), parts, entry.groups)

    return {s.replace("attn.", ours, 1): moved(e) for s, e in entries.items() if isinstance(e, (str, Held))}


_two = {**LATENT_NAMES, "attn.out": f"{PREFIX}self_attn.o_proj"}

LONGCAT_NAMES: Names = {
    **numbered(_two, 0),
    **numbered(_two, 1),
    **in_layers(
        PREFIX,
        {
            "attn.norm": "input_layernorm.0",
            "parallel.norm": "post_attention_layernorm.0",
            "attn2.norm": "input_layernorm.1",
            "mlp2.norm": "post_attention_layernorm.1",
            "mlp.gate": "mlps.0.gate_proj",
            "mlp.up": "mlps.0.up_proj",
            "mlp.down": "mlps.0.down_proj",
            "mlp2.gate": "mlps.1.gate_proj",
            "mlp2.up": "mlps.1.up_proj",
            "mlp2.down": "mlps.1.down_proj",
            "moe.router": "mlp.router.classifier",
            "moe.selection_bias": bare("mlp.router.e_score_correction_bias"),
        },
    ),
}


def latent_scale(rank: str) -> Hole:
    """Latents are scaled up to the width that they stand for."""
    return Hole(lambda fields: float((fields.needed("hidden_size") / fields.needed(rank)) ** 0.5))


LONGCAT = DEEPSEEK_V2.but(
    document={
        "n_layers": size("num_layers", "num_hidden_layers"),
        "d_ff": size("ffn_hidden_size", "intermediate_size"),
        "layers": "n*[mla+(mlp+mla+mlp)|moe]",
        "mla": {**LATENT, "q_scale": latent_scale("q_lora_rank"), "kv_scale": latent_scale("kv_lora_rank")},
        "moe": {
            "n_experts": size("n_routed_experts", "num_local_experts"),
            "top_k": size("moe_topk", "num_experts_per_tok"),
            "d_ff": size("expert_ffn_hidden_size", "moe_intermediate_size"),
            "n_identity": optional("zero_expert_num", least=0),
            "route_scale": number("routed_scaling_factor"),
            "bias": sites(router="router_bias"),
            "selection_bias": True,
            "normalize": flag("norm_topk_prob"),
        },
    },
    only={
        "zero_expert_type": "identity",
        "mla_scale_q_lora": True,
        "mla_scale_kv_lora": True,
        "attention_method": "MLA",
    },
    irrelevant=("attention_method",),
    names=LONGCAT_NAMES,
)

# --- DeepSeek-V4: attention over compressed entries, several residual streams ----------------------------------------

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


def hashed_first(fields: Fields, n: int) -> Sequence[str]:
    count = min(n, fields.size("num_hash_layers", least=0) or 0)
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

    Only a window's keys are not compressed: layers without entries turn as plain models do.
    """
    plain = rope(theta, layer_type=kind, fraction=Hole(turned_share), pairing="adjacent", scaled=scaled)

    def read(fields: Fields) -> Any:
        found = plain.read(fields)
        if found["scaling"] is not None and found["scaling"]["kind"] == "yarn":
            found["scaling"]["attention_factor"] = found["scaling"]["attention_factor"] or 1
        return found

    return Hole(read)


def next_tokens(fields: Fields) -> dict[str, Any] | None:
    """Multi-token modules look back through a window only."""
    n = fields.size("num_nextn_predict_layers", least=0)
    return {"n": n, "block": "local+moe"} if n else None


def _compressor(stem: str, published: str, renamed: str) -> tuple[dict[str, str], dict[str, str]]:
    parts = (("kv", "wkv.weight", "kv_proj.weight"), ("gate", "wgate.weight", "gate_proj.weight"),
             ("position", "ape", "position_bias"), ("norm", "norm.weight", "kv_norm.weight"))  # fmt: skip
    return ({f"{stem}.{part}": f"{published}.{old}" for part, old, _ in parts},
            {f"{stem}.{part}": f"{renamed}.{new}" for part, _, new in parts})  # fmt: skip


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
            "router": choice("scoring_func", sqrtsoftplus="sqrtsoftplus", softmax="softmax", sigmoid="sigmoid"),
            "selection_bias": True,
            "clamp": number("swiglu_limit"),
        },
        "hashed": {"like": "moe", "selection_bias": False, "hash": True},
        "mtp": Hole(next_tokens),
    },
    only={"topk_method": "noaux_tc", "num_key_value_heads": 1, "norm_topk_prob": True},
    names=V4_NAMES,
)

READERS = {
    "deepseek_v2": DEEPSEEK_V2,
    "deepseek_v3": DEEPSEEK_V3,
    "kimi_k2": DEEPSEEK_V3.but(like="deepseek_v3"),
    "deepseek_v32": DEEPSEEK_V32,
    "deepseek_v4": DEEPSEEK_V4,
    "glm_moe_dsa": GLM_MOE_DSA,
    "glm4_moe_lite": FIRST_DENSE,
    "axk1": AXK1,
    "sarvam_mla": FIRST_DENSE,
    "mistral4": MISTRAL4,
    "mistral_large4_text": MISTRAL_LARGE4,
    "youtu": YOUTU,
    "minicpm3": MINICPM3,
    "longcat_flash": LONGCAT,
}
