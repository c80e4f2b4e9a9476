"""How tests/golden/esmc, gemma3_text_bidirectional, ibert, jina_embeddings_v3, rembert, roc_bert, roformer were made.

    python -m tests.golden_encoders FOLDER

with transformers 5.24.0 and PyTorch 2.13.0 on a CPU, eager attention; nothing of the program is imported. Into FOLDER
go all models, to be compared with what is there: config.json and model.safetensors are the same bytes.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

from tests.golden_loops import TOKENS, as_float64, stir

SIZES: dict[str, Any] = {
    "vocab_size": 97, "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 56,
    "max_position_embeddings": 64,
}  # fmt: skip
#: what each class has of its own; its config's class is called as it is
MODELS: dict[str, dict[str, Any]] = {
    "RoFormer": {"embedding_size": 16},
    "RemBert": {"input_embedding_size": 16, "output_embedding_size": 24},
    "IBert": {},
    "JinaEmbeddingsV3": {},
    "Esmc": {},
    "RoCBert": {
        "pronunciation_embed_dim": 10, "pronunciation_vocab_size": 12, "shape_embed_dim": 9, "shape_vocab_size": 14,
    },
    "Gemma3Text": {"use_bidirectional_attention": True, "sliding_window": 6, "num_key_value_heads": 2, "head_dim": 12,
                   "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
                   "query_pre_attn_scalar": 10, "tie_word_embeddings": True},
}  # fmt: skip
#: what is no masked language model
CLASSES = {"Gemma3Text": "Gemma3ForCausalLM"}
FOLDERS = {"gemma3_text": "gemma3_text_bidirectional"}


def logits(model: Any, tokens: torch.Tensor, end: str) -> dict[str, np.ndarray]:
    """Of all tokens, and in single precision block 0's input, then every block's output."""
    found = model(input_ids=tokens, output_hidden_states=not end)
    truths = {"logits" + end: found.logits.numpy()}
    return truths if end else truths | {"hidden": torch.stack(found.hidden_states).numpy()}


@torch.no_grad()
def make(name: str, own: dict[str, Any], folder: Path) -> None:
    """A folder of the type's name."""
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**SIZES, **own)
    model = getattr(transformers, CLASSES.get(name, f"{name}ForMaskedLM"))(config).eval()
    model.set_attn_implementation("eager")
    frozen = {key: p.clone() for key, p in model.named_parameters() if not p.requires_grad}
    stir(model)
    for key, p in model.named_parameters():
        if key in frozen:
            p.copy_(frozen[key])
    target = folder / FOLDERS.get(config.model_type, config.model_type)
    model.save_pretrained(target)
    tokens = torch.randint(5, config.vocab_size, (1, TOKENS))
    truths = {"input_ids": tokens.numpy(), **logits(model, tokens, "")}
    single = torch.Tensor.float
    truths |= logits(as_float64(model), tokens, "_f64")
    torch.Tensor.float = single
    torch.set_default_dtype(torch.float32)
    np.savez_compressed(target / "io.npz", **truths)


if __name__ == "__main__":
    for each, own in MODELS.items():
        make(each, own, Path(sys.argv[1]))
