"""A.X K1: DeepSeek-V3 with a norm behind the experts."""

from __future__ import annotations

from gptcalc.sources.huggingface.deepseek import FIRST_DENSE
from gptcalc.sources.huggingface.experts import SIGMOID
from gptcalc.sources.huggingface.llama import PREFIX
from gptcalc.sources.huggingface.reader import Reader
from gptcalc.sources.huggingface.tensors import in_layers

AXK1 = FIRST_DENSE.but(
    document={"moe": {**SIGMOID, "norm_at": "sandwich"}},
    names=in_layers(PREFIX, {"moe.post_norm": "post_mlp_layernorm"}),
)

READERS: dict[str, Reader] = {"axk1": AXK1}
