"""Dense families that differ from Llama in a few places each: Cohere, GLM, Granite, EXAONE, ERNIE, Hunyuan, MiniCPM."""

from __future__ import annotations

from collections.abc import Sequence

from gptcalc.sources.huggingface.llama import BEHIND_NAMES, LLAMA, PREFIX, TYPES
from gptcalc.sources.huggingface.pattern import every, listed, stack
from gptcalc.sources.huggingface.reader import Fields, Hole, layernorm, number, optional, sites, size, when
from gptcalc.sources.huggingface.rope import rope
from gptcalc.sources.huggingface.tensors import GATE_UP, fused, in_layers

COHERE = LLAMA.but(
    document={
        "layers": "n*attn|mlp",
        "rope": rope(pairing="adjacent"),
        "norm": layernorm(bias=False),
        "bias": sites(attn="attention_bias"),
        "logit_scale": number("logit_scale"),
        "attn": {"qk_norm": when("use_qk_norm", "each")},
    },
    irrelevant=("rms_norm_eps",),
    names=in_layers(PREFIX, {"parallel.norm": "input_layernorm"}),
)


def windows(fields: Fields) -> str:
    """Positions of the full layers: none where others have a window."""
    return "none" if fields.size("sliding_window") else "rope"


COHERE2 = COHERE.but(
    document={
        "layers": stack(listed("layer_types", TYPES, every("sliding_window_pattern", "attn", "local")), "mlp", "|"),
        "attn": {"position": "none"},
        "local": {"like": "attn", "position": "rope", "window": size("sliding_window")},
    },
    defaults={"sliding_window_pattern": 4},
    only={"rotary_pct": 1.0, "position_embedding_type": "rope_gptj", "use_parallel_block": True},
    irrelevant=(
        "cache_implementation",
        "layer_switch",
        "order_of_interleaved_layers",
        "sliding_window_pattern",
        "use_embedding_sharing",
        "use_gated_activation",
        "use_parallel_embedding",
    ),
)

GLM = LLAMA.but(
    document={"rope": rope(pairing="adjacent"), "bias": sites(qkv="attention_bias")},
    defaults={"partial_rotary_factor": 0.5},
    names=in_layers(PREFIX, fused("mlp.gate_up_proj", GATE_UP)),
)

GLM4 = GLM.but(
    document={"norm_at": "sandwich"},
    names=in_layers(PREFIX, {"attn.post_norm": "post_self_attn_layernorm", "mlp.post_norm": "post_mlp_layernorm"}),
)


def inverse(name: str) -> Hole:
    """A field that divides where the document multiplies."""

    def read(fields: Fields) -> float | None:
        value = fields.number(name)
        return 1 / value if value else None

    return Hole(read)


GRANITE = LLAMA.but(
    document={
        "embedding": {"scale": number("embedding_multiplier")},
        "residual_scale": number("residual_multiplier"),
        "logit_scale": inverse("logits_scaling"),
        "attn": {"scale": number("attention_multiplier")},
    }
)

EXAONE = LLAMA.but(
    document={
        "n_layers": size("num_hidden_layers", "num_layers"),
        "layers": "n*attn+mlp",
        "norm": {"kind": "rmsnorm", "eps": number("rms_norm_eps", "layer_norm_epsilon")},
    },
    names={
        "embedding.token": ("transformer.wte", "model.embed_tokens"),
        **in_layers(
            "transformer.h.{l}.",
            {
                "attn.norm": "ln_1",
                "attn.q": "attn.attention.q_proj",
                "attn.k": "attn.attention.k_proj",
                "attn.v": "attn.attention.v_proj",
                "attn.out": "attn.attention.out_proj",
                "mlp.norm": "ln_2",
                "mlp.gate": "mlp.c_fc_0",
                "mlp.up": "mlp.c_fc_1",
                "mlp.down": "mlp.c_proj",
            },
        ),
        "final_norm": "transformer.ln_f",
    },
)


def exaone_windows(fields: Fields, n: int) -> Sequence[str]:
    """A pattern such as LLLG (local, global), or every how many layers a full one stands."""
    pattern = fields.get("sliding_window_pattern")
    if fields.size("sliding_window") is None:
        return ["attn"] * n
    if isinstance(pattern, str) and pattern and set(pattern) <= {"L", "G"}:
        return ["attn" if pattern[i % len(pattern)] == "G" else "local" for i in range(n)]
    step = fields.needed("sliding_window_pattern")
    return ["local" if (i + 1) % step else "attn" for i in range(n)]


EXAONE4 = LLAMA.but(
    document={
        "layers": stack(listed("layer_types", TYPES, exaone_windows), "mlp"),
        "norm_at": "output",
        "attn": {"qk_norm": "head", "position": Hole(windows)},
        "local": {"like": "attn", "position": "rope", "window": size("sliding_window")},
    },
    only={"reorder_and_upcast_attn": False},
    irrelevant=("sliding_window_pattern",),
    names=BEHIND_NAMES,
)

ERNIE = LLAMA.but(document={"rope": rope(pairing="adjacent"), "bias": when("use_bias", ["attn", "mlp"])})

HUNYUAN = LLAMA.but(
    document={
        "d_head": optional("head_dim", "attention_head_dim"),
        "attn": {"qk_norm": {"over": "head", "after_rope": True}},
    },
    only={"use_qk_norm": True, "norm_type": ("rms", "hf_rms"), "use_rotary_pos_emb": True},
    # the factor stands there whether or not layers share keys and values, which use_cla decides
    irrelevant=("cla_share_factor", "org_vocab_size", "add_classification_head", "class_num", "pool_type", "dense_list",
                "pad_id", "im_newline_id", "mask_init_id", "text_start_id", "text_end_id"),
    names=in_layers(PREFIX, {"attn.q_norm": "self_attn.query_layernorm", "attn.k_norm": "self_attn.key_layernorm"}),
)  # fmt: skip


def depth_scale(fields: Fields) -> float | None:
    depth = fields.number("scale_depth")
    return None if depth is None else float(depth / fields.needed("num_hidden_layers") ** 0.5)


def width_scale(fields: Fields) -> float | None:
    base = fields.size("dim_model_base")
    return None if base is None else base / fields.needed("hidden_size")


#: µP's factors of embeddings, residuals and logits
MUP = {
    "embedding": {"scale": number("scale_emb")},
    "residual_scale": Hole(depth_scale),
    "logit_scale": Hole(width_scale),
}

READERS = {
    "cohere": COHERE,
    "cohere2": COHERE2,
    "glm": GLM,
    "glm4": GLM4,
    "granite": GRANITE,
    "exaone": EXAONE,
    "exaone4": EXAONE4,
    "ernie4_5": ERNIE,
    "hunyuan_v1_dense": HUNYUAN,
}
