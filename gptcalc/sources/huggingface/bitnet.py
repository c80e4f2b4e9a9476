"""BitNet: norms inside attention and MLP, before their output projections."""

from __future__ import annotations

from gptcalc.sources.huggingface.llama import LLAMA, PREFIX, filling
from gptcalc.sources.huggingface.reader import Hole, Reader, activation, rmsnorm, sites
from gptcalc.sources.huggingface.tensors import in_layers

BITNET = LLAMA.but(
    document={
        "d_head": Hole(filling),
        "bias": sites(attn="attention_bias"),
        "attn": {"out_norm": rmsnorm()},
        "mlp": {"activation": activation("hidden_act", gated=True), "mid_norm": rmsnorm()},
    },
    names=in_layers(PREFIX, {"attn.out_norm": "self_attn.attn_sub_norm", "mlp.mid_norm": "mlp.ffn_sub_norm"}),
)

READERS: dict[str, Reader] = {"bitnet": BITNET}
