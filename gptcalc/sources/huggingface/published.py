"""What a model_type says of how its weights are published, beyond the names of its tensors."""

from __future__ import annotations

from typing import Any

from gptcalc.architecture import Ggml

#: llama.cpp's name (gguf-py/gguf/constants.py) -> the types that conversion/ gives it; others are "llama"
GGML: dict[Ggml, str] = {
    "afmoe": "afmoe",
    "apertus": "apertus",
    "arcee": "arcee",
    "baichuan": "baichuan",
    "bailingmoe": "bailing_moe",
    "bailingmoe2": "bailing_moe_v2 sarvam_moe",
    "bitnet": "bitnet",
    "bloom": "bloom",
    "chatglm": "chatglm glm",
    "cohere2": "cohere2",
    "command-r": "cohere",
    "dbrx": "dbrx",
    "deci": "nemotron-nas",
    "deepseek": "deepseek",
    "deepseek2": "deepseek_v2 deepseek_v3 glm4_moe_lite kimi_k2 youtu",
    "deepseek32": "deepseek_v32",
    "deepseek4": "deepseek_v4",
    "dots1": "dots1",
    "ernie4_5": "ernie4_5",
    "ernie4_5-moe": "ernie4_5_moe",
    "exaone": "exaone",
    "exaone-moe": "exaone_moe",
    "exaone4": "exaone4",
    "falcon": "RefinedWeb RefinedWebModel falcon",
    "falcon-h1": "falcon_h1",
    "gemma": "gemma",
    "gemma2": "gemma2",
    "gemma3": "gemma3_text",
    "gemma3n": "gemma3n_text",
    "gemma4": "gemma4_text",
    "glm-dsa": "glm_moe_dsa",
    "glm4": "glm4",
    "glm4moe": "glm4_moe glm4v_moe_text solar_open",
    "gpt-oss": "gpt_oss",
    "gpt2": "gpt2",
    "gptneox": "gpt_neox",
    "granite": "granite",
    "granite_swa": "granite_swa",
    "granitehybrid": "bamba granitemoehybrid",
    "granitemoe": "granitemoe granitemoeshared",
    "grok": "grok-1 grok-2",
    "hunyuan-dense": "hunyuan_v1_dense",
    "hunyuan-moe": "hunyuan hunyuan_v1_moe",
    "hy_v3": "hy_v3",
    "internlm2": "internlm2",
    "jais2": "jais2",
    "jamba": "jamba",
    "kimi-k3": "kimi_k3_text",
    "kimi-linear": "kimi_linear",
    "laguna": "laguna",
    "lfm2": "lfm2",
    "lfm2moe": "lfm2_moe",
    "llama4": "llama4_text",
    "mamba": "falcon_mamba mamba",
    "mamba2": "mamba2",
    "mellum": "mellum",
    "mimo2": "mimo_v2_flash",
    "minicpm": "minicpm",
    "minicpm3": "minicpm3",
    "minimax-01": "minimax minimax_m1 minimax_text_01",
    "minimax-m2": "minimax_m2",
    "minimax-m3": "minimax_m3 minimax_m3_vl_text",
    "mistral3": "ministral3",
    "mistral4": "mistral4",
    "mpt": "mpt",
    "muse-glimmer": "muse_glimmer_text",
    "nemotron": "nemotron",
    "nemotron_h": "nemotron_h",
    "olmo": "olmo",
    "olmo2": "olmo2 olmo3",
    "olmoe": "olmoe",
    "orion": "orion",
    "persimmon": "persimmon",
    "phi2": "phi",
    "phi3": "phi3",
    "phimoe": "phimoe",
    "qwen": "qwen",
    "qwen2": "qwen2",
    "qwen2moe": "qwen2_moe",
    "qwen2vl": "qwen2_5_vl qwen2_5_vl_text qwen2_5_omni_text qwen2_vl qwen2_vl_text",
    "qwen3": "qwen3",
    "qwen35": "qwen3_5_text",
    "qwen35moe": "qwen3_5_moe_text",
    "qwen3moe": "qwen3_moe",
    "qwen3next": "qwen3_next",
    "qwen3vl": "qwen3_vl_text",
    "qwen3vlmoe": "qwen3_omni_moe_text qwen3_vl_moe_text",
    "seed_oss": "seed_oss",
    "smollm3": "smollm3",
    "stablelm": "stablelm stablelm_epoch",
    "starcoder": "gpt_bigcode",
    "starcoder2": "starcoder2",
    "step35": "step3p5 step3p7",
}

_GGML = {model_type: name for name, types in GGML.items() for model_type in types.split()}


#: types whose converter writes the multi-token-prediction modules as layers behind the last
WITH_MTP = frozenset({
    "bailing_moe_v2", "deepseek_v32", "exaone_moe", "glm4_moe", "glm4_moe_lite", "glm4v_moe_text", "glm_moe_dsa",
    "hy_v3", "mimo_v2_flash", "qwen3_5_moe_text", "qwen3_5_text", "qwen3_next", "step3p5", "step3p7",
})  # fmt: skip


#: types whose experts PEFT knows by their old names (0.21, _MODEL_TO_CONVERSION_PATTERN): all-linear adapts them
LORA_EXPERTS = frozenset({
    "afmoe", "beam", "deepseek_v2", "deepseek_v3", "deepseek_v32", "dots1", "ernie4_5_moe", "exaone_moe", "flex_olmo",
    "glm4_moe", "glm4_moe_lite", "glm_moe_dsa", "hunyuan_v1_moe", "kimi_k2", "longcat_flash", "mellum", "minimax",
    "minimax_m2", "mixtral", "olmoe", "qwen3_moe", "qwen3_next", "qwen3_omni_moe_text", "sarvam_mla", "solar_open",
})  # fmt: skip

#: PEFT's default targets (utils/constants.py) where they are not queries and values, or the matrix that has both
LORA = {
    "phi": ["attn.q", "attn.v", "mlp.up", "mlp.down"],
    "nemotron_h": ["attn.q", "attn.k", "attn.v", "attn.out"],
}


def published(model_type: str) -> dict[str, Any]:
    """The keys of a document's `storage` that the type decides."""
    storage: dict[str, Any] = {"gguf": _GGML[model_type]} if model_type in _GGML else {}
    if model_type in WITH_MTP:
        storage["mtp"] = True
    if model_type in LORA:
        storage["lora"] = LORA[model_type]
    if model_type in LORA_EXPERTS:
        storage["lora_experts"] = True
    return storage
