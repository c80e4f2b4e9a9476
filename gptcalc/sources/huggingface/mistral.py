"""Mistral: Llama with windows, mixtures of experts, latent attention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gptcalc.errors import InputError
from gptcalc.sources.huggingface.deepseek import DEEPSEEK_V2, DEEPSEEK_V3, INDEX_NAMES, LATENT, index
from gptcalc.sources.huggingface.experts import EXPERTS, MIXTRAL_NAMES, SPARSE, groups
from gptcalc.sources.huggingface.fields import Fields
from gptcalc.sources.huggingface.llama import LLAMA, PREFIX
from gptcalc.sources.huggingface.pattern import FULL, stack
from gptcalc.sources.huggingface.reader import Hole, Reader, number, optional, rmsnorm, size, when
from gptcalc.sources.huggingface.rope import parameters
from gptcalc.sources.huggingface.tensors import Held, bare, in_layers
from gptcalc.sources.huggingface.windows import WINDOWS_IN_PLACES

MISTRAL = LLAMA.but(document={"attn": {"window": optional("sliding_window", "sliding_window_size")}})

MINISTRAL = LLAMA.but(document=WINDOWS_IN_PLACES)

MINISTRAL3_ROPE = {
    "rope_type": "yarn",
    "rope_theta": 1000000.0,
    "factor": 16.0,
    "original_max_position_embeddings": 16384,
    "mscale": 1.0,
    "mscale_all_dim": 1.0,
    "llama_4_scaling_beta": 0.1,
}


def temperature(fields: Fields) -> dict[str, Any] | None:
    """Queries that grow with the position beyond the trained length."""
    own = parameters(fields, FULL) or {}
    scale = own.get("llama_4_scaling_beta")
    if not scale:
        return None
    return {"floor": own.get("original_max_position_embeddings"), "scale": scale, "shift": 0}


MINISTRAL3 = MISTRAL.but(
    document={"attn": {"window": optional("sliding_window"), "temperature": Hole(temperature)}},
    defaults={"rope_parameters": MINISTRAL3_ROPE},
)

MIXTRAL = LLAMA.but(
    document={
        "layers": stack("attn", "moe"),
        "attn": {"window": optional("sliding_window")},
        "moe": {"n_experts": size("num_local_experts", "num_experts"), "top_k": size("num_experts_per_tok")},
    },
    names=MIXTRAL_NAMES,
)

MISTRAL4 = DEEPSEEK_V3.but(
    document={"mla": {**LATENT, "temperature": Hole(temperature)}, "moe": {**EXPERTS, "groups": groups(score="top2")}},
    defaults={
        "rope_parameters": {
            "rope_type": "yarn",
            "factor": 128.0,
            "original_max_position_embeddings": 8192,
            "mscale": 1.0,
            "mscale_all_dim": 1.0,
            "llama_4_scaling_beta": 0.1,
        }
    },
    only={"scoring_func": "softmax"},
)


def rotating(fields: Fields, n: int) -> Sequence[str]:
    """Layers without rotation by a list of flags, else every fourth; each has latents and a choice of its own."""
    flags = fields.items("no_rope_layers")
    step = fields.size("no_rope_layer_interval") or 4
    rotates = [(i + 1) % step for i in range(n)] if flags is None else flags[:n]
    if len(rotates) != n:
        raise InputError(f"{fields.within}no_rope_layers has {len(rotates)} entries, the model {n} layers")
    sources, choices = fields.items("kv_source_layers"), fields.items("indexer_types")
    if sources is not None and sources != list(range(n)):
        raise fields.unsupported("kv_source_layers", "shared latents are not understood")
    if choices is not None and set(choices) != {"full"}:
        raise fields.unsupported("indexer_types", "shared choices are not understood")
    return ["mla" if flag else "nope" for flag in rotates]


def all_turn(fields: Fields) -> bool:
    """Frequencies are learned, as many as the channels apart from the latent have pairs."""
    share = (parameters(fields, FULL) or {}).get("partial_rotary_factor")
    if share not in (None, 1):
        raise fields.unsupported("rope_parameters.partial_rotary_factor", "only 1 is understood")
    return True


def whole_head(fields: Fields) -> int:
    """Where nothing turns, all of a head's channels come from the latent."""
    return fields.needed("qk_nope_head_dim") + fields.needed("qk_rope_head_dim")


MISTRAL_LARGE4 = DEEPSEEK_V2.but(
    document={
        "layers": stack(rotating, SPARSE),
        "softcap": number("final_logit_softcapping"),
        "learned_frequencies": Hole(all_turn),
        "mla": {
            **{key: hole for key, hole in LATENT.items() if key != "q_rank"},
            "bias": when("attention_bias", ["kv_a", "out"]),
            "latent_norm": rmsnorm(),
            "ssmax": True,
            "index": index(pairing="adjacent", q_norm={"kind": "layernorm", "eps": 1e-6}, ssmax=True),
        },
        "nope": {"like": "mla", "position": "none", "d_nope": Hole(whole_head), "d_rope": 0},
        "moe": {**EXPERTS, "normalize": True, "groups": groups()},
    },
    only={"scoring_func": "softmax", "indexer_rope_interleave": True, "rope_interleave": True, "layer_types": None},
    irrelevant=("layer_types", "num_key_value_heads"),
    names={
        **INDEX_NAMES,
        "rope.alpha": bare("model.rotary_emb.alpha"),
        **in_layers(
            PREFIX,
            {
                "attn.ssmax.scale": bare("self_attn.softmax_scaling.scale"),
                "attn.ssmax": Held("self_attn.softmax_scaling", bias=".bias"),
                "attn.index.q_norm": "self_attn.indexer.q_input_norm",
                "attn.index.ssmax.scale": bare("self_attn.indexer.softmax_scaling.scale"),
                "attn.index.ssmax": Held("self_attn.indexer.softmax_scaling", bias=".bias"),
            },
        ),
    },
)

READERS: dict[str, Reader] = {
    "mixtral": MIXTRAL,
    "mistral4": MISTRAL4,
    "mistral_large4_text": MISTRAL_LARGE4,
    "mistral": MISTRAL,
    "ministral": MINISTRAL,
    "ministral3": MINISTRAL3,
}
