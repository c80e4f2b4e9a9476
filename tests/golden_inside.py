"""How tests/golden/ernie4_5_vl_moe and voxtral_realtime were made: by hand, where Hugging Face transformers is.

    python -m tests.golden_inside FOLDER

with transformers 5.24.0 and PyTorch 2.13.0 on a CPU, eager attention and experts; nothing of the program is imported.
Into FOLDER go both models, to be compared with what is there: config.json and model.safetensors are the same bytes.
Of each stand the text model and its output alone. Some of ERNIE's tokens are an image's (`images`): those that other
experts see; what the image's encoder makes of them isn't there. Voxtral hears nothing.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from safetensors.torch import save_file

from tests.golden_loops import PROMPT, TOKENS, as_float64, stir

SIZES: dict[str, Any] = {
    "vocab_size": 97, "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2,
    "max_position_embeddings": 64,
}  # fmt: skip
SMALL: dict[str, Any] = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1}

CONFIGS: dict[str, dict[str, Any]] = {
    "ernie4_5_vl_moe": {
        "text_config": {
            **SIZES, "intermediate_size": 40, "moe_intermediate_size": [24, 20], "moe_num_experts": 5, "moe_k": 2,
            "moe_num_shared_experts": 1, "use_bias": True,
            "rope_parameters": {"rope_type": "default", "rope_theta": 500000.0, "mrope_section": [1, 1, 2]},
        },
        "vision_config": {"depth": 1, "hidden_size": 16, "intermediate_size": 16, "num_heads": 2, "patch_size": 4},
    },
    "voxtral_realtime": {
        "text_config": {**SIZES, "hidden_size": 24, "intermediate_size": 40, "head_dim": 12, "sliding_window": 5},
        "audio_config": {**SMALL, "num_attention_heads": 2, "head_dim": 8, "num_mel_bins": 4},
        "default_num_delay_tokens": 7,
    },
}  # fmt: skip
CLASSES = {"ernie4_5_vl_moe": "Ernie4_5_VLMoe", "voxtral_realtime": "VoxtralRealtime"}
#: which tokens are an image's
IMAGES = np.array([False] * 3 + [True] * 5 + [False] * 5)


def run(model: Any, tokens: torch.Tensor, cache: Any = None, start: int = 0) -> Any:
    """The text model, which knows what the whole one tells it."""
    told: dict[str, Any] = {}
    whole = model.model
    inner = whole.language_model
    if model.config.model_type == "voxtral_realtime":
        delay = torch.full((1,), model.config.default_num_delay_tokens, dtype=model.lm_head.weight.dtype)
        told["t_cond"] = whole.time_embedding(delay)[None]
    else:
        kinds = torch.tensor(IMAGES[start : start + tokens.shape[1]])[None].int()
        told["moe_mm_token_type_ids"] = kinds
    return inner(inputs_embeds=inner.embed_tokens(tokens), cache=cache, use_cache=True, **told)


def logits(model: Any, tokens: torch.Tensor, end: str) -> dict[str, np.ndarray]:
    head: Callable[[torch.Tensor], torch.Tensor] = model.lm_head
    whole = head(run(model, tokens).last_hidden_state)
    found = run(model, tokens[:, :PROMPT])
    steps = []
    for at in range(PROMPT, TOKENS):
        found = run(model, tokens[:, at : at + 1], found.cache, at)
        steps.append(head(found.last_hidden_state))
    return {"logits" + end: whole.numpy(), "decode_logits" + end: torch.cat(steps, 1).numpy()}


@torch.no_grad()
def make(name: str, folder: Path) -> None:
    torch.manual_seed(0)
    config = getattr(transformers, f"{CLASSES[name]}Config")(**CONFIGS[name])
    model = getattr(transformers, f"{CLASSES[name]}ForConditionalGeneration")(config).eval()
    model.set_attn_implementation("eager")
    model.config.text_config._experts_implementation = "eager"
    stir(model)
    if name == "ernie4_5_vl_moe":
        for key, parameter in model.named_parameters():
            if key.endswith("gate.weight"):
                parameter.add_(torch.randn(parameter.shape))
    tokens = torch.randint(3, 97, (1, TOKENS))
    folder.mkdir(parents=True, exist_ok=True)
    told = {"architectures": [type(model).__name__], "model_type": name, **CONFIGS[name]}
    (folder / "config.json").write_text(json.dumps(told, indent=2, sort_keys=True) + "\n")
    text = {key: value for key, value in model.named_parameters() if ".language_model." in key}
    save_file(text, folder / "model.safetensors", metadata={"format": "pt"})
    truths = {"input_ids": tokens.numpy(), **logits(model, tokens, "")}
    if name == "ernie4_5_vl_moe":
        truths["images"] = IMAGES
    single, torch.float = torch.Tensor.float, torch.float64  # which the router names
    truths |= logits(as_float64(model), tokens, "_f64")
    torch.Tensor.float, torch.float = single, torch.float32
    torch.set_default_dtype(torch.float32)
    np.savez_compressed(folder / "io.npz", **truths)


if __name__ == "__main__":
    for each in CONFIGS:
        make(each, Path(sys.argv[1]) / each)
