"""How tests/golden/blenderbot-small and tests/golden/nllb-moe were made: by hand, where Hugging Face transformers is.

    python -m tests.golden_two_sequences FOLDER

with transformers 5.24.0 and PyTorch 2.13.0 on a CPU, eager attention; nothing of the program is imported. Into FOLDER
go both models, to be compared with what is there: config.json and model.safetensors are the same bytes.

The class of NLLB-MoE takes the rows of its router's mask for numbers of experts, so that only the first two are ever
run. Here its experts are weighed as the router says, which is what fairseq's model does, whose weights it reads.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from transformers.models.nllb_moe.modeling_nllb_moe import NllbMoeExperts

from tests.golden_loops import as_float64, stir

SIZES: dict[str, Any] = {
    "vocab_size": 97, "d_model": 32, "encoder_layers": 2, "decoder_layers": 3, "encoder_attention_heads": 4,
    "decoder_attention_heads": 2, "encoder_ffn_dim": 56, "decoder_ffn_dim": 40, "max_position_embeddings": 64,
    "scale_embedding": True,
}  # fmt: skip
#: what each class has of its own
MODELS: dict[str, dict[str, Any]] = {
    "BlenderbotSmall": {},
    "NllbMoe": {"encoder_sparse_step": 2, "decoder_sparse_step": 2, "num_experts": 5, "router_bias": False},
}
SOURCE, TARGET = 13, 7


def weighed(experts: Any, x: torch.Tensor, mask: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Each expert's output times its weight (tokens, experts), which the dropout's share is taken off."""
    del mask
    found = [experts[f"expert_{e}"](x) * weights[:, e, None] for e in range(experts.num_experts)]
    return sum(found) * (1 - experts.moe_token_dropout)


def truths(model: Any, source: torch.Tensor, target: torch.Tensor, end: str) -> dict[str, np.ndarray]:
    found = model(input_ids=source, decoder_input_ids=target, use_cache=False)
    own = {"logits" + end: found.logits.numpy()}
    return own | {"encoder_output" + end: found.encoder_last_hidden_state.numpy()}


@torch.no_grad()
def make(name: str, own: dict[str, Any], folder: Path) -> None:
    """A folder of the type's name."""
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**SIZES, **own)
    model = getattr(transformers, f"{name}ForConditionalGeneration")(config).eval()
    model.set_attn_implementation("eager")
    stir(model)
    place = folder / config.model_type
    model.save_pretrained(place)
    source = torch.randint(5, config.vocab_size, (1, SOURCE))
    target = torch.randint(5, config.vocab_size, (1, TARGET))
    found = {"input_ids": source.numpy(), "decoder_input_ids": target.numpy()}
    found |= truths(model, source, target, "")
    single = torch.Tensor.float
    found |= truths(as_float64(model), source, target, "_f64")
    torch.Tensor.float = single
    torch.set_default_dtype(torch.float32)
    np.savez_compressed(place / "io.npz", **found)
    (place / "generation_config.json").unlink(missing_ok=True)


if __name__ == "__main__":
    NllbMoeExperts.forward = weighed
    for each, sizes in MODELS.items():
        make(each, sizes, Path(sys.argv[1]))
