"""Tiny random models with the logits that Hugging Face transformers computes from the same weights.

Each folder under tests/golden holds config.json, model.safetensors and io.npz: `input_ids` (1, 13), `logits`,
`embeds` (block 0's input), `hidden_after_block`, `decode_logits` (ten tokens at once, then three through the cache),
and the same with `_f64` from the model in float64 (its norms, softmax and router stay float32 inside).

Encoders have `hidden` (block 0's input, then every block's output, the last one normed) and no decoding;
`python -m tests.golden_encoders FOLDER` makes six of them anew; encoder-decoders have `input_ids` or `input_features`
(1, channels, frames) for the encoder, `decoder_input_ids` (1, 7), `encoder_output` and the last three decoded;
`python -m tests.golden_two_sequences FOLDER` makes blenderbot-small and nllb-moe anew.

Drafts (eagle3…, dflash…) have `states` beside the tokens, what three layers of a target made of them, and `block`, the
tokens of a block that is drafted behind them. transformers has no class for them: their truths are those of torch
modules written for this, from what SpecForge's classes compute (specforge/modeling/draft), in float32 and float64.
Their model.safetensors has a copy of the target's tables.

Loops (dory, dory_last_loop, hrm_text, inkling2_loop_text), qwen4_exp, cpmant, chatglm_6b, yuan, yuan_moe and kimi_k3
have `input_ids`, `logits` and `decode_logits` alone, in float64 also where the class says `.float()`: `python -m
tests.golden_loops FOLDER`, tests.golden_dory, tests.golden_qwen4, tests.golden_cpmant, tests.golden_chatglm,
tests.golden_yuan and tests.golden_kimi make them anew. dory_last_loop decodes otherwise than it prefills: earlier
passes of a step look back on the last one's.

`python -m tests.golden_inside FOLDER` makes ernie4_5_vl_moe and voxtral_realtime, text models inside larger ones, with
the same; which of ERNIE's tokens are an image's says `images`. It makes diffusion_gemma, too, which has the logits of a
`canvas` behind the tokens: of a first step, and of one with the logits `before`.

RWKV-5, 6 and 7 are no models of transformers, and have no `decode_logits`: rwkv5 is of a torch module written for this,
from RWKV-LM's RWKV-v5/src/model.py and the recurrence of its kernel; rwkv6_fla and rwkv7_fla are of fla-core's classes,
with naive recurrences in torch in the place of their kernels. Nor are these: `python -m tests.golden_fla FOLDER` makes
hgrn, hgrn2 and gsa in torch. Nor is phi3small: it is of mlx-lm's class, with blocks of 2 keys, in float64 but for its
angles.
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


#: where a decode step of transformers differs from its own full forward pass, and why
DECODED_OTHERWISE = {
    "nemotron_h": "time steps have a floor in the chunked scan, and none in the step",
    "nemotron_h_latent": "the same",
    "zamba2": "the same",
}


#: whose first block begins with the norm of the embedding, so that its input is none of the witness's stages
NORMED_INSIDE = frozenset({"rwkv", "rwkv5", "rwkv6_fla", "rwkv7_fla"})


def decoding(name: str, truth: dict[str, np.ndarray], end: str) -> np.ndarray:
    """The last three logits through the cache; where transformers' own are not those of its full forward pass (or not
    there at all: bamba, gsa, hgrn, hgrn2, minimax, recurrent_gemma, rwkv…, xlstm), the latter."""
    through_cache = truth.get("decode_logits" + end)
    if through_cache is None or name in DECODED_OTHERWISE:
        return truth["logits" + end][:, PROMPT:]
    return through_cache


def source(truth: dict[str, np.ndarray]) -> np.ndarray | None:
    """What an encoder beside the decoder reads."""
    if "source_states" in truth:  # of an encoder that is no part of the model
        return truth["source_states"]
    if "decoder_input_ids" not in truth:
        return None
    return truth["input_features"].swapaxes(1, 2) if "input_features" in truth else truth["input_ids"]


def tokens_of(truth: dict[str, np.ndarray]) -> np.ndarray:
    """What the layers read."""
    return truth.get("decoder_input_ids", truth["input_ids"])


def distances(name: str, dtype: type[np.floating]) -> dict[str, float]:
    """How far the witness is from transformers, at worst, stage by stage."""
    architecture, checkpoint, truth = golden(name)
    end = "_f64" if dtype is np.float64 and "logits_f64" in truth else ""  # transformers' XGLM can't be in float64
    model = Model(architecture, checkpoint, dtype=dtype)
    tokens, read = tokens_of(truth), source(truth)
    states, block = truth.get("states"), truth.get("block")
    images = truth.get("images")
    whole = model.prefill(tokens, source=read, states=states, block=block, images=images)
    if "canvas" in truth:  # a block that is denoised behind the tokens
        steps = [model.denoise(truth["canvas"], before).logits for before in (None, truth["before"])]
        both = zip(("logits_first", "logits"), steps, strict=True)
        return {stage: float(np.abs(found - truth[stage + end]).max()) for stage, found in both}
    pairs = {"logits": (whole.logits, truth["logits" + end])}
    if "hidden_after_block" + end in truth:
        pairs |= {f"block {n}": (x, truth["hidden_after_block" + end][n]) for n, x in enumerate(whole.hidden)}
        embeds = truth["embeds"]
        if name not in NORMED_INSIDE:
            pairs["embeds"] = (
                whole.embedded,
                embeds if embeds.ndim == 3 or architecture.streams is None else embeds[:, :, 0],
            )
    elif "hidden" in truth and not end:
        inner = [whole.embedded, *whole.hidden[:-1]]
        pairs |= {f"stream {n}": (x, truth["hidden"][n]) for n, x in enumerate(inner)}
    if whole.encoded is not None and "encoder_output" in truth:
        pairs["encoder"] = (whole.encoded, truth["encoder_output"])
    if whole.confidence is not None:
        pairs["confidence"] = (whole.confidence, truth["confidence" + end])
    if "pooled" + end in truth and whole.pooled is not None:
        pairs["pooled"] = (whole.pooled[:, 0], truth["pooled" + end])
    if read is not None:
        model.prefill(tokens[:, :-3], source=read)
        decoded = [model.decode(token).logits for token in tokens[0, -3:]]
        pairs["decode"] = (
            np.concatenate(decoded, axis=1),
            truth.get("decode_logits" + end, truth["logits" + end][:, -3:]),
        )
    elif block is not None and states is not None:  # the block behind all tokens, of which the last came one by one
        model.prefill(tokens[:, :PROMPT], states=states[:, :PROMPT], block=block)
        for at in range(PROMPT, tokens.shape[1]):
            whole = model.decode(tokens[0, at], states=states[:, at : at + 1], block=block)
        pairs["decode"] = whole.logits, truth["logits" + end]
    elif not architecture.sees_all and architecture.head.vocabulary:
        first, *later = [None] * 4 if states is None else np.split(states, (PROMPT, PROMPT + 1, PROMPT + 2), axis=1)
        model.prefill(tokens[:, :PROMPT], states=first, images=None if images is None else images[:PROMPT])
        new = zip(tokens[0, PROMPT:], later, strict=True)
        decoded = [model.decode(token, states=state).logits for token, state in new]
        pairs["decode"] = (np.concatenate(decoded, axis=1), decoding(name, truth, end))
    return {stage: float(np.abs(a - b).max()) for stage, (a, b) in pairs.items()}
