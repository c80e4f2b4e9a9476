"""MiniCPM: µP's factors; latent attention (3)."""

from __future__ import annotations

from gptcalc.sources.huggingface.deepseek import LATENT
from gptcalc.sources.huggingface.fields import Fields
from gptcalc.sources.huggingface.llama import LLAMA, PLAIN
from gptcalc.sources.huggingface.reader import Hole, Reader, number, sites
from gptcalc.sources.huggingface.rope import rope
from gptcalc.sources.huggingface.youtu import YOUTU


def depth_scale(fields: Fields) -> float | None:
    depth, among = fields.number("scale_depth"), fields.size("mup_denominator")
    if among not in (None, fields.needed("num_hidden_layers")):
        raise fields.unsupported("mup_denominator", "another number than that of the layers is not understood")
    return None if depth is None else float(depth / fields.needed("num_hidden_layers") ** 0.5)


def width_scale(fields: Fields) -> float | None:
    base = fields.size("dim_model_base")
    return None if base is None else base / fields.needed("hidden_size")


#: µP's factors of embeddings, residuals and logits
MUP = {
    "embedding": {"scale": number("scale_emb")},
    "residual_scale": Hole(depth_scale),
    "logit_scale": Hole(width_scale),
}

MINICPM = LLAMA.but(
    document=MUP, defaults={**PLAIN, "tie_word_embeddings": True}, only={"num_experts": 0}, irrelevant=("lm_head_bias",)
)


def heads_share(fields: Fields) -> int:
    return fields.size("v_head_dim") or fields.needed("hidden_size") // fields.needed("num_attention_heads")


MINICPM3 = YOUTU.but(
    document={
        "rope": rope(fraction=None),
        "mla": {**LATENT, "d_v": Hole(heads_share)},
        "bias": sites(mlp="mlp_bias"),
        **MUP,
    },
    irrelevant=("rope_interleave",),
)

READERS: dict[str, Reader] = {
    "minicpm": MINICPM,
    "minicpm3": MINICPM3,
}
