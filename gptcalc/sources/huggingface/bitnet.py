"""BitNet: norms inside attention and MLP, before their output projections."""

from __future__ import annotations

from gptcalc.sources.huggingface.fields import Fields
from gptcalc.sources.huggingface.llama import LLAMA, PREFIX
from gptcalc.sources.huggingface.reader import Hole, Reader, activation, rmsnorm, sites
from gptcalc.sources.huggingface.tensors import in_layers


def width(fields: Fields) -> int | None:
    """The class norms all heads' outputs with as many weights as the stream has channels."""
    d_head = fields.size("head_dim")
    if d_head is not None and d_head * fields.needed("num_attention_heads") != fields.needed("hidden_size"):
        raise fields.unsupported("head_dim", "its class runs no heads that are not as wide as the model all together")
    return d_head


BITNET = LLAMA.but(
    document={
        "d_head": Hole(width),
        "bias": sites(attn="attention_bias"),
        "attn": {"out_norm": rmsnorm()},
        "mlp": {"activation": activation("hidden_act", gated=True), "mid_norm": rmsnorm()},
    },
    names=in_layers(PREFIX, {"attn.out_norm": "self_attn.attn_sub_norm", "mlp.mid_norm": "mlp.ffn_sub_norm"}),
)

READERS: dict[str, Reader] = {"bitnet": BITNET}
