"""Phi: GPT-NeoX without biases of its own (1, 2), Llama with fused projections (3), sparse mixers (3.5 MoE)."""

from __future__ import annotations

from gptcalc.sources.huggingface.fields import Fields
from gptcalc.sources.huggingface.gpt_neo import GPT_NEOX, _plain
from gptcalc.sources.huggingface.llama import PREFIX
from gptcalc.sources.huggingface.mistral import MISTRAL, MIXTRAL
from gptcalc.sources.huggingface.reader import Hole, Reader, layernorm, number, sites, size, when
from gptcalc.sources.huggingface.rope import rope
from gptcalc.sources.huggingface.tensors import GATE_UP, QKV, fused, in_layers

PHI = GPT_NEOX.but(
    defaults={"partial_rotary_factor": 0.5},
    document={
        "layers": "n*attn|mlp",
        "parallel_norm": None,
        "rope": rope(),
        "bias": ["attn", "mlp", "head"],
        "attn": {"qk_norm": when("qk_layernorm", "head")},
    },
    names={**_plain, **in_layers("model.layers.{l}.", {"mlp.up": "mlp.fc1", "mlp.down": "mlp.fc2"})},
)

PHI3 = MISTRAL.but(names=in_layers(PREFIX, {**fused("self_attn.qkv_proj", QKV), **fused("mlp.gate_up_proj", GATE_UP)}))


def two_experts(fields: Fields) -> int:
    """A sparse mixer chooses twice, whatever a config says; the vendor's own code allows nothing else."""
    if (given := fields.needed("num_experts_per_tok")) != 2:
        raise fields.unsupported("num_experts_per_tok", f"only 2 is understood, found {given}")
    return given


PHIMOE = MIXTRAL.but(
    document={
        "norm": layernorm("rms_norm_eps"),
        "bias": sites(attn="attention_bias", head="lm_head_bias"),
        "moe": {
            "n_experts": size("num_local_experts"),
            "top_k": Hole(two_experts),
            "router": "sparsemixer",
            "jitter": number("router_jitter_noise"),
            "normalize": False,
        },
    },
    irrelevant=("input_jitter_noise", "router_jitter_noise"),
    names=in_layers(PREFIX, {"moe.router": ("block_sparse_moe.gate", "mlp.router")}),
)

READERS: dict[str, Reader] = {
    "phimoe": PHIMOE,
    "phi": PHI,
    "phi3": PHI3,
    "phi4_multimodal": PHI3.but(irrelevant=("original_max_position_embeddings",)),
}
