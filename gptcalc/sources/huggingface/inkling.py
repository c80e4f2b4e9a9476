"""Inkling: positions by a learned relative bias, short convolutions behind keys, values and every sublayer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gptcalc.sources.huggingface.experts import DENSE_OR_SPARSE, EXPERT_NAMES
from gptcalc.sources.huggingface.fields import Fields
from gptcalc.sources.huggingface.llama import LLAMA, PREFIX
from gptcalc.sources.huggingface.pattern import first, listed, stack
from gptcalc.sources.huggingface.reader import Hole, Reader, number, optional, size
from gptcalc.sources.huggingface.tensors import Held, bare, in_layers

_kernel = size("conv_kernel_size", "sconv_kernel_size")


def whole_past(fields: Fields) -> str:
    """The section of layers without a window, of which queries may grow beyond a length."""
    return "attn" if fields.get("log_scaling_n_floor") is None else "growing"


def mixers(fields: Fields, n: int) -> Sequence[str]:
    """Windows where layer_types or local_layer_ids say so, else in all layers but every sixth."""
    whole = whole_past(fields)
    words = {"hybrid": whole, "hybrid_sliding": "local"}
    windowed = fields.items("local_layer_ids")

    def numbered(_: Fields, n: int) -> Sequence[str]:
        chosen = [i for i in range(n) if (i + 1) % 6] if windowed is None else windowed
        return ["local" if i in chosen else whole for i in range(n)]

    return listed("layer_types", words, numbered)(fields, n)


def growth(fields: Fields) -> dict[str, Any] | None:
    floor, scale = fields.number("log_scaling_n_floor"), fields.number("log_scaling_alpha")
    return None if floor is None else {"floor": floor, "scale": scale, "form": "beyond"}


def inverse(name: str) -> Hole:
    def read(fields: Fields) -> float | None:
        value = fields.number(name)
        if value is not None and value <= 0:
            fields.wrong((name,), "a positive number", value)
        return None if value is None else 1 / value

    return Hole(read)


def dense_width(fields: Fields) -> int:
    """Where dense_intermediate_size is given, intermediate_size is that of an expert."""
    return fields.size("dense_intermediate_size") or fields.needed("intermediate_size")


def expert_width(fields: Fields) -> int:
    given, own = fields.size("intermediate_size"), fields.size("moe_intermediate_size")
    if fields.present("dense_intermediate_size") and given is not None:
        return given
    return own or fields.needed("moe_intermediate_size")


def no_modules(fields: Fields) -> None:
    if fields.size("num_mtp_layers", least=0):
        fields.notes.append(f"{fields.within}num_mtp_layers: multi-token prediction of this type is left out")


INKLING = LLAMA.but(
    document={
        "d_ff": Hole(dense_width),
        "layers": stack(mixers, listed("mlp_layer_types", DENSE_OR_SPARSE, first("dense_mlp_idx", "mlp", "moe"))),
        "tying": None,
        "rope": None,
        "position": "none",
        "bias": None,
        "logit_scale": inverse("logits_mup_width_multiplier"),
        "embedding": {"norm": True},
        "attn": {
            "qk_norm": "head",
            "scale": inverse("head_dim"),
            "relative": {"d": size("d_rel"), "extent": size("rel_extent")},
            "kv_conv": _kernel,
            "out_conv": _kernel,
        },
        "growing": {"like": "attn", "temperature": Hole(growth)},
        "local": {
            "like": "attn",
            "n_heads": size("swa_num_attention_heads"),
            "n_kv_heads": size("swa_num_key_value_heads"),
            "d_head": size("swa_head_dim"),
            "scale": inverse("swa_head_dim"),
            "window": size("sliding_window_size", "sliding_window"),
            "relative": {"d": size("d_rel"), "extent": size("sliding_window_size", "sliding_window")},
        },
        "mlp": {"activation": LLAMA.document["mlp"], "out_scale": True, "out_conv": _kernel},
        "moe": {
            "n_experts": size("n_routed_experts", "num_local_experts"),
            "top_k": size("num_experts_per_tok"),
            "d_ff": Hole(expert_width),
            "activation": LLAMA.document["mlp"],
            "n_shared": optional("n_shared_experts"),
            "router": "sigmoid",
            "selection_bias": True,
            "route_scale": number("route_scale"),
            "shared_sink": True,
            "learned_route_scale": True,
            "out_conv": _kernel,
        },
        "mtp": Hole(no_modules),
    },
    defaults={"dense_mlp_idx": 0},
    only={"shared_expert_sink": True, "tie_word_embeddings": False},
    irrelevant=(
        "local_layer_ids", "dense_mlp_idx", "unpadded_vocab_size", "rms_norm_eps_moe_gate", "number_of_conv_states",
        "log_scaling_alpha", "chain_hidden_post_norm", "mtp_hidden_states_first", "mtp_local_layer_ids",
    ),
    names={
        "embedding.norm": "model.embed_tokens.embed_norm",
        **EXPERT_NAMES,
        **in_layers(
            PREFIX,
            {
                "attn.relative.states": "self_attn.r_proj",
                "attn.relative.profiles": bare("self_attn.rel_logits_proj.proj", stored="in,out"),
                "attn.k_conv": "self_attn.k_sconv.conv1d",
                "attn.v_conv": "self_attn.v_sconv.conv1d",
                "attn.conv": "attn_sconv.conv1d",
                "mlp.conv": "mlp_sconv.conv1d",
                "mlp.out_scale": bare("mlp.global_scale"),
                "moe.conv": "mlp_sconv.conv1d",
                "moe.route_scale": bare("mlp.gate.global_scale"),
                "moe.selection_bias": bare("mlp.gate.e_score_correction_bias"),
                "moe.shared.gate": bare("mlp.shared_experts.gate_proj"),
                "moe.shared.up": bare("mlp.shared_experts.up_proj"),
                "moe.shared.down": Held("mlp.shared_experts.down_proj", stored="each out,in", weight=""),
            },
        ),
    },
)  # fmt: skip

READERS: dict[str, Reader] = {
    "inkling_text": INKLING,
}
