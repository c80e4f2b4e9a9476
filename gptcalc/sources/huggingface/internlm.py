"""InternLM."""

from __future__ import annotations

from gptcalc.sources.huggingface.heads import DECODERS, scores
from gptcalc.sources.huggingface.llama import LLAMA, PLAIN, PREFIX
from gptcalc.sources.huggingface.reader import Reader, flag, sites
from gptcalc.sources.huggingface.tensors import QKV, fused, in_layers

INTERNLM = LLAMA.but(
    document={"bias": sites(attn="bias")},
    defaults={**PLAIN, "bias": True},
    only={"rotary": ({"base": 10000, "type": "dynamic"}, {"base": 10000, "type": "origin"})},
)

INTERNLM2 = LLAMA.but(
    document={"bias": sites(attn="bias")},
    defaults={**PLAIN, "bias": False, "max_position_embeddings": 32768},
    names={
        "embedding.token": "model.tok_embeddings",
        **in_layers(
            PREFIX,
            {
                "attn.norm": "attention_norm",
                **fused("attention.wqkv", QKV, groups="n_kv_heads"),
                "attn.out": "attention.wo",
                "mlp.norm": "ffn_norm",
                "mlp.gate": "feed_forward.w1",
                "mlp.up": "feed_forward.w3",
                "mlp.down": "feed_forward.w2",
            },
        ),
        "head": "output",
        "pooler.labels": ("v_head", "score"),
    },
    classes={**DECODERS, "ForRewardModel": scores("last", 1, bias=False)},
)

INTERNLM3 = LLAMA.but(document={"bias": sites(attn=flag("attention_bias", "qkv_bias"), mlp=flag("mlp_bias", "bias"))})

READERS: dict[str, Reader] = {
    "internlm": INTERNLM,
    "internlm2": INTERNLM2,
    "internlm3": INTERNLM3,
}
