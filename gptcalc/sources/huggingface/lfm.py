"""LFM2 and LFM3: gated short convolutions, with attention in some layers."""

from __future__ import annotations

from collections.abc import Sequence

from gptcalc.sources.huggingface.experts import own_experts
from gptcalc.sources.huggingface.fields import Fields
from gptcalc.sources.huggingface.llama import LLAMA, PREFIX
from gptcalc.sources.huggingface.pattern import FULL, SLIDING, Units, first, listed, stack
from gptcalc.sources.huggingface.reader import Hole, Reader, flag, number, optional, rmsnorm, sites, size, when
from gptcalc.sources.huggingface.rope import rope
from gptcalc.sources.huggingface.tensors import bare, fused, in_layers


def attending(fields: Fields, n: int) -> Sequence[str]:
    """Attention in the layers that a list numbers, or in all."""
    chosen = fields.items("full_attn_idxs")
    return ["attn" if chosen is None or i in chosen else "conv" for i in range(n)]


_mixers: Units = listed("layer_types", {FULL: "attn", "conv": "conv"}, attending)


def adjusted(fields: Fields) -> int:
    """The MLP's width: as given, or two thirds of it, times a factor, rounded up to a multiple."""
    width = fields.needed("block_ff_dim", "intermediate_size")
    by, multiple = fields.number("block_ffn_dim_multiplier"), fields.size("block_multiple_of") or 1
    if not fields.flag("block_auto_adjust_ff_dim"):
        return width
    width = int(2 * width / 3)
    return width if by is None else -(-int(by * width) // multiple) * multiple


LFM2 = LLAMA.but(
    document={
        "layers": stack(_mixers, "mlp"),
        "norm": rmsnorm("norm_eps"),
        "d_ff": Hole(adjusted),
        "tying": flag("tie_embedding", "tie_word_embeddings"),
        "mlp": "swiglu",
        "bias": None,
        "attn": {"qk_norm": "head"},
        "conv": {"kernel": size("conv_L_cache"), "bias": flag("conv_bias")},
    },
    irrelevant=(
        "rms_norm_eps",
        "block_ff_dim",
        "intermediate_size",
        "block_dim",
        "block_mlp_init_scale",
        "block_out_init_scale",
        "block_norm_eps",
        "block_use_swiglu",
        "block_use_xavier_init",
        "conv_dim",
        "conv_dim_out",
        "conv_use_xavier_init",
        "num_heads",
        "use_pos_enc",
        "theta",
        "full_attn_idxs",
        "hidden_act",
    ),
    names={
        "final_norm": "model.embedding_norm",
        **in_layers(
            PREFIX,
            {
                "attn.norm": "operator_norm",
                "conv.norm": "operator_norm",
                "mlp.norm": "ffn_norm",
                "attn.out": "self_attn.out_proj",
                "attn.q_norm": "self_attn.q_layernorm",
                "attn.k_norm": "self_attn.k_layernorm",
                **fused("conv.in_proj", (("conv.B", 1), ("conv.C", 1), ("conv.x", 1))),
                "conv.inner_conv": "conv.conv",
                "conv.out": "conv.out_proj",
                "mlp.gate": "feed_forward.w1",
                "mlp.up": "feed_forward.w3",
                "mlp.down": "feed_forward.w2",
            },
        ),
    },
)

LFM2_MOE = LFM2.but(
    document={
        "layers": stack(_mixers, first("num_dense_layers", "mlp", "moe")),
        "d_ff": size("intermediate_size"),
        "moe": {
            "n_experts": size("num_experts"),
            "top_k": size("num_experts_per_tok"),
            "d_ff": size("moe_intermediate_size"),
            "router": "sigmoid",
            "selection_bias": flag("use_expert_bias"),
            "normalize": flag("norm_topk_prob"),
            "route_scale": number("routed_scaling_factor"),
        },
    },
    names=in_layers(
        PREFIX,
        {
            "moe.norm": "ffn_norm",
            "moe.router": "feed_forward.gate",
            "moe.selection_bias": bare("feed_forward.expert_bias"),
            **own_experts("feed_forward.experts", "w1", "w3", "w2"),
        },
    ),
)


def periods(_: Fields, n: int) -> Sequence[str]:
    """Periods of four: a window (but in the first layer), a convolution, the whole past, a convolution."""
    return ["attn" if i % 4 == 2 else "local" if i % 4 == 0 and i else "conv" for i in range(n)]


LFM3 = LFM2.but(
    document={
        "layers": stack(listed("layer_types", {FULL: "attn", SLIDING: "local", "conv": "conv"}, periods), "mlp"),
        "norm_at": when("use_sandwich_norm", "sandwich"),
        "d_ff": size("intermediate_size"),
        "bias": sites(attn="attention_bias"),
        "attn": {"qk_norm": "head", "gate": when("use_attention_gate", "head")},
        "local": {"like": "attn", "window": optional("sliding_window"), "rope": rope(layer_type=SLIDING)},
    },
    defaults={
        "rope_parameters": {
            SLIDING: {"rope_type": "default", "rope_theta": 10000.0},
            FULL: {"rope_type": "proportional", "rope_theta": 1000000.0, "partial_rotary_factor": 0.5},
        }
    },
    names=in_layers(
        PREFIX,
        {
            "attn.out": "self_attn.o_proj",
            "attn.q_norm": "self_attn.q_norm",
            "attn.k_norm": "self_attn.k_norm",
            "attn.gate": ("self_attn.gate_proj", "self_attn.g_proj"),
            **{f"{kind}.post_norm": "post_operator_norm" for kind in ("attn", "conv")},
            "mlp.post_norm": "post_ffn_norm",
        },
    ),
)

READERS: dict[str, Reader] = {"lfm2": LFM2, "lfm2_moe": LFM2_MOE, "lfm3": LFM3}
