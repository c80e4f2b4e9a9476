"""DiffLlama: Llama with differential attention."""

from __future__ import annotations

from gptcalc.sources.huggingface.llama import LLAMA, PREFIX
from gptcalc.sources.huggingface.reader import Reader, sites
from gptcalc.sources.huggingface.tensors import bare, in_layers

DIFFLLAMA = LLAMA.but(
    document={"attn": {"differential": {}}, "bias": sites(attn="attention_bias")},
    irrelevant=("lambda_std_dev",),
    names=in_layers(
        PREFIX, {f"attn.lambda_{name}": bare(f"self_attn.lambda_{name}") for name in ("q1", "k1", "q2", "k2")}
    ),
)

READERS: dict[str, Reader] = {
    "diffllama": DIFFLLAMA,
}
