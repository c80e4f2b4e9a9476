"""CPM-Ant: prompts that see themselves whole, distances by buckets and by pairs of segments.

The class puts the third of its learned prompts in front of every text, as tokens behind the vocabulary. Here they are
tokens like others: a context counts them.
"""

from __future__ import annotations

from typing import Any

from gptcalc.sources.huggingface.fields import Fields
from gptcalc.sources.huggingface.llama import LLAMA
from gptcalc.sources.huggingface.reader import Hole, Reader, rmsnorm, size
from gptcalc.sources.huggingface.tensors import Held, in_layers

TEXT = 2  # the segment of all that is no prompt


def _rows(fields: Fields) -> int:
    """Rows for the tokens of all prompts behind the vocabulary."""
    prompts, length = fields.needed("prompt_types"), fields.needed("prompt_length")
    if prompts <= TEXT:
        fields.wrong(("prompt_types",), "3 or more, of which the third is used", prompts)
    fields.notes.append(f"{fields.within}prompt_length: a context counts the {length} tokens of the prompt in front")
    return fields.needed("vocab_size") + prompts * length


def _types(fields: Fields) -> int:
    found = fields.needed("segment_types")
    if found <= TEXT:
        fields.wrong(("segment_types",), "3 or more, of which texts have the third", found)
    return found


_buckets: dict[str, Any] = {
    "n": size("position_bias_num_buckets"),
    "max_distance": size("position_bias_max_distance"),
    "segments": Hole(_types),
}

CPM_ANT = LLAMA.but(
    document={
        "v": Hole(_rows),
        "c": size("position_bias_max_distance"),
        "n_kv_heads": None,
        "d_head": size("dim_head"),
        "d_ff": size("dim_ff"),
        "layers": "n*attn+mlp",
        "tying": None,
        "rope": None,
        "position": "none",
        "norm": rmsnorm("eps"),
        "mlp": "geglu",
        "bias": None,
        "whole_prompt": True,
        "embedding": {"types": Hole(_types), "type_of": {"special": size("vocab_size"), "other": TEXT}},
        "head": {"rows": size("vocab_size")},
        "attn": {"buckets": _buckets},
    },
    irrelevant=("tie_word_embeddings", "dropout_p", "init_std"),
    names={
        "embedding.token": "cpmant.input_embedding",
        "embedding.types": "cpmant.segment_embedding",
        "relative.buckets": Held("cpmant.position_bias.relative_attention_bias", weight=""),
        **in_layers(
            "cpmant.encoder.layers.{l}.",
            {
                "attn.norm": "self_att.layernorm_before_attention",
                **{f"attn.{key}": f"self_att.self_attention.project_{key}" for key in ("q", "k", "v")},
                "attn.out": "self_att.self_attention.attention_out",
                "mlp.norm": "ffn.layernorm_before_ffn",
                "mlp.gate": "ffn.ffn.w_in.w_0",
                "mlp.up": "ffn.ffn.w_in.w_1",
                "mlp.down": "ffn.ffn.w_out",
            },
        ),
        "final_norm": "cpmant.encoder.output_layernorm",
        "head": "lm_head",
    },
)

READERS: dict[str, Reader] = {"cpmant": CPM_ANT}
