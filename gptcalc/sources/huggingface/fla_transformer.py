"""The plain transformer of the flash-linear-attention library, by which its linear attentions are measured: Llama
under other names."""

from __future__ import annotations

from gptcalc.sources.huggingface.fla import DEFAULTS, FUSED_EPS, KERNELS, ROPE_THETA, inner
from gptcalc.sources.huggingface.llama import LLAMA, PREFIX
from gptcalc.sources.huggingface.reader import Hole, Reader, optional, rmsnorm, sites, size, when
from gptcalc.sources.huggingface.rope import rope
from gptcalc.sources.huggingface.tensors import in_layers

TRANSFORMER = LLAMA.but(
    document={
        "n_heads": size("num_heads"),
        "n_kv_heads": optional("num_kv_heads"),
        "d_head": None,
        "d_ff": Hole(inner),
        "layers": "n*attn+mlp",
        "rope": rope(fraction=None),
        "norm": rmsnorm("norm_eps"),
        "bias": sites(qkv="qkv_bias"),
        "attn": {
            "window": optional("window_size"),
            "qk_norm": when("qk_norm", {"over": "head", "kind": "rmsnorm", "eps": FUSED_EPS}),
        },
    },
    defaults={**DEFAULTS, "num_heads": 32, "qkv_bias": False, "qk_norm": False, "rope_theta": ROPE_THETA},
    only={"elementwise_affine": True, "attention_bias": False},
    irrelevant=KERNELS,
    names={
        "embedding.token": "model.embeddings",
        **in_layers(
            PREFIX,
            {
                "attn.norm": "attn_norm",
                **{f"attn.{key}": f"attn.{key}_proj" for key in ("q", "k", "v")},
                **{f"attn.{key}_norm": f"attn.{key}_norm" for key in ("q", "k")},
                "attn.out": "attn.o_proj",
                "mlp.norm": "mlp_norm",
            },
        ),
    },
)

READERS: dict[str, Reader] = {"transformer": TRANSFORMER}
