"""How tests/golden/yuan and tests/golden/yuan_moe were made: by hand, with the class of Yuan 2.0-M32.

    python -m tests.golden_yuan FOLDER CLASS

where CLASS is a folder with yuan_moe_hf_model.py and configuration_yuan.py of IEIT-Yuan/Yuan2.0-M32
(3rd_party/AutoGPTQ), with transformers 5.24.0 and einops. The class is Yuan 2.0's, too, where there are no experts; the
layer wants of its dense MLP what experts return, their output and their logits. It rounds frequencies to 16 bits; here
they are exact. Three decorators of docstrings that version 5 has no more stand for nothing.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers.utils

from tests.golden_loops import PROMPT, TOKENS, save, stir

YUAN: dict[str, Any] = {
    "architectures": ["YuanForCausalLM"], "model_type": "yuan", "vocab_size": 97, "hidden_size": 32,
    "intermediate_size": 40, "num_hidden_layers": 2,
    "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "hidden_act": "silu", "tie_word_embeddings": True,
    "causal_mask": True, "use_flash_attention": False, "reset_attention_mask": False, "reset_position_ids": False,
    "use_loss_mask": False, "eod_token": 2, "sep_token": 3, "pad_token_id": 2, "bos_token_id": 2, "eos_token_id": 2,
}  # fmt: skip

CONFIGS: dict[str, dict[str, Any]] = {
    "yuan": {**YUAN, "num_attention_heads": 4},
    "yuan_moe": {
        **YUAN, "num_attention_heads": 3, "attention_projection_size": 48,
        "moe_config": {"moe_num_experts": 5, "moe_top_k": 2, "ffn_hidden_size": 24, "norm_topk_prob": True,
                       "gated_linear_unit": True},
    },
}  # fmt: skip


def exact(model: Any) -> None:
    """Frequencies as they are before the class rounds them to 16 bits."""
    for layer in model.model.layers:
        rotary = layer.self_attn.rotary_emb
        kind = model.lm_head.weight.dtype
        rotary.inv_freq = 1 / 10000 ** (torch.arange(0, rotary.dim, 2, dtype=torch.float64) / rotary.dim)
        rotary._set_cos_sin_cache(TOKENS, rotary.inv_freq.device, kind)


def logits(model: Any, tokens: torch.Tensor, end: str) -> dict[str, np.ndarray]:
    exact(model)
    told = {"use_cache": True, "output_attentions": False, "output_hidden_states": False, "return_dict": True}
    whole = model.lm_head(model.model(input_ids=tokens, **told).last_hidden_state)
    found = model.model(input_ids=tokens[:, :PROMPT], **told)
    steps = []
    for at in range(PROMPT, TOKENS):
        found = model.model(input_ids=tokens[:, at : at + 1], past_key_values=found.past_key_values, **told)
        steps.append(model.lm_head(found.last_hidden_state))
    return {"logits" + end: whole.numpy(), "decode_logits" + end: torch.cat(steps, 1).numpy()}


@torch.no_grad()
def make(config: dict[str, Any], code: str, folder: Path) -> None:
    classes = import_module(f"{code}.yuan_moe_hf_model")
    dense = config.get("moe_config") is None
    told = {**config, "moe_config": config.get("moe_config") or {"moe_num_experts": 0}, "output_router_logits": False}
    torch.manual_seed(0)
    if dense:
        plain = classes.YuanMLP.forward
        classes.YuanMLP.forward = lambda self, x: (plain(self, x), None)
    model = classes.YuanForCausalLM(import_module(f"{code}.configuration_yuan").YuanConfig(**told)).float().eval()
    model.lm_head.weight = model.model.embed_tokens.weight
    stir(model)
    tokens = torch.randint(4, 97, (1, TOKENS))
    save(folder, model, tokens, logits, config)
    if dense:
        classes.YuanMLP.forward = plain


if __name__ == "__main__":
    code = Path(sys.argv[2])
    sys.path.insert(0, str(code.parent))
    for name in ("add_start_docstrings", "add_start_docstrings_to_model_forward", "replace_return_docstrings"):
        if not hasattr(transformers.utils, name):
            setattr(transformers.utils, name, lambda *_, **__: lambda f: f)
    for name, config in CONFIGS.items():
        make(config, code.name, Path(sys.argv[1]) / name)
