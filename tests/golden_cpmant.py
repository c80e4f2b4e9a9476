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

from tests.golden_loops import PROMPT, TOKENS, save, stir

FRONT = 4


def cpmant() -> Any:
    config = transformers.CpmAntConfig(
        vocab_size=67, hidden_size=32, num_attention_heads=4, dim_head=8, dim_ff=40, num_hidden_layers=3,
        position_bias_num_buckets=8, position_bias_max_distance=12, prompt_types=3, prompt_length=FRONT,
        segment_types=3, init_std=0.5,
    )  # fmt: skip
    return transformers.CpmAntForCausalLM(config)


def doubled(how: Any) -> Any:
    return torch.float64 if how is torch.float32 else how


def logits(model: Any, tokens: torch.Tensor, end: str) -> dict[str, np.ndarray]:
    """Of all tokens at once, the prompt's among them; and of the last three through the cache. In float64 also where
    the class says float32."""
    to, text = torch.Tensor.to, tokens[:, FRONT:]
    if end:
        torch.Tensor.to = lambda self, *how, **more: to(self, *map(doubled, how), **more)
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
    torch.Tensor.to = to
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
    save(folder / "cpmant", model, torch.cat([front, text], 1), logits)


if __name__ == "__main__":
    make(Path(sys.argv[1]))
