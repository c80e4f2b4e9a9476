"""How tests/golden/hrm_text and tests/golden/inkling2_loop_text were made: by hand, where Hugging Face transformers is.

    python -m tests.golden_loops FOLDER

with transformers 5.24.0 and PyTorch 2.13.0 on a CPU, eager attention and experts; nothing of the program is imported.
Into FOLDER go both models, to be compared with what is there: config.json and model.safetensors are the same bytes.
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
from transformers.models.inkling2_loop.configuration_inkling2_loop import Inkling2LoopTextConfig
from transformers.models.inkling2_loop.modeling_inkling2_loop import Inkling2LoopForCausalLM

TOKENS, PROMPT = 13, 10


def hrm_text() -> Any:
    """Two stacks of two layers: the fast one three times, then the slow one, all that twice."""
    config = transformers.HrmTextConfig(
        vocab_size=97, hidden_size=32, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4, head_dim=12,
        max_position_embeddings=64, H_cycles=2, L_cycles=3, embedding_scale=3.0, prefix_lm=False, rms_norm_eps=1e-5,
        eos_token_id=2, tie_word_embeddings=False,
    )  # fmt: skip
    return transformers.HrmTextForCausalLM(config)


def inkling2_loop_text() -> Any:
    """Of eight layers the middle four three times."""
    config = Inkling2LoopTextConfig(
        vocab_size=97, unpadded_vocab_size=97, hidden_size=32, num_hidden_layers=8, num_attention_heads=4,
        num_key_value_heads=2, head_dim=16, swa_num_attention_heads=4, swa_num_key_value_heads=2, swa_head_dim=16,
        sliding_window_size=5, d_rel=4, rel_extent=8, max_position_embeddings=64, rms_norm_eps=1e-5,
        conv_kernel_size=3, moe_intermediate_size=24, n_routed_experts=6, num_experts_per_tok=2,
        n_layers_per_attn_res_block=2, loop_layer_index_start=2, loop_layer_index_end=6, loop_num_passes=3,
        loop_gate_rank=5, log_scaling_n_floor=8, layer_types=["hybrid_sliding", "hybrid"] * 4, eos_token_id=2,
    )  # fmt: skip
    return Inkling2LoopForCausalLM(config)


MODELS: tuple[Callable[[], Any], ...] = (hrm_text, inkling2_loop_text)


def stir(model: Any) -> None:
    """Random numbers on what is initialised as 0 or 1, too, so that nothing is without effect."""
    generator = torch.Generator().manual_seed(7)
    for parameter in model.parameters():
        parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.15)
    for name, buffer in model.named_buffers():
        if "correction_bias" in name:
            buffer.add_(torch.randn(buffer.shape, generator=generator) * 0.05)


def logits(model: Any, tokens: torch.Tensor, end: str) -> dict[str, np.ndarray]:
    """Of all tokens at once; and of the last three through the cache."""
    whole = model(input_ids=tokens, use_cache=False).logits
    found = model(input_ids=tokens[:, :PROMPT], use_cache=True)
    steps = []
    for at in range(PROMPT, TOKENS):
        found = model(input_ids=tokens[:, at : at + 1], cache=found.cache, use_cache=True)
        steps.append(found.logits)
    return {"logits" + end: whole.numpy(), "decode_logits" + end: torch.cat(steps, 1).numpy()}


def as_float64(model: Any) -> Any:
    """The model in float64, where the class says `.float()`, too."""
    torch.Tensor.float = lambda self: self.double()
    torch.set_default_dtype(torch.float64)
    return model.to(torch.float64)


def save(
    folder: Path,
    model: Any,
    tokens: torch.Tensor,
    logits: Callable[[Any, torch.Tensor, str], dict[str, np.ndarray]],
    config: dict[str, Any] | None = None,
) -> None:
    """What a model says of tokens, in float32 and in float64; of one that is none of transformers' (whose config is
    given), its config and its weights as well."""
    if config is not None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
        save_file(dict(model.named_parameters()), folder / "model.safetensors", metadata={"format": "pt"})
    truths = {"input_ids": tokens.numpy(), **logits(model, tokens, "")}
    single = torch.Tensor.float
    truths |= logits(as_float64(model), tokens, "_f64")
    torch.Tensor.float = single
    torch.set_default_dtype(torch.float32)
    np.savez_compressed(folder / "io.npz", **truths)


@torch.no_grad()
def make(build: Callable[[], Any], folder: Path, stir: Callable[[Any], None] = stir) -> None:
    """A folder of the function's name."""
    name = build.__name__
    torch.manual_seed(0)
    model = build().eval()
    stir(model)
    tokens = torch.randint(3, model.config.vocab_size, (1, TOKENS))
    model.set_attn_implementation("eager")
    model.config._experts_implementation = "eager"
    model.save_pretrained(folder / name)
    (folder / name / "generation_config.json").unlink(missing_ok=True)
    save(folder / name, model, tokens, logits)


if __name__ == "__main__":
    for each in MODELS:
        make(each, Path(sys.argv[1]))
