"""Llama 3.2 Vision: a Llama with layers in between that attend to an image's states, by way of gates."""

from __future__ import annotations

from collections.abc import Sequence

from gptcalc.sources.huggingface.fields import Fields
from gptcalc.sources.huggingface.llama import LLAMA, PREFIX
from gptcalc.sources.huggingface.pattern import expression
from gptcalc.sources.huggingface.reader import Hole, Reader, size
from gptcalc.sources.huggingface.tensors import bare, in_layers

#: states of one image: four tiles of 560 × 560, 14 × 14 a patch, and one state of the class a tile
IMAGE = 4 * (40 * 40 + 1)


def crossed(fields: Fields) -> Sequence[int]:
    """The numbers of the layers that attend to the image."""
    chosen = fields.items("cross_attention_layers")
    listed = [3, 8, 13, 18, 23, 28, 33, 38] if chosen is None else list(chosen)
    for number in listed:
        if not isinstance(number, int) or isinstance(number, bool) or number < 0:
            fields.wrong(("cross_attention_layers",), "a list of layers' numbers", chosen)
    return listed


def layers(fields: Fields) -> str:
    listed = crossed(fields)
    n = fields.needed("num_hidden_layers")
    return expression(["cross+gated" if number in listed else "attn+mlp" for number in range(n)])


def image(fields: Fields) -> int:
    fields.notes.append(
        f"the image's encoder is left out; --source N is how many states it gives, {IMAGE:,} where it isn't said"
    )
    return IMAGE


GATE = {"residual_factors": {"output": "tanh"}}

MLLAMA = LLAMA.but(
    document={
        "v": Hole(lambda fields: fields.needed("vocab_size") + 8),
        "layers": Hole(layers),
        "tying": None,
        "d_head": None,
        "bias": None,
        "head": {"rows": size("vocab_size")},
        "encoded": {"d": size("hidden_size"), "c": Hole(image)},
        "cross": {"qk_norm": "head", **GATE},
        "gated": {"like": "mlp", **GATE},
    },
    only={"tie_word_embeddings": False},
    names=in_layers(
        PREFIX,
        {
            "cross.norm": "input_layernorm",
            "cross.q": "cross_attn.q_proj",
            "cross.k": "cross_attn.k_proj",
            "cross.v": "cross_attn.v_proj",
            "cross.out": "cross_attn.o_proj",
            "cross.q_norm": "cross_attn.q_norm",
            "cross.k_norm": "cross_attn.k_norm",
            "cross.residual.output": bare("cross_attn_attn_gate"),
            "mlp.residual.output": bare("cross_attn_mlp_gate"),
        },
    ),
)

READERS: dict[str, Reader] = {"mllama_text_model": MLLAMA}
