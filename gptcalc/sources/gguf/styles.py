"""What llama.cpp's architectures have in common beyond what metadata and tensors say: one line each.

From llama.cpp's model classes: activation functions, which layers see a window, which rotate, how experts are chosen.
An architecture that is not named here is refused.
"""

from __future__ import annotations

from typing import NamedTuple


class Style(NamedTuple):
    """The constants of an architecture."""

    function: str = "silu"  # of MLPs and experts; with a gate where there is a tensor for one
    tied: bool = False  # every model of it has a tied head, which some converters store all the same
    adjacent: bool = False  # rotary channels are paired with their neighbour in the published model
    every: int | None = None  # every so many layers one sees the whole past, where metadata don't list them
    chunk: int | None = None  # the others see a chunk of so many tokens, not a window
    full_rotates: bool = True  # layers that see all have rotary positions
    nope_every: int | None = None  # every so many layers one has no positions
    scaled_embedding: bool = False  # by √d
    router: str = "softmax"  # where metadata don't say
    normalize: bool = False  # the chosen weights divided by their sum, where metadata don't say
    at_input: bool = False  # the router's weight multiplies what goes into an expert
    local_theta: float | None = None  # of layers with a window, where metadata don't say
    scale: float | None = None  # of the scores, where it isn't 1/√d_head and metadata don't say
    v_norm: bool = False  # values are normed, without a weight
    bare_qk_norm: bool = False  # queries and keys that rotate are normed, without a weight
    norm_after_rope: bool = False  # the norm of queries and keys comes behind the rotation
    alibi: bool = False  # linear biases whatever the metadata say
    alibi_layers: int | None = None  # models of so many layers have linear biases (Baichuan's larger one)
    positions: bool = True  # attention rotates at all
    by_finetuned: bool = False  # whether it does, rope.scaling.finetuned says (Granite 4)
    encoder: bool = False  # sees all tokens, and has no head
    post: bool = False  # norms come behind the sum with the residual stream
    full_first: bool = False  # of so many layers the first sees all, not the last
    both_sides: bool = False  # a window reaches half as far on each side
    dt_min: float = 0.0  # least step of a Mamba-2
    divides_logits: bool = False  # the metadata's factor of the logits is a divisor
    adjacent_index: bool = False  # an indexer's rotary channels are paired with their neighbour


LLAMA = Style(normalize=True)
GELU = Style(function="gelu_tanh")
GEMMA = Style(function="gelu_tanh", tied=True, scaled_embedding=True)
SIGMOID = Style(router="sigmoid", normalize=True)

