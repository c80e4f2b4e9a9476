"""Jais and BTLM: GPT-2 with linear biases, a gated MLP and factors of widths (arXiv:2308.16149)."""

from __future__ import annotations

from gptcalc.sources.huggingface.fields import Fields
from gptcalc.sources.huggingface.gpt2 import GPT2
from gptcalc.sources.huggingface.reader import Hole, Reader, choice, number
from gptcalc.sources.huggingface.tensors import Held, in_layers


def score_scale(fields: Fields) -> float | None:
    """Scores over the width of a head, or over its root."""
    by_width = fields.flag("scale_qk_dot_by_d", "mup_scale_qk_dot_by_d")
    return fields.needed("n_head") / fields.needed("n_embd") if by_width else None


def logit_scale(fields: Fields) -> float | None:
    """One number, or two whose product it is."""
    if (whole := fields.number("width_scale")) is not None:
        return whole
    both = fields.number("mup_width_scale"), fields.number("mup_output_alpha")
    return None if both == (None, None) else (both[0] or 1) * (both[1] or 1)


JAIS = GPT2.but(
    document={
        "d_ff": Hole(lambda fields: fields.size("n_inner") or 4 * fields.needed("n_embd")),
        "position": choice("position_embedding_type", alibi="alibi", learned="learned"),
        "embedding": {"scale": number("embeddings_scale", "mup_embeddings_scale")},
        "mlp": choice("activation_function", swiglu="swiglu", gelu="gelu", relu2="relu2"),
        "attn": {"scale": Hole(score_scale)},
        "logit_scale": Hole(logit_scale),
    },
    defaults={"tie_word_embeddings": True, "layer_norm_epsilon": 1e-5, "position_embedding_type": "learned"},
    only={"alibi_scaling": None},
    names=in_layers(
        "transformer.h.{l}.",
        {"mlp.gate": Held("mlp.c_fc2", stored="in,out"), "mlp.up": Held("mlp.c_fc", stored="in,out")},
    ),
)

READERS: dict[str, Reader] = {"jais": JAIS, "btlm": JAIS}
