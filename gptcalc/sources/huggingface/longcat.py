"""LongCat: two latent attentions, two MLPs and experts across them in each layer."""

from __future__ import annotations

from gptcalc.sources.huggingface.deepseek import DEEPSEEK_V2, LATENT, LATENT_NAMES, latent_scale
from gptcalc.sources.huggingface.llama import PREFIX
from gptcalc.sources.huggingface.reader import Reader, flag, number, optional, sites, size
from gptcalc.sources.huggingface.tensors import Held, Names, bare, in_layers


def numbered(entries: Names, number: int) -> Names:
    """The weights of one of a block's attentions, stored as self_attn.0 and self_attn.1; ours are attn and attn2."""
    ours = "attn." if number == 0 else f"attn{number + 1}."

    def moved(entry: str | Held) -> str | Held:
        if isinstance(entry, str):
            return entry.replace("self_attn.", f"self_attn.{number}.")
        parts = tuple((part.replace("attn.", ours, 1), width) for part, width in entry.parts)
        return Held(entry.module.replace("self_attn.", f"self_attn.{number}."), parts, entry.groups)

    return {s.replace("attn.", ours, 1): moved(e) for s, e in entries.items() if isinstance(e, (str, Held))}


_two = {**LATENT_NAMES, "attn.out": f"{PREFIX}self_attn.o_proj"}

LONGCAT_NAMES: Names = {
    **numbered(_two, 0),
    **numbered(_two, 1),
    **in_layers(
        PREFIX,
        {
            "attn.norm": "input_layernorm.0",
            "parallel.norm": "post_attention_layernorm.0",
            "attn2.norm": "input_layernorm.1",
            "mlp2.norm": "post_attention_layernorm.1",
            "mlp.gate": "mlps.0.gate_proj",
            "mlp.up": "mlps.0.up_proj",
            "mlp.down": "mlps.0.down_proj",
            "mlp2.gate": "mlps.1.gate_proj",
            "mlp2.up": "mlps.1.up_proj",
            "mlp2.down": "mlps.1.down_proj",
            "moe.router": "mlp.router.classifier",
            "moe.selection_bias": bare("mlp.router.e_score_correction_bias"),
        },
    ),
}


LONGCAT = DEEPSEEK_V2.but(
    document={
        "n_layers": size("num_layers", "num_hidden_layers"),
        "d_ff": size("ffn_hidden_size", "intermediate_size"),
        "layers": "n*[mla+(mlp+mla+mlp)|moe]",
        "mla": {**LATENT, "q_scale": latent_scale(size("q_lora_rank")), "kv_scale": latent_scale(size("kv_lora_rank"))},
        "moe": {
            "n_experts": size("n_routed_experts", "num_local_experts"),
            "top_k": size("moe_topk", "num_experts_per_tok"),
            "d_ff": size("expert_ffn_hidden_size", "moe_intermediate_size"),
            "n_identity": optional("zero_expert_num", least=0),
            "route_scale": number("routed_scaling_factor"),
            "bias": sites(router="router_bias"),
            "selection_bias": True,
            "normalize": flag("norm_topk_prob"),
        },
    },
    only={
        "zero_expert_type": "identity",
        "mla_scale_q_lora": True,
        "mla_scale_kv_lora": True,
        "attention_method": "MLA",
    },
    irrelevant=("attention_method",),
    names=LONGCAT_NAMES,
)

READERS: dict[str, Reader] = {
    "longcat_flash": LONGCAT,
}