STYLES: dict[str, Style] = {
    "afmoe": Style(every=4, full_rotates=False, router="sigmoid", normalize=True, scaled_embedding=True),
    "apertus": Style(function="xielu"),
    "arcee": Style(function="relu2"),
    "baichuan": Style(alibi_layers=40),
    "bailingmoe": Style(),
    "bailingmoe2": SIGMOID,
    "bert": Style(function="gelu", encoder=True, post=True),
    "bitnet": Style(function="relu2"),
    "bloom": Style(function="gelu_tanh", tied=True, alibi=True),
    "chatglm": Style(adjacent=True),
    "cohere2": Style(tied=True, adjacent=True, every=4, full_rotates=False),
    "command-r": Style(tied=True, adjacent=True),
    "dbrx": LLAMA,
    "deci": LLAMA,
    "deepseek": Style(),
    "deepseek2": Style(adjacent=True),
    "deepseek2-ocr": Style(),
    "deepseek32": Style(adjacent=True, router="sigmoid"),
    "dots1": Style(),
    "ernie4_5": Style(adjacent=True),
    "ernie4_5-moe": Style(adjacent=True, normalize=True),
    "eurobert": Style(encoder=True),
    "exaone": Style(),
    "exaone-moe": Style(every=4, full_rotates=False, router="sigmoid", normalize=True),
    "exaone4": Style(every=4, full_rotates=False),
    "falcon-h1": Style(),
    "falcon": Style(function="gelu", tied=True),
    "gemma": GEMMA,
    "gemma2": GEMMA._replace(every=2),
    "gemma3": GEMMA._replace(every=6, local_theta=10000),
    "gemma-embedding": GEMMA._replace(every=6, local_theta=10000, encoder=True, both_sides=True),
    "gemma3n": GEMMA._replace(every=5, local_theta=10000, scale=1.0, v_norm=True),
    "gemma4": GEMMA._replace(every=6, local_theta=10000, scale=1.0, v_norm=True, normalize=True),
    "glm-dsa": Style(adjacent=True, router="sigmoid", adjacent_index=True),
    "glm4": Style(adjacent=True),
    "glm4moe": SIGMOID,
    "gpt-oss": Style(function="silu_oai", every=2, router="topk_softmax"),
    "gpt2": Style(function="gelu_tanh", tied=True),
    "gptj": Style(function="gelu_tanh", adjacent=True),
    "gptneox": Style(function="gelu"),
    "granite": Style(divides_logits=True),
    "granitemoe": Style(router="topk_softmax", divides_logits=True),
    "granitehybrid": Style(router="topk_softmax", divides_logits=True, by_finetuned=True),
    "grok": Style(function="gelu_tanh", scaled_embedding=True),
    "hunyuan-dense": Style(norm_after_rope=True),
    "hunyuan-moe": LLAMA._replace(norm_after_rope=True),
    "hunyuan_vl": Style(norm_after_rope=True),
    "internlm2": Style(),
    "jais2": Style(function="relu2"),
    "jamba": Style(positions=False),
    "kimi-k3": SIGMOID._replace(positions=False),
    "kimi-linear": SIGMOID._replace(positions=False),
    "lfm2": Style(),
    "lfm2moe": SIGMOID,
    "llama": LLAMA,
    "llama-embed": LLAMA._replace(encoder=True),
    "llama4": Style(
        adjacent=True, every=4, chunk=8192, full_rotates=False, router="topk_sigmoid", at_input=True, bare_qk_norm=True
    ),
    "mamba": Style(positions=False),
    "mamba2": Style(positions=False),
    "mimo2": SIGMOID,
    "minicpm": Style(divides_logits=True),
    "minicpm3": Style(divides_logits=True),
    "minimax-m2": SIGMOID,
    "mistral3": LLAMA,
    "mistral4": Style(adjacent=True, normalize=True),
    "modern-bert": Style(function="gelu", encoder=True, every=3, full_first=True, both_sides=True, local_theta=10000),
    "mpt": Style(function="gelu", tied=True),
    "nemotron_h": Style(function="relu2", positions=False, dt_min=0.001),
    "nemotron_h_moe": Style(function="relu2", positions=False, dt_min=0.001, router="sigmoid", normalize=True),
    "nemotron": Style(function="relu2"),
    "nomic-bert": Style(encoder=True, post=True),
    "olmo": Style(),
    "olmo2": Style(every=4),
    "olmoe": Style(),
    "orion": Style(),
    "paddleocr": Style(),
    "phi2": GELU,
    "phi3": Style(),
    "phimoe": Style(router="sparsemixer"),
    "qwen": Style(),
    "qwen2": Style(),
    "qwen2moe": Style(),
    "qwen2vl": Style(),
    "qwen3": Style(),
    "qwen3moe": LLAMA,
    "qwen35": Style(),
    "qwen35moe": LLAMA,
    "qwen3next": LLAMA,
    "qwen3vl": Style(),
    "qwen3vlmoe": LLAMA,
    "rwkv6": Style(positions=False),
    "rwkv7": Style(positions=False),
    "seed_oss": Style(),
    "smollm3": Style(nope_every=4),
    "stablelm": Style(),
    "starcoder": Style(function="gelu_tanh", tied=True),
    "starcoder2": GELU,
    "step35": SIGMOID,
    **dict.fromkeys(("t5", "t5encoder"), Style(function="relu", positions=False)),  # in a file of their own, t5.py
    "xverse": Style(),
}

_UNREAD = "has no counterpart here that it could be held against"
_DIFFUSION = "tokens in any order (diffusion) are not supported yet"
_RWKV = "this generation of RWKV is not read from GGUF files yet"

#: llama.cpp's other architectures, and why their files are not read as models; their tensors are counted all the same
UNREAD: dict[str, str] = {
    **dict.fromkeys(
        (
            "arctic", "codeshell", "cogvlm", "grovemoe", "jina-bert-v2", "jina-bert-v3", "maincoder", "neo-bert",
            "nomic-bert-moe", "openelm", "pangu-embedded", "plamo", "plamo3", "plm", "refact", "smallthinker",
        ),
        _UNREAD,
    ),
    **dict.fromkeys(("dream", "llada", "llada-moe", "rnd1"), _DIFFUSION),
    **dict.fromkeys(("arwkv7", "rwkv6qwen2"), _RWKV),
    "chameleon": "queries and keys normed with weights of every head are not supported yet",
    "jais": "scores over a head's width are not read from GGUF files yet",
    "plamo2": "recurrent mixers of this kind are not supported yet",
}  # fmt: skip
