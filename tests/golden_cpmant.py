"""How tests/golden/cpmant was made: by hand, where Hugging Face transformers is.

    python -m tests.golden_cpmant FOLDER

as tests/golden_loops.py says. The class puts its prompt in front by itself, and gives no logits of it: `input_ids` have
it, and its logits are those of what the class makes of it all the same.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

from tests.golden_loops import PROMPT, TOKENS, as_float64, stir

FRONT = 4


def cpmant() -> Any:
    config = transformers.CpmAntConfig(
        vocab_size=67, hidden_size=32, num_attention_heads=4, dim_head=8, dim_ff=40, num_hidden_layers=3,
        position_bias_num_buckets=8, position_bias_max_distance=12, prompt_types=3, prompt_length=FRONT,
        segment_types=3, init_std=0.5,
    )  # fmt: skip
    return transformers.CpmAntForCausalLM(config)


def logits(model: Any, text: torch.Tensor, end: str) -> dict[str, np.ndarray]:
    """Of all tokens at once, the prompt's among them; and of the last three through the cache."""
    states = []
    hook = model.cpmant.encoder.output_layernorm.register_forward_hook(lambda *made: states.append(made[2]))
    model(input_ids=text, use_cache=False)
    hook.remove()
    whole = model.lm_head(states[0])
    found = model(input_ids=text[:, : PROMPT - FRONT], use_cache=True)
    steps = []
    for at in range(PROMPT - FRONT, TOKENS - FRONT):
        found = model(input_ids=text[:, : at + 1], cache=found.cache, use_cache=True)
        steps.append(found.logits)
    return {"logits" + end: whole.numpy(), "decode_logits" + end: torch.cat(steps, 1).numpy()}


@torch.no_grad()
def make(folder: Path) -> None:
    torch.manual_seed(0)
    model = cpmant().eval()
    stir(model)
    config = model.config
    text = torch.randint(3, config.vocab_size, (1, TOKENS - FRONT))
    front = torch.arange(config.vocab_size + 2 * FRONT, config.vocab_size + 3 * FRONT)[None]
    model.save_pretrained(folder / "cpmant")
    (folder / "cpmant" / "generation_config.json").unlink(missing_ok=True)
    truths = {"input_ids": torch.cat([front, text], 1).numpy(), **logits(model, text, "")}
    single, to = torch.Tensor.float, torch.Tensor.to
    torch.Tensor.to = lambda self, *how, **more: to(
        self, *(torch.float64 if one is torch.float32 else one for one in how), **more
    )
    truths |= logits(as_float64(model), text, "_f64")
    torch.Tensor.float, torch.Tensor.to = single, to
    torch.set_default_dtype(torch.float32)
    np.savez_compressed(folder / "cpmant" / "io.npz", **truths)


if __name__ == "__main__":
    make(Path(sys.argv[1]))
