"""A tiny transformers checkpoint as a GGUF file, as llama.cpp's converter would write it.

Names are mapped by llama.cpp's own library (gguf.tensor_mapping); the metadata follow its converter.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import gguf
from gguf.constants import MODEL_ARCH, MODEL_ARCH_NAMES
from safetensors import safe_open

from tests.sources.ggufs import written

#: model_type -> llama.cpp's architecture
ARCHITECTURES = {
    "falcon_h1": "falcon-h1", "falcon_mamba": "mamba", "granitemoehybrid": "granitehybrid", "jamba": "jamba",
    "kimi_linear": "kimi-linear", "lfm2": "lfm2", "lfm2_moe": "lfm2moe", "mamba": "mamba", "mamba2": "mamba2",
    "nemotron_h": "nemotron_h_moe", "qwen3_5_text": "qwen35", "qwen3_next": "qwen3next",
    "bert": "bert", "eurobert": "eurobert", "modernbert": "modern-bert", "nomic_bert": "nomic-bert", "roberta": "bert",
    "bloom": "bloom", "cohere": "command-r", "cohere2": "cohere2", "dbrx": "dbrx", "deepseek_v2": "deepseek2",
    "deepseek_v3": "deepseek2", "deepseek_v32": "glm-dsa", "ernie4_5_moe": "ernie4_5-moe", "falcon": "falcon",
    "gemma": "gemma",
    "gemma2": "gemma2", "gemma3_text": "gemma3", "gemma3n_text": "gemma3n", "gemma4_text": "gemma4", "glm": "chatglm",
    "glm4_moe": "glm4moe", "gpt2": "gpt2", "gpt_bigcode": "starcoder", "gpt_neox": "gptneox", "gpt_oss": "gpt-oss",
    "gptj": "gptj", "granite": "granite", "llama": "llama", "llama4_text": "llama4", "mimo_v2_flash": "mimo2",
    "minicpm3": "minicpm3", "minimax_m2": "minimax-m2", "mistral": "llama", "mixtral": "llama", "mpt": "mpt",
    "nemotron": "nemotron", "olmo2": "olmo2", "olmo3": "olmo2", "olmoe": "olmoe", "phi": "phi2", "phi3": "phi3",
    "phimoe": "phimoe", "qwen2": "qwen2", "qwen2_moe": "qwen2moe", "qwen3": "qwen3", "qwen3_moe": "qwen3moe",
    "smollm3": "smollm3", "stablelm": "stablelm",
}  # fmt: skip

Shape = tuple[int, ...]


def convert(folder: Path, path: Path) -> list[str]:
    """Write the checkpoint in a folder as a GGUF file; the names that the library doesn't know."""
    config = json.loads((folder / "config.json").read_text())
    architecture = ARCHITECTURES[config["model_type"]]
    with safe_open(folder / "model.safetensors", "np") as file:
        shapes = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
    arch = next(key for key, name in MODEL_ARCH_NAMES.items() if name == architecture)
    tensors, unknown = renamed(shapes, arch, config)
    written(path, architecture, metadata(config), tensors, "F32")
    return unknown


def renamed(shapes: dict[str, Shape], arch: MODEL_ARCH, config: dict[str, Any]) -> tuple[dict[str, Shape], list[str]]:
    names = gguf.get_tensor_name_map(arch, layers(config) + 1)
    tensors: dict[str, Shape] = {}
    unknown = []
    for name, shape in merged(prepared(shapes, config)).items():
        mapped = names.get_name(name, (".weight", ".bias"))
        scaled = SCALES.get(name.removesuffix(".weight").split(".", 3)[-1])
        if scaled is not None:
            tensors[f"blk.{name.split('.')[2]}.{scaled}"] = shape
        elif mapped is None:
            unknown.append(name)
        else:
            tensors[mapped] = shape
    return tensors, unknown


#: named by Gemma 4's converter itself
SCALES = {"router.scale": "ffn_gate_inp.scale", "router.per_expert_scale": "ffn_down_exps.scale"}


