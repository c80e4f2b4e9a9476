"""StableLM: GPT-NeoX with gated MLPs."""

from __future__ import annotations

from gptcalc.sources.huggingface.gpt_neo import GPT_NEOX, _plain
from gptcalc.sources.huggingface.reader import Reader, activation, sites, when
from gptcalc.sources.huggingface.rope import rope
from gptcalc.sources.huggingface.tensors import in_layers

STABLELM = GPT_NEOX.but(
    defaults={"partial_rotary_factor": 0.25},
    document={
        "layers": when("use_parallel_residual", "n*attn|mlp", "n*attn+mlp"),
        "parallel_norm": None,
        "rope": rope(fraction="partial_rotary_factor"),
        "mlp": activation("hidden_act", gated=True),
        "bias": sites(qkv="use_qkv_bias"),
        "attn": {"qk_norm": when("qk_layernorm", {"over": "each", "bias": False})},
    },
    names={
        **_plain,
        **in_layers(
            "model.layers.{l}.",
            {
                "attn.out": "self_attn.o_proj",
                "attn.q_norm": "self_attn.q_layernorm.norms.{e}",
                "attn.k_norm": "self_attn.k_layernorm.norms.{e}",
                "mlp.gate": "mlp.gate_proj",
                "mlp.up": "mlp.up_proj",
                "mlp.down": "mlp.down_proj",
            },
        ),
        "final_norm": "model.norm",
    },
)

READERS: dict[str, Reader] = {
    "stablelm": STABLELM,
    "stablelm_epoch": STABLELM.but(like="stablelm"),
}
