"""Llama 4: chunks with rotary positions, and layers without either; experts chosen by one sigmoid each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gptcalc.errors import InputError
from gptcalc.sources.huggingface.experts import shared_experts
from gptcalc.sources.huggingface.fields import Fields, shown
from gptcalc.sources.huggingface.llama import LLAMA, PREFIX
from gptcalc.sources.huggingface.pattern import CHUNKED, FULL, stack
from gptcalc.sources.huggingface.reader import Hole, Reader, sites, size, when
from gptcalc.sources.huggingface.rope import rope
from gptcalc.sources.huggingface.tensors import EXPERTS_GATE_UP, bare, in_layers


def llama4_mixers(fields: Fields, n: int) -> Sequence[str]:
    """Rotary positions by no_rope_layers (1 where a layer has them), chunks by layer_types or with the positions."""
    step = fields.needed("no_rope_layer_interval")
    rotates = fields.items("no_rope_layers") or [int((i + 1) % step != 0) for i in range(n)]
    chunk = fields.size("attention_chunk_size") is not None
    kinds = fields.items("layer_types") or [CHUNKED if flag and chunk else FULL for flag in rotates]
    if len(rotates) != n or len(kinds) != n:
        raise InputError(f"{fields.within}no_rope_layers and layer_types: expected {n} entries each")
    known = {(1, CHUNKED): "chunk", (1, FULL): "rotary", (0, FULL): "nope"}
    for i, kind in enumerate(zip(rotates, kinds, strict=True)):
        if kind not in known:
            raise fields.unsupported(f"layer_types[{i}]", f"{shown(kind[1])} is not understood there")
    return [known[kind] for kind in zip(rotates, kinds, strict=True)]


def llama4_feed_forward(fields: Fields, n: int) -> Sequence[str]:
    step = fields.size("interleave_moe_layer_step", least=0) or 0
    given = fields.items("moe_layers")
    sparse = given if given is not None else list(range(step - 1, n, step)) if step else []
    return ["moe" if i in sparse else "mlp" for i in range(n)]


def llama4_temperature(fields: Fields) -> dict[str, Any] | None:
    floor, scale = fields.number("floor_scale"), fields.number("attn_scale")
    return {"floor": floor, "scale": scale} if fields.get("attn_temperature_tuning") else None


_chunked = {
    "like": "attn",
    "qk_norm": when("use_qk_norm", {"over": "head", "kind": "rmsnorm", "weight": False, "after_rope": True}),
}

LLAMA4 = LLAMA.but(
    document={
        "d_ff": size("intermediate_size_mlp"),
        "layers": stack(llama4_mixers, llama4_feed_forward),
        "rope": rope(pairing="adjacent"),
        "bias": sites(attn="attention_bias"),
        "chunk": {**_chunked, "chunk": size("attention_chunk_size")},
        "rotary": _chunked,
        "nope": {"like": "attn", "position": "none", "temperature": Hole(llama4_temperature)},
        "attn": {},
        "moe": {
            "n_experts": size("num_local_experts"),
            "top_k": size("num_experts_per_tok"),
            "d_ff": size("intermediate_size"),
            "n_shared": 1,
            "router": "topk_sigmoid",
            "normalize": False,
            "weight_at": "input",
        },
    },
    only={"for_llm_compressor": False},
    names=in_layers(
        PREFIX,
        {
            "mlp.gate": "feed_forward.gate_proj",
            "mlp.up": "feed_forward.up_proj",
            "mlp.down": "feed_forward.down_proj",
            "moe.norm": "post_attention_layernorm",
            "moe.router": "feed_forward.router",
            "moe.gate": bare("feed_forward.experts.gate_up_proj", parts=EXPERTS_GATE_UP, stored="in,out"),
            "moe.up": bare("feed_forward.experts.gate_up_proj", parts=EXPERTS_GATE_UP, stored="in,out"),
            "moe.down": bare("feed_forward.experts.down_proj", stored="in,out"),
            **shared_experts("feed_forward.shared_expert"),
        },
    ),
)

READERS: dict[str, Reader] = {"llama4_text": LLAMA4}
