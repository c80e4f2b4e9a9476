"""Cosmos 3 Edge: Llama with an MLP without a gate."""

from __future__ import annotations

from gptcalc.sources.huggingface.llama import LLAMA, PREFIX
from gptcalc.sources.huggingface.reader import Reader, activation
from gptcalc.sources.huggingface.tensors import in_layers

COSMOS_EDGE = LLAMA.but(
    document={"mlp": activation("hidden_act", gated=False)},
    names=in_layers(PREFIX, {"mlp.up": "mlp.fc1", "mlp.down": "mlp.fc2"}),
)

READERS: dict[str, Reader] = {"cosmos3_edge_text": COSMOS_EDGE}
