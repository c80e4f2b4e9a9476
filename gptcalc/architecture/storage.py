"""How a model's weights lie in files and in the classes that publish it. None of it changes a count or a result."""

from typing import Literal, TypeAlias

from msgspec import Struct

from gptcalc.architecture.base import Strict

#: matrices that are one in the published class: queries, keys and values; keys and values; gate and up
Fused: TypeAlias = Literal["qkv", "kv", "gate_up", "shared_gate_up"]

#: llama.cpp's names of architectures: its converter and its quantiser have rules of their own for some
Ggml: TypeAlias = Literal[
    "afmoe", "apertus", "arcee", "baichuan", "bailingmoe", "bailingmoe2", "bitnet", "bloom", "chatglm", "cohere2",
    "command-r", "dbrx", "deci", "deepseek", "deepseek2", "deepseek32", "deepseek4", "dots1", "ernie4_5",
    "ernie4_5-moe", "exaone", "exaone-moe", "exaone4", "falcon", "falcon-h1", "gemma", "gemma2", "gemma3",
    "gemma3n", "gemma4", "glm-dsa", "glm4", "glm4moe", "gpt-oss", "gpt2", "gptneox", "granite", "granite_swa",
    "granitehybrid", "granitemoe", "grok", "hunyuan-dense", "hunyuan-moe", "hy_v3", "internlm2", "jais2", "jamba",
    "kimi-k3", "kimi-linear", "laguna", "lfm2", "lfm2moe", "llama", "llama4", "mamba", "mamba2", "mellum", "mimo2",
    "minicpm", "minicpm3", "minimax-01", "minimax-m2", "minimax-m3", "mistral3", "mistral4", "mpt",
    "muse-glimmer", "nemotron", "nemotron_h", "olmo", "olmo2", "olmoe", "orion", "persimmon", "phi2", "phi3",
    "phimoe", "qwen", "qwen2", "qwen2moe", "qwen2vl", "qwen3", "qwen35", "qwen35moe", "qwen3moe", "qwen3next",
    "qwen3vl", "qwen3vlmoe", "seed_oss", "smollm3", "stablelm", "starcoder", "starcoder2", "step35",
]  # fmt: skip


#: the queries' matrix with that of the gate on what heads have read
Q_GATE = "attn.q+attn.gate"
#: matrices that are one in the classes of single architectures (transformers 5.24, modeling_qwen3_next.py and others)
IN_ONE: dict[Ggml, tuple[str, ...]] = {
    "qwen3next": (Q_GATE, "linear.q+linear.k+linear.v+linear.gate", "linear.beta+linear.decay"),
    "qwen35": (Q_GATE, "linear.q+linear.k+linear.v"),
    "qwen35moe": (Q_GATE, "linear.q+linear.k+linear.v"),
}


class Modules(Strict, frozen=True, kw_only=True):
    """What the published class calls its projections: the last word of each, by which adapters are asked for."""

    q: str = "q_proj"
    k: str = "k_proj"
    v: str = "v_proj"
    out: str = "o_proj"
    gate: str = "gate_proj"
    up: str = "up_proj"
    down: str = "down_proj"
    qkv: str = "qkv_proj"
    kv: str = "kv_proj"
    gate_up: str = "gate_up_proj"
    shared_gate_up: str = "input_linear"


class Files(Struct, frozen=True, eq=False):
    """What each tensor takes in the files at hand: its type there, and bytes, scales and zero points among them."""

    tensors: dict[str, tuple[str, int]]  # by our name of a weight


class Apart(Struct, frozen=True, eq=False):
    """The formats of matrices that are stored in a way of their own."""

    tensors: dict[str, str]  # by our name of a weight


class Storage(Strict, frozen=True, kw_only=True):
    """How weights are published, as engines, quantisers and adapters find them."""

    weights: str | None = None  # the data type or format; None: bf16
    mixed: bool = False  # matrices stay wide that the format would pack
    mixed_mtp: bool = False  # the same of multi-token-prediction modules alone
    fp8_cache: tuple[Literal["vllm", "sglang"], ...] = ()  # engines that keep the cache so unless told otherwise
    nvfp4_cache: tuple[Literal["vllm"], ...] = ()  # the same of four bits
    fused: tuple[Fused, ...] = ()  # matrices that are one in the published class
    tied_head: bool = False  # files hold a tied output matrix a second time
    gguf: Ggml = "llama"  # llama.cpp's name of the architecture
    mtp: bool = False  # GGUF files hold multi-token-prediction modules as further layers
    modules: Modules = Modules()
    lora: tuple[str, ...] = ()  # what PEFT adapts where nothing is said; (): queries and values
    apart: Apart | None = None  # of matrices that a config names
    files: Files | None = None  # those of a checkpoint, where there is one with all tensors
    lora_experts: bool = False  # PEFT's all-linear means experts and routers too, and no other gate, up and down
