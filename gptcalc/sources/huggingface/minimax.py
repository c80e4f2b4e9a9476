"""MiniMax-M3: dense layers, then layers that attend to blocks of keys which small heads choose, before experts."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from gptcalc.sources.huggingface.experts import DENSE_OR_SPARSE, own_experts
from gptcalc.sources.huggingface.fields import Fields
from gptcalc.sources.huggingface.llama import LLAMA, PREFIX
from gptcalc.sources.huggingface.mistral import MIXTRAL
from gptcalc.sources.huggingface.pattern import FULL, flagged, listed, stack
from gptcalc.sources.huggingface.reader import Hole, Reader, number, optional, rmsnorm, size
from gptcalc.sources.huggingface.rope import rope
from gptcalc.sources.huggingface.tensors import GATE_UP, Held, bare, in_layers


def switched_modules(fields: Fields) -> int | None:
    """Multi-token-prediction modules, where use_mtp switches them on."""
    modules = fields.size("num_mtp_modules", least=0)
    layers = fields.size("mtp_transformer_layers", least=0)
    if not fields.flag("use_mtp"):
        return None
    if layers not in (None, 1):
        raise fields.unsupported("mtp_transformer_layers", f"modules of {layers} layers are not understood")
    return modules


MINIMAX_M2 = MIXTRAL.but(
    document={
        "rope": rope(channels="rotary_dim"),
        "attn": {"qk_norm": "full"},
        "moe": {
            "n_experts": size("num_local_experts", "num_experts"),
            "top_k": size("num_experts_per_tok"),
            "router": "sigmoid",
            "selection_bias": True,
        },
        "mtp": Hole(switched_modules),
    },
    only={
        "use_qk_norm": True,
        "qk_norm_type": "per_layer",
        "use_routing_bias": True,
        "shared_intermediate_size": 0,
        "scoring_func": "sigmoid",
    },
    irrelevant=(
        "attn_type_list",
        "layernorm_full_attention_alpha",
        "layernorm_linear_attention_alpha",
        "layernorm_mlp_alpha",
        "partial_rotary_factor",
    ),
    names=in_layers(
        PREFIX,
        {"moe.selection_bias": (bare("block_sparse_moe.e_score_correction_bias"), bare("mlp.e_score_correction_bias"))},
    ),
)

# --- MiniMax-M3 -------------------------------------------------------------------------------------------------------


#: the object that says how attention is sparse; later configs have the same fields flat, under other names
SPARSE = "sparse_attention_config"

CHOOSING = f"{SPARSE}.sparse_attention_freq"


def block_indexer(fields: Fields) -> dict[str, Any]:
    """The heads that choose blocks of keys: one for each KV head, which has no values of its own."""
    heads = f"{SPARSE}.sparse_num_index_heads"
    if fields.size(heads, "index_n_heads") != fields.size("num_key_value_heads"):
        raise fields.unsupported(heads, "other than one index head for each KV head is not understood")
    silent = f"{SPARSE}.sparse_disable_index_value"
    chooses = fields.items(CHOOSING) or []
    values = fields.items(silent)
    if values is not None and values != chooses:
        raise fields.unsupported(silent, "index heads with values are not understood")
    return {
        "d": size(f"{SPARSE}.sparse_index_dim", "index_head_dim"),
        "block": size(f"{SPARSE}.sparse_block_size", "index_block_size"),
        "top_k": size(f"{SPARSE}.sparse_topk_blocks", "index_topk_blocks"),
        "local": size(f"{SPARSE}.sparse_local_block", "index_local_blocks"),
    }


#: as transformers stores them: gate and up together
_dense = Held("mlp.gate_up_proj", parts=GATE_UP)

_shared = Held("mlp.shared_experts.gate_up_proj", parts=(("moe.shared.gate", 1), ("moe.shared.up", 1)))

MINIMAX_M3 = replace(
    LLAMA.but(
        like="minimax_m3_vl_text",
        document={
            "d_ff": size("dense_intermediate_size"),
            "layers": stack(
                listed(
                    "layer_types",
                    {FULL: "attn", "minimax_m3_sparse": "sparse"},
                    flagged(CHOOSING, "sparse", "attn", "attn"),
                ),
                listed("mlp_layer_types", DENSE_OR_SPARSE, flagged("moe_layer_freq", "moe", "mlp", "moe")),
            ),
            "rope": rope(),
            "norm": rmsnorm(offset=1),
            "mlp": {"activation": "swiglu_oai", "clamp": number("swiglu_limit")},
            "bias": None,
            "attn": {"qk_norm": "head"},
            "sparse": {"like": "attn", "index": Hole(block_indexer)},
            "moe": {
                "activation": "swiglu_oai",
                "clamp": number("swiglu_limit"),
                "n_experts": size("num_local_experts", "num_experts"),
                "top_k": size("num_experts_per_tok"),
                "d_ff": size("intermediate_size", "moe_intermediate_size"),
                "n_shared": 1,
                "d_shared": size("shared_intermediate_size"),
                "router": "sigmoid",
                "selection_bias": True,
                "route_scale": number("routed_scaling_factor"),
            },
            "mtp": optional("num_mtp_modules", least=0),
        },
        only={
            "hidden_act": ("swigluoai", "silu"),
            "swiglu_alpha": 1.702,
            "n_shared_experts": 1,
            "scoring_func": "sigmoid",
            "use_routing_bias": True,
            "use_gemma_norm": True,
            "use_qk_norm": True,
            "qk_norm_type": "per_head",
            "attention_output_gate": False,
            f"{SPARSE}.use_sparse_attention": True,
            f"{SPARSE}.sparse_score_type": "max",
            f"{SPARSE}.sparse_init_block": 0,
        },
        irrelevant=(
            "first_k_dense_replace",
            "rotary_dim",
            "num_nextn_predict_layers",
            "index_n_heads",
            "index_head_dim",
            "index_block_size",
            "index_topk_blocks",
            "index_local_blocks",
        ),  # the last where no layer chooses blocks
        names=in_layers(
            PREFIX,
            {
                "attn.index.q": ("self_attn.indexer.q_proj", "self_attn.index_q_proj"),
                "attn.index.k": ("self_attn.indexer.k_proj", "self_attn.index_k_proj"),
                "attn.index.q_norm": ("self_attn.indexer.q_norm", "self_attn.index_q_norm"),
                "attn.index.k_norm": ("self_attn.indexer.k_norm", "self_attn.index_k_norm"),
                "mlp.gate": ("mlp.gate_proj", _dense),
                "mlp.up": ("mlp.up_proj", _dense),
                "moe.norm": "post_attention_layernorm",
                "moe.router": ("mlp.gate", "block_sparse_moe.gate"),
                "moe.selection_bias": (
                    bare("mlp.gate.e_score_correction_bias"),
                    bare("block_sparse_moe.e_score_correction_bias"),
                ),
                **own_experts("block_sparse_moe.experts", "w1", "w3", "w2", together="mlp.experts"),
                "moe.shared.gate": ("block_sparse_moe.shared_experts.gate_proj", _shared),
                "moe.shared.up": ("block_sparse_moe.shared_experts.up_proj", _shared),
                "moe.shared.down": ("block_sparse_moe.shared_experts.down_proj", "mlp.shared_experts.down_proj"),
            },
        ),
    ),
    nested=(SPARSE,),
)

READERS: dict[str, Reader] = {
    "minimax_m2": MINIMAX_M2,
    "minimax_m3": MINIMAX_M3,
    "minimax_m3_vl_text": MINIMAX_M3,
}