def prepared(shapes: dict[str, Shape], config: dict[str, Any]) -> dict[str, Shape]:
    """What the converter does to some tensors before it names them."""
    found: dict[str, Shape] = {}
    for name, shape in shapes.items():
        if config["model_type"] in ENCODERS:
            name = re.sub(r"^(bert|roberta|nomic_bert)\.", "", name)
            if name.startswith(("cls.", "lm_head.", "head.", "decoder.", "classifier.", "pooler.")):
                continue  # an encoder's head is left behind
            if config["model_type"] == "modernbert":
                name = name.removeprefix("model.")
            if config["model_type"] == "roberta" and "position_embeddings" in name:
                shape = (shape[0] - 2, shape[1])  # rows of padding
        if name.endswith("e_score_correction_bias"):
            name = name.replace("e_score_correction_bias", "e_score_correction.bias")
        if config["model_type"] == "gpt2" and len(shape) == 2 and ".h." in name:
            shape = shape[::-1]  # Conv1D
        if config["model_type"] == "dbrx" and ".experts." in name:
            n = config["ffn_config"]["moe_num_experts"]
            shape = (n, shape[0] // n, shape[1]) if "w2" not in name else (n, shape[1], shape[0] // n)
        if config["model_type"] == "llama4_text" and ".experts." in name:
            shape = (shape[0], shape[2], shape[1])
        if config["model_type"] == "gpt_oss" and ".experts." in name and len(shape) == 3:
            shape = (shape[0], shape[2], shape[1])
        if config["model_type"] == "bloom":
            name = name.removeprefix("transformer.")
        if name.endswith("dt_bias"):
            name = name.replace("dt_bias", "dt_proj.bias")
        if name.endswith("expert_bias"):
            name = name.replace("expert_bias", "expert_bias.bias")
        if "_linear.weight" in name and config["model_type"] == "granitemoehybrid":
            found |= split_granite(name, shape)
            continue
        if config["model_type"] == "kimi_linear" and re.search(r"block_sparse_moe\.\w+_proj", name):
            name = name.replace("block_sparse_moe", "mlp")  # the dense layer
        last = name.rpartition(".")[2]
        if last not in ("weight", "bias", "A_log", "D"):
            name += ".weight"
        if ".experts.gate_up_proj" in name and config["model_type"] != "gemma4_text":
            name = name.replace("gate_up_proj_bias.weight", "gate_up_proj.bias")
            halves = (shape[0], shape[1] // 2, *shape[2:])
            found |= {name.replace("gate_up_proj", f"{half}_proj"): halves for half in ("gate", "up")}
        else:
            found[name.replace("down_proj_bias.weight", "down_proj.bias")] = shape
    return found


ENCODERS = ("bert", "eurobert", "modernbert", "nomic_bert", "roberta")


def split_granite(name: str, shape: Shape) -> dict[str, Shape]:
    """Gate and up projection lie one behind the other."""
    shared = "shared_mlp" in name
    if "output_linear" in name:
        return {name: shape}
    half = (shape[0] // 2, shape[1]) if shared else (shape[0], shape[1] // 2, shape[2])
    if not shared:
        base = name.removesuffix("input_linear.weight") + "experts."
        return {f"{base}{word}.weight": half for word in ("w1", "w3")}
    base = name.partition("shared_mlp")[0]
    return {f"{base}mlp.shared_experts.{word}_proj.weight": half for word in ("gate", "up")}


#: one tensor of several that are numbered
NUMBERED = re.compile(r"\.experts(\.\d+)\.|(?:projections|layernorm)((?:\.norms)?\.\d+)\.")


def merged(shapes: dict[str, Shape]) -> dict[str, Shape]:
    """The tensors of all experts as one, which llama.cpp stores in front of the others' shape."""
    found: dict[str, Shape] = {}
    for name, shape in shapes.items():
        match = NUMBERED.search(name)
        if match is None:
            found[name] = shape
            continue
        start, end = match.span(1 if match[1] else 2)
        whole = name[:start] + name[end:]
        if ".mixer.experts." in whole:  # what Nemotron-H's converter calls them
            whole = whole.replace("backbone", "model").replace("mixer", "mlp")
        n = found[whole][0] + 1 if whole in found else 1
        found[whole] = (n, *shape)
    return found


def layers(config: dict[str, Any]) -> int:
    if "layers_block_type" in config:
        return len(config["layers_block_type"])
    return next(config[key] for key in ("num_hidden_layers", "n_layer", "n_layers") if key in config)


def first(config: dict[str, Any], *names: str, default: Any = None) -> Any:
    return next((config[name] for name in names if config.get(name) is not None), default)


#: numbers that the converter takes over from a field of the config, whichever of its names is there
TAKEN = {
    "context_length": ("max_position_embeddings", "model_max_length", "n_positions", "max_seq_len", "seq_length"),
    "embedding_length": ("hidden_size", "n_embd", "d_model"),
    "attention.layer_norm_rms_epsilon": ("rms_norm_eps",),
    "attention.layer_norm_epsilon": ("layer_norm_epsilon", "layer_norm_eps", "norm_eps"),
    "attention.head_count": ("num_attention_heads", "n_head", "n_heads"),
    "attention.q_lora_rank": ("q_lora_rank",),
    "attention.kv_lora_rank": ("kv_lora_rank",),
    "attention.sliding_window": ("sliding_window", "local_attention"),
    "attention.shared_kv_layers": ("num_kv_shared_layers",),
    "attn_logit_softcapping": ("attn_logit_softcapping",),
    "final_logit_softcapping": ("final_logit_softcapping",),
    "leading_dense_block_count": ("first_k_dense_replace",),
    "expert_count": ("n_routed_experts", "num_local_experts", "num_experts", "moe_num_experts"),
    "expert_used_count": ("num_experts_per_tok", "num_experts_per_token", "top_k_experts", "moe_k"),
    "expert_shared_count": ("n_shared_experts",),
    "expert_feed_forward_length": ("moe_intermediate_size",),
    "expert_weights_scale": ("routed_scaling_factor",),
    "expert_weights_norm": ("norm_topk_prob",),
    "expert_group_count": ("n_group",),
    "expert_group_used_count": ("topk_group",),
    "logit_scale": ("logit_scale", "logits_scaling"),
    "embedding_scale": ("embedding_multiplier", "scale_emb"),
    "residual_scale": ("residual_multiplier",),
    "attention.scale": ("attention_multiplier",),
    "embedding_length_per_layer_input": ("hidden_size_per_layer_input",),
    "attention.indexer.head_count": ("index_n_heads",),
    "attention.indexer.key_length": ("index_head_dim",),
    "attention.indexer.top_k": ("index_topk",),
    "altup.num_inputs": ("altup_num_inputs",),
    "altup.active_idx": ("altup_active_idx",),
}  # fmt: skip

#: fields of the two objects inside some configs
INSIDE = {"kv_n_heads": "num_key_value_heads", "moe_num_experts": "num_local_experts",
          "moe_top_k": "num_experts_per_tok", "ffn_hidden_size": "intermediate_size",
          "alibi_bias_max": "alibi_bias_max", "clip_qkv": "clip_qkv"}  # fmt: skip
PATTERNED = {"gemma3n_text", "gemma4_text", "mimo_v2_flash"}  # their converters list which layers have a window
CUT = {"roberta": 2}  # positions before the first, whose rows the converter leaves out
LAYERNORMS = {"phimoe"}  # whose rms_norm_eps is a layernorm's
RMSNORMS = {"mamba", "falcon_mamba", "mamba2", "nemotron_h", "lfm2", "lfm2_moe"}  # the other way round


def metadata(config: dict[str, Any]) -> dict[str, Any]:
    """The metadata of a config, as llama.cpp's converter writes them."""
    for part in ("attn_config", "ffn_config"):
        own = config.get(part, {})
        config = {**config, **{INSIDE[key]: value for key, value in own.items() if key in INSIDE and value is not None}}
    model_type = config["model_type"]
    found = {key: value for key, names in TAKEN.items() if (value := first(config, *names)) is not None}
    found.setdefault("context_length", found["embedding_length"])  # BLOOM's converter
    found["block_count"] = layers(config) + (config.get("num_nextn_predict_layers") or 0)
    found.setdefault("attention.head_count", 0)
    found["context_length"] -= CUT.get(model_type, 0)
    found["feed_forward_length"] = first(config, "intermediate_size", "n_inner", "ffn_hidden_size", default=1)
    heads, d = found["attention.head_count"], found["embedding_length"]
    kv_heads = 1 if config.get("multi_query") else first(config, "num_key_value_heads", "num_kv_heads", default=heads)
    found["attention.head_count_kv"] = kv_heads
    d_head = first(config, "head_dim", default=d // max(1, heads))
    found["attention.key_length"] = found["attention.value_length"] = d_head
    if "v_head_dim" in config:
        found["attention.value_length"] = config["v_head_dim"]
    types = config.get("layer_types")
    if model_type in PATTERNED and types:
        found["attention.sliding_window_pattern"] = [kind == "sliding_attention" for kind in types]
    found |= rotation(config, d_head) | recurrence(config, d)
    if "kv_lora_rank" in config:  # latent attention: one KV head, its own widths beside
        whole = config["qk_nope_head_dim"] + config["qk_rope_head_dim"]
        found |= {"attention.key_length": config["kv_lora_rank"] + config["qk_rope_head_dim"],
                  "attention.value_length": config["kv_lora_rank"], "attention.head_count_kv": 1,
                  "attention.key_length_mla": whole, "attention.value_length_mla": config["v_head_dim"],
                  "rope.dimension_count": config["qk_rope_head_dim"]}  # fmt: skip
    if model_type in LAYERNORMS:
        found["attention.layer_norm_epsilon"] = found.pop("attention.layer_norm_rms_epsilon")
    if model_type in RMSNORMS:
        found["attention.layer_norm_rms_epsilon"] = found.pop("attention.layer_norm_epsilon")
    if config.get("attn_config", {}).get("alibi"):
        found["attention.max_alibi_bias"] = float(config["alibi_bias_max"])
    if model_type == "dbrx":
        found["attention.layer_norm_epsilon"] = 1e-5
    if config.get("clip_qkv"):
        found["attention.clamp_kqv"] = config["clip_qkv"]
    if model_type == "gpt_neox":
        found["use_parallel_residual"] = config["use_parallel_residual"]
    if model_type in ("deepseek_v3", "deepseek_v32", "glm4_moe", "minimax_m2", "mimo_v2_flash"):
        found["expert_gating_func"] = 2
    if model_type == "mimo_v2_flash":  # twice as many KV heads where a window is seen
        found["attention.head_count_kv"] = [
            kv_heads * (2 if kind == "sliding_attention" else 1) for kind in types or ()
        ]
    per_layer = config.get("per_layer_config") or {}
    if per_layer:
        own = [per_layer.get(str(layer), {}) for layer in range(layers(config))]
        found["attention.head_count_kv"] = [each.get("num_key_value_heads", kv_heads) for each in own]
        wide = next((each["head_dim"] for each in own if "head_dim" in each), None)
        if wide:  # Gemma 4: where all is seen
            found |= {"attention.key_length_swa": d_head, "attention.value_length_swa": d_head,
                      "attention.key_length": wide, "attention.value_length": wide}  # fmt: skip
    return found


def recurrence(config: dict[str, Any], d: int) -> dict[str, Any]:
    """State spaces, delta rules and short convolutions."""
    inner = first(config, "mamba_d_ssm", default=int(first(config, "expand", "mamba_expand", default=0) * d))
    found: dict[str, Any] = {
        "ssm.conv_kernel": first(config, "conv_kernel", "mamba_d_conv", "linear_conv_kernel_dim"),
        "ssm.inner_size": inner or None,
        "ssm.state_size": first(config, "state_size", "mamba_d_state", "ssm_state_size", "linear_key_head_dim"),
        "ssm.time_step_rank": first(config, "mamba_dt_rank", "mamba_n_heads", "mamba_num_heads", "num_heads",
                                    "linear_num_value_heads", "time_step_rank"),
        "ssm.group_count": first(config, "n_groups", "mamba_n_groups", "linear_num_key_heads"),
        "shortconv.l_cache": config.get("conv_L_cache"),
    }  # fmt: skip
    if "linear_num_value_heads" in config:
        found["ssm.inner_size"] = config["linear_num_value_heads"] * config["linear_value_head_dim"]
    if "mamba_head_dim" in config:  # Nemotron-H says heads and their width
        found["ssm.inner_size"] = config["mamba_num_heads"] * config["mamba_head_dim"]
    if config["model_type"] == "falcon_mamba":
        found["ssm.dt_b_c_rms"] = True
    if config["model_type"] == "kimi_linear":
        found["kda.head_dim"] = config["linear_head_dim"]
    if config.get("position_embedding_type") == "nope":
        found["rope.scaling.finetuned"] = False
    return {key: value for key, value in found.items() if value is not None}


def rotation(config: dict[str, Any], d_head: int) -> dict[str, Any]:
    """How much of a head turns, and how fast."""
    own = config.get("rope_parameters") or {}
    own = own.get("full_attention", own)
    if not own and "rotary_dim" not in config:
        return {}
    turned = config.get("rotary_dim") or int(d_head * first(own, "partial_rotary_factor", default=1.0))
    return {"rope.dimension_count": turned, "rope.freq_base": float(own.get("rope_theta", 10000.0))}
