"""Tiny random models with the logits that Hugging Face transformers computes from the same weights.

Each folder under tests/golden holds config.json, model.safetensors and io.npz: `input_ids` (1, 13), `logits`,
`embeds` (block 0's input), `hidden_after_block`, `decode_logits` (ten tokens at once, then three through the cache),
and the same with `_f64` from the model in float64 (its norms, softmax and router stay float32 inside).
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np

from gptcalc.architecture import Architecture
from gptcalc.reference.model import Model
from gptcalc.sources import load
from gptcalc.sources.checkpoint import Checkpoint
from gptcalc.sources.huggingface import tensor_names

FOLDER = Path(__file__).parent / "golden"
NAMES = sorted(path.name for path in FOLDER.iterdir() if path.is_dir())
PROMPT = 10


@cache
def golden(name: str) -> tuple[Architecture, Checkpoint, dict[str, np.ndarray]]:
    """A golden model's architecture, weights and truths."""
    source = load(str(FOLDER / name / "config.json"))
    assert source.model_type is not None
    checkpoint = Checkpoint(FOLDER / name, tensor_names(source.model_type, source.architecture))
    with np.load(FOLDER / name / "io.npz") as arrays:
        return source.architecture, checkpoint, dict(arrays)


def distances(name: str, dtype: type[np.floating]) -> dict[str, float]:
    """How far the witness is from transformers, at worst, stage by stage."""
    architecture, checkpoint, truth = golden(name)
    end = "_f64" if dtype is np.float64 else ""
    model = Model(architecture, checkpoint, dtype=dtype)
    tokens = truth["input_ids"]
    whole = model.prefill(tokens)
    model.prefill(tokens[:, :PROMPT])
    decoded = [model.decode(token).logits for token in tokens[0, PROMPT:]]
    pairs = {
        "embeds": (whole.embedded, truth["embeds"]),
        **{f"block {n}": (x, truth["hidden_after_block" + end][n]) for n, x in enumerate(whole.hidden)},
        "logits": (whole.logits, truth["logits" + end]),
        "decode": (np.concatenate(decoded, axis=1), truth["decode_logits" + end]),
    }
    return {stage: float(np.abs(a - b).max()) for stage, (a, b) in pairs.items()}
