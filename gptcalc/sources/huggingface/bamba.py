"""Bamba: Mamba-2 before an MLP, attention in a few layers."""

from __future__ import annotations

from collections.abc import Sequence

from gptcalc.sources.huggingface.fields import Fields
from gptcalc.sources.huggingface.llama import LLAMA, PREFIX
from gptcalc.sources.huggingface.mamba import EXPANDED, FEED_FORWARD, HEADS, MAMBA_OR_ATTENTION, mamba2, mamba2_names
from gptcalc.sources.huggingface.pattern import listed, stack
from gptcalc.sources.huggingface.reader import Reader
from gptcalc.sources.huggingface.tensors import in_layers


def chosen_layers(fields: Fields, n: int) -> Sequence[str]:
    """Attention in the layers that a list numbers."""
    chosen = fields.items("attn_layer_indices") or []
    return ["attn" if i in chosen else "mamba2" for i in range(n)]


BAMBA = LLAMA.but(
    document={
        "layers": stack(listed("layer_types", MAMBA_OR_ATTENTION, chosen_layers), "mlp"),
        "mamba2": mamba2(EXPANDED),
        **HEADS,
    },
    defaults={"partial_rotary_factor": 0.5},
    irrelevant=("z_loss_coefficient",),
    names={
        "final_norm": "model.final_layernorm",
        **in_layers(PREFIX, {"mamba2.norm": "input_layernorm", **mamba2_names("mamba"), **FEED_FORWARD}),
    },
)

READERS: dict[str, Reader] = {"bamba": BAMBA}
