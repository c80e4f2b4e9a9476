"""How tests/golden/dory and tests/golden/dory_last_loop were made: by hand, where Hugging Face transformers is.

    python -m tests.golden_dory FOLDER

as tests/golden_loops.py says. Both are the same model; of the second the last pass alone keeps keys and values.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
import transformers

from tests.golden_loops import make

SIZES = {
    "vocab_size": 97, "hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 6, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 64, "sliding_window": 4, "n_input_layers": 1,
    "n_output_layers": 2, "n_recurrent_loops": 3, "layer_types": ["sliding_attention", "full_attention"] * 3,
}  # fmt: skip


def dory() -> Any:
    """Of six layers the second to the fourth three times."""
    return transformers.DoryForCausalLM(transformers.DoryConfig(**SIZES))


def dory_last_loop() -> Any:
    return transformers.DoryForCausalLM(transformers.DoryConfig(**SIZES, recurrent_kv_cache_mode="last_loop"))


FACTORS = ("sqk", "s_gate", "suv_gate", "suv_up", "lambda_1", "lambda_2", "logit_scale")


def stir(model: Any) -> None:
    """Random numbers on all weights; factors, which are stored as multiples of what they begin with, times some."""
    generator = torch.Generator().manual_seed(7)
    for name, parameter in model.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        if name.endswith(FACTORS):
            parameter.mul_(1 + 0.4 * noise)
        else:
            parameter.add_(0.15 * noise)


if __name__ == "__main__":
    for build in (dory, dory_last_loop):
        make(build, Path(sys.argv[1]), stir)
