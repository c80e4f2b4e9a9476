"""ERNIE 4.5, dense and with experts."""

from __future__ import annotations

from collections.abc import Sequence

from gptcalc.sources.huggingface.experts import EXPERT_NAMES, shared_experts
from gptcalc.sources.huggingface.fields import Fields
from gptcalc.sources.huggingface.llama import LLAMA, PREFIX
from gptcalc.sources.huggingface.pattern import first, listed, stack
from gptcalc.sources.huggingface.reader import Hole, Reader, optional, size, when
from gptcalc.sources.huggingface.rope import rope
from gptcalc.sources.huggingface.tensors import Entry, bare, in_layers

ERNIE = LLAMA.but(document={"rope": rope(pairing="adjacent"), "bias": when("use_bias", ["attn", "mlp"])})


def ernie_layers(fields: Fields, n: int) -> Sequence[str]:
    """Experts in every moe_layer_interval-th layer from a first to a last one."""
    begin = fields.size("moe_layer_start_index", least=0) or 0
    end = fields.size("moe_layer_end_index", least=-1)
    last = n - 1 if end in (None, -1) else end
    step = fields.size("moe_layer_interval") or 1
    return ["moe" if (i + 1) % step == 0 and begin <= i <= last else "mlp" for i in range(n)]


ERNIE_MOE = ERNIE.but(
    document={
        "layers": stack("attn", ernie_layers),
        "bias": when("use_bias", ["attn", "mlp", "head"]),
        "moe": {
            "n_experts": size("moe_num_experts", "num_experts"),
            "top_k": size("moe_k", "num_experts_per_tok"),
            "d_ff": size("moe_intermediate_size"),
            "n_shared": optional("moe_num_shared_experts", least=0),
            "selection_bias": True,
            "bias": when("use_bias", ["shared"]),
        },
    },
    only={"moe_norm_min": (1e-12,)},  # that of the chosen weights' sum, which is never so small
    irrelevant=(
        "moe_capacity",
        "moe_gate",
        "moe_use_aux_free",
        "moe_multimodal_dispatch_use_allgather",
    ),
    names={
        **EXPERT_NAMES,
        **in_layers(
            PREFIX,
            {
                **shared_experts("mlp.shared_experts"),
                "moe.selection_bias": (
                    bare("mlp.moe_statics.e_score_correction_bias"),
                    bare("mlp.gate.moe_statics.e_score_correction_bias"),
                ),
            },
        ),
    },
)


def of_experts(n: int) -> Hole:
    """The width of text's experts, or of images' ones."""

    def read(fields: Fields) -> int:
        widths = fields.items("moe_intermediate_size") or [1536, 512]
        if len(widths) != 2 or any(type(width) is not int or width < 1 for width in widths):
            fields.wrong(("moe_intermediate_size",), "two positive integers", widths)
        return int(widths[n])

    return Hole(read)


def apart(where: str, module: str) -> dict[str, Entry]:
    """The names of one of two mixtures in a layer."""
    both = bare(f"mlp.{module}.experts.gate_up_proj", parts=((f"{where}.gate", 1), (f"{where}.up", 1)))
    return {
        f"{where}.router": f"mlp.{module}.gate",
        f"{where}.selection_bias": bare(f"mlp.{module}.gate.moe_statics.e_score_correction_bias"),
        f"{where}.gate": both,
        f"{where}.up": both,
        f"{where}.down": bare(f"mlp.{module}.experts.down_proj"),
    }


#: every token passes the shared experts; a router of their own sends texts' tokens, and images' ones
ERNIE_VL = ERNIE_MOE.but(
    document={
        "bias": when("use_bias", ["attn", "mlp"]),
        "layers": stack(
            "attn", listed("mlp_layer_types", {"dense": "mlp", "sparse": "moe|images"}, first(1, "mlp", "moe|images"))
        ),
        "moe": {
            "n_experts": size("moe_num_experts", "num_experts"),
            "top_k": size("moe_k", "num_experts_per_tok"),
            "d_ff": of_experts(0),
            "n_shared": optional("moe_num_shared_experts", least=0),
            "selection_bias": True,
            "bias": when("use_bias", ["shared"]),
            "tokens": "text",
        },
        "images": {"like": "moe", "d_ff": of_experts(1), "n_shared": 0, "bias": [], "tokens": "images"},
    },
    names=in_layers(
        PREFIX,
        {"parallel.norm": "post_attention_layernorm", **apart("moe", "text_moe"), **apart("moe2", "vision_moe")},
    ),
)

READERS: dict[str, Reader] = {
    "ernie4_5_vl_moe_text": ERNIE_VL,
    "ernie4_5": ERNIE,
    "ernie4_5_moe": ERNIE_MOE,
    "paddleocr_vl_text": ERNIE.but(document={"rope": rope()}),
}
