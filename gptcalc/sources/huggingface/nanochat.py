"""nanochat: norms without weights, one of the embedding too; queries and keys turned backwards, then normed."""

from __future__ import annotations

from gptcalc.sources.huggingface.llama import LLAMA, PREFIX
from gptcalc.sources.huggingface.reader import Reader, activation, number, rmsnorm, sites
from gptcalc.sources.huggingface.rope import rope
from gptcalc.sources.huggingface.tensors import in_layers

NANOCHAT = LLAMA.but(
    document={
        "norm": rmsnorm(weight=False),
        "embedding": {"norm": True},
        "rope": rope(backward=True),
        "attn": {"qk_norm": rmsnorm(weight=False, after_rope=True)},
        "mlp": activation("hidden_act", gated=False),
        "bias": sites(attn="attention_bias"),
        "softcap": number("final_logit_softcapping"),
    },
    names=in_layers(PREFIX, {"mlp.up": "mlp.fc1", "mlp.down": "mlp.fc2"}),
)

READERS: dict[str, Reader] = {
    "nanochat": NANOCHAT,
}
