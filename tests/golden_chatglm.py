"""How tests/golden/chatglm_6b was made: by hand, with ChatGLM-6B's own class.

    python -m tests.golden_chatglm FOLDER CLASS

where CLASS is a folder with the modeling_chatglm.py, configuration_chatglm.py and quantization.py that stand beside the
model's weights, their last version. The class says its frequencies in 16 bits; here they are exact.

`logits` are those of a prompt: all tokens see each other, and none stands behind it. `decode_logits` are those of the
last three tokens behind a prompt of ten, masks and positions made by the class: the prompt ends with [gMASK], the token
behind it begins the answer.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tests.golden_loops import PROMPT, TOKENS, save, stir

MASK, GMASK, BEGIN, END = 62, 63, 64, 65
CONFIG: dict[str, Any] = {
    "architectures": ["ChatGLMModel"], "model_type": "chatglm", "vocab_size": 67, "hidden_size": 32, "num_layers": 3,
    "num_attention_heads": 2, "inner_hidden_size": 40, "max_sequence_length": 64, "position_encoding_2d": True,
    "layernorm_epsilon": 1e-5, "mask_token_id": MASK, "gmask_token_id": GMASK, "bos_token_id": BEGIN,
    "eos_token_id": END, "pad_token_id": 3,
}  # fmt: skip


def exact(model: Any) -> None:
    """Frequencies as they are before the class rounds them to 16 bits."""
    for layer in model.transformer.layers:
        turned = CONFIG["hidden_size"] // CONFIG["num_attention_heads"] // 2
        frequencies = 1 / 10000 ** (torch.arange(0, turned, 2, dtype=torch.float64) / turned)
        layer.attention.rotary_emb.inv_freq = frequencies.to(model.lm_head.weight.dtype)
        layer.attention.rotary_emb.max_seq_len_cached = None


def logits(model: Any, tokens: torch.Tensor, end: str) -> dict[str, np.ndarray]:
    exact(model)
    places = torch.stack([torch.arange(TOKENS), torch.zeros(TOKENS, dtype=torch.long)])[None]
    seen = torch.zeros(1, 1, TOKENS, TOKENS, dtype=torch.bool)
    whole = model(input_ids=tokens, position_ids=places, attention_mask=seen).logits
    found = model(input_ids=tokens[:, : PROMPT + 1], use_cache=True)
    steps = [found.logits[:, -1:]]
    for at in range(PROMPT + 1, TOKENS):
        given = model.prepare_inputs_for_generation(tokens[:, : at + 1], past_key_values=found.past_key_values)
        found = model(**given, use_cache=True)
        steps.append(found.logits)
    return {"logits" + end: whole.numpy(), "decode_logits" + end: torch.cat(steps, 1).numpy()}


@torch.no_grad()
def make(folder: Path) -> None:
    config = import_module("configuration_chatglm").ChatGLMConfig(**CONFIG)
    torch.manual_seed(0)
    model = import_module("modeling_chatglm").ChatGLMForConditionalGeneration(config, empty_init=False).float().eval()
    model.lm_head.weight = model.transformer.word_embeddings.weight  # as its config's default ties them
    stir(model)
    tokens = torch.randint(4, MASK, (1, TOKENS))
    tokens[0, PROMPT - 1], tokens[0, PROMPT] = GMASK, BEGIN
    save(folder, model, tokens, logits, CONFIG)


if __name__ == "__main__":
    sys.path.insert(0, sys.argv[2])
    make(Path(sys.argv[1]) / "chatglm_6b")
