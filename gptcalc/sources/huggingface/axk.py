"""A.X K1: DeepSeek-V3 with a norm behind the experts; A.X K2: sparse attention, gated norms and outputs."""

from __future__ import annotations

from typing import Any

from gptcalc.sources.huggingface.deepseek import DEEPSEEK_V32, FIRST_DENSE, LATENT, index
from gptcalc.sources.huggingface.experts import SIGMOID, SPARSE
from gptcalc.sources.huggingface.llama import PREFIX
from gptcalc.sources.huggingface.pattern import listed, stack
from gptcalc.sources.huggingface.reader import Reader, size, when
from gptcalc.sources.huggingface.tensors import fused, in_layers

AXK1 = FIRST_DENSE.but(
    document={"moe": {**SIGMOID, "norm_at": "sandwich"}},
    names=in_layers(PREFIX, {"moe.post_norm": "post_mlp_layernorm"}),
)

# With an indexer of one head many keys score alike (a relu leaves zeros), and which of equal ones are chosen is open:
# torch takes others than a stable order does. So logits of such small models may differ from transformers'.
_gated: dict[str, Any] = {"norm_gate": {"rank": size("gated_norm_rank")}}

AXK2 = DEEPSEEK_V32.but(
    document={
        "layers": stack(listed("layer_types", {"indexed_attention": "mla"}, "mla"), SPARSE),
        "mla": {
            **LATENT,
            "bias": when("attention_bias", ["q_a", "kv_a", "out"]),
            "raw_queries": True,
            "gate": "full",
            "index": index(),
            **_gated,
        },
        "moe": {**SIGMOID, **_gated},
    },
    defaults={"first_k_dense_replace": 1},
    only={"n_group": (), "topk_group": ()},
    names=in_layers(
        PREFIX,
        {
            **fused("self_attn.q_b_proj", (("attn.q_b", "d_qk"), ("attn.gate", "d_v")), groups="n_heads"),
            "attn.norm": ("input_layernorm.norm", "input_layernorm"),
            "attn.norm.gate_a": "input_layernorm.W_down",
            "attn.norm.gate_b": "input_layernorm.W_up",
            "moe.norm": ("post_attention_layernorm.norm", "post_attention_layernorm"),
            "moe.norm.gate_a": "post_attention_layernorm.W_down",
            "moe.norm.gate_b": "post_attention_layernorm.W_up",
        },
    ),
)

READERS: dict[str, Reader] = {"axk1": AXK1, "axk2": AXK2}
