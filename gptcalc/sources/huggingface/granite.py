"""Granite: factors of embeddings, residuals, scores and logits; mixtures; windows with sinks; Mamba-2 in hybrids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gptcalc.errors import InputError
from gptcalc.sources.huggingface.fields import Fields
from gptcalc.sources.huggingface.llama import LLAMA, PREFIX
from gptcalc.sources.huggingface.mamba import EXPANDED, HEADS, MAMBA_OR_ATTENTION, mamba2, mamba2_names
from gptcalc.sources.huggingface.pattern import SLIDING, every, listed, stack
from gptcalc.sources.huggingface.reader import Hole, Reader, activation, choice, number, optional, sites, size, when
from gptcalc.sources.huggingface.rope import rope
from gptcalc.sources.huggingface.tensors import EXPERTS_GATE_UP, Held, bare, fused, in_layers
from gptcalc.sources.huggingface.windows import TYPES


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

_granite_inputs = (
    Held("block_sparse_moe.input_linear", parts=EXPERTS_GATE_UP),
    bare("block_sparse_moe.experts.gate_up_proj", parts=EXPERTS_GATE_UP),
)

GRANITEMOE = GRANITE.but(
    document={
        "layers": "n*attn+moe",
        "bias": sites(attn="attention_bias"),
        "moe": {
            "n_experts": size("num_local_experts"),
            "top_k": size("num_experts_per_tok"),
            "router": "topk_softmax",
            "d_shared": optional("shared_intermediate_size", least=0),
        },
    },
    names=in_layers(
        PREFIX,
        {
            "moe.norm": "post_attention_layernorm",
            "moe.router": ("block_sparse_moe.router.layer", "block_sparse_moe.router"),
            "moe.gate": _granite_inputs,
            "moe.up": _granite_inputs,
            "moe.down": ("block_sparse_moe.output_linear", bare("block_sparse_moe.experts.down_proj")),
            **fused("shared_mlp.input_linear", (("moe.shared.gate", 1), ("moe.shared.up", 1))),
            "moe.shared.down": "shared_mlp.output_linear",
        },
    ),
)

KINDS = listed("layer_types", TYPES, every(4, "attn", "local", offset=0))


def bases(fields: Fields, n: int) -> list[float | None]:
    """The base of each layer's rotation; 0: it turns nothing. None: that of the model."""
    found = fields.items("layer_rope_theta")
    if found is None:
        return [None] * n
    if len(found) != n:
        raise InputError(f"{fields.within}layer_rope_theta has {len(found)} entries, the model {n} layers")
    return found


def windows_and_bases(fields: Fields, n: int) -> Sequence[str]:
    kinds = zip(KINDS(fields, n), bases(fields, n), strict=True)
    return [f"{kind}_still" if base == 0 else kind for kind, base in kinds]


def base_of(kind: str) -> Hole:
    """The one base of the layers of a kind that turn."""

    def read(fields: Fields) -> float | None:
        n = fields.needed("num_hidden_layers")
        found = {
            base for own, base in zip(KINDS(fields, n), bases(fields, n), strict=True) if own == kind and base != 0
        }
        if len(found) > 1:
            raise fields.unsupported("layer_rope_theta", f"{kind} layers that turn differently are not understood")
        return found.pop() if found else None

    return Hole(read)


WINDOWED: dict[str, Any] = {
    "rope": rope(base_of("attn")),
    "attn": {"scale": number("attention_multiplier"), "sinks": True},
    "local": {"like": "attn", "window": size("sliding_window"), "rope": rope(base_of("local"), layer_type=SLIDING)},
    "attn_still": {"like": "attn", "position": "none"},
    "local_still": {"like": "local", "position": "none"},
}

GRANITE_SWA = GRANITE.but(
    document={"layers": stack(windows_and_bases, "mlp"), **WINDOWED},
    irrelevant=("rope_theta",),  # where each layer has a base of its own
    names=in_layers(PREFIX, {"attn.sinks": bare("self_attn.sinks")}),
)

GRANITEMOE_SWA = GRANITEMOE.but(
    document={"layers": stack(windows_and_bases, "moe"), **WINDOWED},
    irrelevant=("rope_theta",),  # where each layer has a base of its own
    names=in_layers(PREFIX, {"attn.sinks": bare("self_attn.sinks")}),
)

#: factors of embeddings, residuals, scores and logits as in Granite, the last one a factor; norms behind the sublayers
HYPERCLOVAX = GRANITE.but(
    document={"logit_scale": number("logits_scaling"), "norm_at": when("use_post_norm", "sandwich")},
    names=in_layers(PREFIX, {"attn.post_norm": "post_norm1", "mlp.post_norm": "post_norm2"}),
)

# --- Granite 4 --------------------------------------------------------------------------------------------------------


def feed_forward(fields: Fields, n: int) -> Sequence[str]:
    """Experts where there are any; else what is the shared expert there is the whole of it."""
    return ["moe" if fields.size("num_local_experts", least=0) else "mlp"] * n


def turning(fields: Fields) -> dict[str, Any] | None:
    """The rotation, where the config has one."""
    found: dict[str, Any] | None = rope().read(fields)
    return found if fields.get("position_embedding_type") == "rope" else None


GRANITEMOE_HYBRID = GRANITEMOE.but(
    document={
        "layers": stack(
            listed("layer_types", MAMBA_OR_ATTENTION, listed("layers_block_type", MAMBA_OR_ATTENTION, "mamba2")),
            feed_forward,
        ),
        "position": choice("position_embedding_type", rope="rope", nope="none", null="none"),
        "rope": Hole(turning),
        **HEADS,
        "attn": {**HEADS["attn"], "scale": number("attention_multiplier")},
        "mamba2": mamba2(EXPANDED),
        "mlp": {"d_ff": size("shared_intermediate_size"), "activation": activation("hidden_act", gated=True)},
    },
    irrelevant=(
        "rope_parameters",
        "rope_theta",
        "rope_scaling",
        "init_method",
        "normalization_function",
        "num_experts_per_tok",
        "intermediate_size",
        "layers_block_type",
    ),
    names=in_layers(
        PREFIX,
        {
            "mamba2.norm": "input_layernorm",
            **mamba2_names("mamba"),
            **fused("shared_mlp.input_linear", (("mlp.gate", 1), ("mlp.up", 1))),
            "mlp.down": "shared_mlp.output_linear",
        },
    ),
)

READERS: dict[str, Reader] = {
    "granite": GRANITE,
    "granitemoe": GRANITEMOE,
    "granitemoeshared": GRANITEMOE,
    "granite_swa": GRANITE_SWA,
    "granitemoe_swa": GRANITEMOE_SWA,
    "hyperclovax": HYPERCLOVAX,
    "granitemoehybrid": GRANITEMOE_HYBRID,
    "granite_docling_text": GRANITE,
    "granite4_vision_text": GRANITE,
}
