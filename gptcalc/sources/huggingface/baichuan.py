"""Baichuan."""

from __future__ import annotations

from gptcalc.sources.huggingface.fields import Fields
from gptcalc.sources.huggingface.llama import LLAMA, PLAIN, PREFIX
from gptcalc.sources.huggingface.reader import Hole, Reader, preferred
from gptcalc.sources.huggingface.rope import rope
from gptcalc.sources.huggingface.tensors import QKV, fused, in_layers


def baichuan_position(fields: Fields) -> str | None:
    """The two sizes have code of their own under one model_type: 7B rotates, 13B has linear biases."""
    return None if fields.needed("hidden_size") == 4096 else "alibi"


BAICHUAN = LLAMA.but(
    document={
        "c": preferred("max_position_embeddings", "model_max_length"),
        "position": Hole(baichuan_position),
        "rope": Hole(lambda fields: rope() if baichuan_position(fields) is None else None),
    },
    defaults=PLAIN,
    names=in_layers(PREFIX, fused("self_attn.W_pack", QKV)),
)

READERS: dict[str, Reader] = {
    "baichuan": BAICHUAN,
}
