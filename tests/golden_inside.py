"""How tests/golden/diffusion_gemma, ernie4_5_vl_moe, glm5_next and voxtral_realtime were made: by hand, where Hugging
Face transformers is.

    python -m tests.golden_inside FOLDER      # or FOLDER glm5_next

with transformers 5.24.0 and PyTorch 2.13.0 on a CPU, eager attention and experts; nothing of the program is imported.
Into FOLDER go all models, to be compared with what is there: config.json and model.safetensors are the same bytes.
DiffusionGemma denoises `canvas` behind a prompt: `logits_first` in a first step, `logits` in one with `before`, what a
step before gave. Of each stand the text model and its output alone. Some of ERNIE's tokens are an image's (`images`):
those that other experts see; what the image's encoder makes of them isn't there. Voxtral hears nothing.
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
    "diffusion_gemma": {
        "canvas_length": 6,
        "text_config": {
            **SIZES, "intermediate_size": 40, "head_dim": 12, "global_head_dim": 16, "num_global_key_value_heads": 1,
            "sliding_window": 5, "num_experts": 5, "top_k_experts": 2, "moe_intermediate_size": 24,
            "layer_types": ["sliding_attention", "sliding_attention", "full_attention"],
        },
        "vision_config": {"model_type": "gemma4_vision", **SMALL, "num_attention_heads": 2, "head_dim": 8},
    },
    "ernie4_5_vl_moe": {
        "text_config": {
            **SIZES, "intermediate_size": 40, "moe_intermediate_size": [24, 20], "moe_num_experts": 5, "moe_k": 2,
            "moe_num_shared_experts": 1, "use_bias": True,
            "rope_parameters": {"rope_type": "default", "rope_theta": 500000.0, "mrope_section": [1, 1, 2]},
        },
        "vision_config": {"depth": 1, "hidden_size": 16, "intermediate_size": 16, "num_heads": 2, "patch_size": 4},
    },
    "glm5_next": {
        "text_config": {
            **SIZES, "num_hidden_layers": 5, "num_key_value_heads": 4, "intermediate_size": 40, "q_lora_rank": 14,
            "moe_intermediate_size": 24, "n_routed_experts": 6, "num_experts_per_tok": 2, "kv_lora_rank": 12,
            "qk_nope_head_dim": 10, "v_head_dim": 9, "swiglu_limit": 0.7, "index_n_heads": 3, "index_head_dim": 11,
            "index_topk": 4, "index_kpool": 2, "linear_head_dim": 8, "linear_num_heads": 3,
            "linear_conv_kernel_dim": 3, "hc_mult": 3, "hc_sinkhorn_iters": 4, "n_group": 2, "topk_group": 1,
            "layer_types": ["linear_attention", "indexed_attention"] * 2 + ["linear_attention"],
            "mlp_layer_types": ["dense"] + ["sparse"] * 4, "pad_token_id": 0,
        },
        "vision_config": {"depth": 1, "hidden_size": 16, "intermediate_size": 16, "num_heads": 2, "patch_size": 4},
    },
    "voxtral_realtime": {
        "text_config": {**SIZES, "hidden_size": 24, "intermediate_size": 40, "head_dim": 12, "sliding_window": 5},
        "audio_config": {**SMALL, "num_attention_heads": 2, "head_dim": 8, "num_mel_bins": 4},
        "default_num_delay_tokens": 7,
    },
}  # fmt: skip
CLASSES = {
    "diffusion_gemma": "DiffusionGemma", "ernie4_5_vl_moe": "Ernie4_5_VLMoe", "glm5_next": "Glm5Next",
    "voxtral_realtime": "VoxtralRealtime",
}  # fmt: skip
#: what the classes are for; the others are for conditional generation
FOR = {"diffusion_gemma": "BlockDiffusion"}
FLOAT32 = torch.float32
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
    elif model.config.model_type == "ernie4_5_vl_moe":
        kinds = torch.tensor(IMAGES[start : start + tokens.shape[1]])[None].int()
        told["moe_mm_token_type_ids"] = kinds
    return inner(inputs_embeds=inner.embed_tokens(tokens), cache=cache, use_cache=True, **told)


def denoised(model: Any, tokens: torch.Tensor, canvas: torch.Tensor, before: Any, end: str) -> dict[str, np.ndarray]:
    """Logits of a block's two first steps."""
    first = model(input_ids=tokens, decoder_input_ids=canvas).logits
    before = first + torch.randn(first.shape) if before is None else before
    kind = model.lm_head.weight.dtype
    told = {"input_ids": tokens, "decoder_input_ids": canvas, "self_conditioning_logits": before.to(kind)}
    found = {"logits_first" + end: first.numpy(), "logits" + end: model(**told).logits.numpy()}
    return {**found, "before": before.numpy().astype(np.float32)}


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
    model = getattr(transformers, f"{CLASSES[name]}For{FOR.get(name, 'ConditionalGeneration')}")(config).eval()
    model.set_attn_implementation("eager")
    model.config.text_config._experts_implementation = "eager"
    stir(model)
    if name == "ernie4_5_vl_moe":
        for key, parameter in model.named_parameters():
            if key.endswith("gate.weight"):
                parameter.add_(torch.randn(parameter.shape))
    if name == "glm5_next":
        for key, parameter in model.named_parameters():
            if "kpool_compress" in key:
                parameter.add_(torch.randn(parameter.shape) * 2)
    tokens = torch.randint(3, 97, (1, TOKENS))
    folder.mkdir(parents=True, exist_ok=True)
    told = {"architectures": [type(model).__name__], "model_type": name, **CONFIGS[name]}
    (folder / "config.json").write_text(json.dumps(told, indent=2, sort_keys=True) + "\n")
    buffers = dict(model.named_buffers())
    own = {key: value for key, value in buffers.items() if name == "diffusion_gemma" and key.endswith("layer_scalar")}
    for scalar in own.values():
        scalar.add_(torch.randn(scalar.shape) * 0.2)
    own |= {key: value for key, value in buffers.items() if "correction_bias" in key}
    stored = {"diffusion_gemma": (".decoder.",), "glm5_next": (".language_model.", "lm_head.")}
    everywhere = model.named_parameters(remove_duplicate=False)
    kept = stored.get(name, (".language_model.",))
    text = {key: value for key, value in everywhere if any(part in key for part in kept)} | own
    save_file(text, folder / "model.safetensors", metadata={"format": "pt"})
    truths = {"input_ids": tokens.numpy()}
    canvas = torch.randint(3, 97, (1, CONFIGS[name].get("canvas_length", 0)))
    if canvas.numel():
        truths |= {"canvas": canvas.numpy(), **denoised(model, tokens, canvas, None, "")}
    else:
        truths |= logits(model, tokens, "")
    if name == "ernie4_5_vl_moe":
        truths["images"] = IMAGES
    single, torch.float = torch.Tensor.float, torch.float64  # which the router names
    if name == "glm5_next":
        torch.float32 = torch.float64  # which norms and delta rules name
    double = as_float64(model)
    if canvas.numel():
        truths |= denoised(double, tokens, canvas, torch.from_numpy(truths["before"]), "_f64")
    else:
        truths |= logits(double, tokens, "_f64")
    torch.Tensor.float, torch.float, torch.float32 = single, FLOAT32, FLOAT32
    torch.set_default_dtype(FLOAT32)
    np.savez_compressed(folder / "io.npz", **truths)


if __name__ == "__main__":
    for each in sys.argv[2:] or CONFIGS:
        make(each, Path(sys.argv[1]) / each)
