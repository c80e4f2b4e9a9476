"""T5 in GGUF files (src/models/t5.cpp): an encoder and a decoder, which have no metadata but their depths in common."""

from __future__ import annotations

from typing import Any

from gptcalc.errors import InputError
from gptcalc.sources.gguf.metadata import Facts

FARTHEST = 128  # the distance from which on biases are the same; no file says it, no published model has another


ENCODER = "t5encoder"  # an encoder alone, as image models read their text


def document(facts: Facts) -> dict[str, Any]:
    """The keys of a document but for its name; n_layers is the decoder's."""
    alone = facts.architecture == ENCODER
    stack = "enc" if alone else "dec"
    table, up = facts.whole("token_embd"), facts.whole(f"{stack}.blk.0.ffn_up")
    if table is None or up is None:
        missing = "token_embd" if table is None else f"{stack}.blk.0.ffn_up"
        raise InputError(f"tensor {missing}.weight is missing")
    d, tied = facts.size("embedding_length"), facts.whole("output") is None
    buckets = {"n": facts.size("attention.relative_buckets_count"), "max_distance": FARTHEST}
    if facts.whole(f"{stack}.blk.1.attn_rel_b") is not None:
        buckets["shared"] = False  # a table for each layer (UMT5)
    common = {
        "d": d,
        "v": table[0],
        "c": facts.size("context_length"),
        "n_heads": facts.size("attention.head_count"),
        "d_head": facts.size("attention.key_length", d // facts.size("attention.head_count")),
        "d_ff": up[0],
        "position": "none",
        "norm": {"kind": "rmsnorm", "eps": facts.number("attention.layer_norm_rms_epsilon", 1e-6)},
        "mlp": "relu" if facts.whole(f"{stack}.blk.0.ffn_gate") is None else "geglu_tanh",
        "attn": {"scale": 1.0, "buckets": buckets},
    }
    if alone:
        return common | {
            "n_layers": facts.n_layers,
            "layers": "n*attn+mlp",
            "causal": False,
            "head": {"vocabulary": False},
        }
    return common | {
        "n_layers": facts.size("decoder_block_count", facts.n_layers),
        "tying": tied,
        "logit_scale": float(d) ** -0.5 if tied else 1.0,
        "layers": "n*attn+cross+mlp",
        "cross": {"scale": 1.0},
        "encoder": {"n_layers": facts.n_layers},
    }
