"""Bytes of files that people published, held against what their config.json says: the size of an index
(metadata.total_size), or of a file by its pointer in git, less its header. Each names its repository on GitHub."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gptcalc.analysis.memory.account import memory
from gptcalc.analysis.memory.weights import total
from gptcalc.analysis.params import params
from gptcalc.sources import load


def weights(config: dict[str, Any]) -> int:
    return memory(load(config).architecture, context=1).per_device.weights


def llama(d: int, layers: int, heads: int, d_ff: int, kv: int | None = None, **more: Any) -> dict[str, Any]:
    return {
        "model_type": "llama", "hidden_size": d, "num_hidden_layers": layers, "num_attention_heads": heads,
        "num_key_value_heads": kv or heads, "intermediate_size": d_ff, "vocab_size": 32000, "dtype": "float16",
        "max_position_embeddings": 4096, "tie_word_embeddings": False, **more,
    }  # fmt: skip


def gptq(bits: int, group: int, **more: Any) -> dict[str, Any]:
    return {"quantization_config": {"quant_method": "gptq", "bits": bits, "group_size": group, "sym": True, **more}}


#: itdevwu/Genz-70b-GPTQ and Barksdale27/1 (Llama-2-13b-chat-GPTQ): the only file, its matrices in each layer by their
#: outputs, and how many tensors it has
GENZ = llama(8192, 80, 64, 28672, 8, **gptq(3, -1, desc_act=True))
LLAMA_13B = llama(5120, 40, 40, 13824, **gptq(4, 128, desc_act=True))


@pytest.mark.parametrize(
    ("config", "file", "outputs"),
    [
        (GENZ, 26_774_982_616, [8192, 1024, 1024, 8192, 28672, 28672, 8192]),
        (LLAMA_13B, 7_259_435_192, [5120, 5120, 5120, 5120, 13824, 13824, 5120]),
    ],
    ids=["3 bits, a scale a channel", "4 bits, groups of 128"],
)
def test_gptq(config: dict[str, Any], file: int, outputs: list[int]) -> None:
    """AutoGPTQ stores five tensors for a matrix: one of them is a bias of zeros where the class has none. A header
    names each tensor in 100 to 125 bytes."""
    layers = config["num_hidden_layers"]
    zeros = 2 * layers * sum(outputs)
    tensors = layers * (5 * len(outputs) + 2) + 3
    assert 100 * tensors < file - zeros - weights(config) < 125 * tensors


@pytest.mark.parametrize("name", ["quantize_config.json", "quant_config.json"])
def test_what_older_quantisers_wrote_beside_the_config(name: str, tmp_path: Path) -> None:
    """AutoGPTQ's file (Decentralised-AI/wizard-mega-13B-GPTQ), and AutoAWQ's."""
    own = {
        "quantize_config.json": {"bits": 4, "group_size": 128, "damp_percent": 0.01, "desc_act": False, "sym": True},
        "quant_config.json": {"zero_point": True, "q_group_size": 128, "w_bit": 4},
    }
    form = {"quantize_config.json": "gptq:128", "quant_config.json": "awq:128"}
    config = {key: value for key, value in LLAMA_13B.items() if key != "quantization_config"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / name).write_text(json.dumps(own[name]))
    for reference in (tmp_path, tmp_path / "config.json"):
        assert load(reference).architecture.storage.weights == form[name]


MOLMO = {
    "model_type": "molmo", "architectures": ["MolmoForCausalLM"], "attention_layer_norm": False, "clip_qkv": None,
    "embedding_size": 152064, "hidden_size": 3584, "intermediate_size": 37888, "layer_norm_eps": 1e-6,
    "layer_norm_type": "rms", "max_position_embeddings": 4096, "norm_after": False, "num_attention_heads": 28,
    "num_hidden_layers": 28, "num_key_value_heads": 4, "qkv_bias": True, "rope_theta": 1e6, "vocab_size": 152064,
    "tie_word_embeddings": False, "weight_tying": False,
}  # fmt: skip


def test_molmo() -> None:
    """reubzdubz/Molmo7B_D_NF4Quant, whose index gives parameters and bytes: 8,021,025,280 and 6,661,964,712.

    23 layers of a vision transformer with 577 places of patches of 588, attention that pools, and a gated projector;
    all that stays wide. bitsandbytes keeps what each matrix was in a tensor of JSON; queries, keys and values are one
    matrix, gate and up another.
    """
    v = 1024
    layer = 4 * (v * v + v) + 2 * v * 4096 + 4096 + v + 4 * v
    pool = 3 * (2 * v * v + v) + v * v + v
    vision = 23 * layer + (588 + 1 + 577 + 2) * v + pool + 2 * v * 18944 + 18944 * 3584 + 2 * 2 * v
    assert params(load(MOLMO).architecture).total == 8_021_025_280 - vision
    shapes = [[4608, 3584], [3584, 3584], [37888, 3584], [3584, 18944]]
    states = [{"quant_type": "nf4", "blocksize": 64, "dtype": "float16", "shape": shape} for shape in shapes]
    said = 28 * sum(len(json.dumps(state)) for state in states)
    packed = {**MOLMO, "quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": True}}
    assert weights(packed) == 6_661_964_712 - 2 * vision - said


def test_qwen_vl() -> None:
    """x1ngzai/Qwen-VL-Chat-Int4: 9,731,786,240 bytes, with biases of zeros and a vision tower that stays wide.

    48 layers of OpenCLIP's bigG without its head, 256 places; a resampler of 256 queries and their places.
    """
    w, d, d_ff = 1664, 4096, 11008
    layer = 4 * (w * w + w) + 2 * w * 8192 + 8192 + w + 4 * w
    vision = 48 * layer + 3 * 14 * 14 * w + 256 * w + 2 * w
    vision += 4 * (d * d + d) + w * d + 4 * d + 2 * 256 * d + 2 * d + d * d
    zeros = 32 * (d + d_ff + d_ff + d)
    config = {
        "model_type": "qwen", "hidden_size": 4096, "intermediate_size": 2 * d_ff, "kv_channels": 128, "no_bias": True,
        "layer_norm_epsilon": 1e-6, "num_attention_heads": 32, "num_hidden_layers": 32, "vocab_size": 151936,
        "seq_length": 2048, "tie_word_embeddings": False, "torch_dtype": "float16",
        "visual": {"heads": 16, "image_size": 448, "layers": 48, "output_dim": 4096, "width": 1664},
        **gptq(4, 128, desc_act=False),
    }  # fmt: skip
    assert weights(config) == 9_731_786_240 - 2 * (vision + zeros)


QWEN_27B = {
    "hidden_size": 5120, "intermediate_size": 17408, "num_hidden_layers": 64, "num_attention_heads": 24,
    "num_key_value_heads": 4, "head_dim": 256, "attn_output_gate": True, "full_attention_interval": 4,
    "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128, "linear_num_key_heads": 16, "vocab_size": 248320,
    "linear_num_value_heads": 48, "linear_value_head_dim": 128, "max_position_embeddings": 262144,
    "model_type": "qwen3_5_text", "mtp_num_hidden_layers": 1, "tie_word_embeddings": False, "dtype": "bfloat16",
}  # fmt: skip
RECURRENT = [layer for layer in range(64) if layer % 4 != 3]


def qwen_27b(**more: Any) -> dict[str, Any]:
    return {"model_type": "qwen3_5", "text_config": QWEN_27B, "tie_word_embeddings": False, **more}


def qwen_vision(d: int) -> int:
    """27 layers, patches of 16 × 16 of two pictures, 48 × 48 places; four patches are one of the text's tokens."""
    v, inner = 1152, 4304
    layer = 4 * v * v + 4 * v + 2 * v * inner + inner + v + 4 * v
    return 2 * 3 * 16 * 16 * v + v + 48 * 48 * v + 27 * layer + 2 * v + 4 * v * (4 * v + 1) + 4 * v * d + d


def test_each_matrix_as_an_mlx_config_says() -> None:
    """Arp1tMoga/fast_qwen: 20,444,027,360 bytes. Four bits in groups of 32, but eight in groups of 64 for the tables,
    what leaves recurrent mixers and the MLPs of the last eight layers."""
    eight = {"bits": 8, "group_size": 64, "mode": "affine"}
    wide = ["lm_head", "model.embed_tokens"]
    wide += [f"model.layers.{layer}.linear_attn.out_proj" for layer in RECURRENT]
    wide += [f"model.layers.{n}.mlp.{m}_proj" for n in range(56, 64) for m in ("gate", "up", "down")]
    own = {f"language_model.{name}": eight for name in wide}
    config = qwen_27b(quantization={"bits": 4, "group_size": 32, "mode": "affine", **own})
    assert weights(config) == 20_444_027_360 - 2 * qwen_vision(5120)
    found = memory(load(config).architecture, context=1)
    assert any(line.startswith("weights: every matrix as the config says, mlx4:32 ") for line in found.exact)
    assert not any("weights" in line for line in found.estimated)
    assert memory(load(config).architecture, dtype="mlx4:32", context=1).per_device.weights < weights(config)


def test_what_compressed_tensors_ignores() -> None:
    """fantasylord/Qwen36: model.safetensors has 18,698,467,264 bytes, its header among them. A parent that is ignored
    says nothing of the matrices in it; multi-token-prediction modules, in a file of their own, have a group of theirs.

    In the file are four tensors of each packed matrix, of each recurrent layer five such and ten others (the norms'
    before it and the MLP among them), of the others seven and four; 333 of the vision tower, three tables.
    """
    weight = {"num_bits": 4, "type": "int", "symmetric": False, "strategy": "group"}
    groups = {
        "group_0": {"targets": ["Linear"], "weights": {**weight, "group_size": 128}},
        "group_mtp": {"targets": ["re:.*mtp\\..*proj$"], "weights": {**weight, "group_size": 32}},
    }
    parts = ("", ".norm", ".in_proj_b", ".in_proj_a")
    ignore = [f"model.language_model.layers.{n}.linear_attn{part}" for n in RECURRENT for part in parts]
    method = {"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": groups}
    config = qwen_27b(quantization_config={**method, "ignore": [*ignore, "lm_head", "mtp.fc"]})
    header = 18_698_467_264 - 2 * qwen_vision(5120) - weights(config)
    tensors = 48 * (4 * 6 + 8) + 16 * (4 * 7 + 4) + 333 + 3
    assert 100 * tensors < header < 140 * tensors


def by_layer(layers: int, *, fp8: str, nvfp4: str) -> dict[str, Any]:
    """As ModelOpt lists how modules of Qwen3.6 are packed; multi-token-prediction modules it leaves wide."""
    algorithms = dict.fromkeys(fp8.split(), "FP8") | dict.fromkeys(nvfp4.split(), "W4A16_NVFP4")
    return {
        "quant_method": "modelopt", "quant_algo": "MIXED_PRECISION", "ignore": ["mtp*", "mtp.layers.0*"],
        "quantized_layers": {
            **{
                f"model.language_model.layers.{layer}.{name}": {"quant_algo": algorithm}
                for layer in range(layers)
                for name, algorithm in algorithms.items()
                if name.startswith(("mlp", "linear_attn" if (layer + 1) % 4 else "self_attn"))
            },
            "lm_head": {"quant_algo": "W4A16_NVFP4"},
        },
    }  # fmt: skip


MIXERS = "linear_attn.in_proj_qkv linear_attn.in_proj_z linear_attn.out_proj " + " ".join(
    f"self_attn.{name}_proj" for name in "qkvo"
)


def with_modules(config: dict[str, Any]) -> int:
    return memory(load(config).architecture, context=1, mtp=True).per_device.weights


def test_qwen_27b_in_nvfp4() -> None:
    """nvidia/Qwen3.6-27B-NVFP4: 21.9 GB, with its vision tower and multi-token-prediction module (noonghunna/club-3090,
    #603). RadixArk's of Qwen3.8, packed likewise, has 20.44 GiB with its tokenizer (#1007)."""
    packed = by_layer(64, fp8=MIXERS, nvfp4="mlp.gate_proj mlp.up_proj mlp.down_proj")
    size = with_modules(qwen_27b(quantization_config=packed)) + 2 * qwen_vision(5120)
    assert round(size / 1e9, 1) == 21.9
    assert 0 < 20.445 * 2**30 - size < 35e6


def test_qwen_35b_in_nvfp4() -> None:
    """nvidia/Qwen3.6-35B-A3B-NVFP4: its three files have 21.82 GiB (vllm-project/vllm#44881), headers among them: of
    256 experts' three matrices in 40 layers each has four tensors."""
    shared = [f"mlp.shared_expert.{name}_proj" for name in ("gate", "up", "down")]
    text = {
        **{key: value for key, value in QWEN_27B.items() if key != "intermediate_size"},
        "model_type": "qwen3_5_moe_text", "hidden_size": 2048, "num_hidden_layers": 40, "num_attention_heads": 16,
        "num_key_value_heads": 2, "linear_num_value_heads": 32, "moe_intermediate_size": 512, "num_experts": 256,
        "shared_expert_intermediate_size": 512, "num_experts_per_tok": 8,
    }  # fmt: skip
    packed = by_layer(40, fp8=MIXERS, nvfp4=" ".join(["mlp.experts", *shared]))
    size = with_modules({"model_type": "qwen3_5_moe", "text_config": text, "quantization_config": packed})
    tensors = 40 * 256 * 3 * 4
    for gib in (21.815, 21.825):
        assert 110 * tensors < gib * 2**30 - size - 2 * qwen_vision(2048) < 220 * tensors


def test_nemotron_in_nvfp4(tmp_path: Path) -> None:
    """mlx-community/NVIDIA-Nemotron-3-Nano-30B-A3B-NVFP4, of which exo's card gives 19,323,906,944 bytes: packed where
    NVIDIA's hf_quant_config.json says, but without scales of whole matrices, which MLX has not. Of Mamba's five inputs
    each is a part of one matrix."""
    pattern = "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME"
    config = {
        "model_type": "nemotron_h", "hidden_size": 2688, "hybrid_override_pattern": pattern, "num_hidden_layers": 52,
        "intermediate_size": 1856, "moe_intermediate_size": 1856, "moe_shared_expert_intermediate_size": 3712,
        "n_routed_experts": 128, "n_shared_experts": 1, "num_experts_per_tok": 6, "norm_topk_prob": True,
        "num_attention_heads": 32, "num_key_value_heads": 2, "head_dim": 128, "mamba_head_dim": 64, "n_groups": 8,
        "mamba_num_heads": 64, "ssm_state_size": 128, "conv_kernel": 4, "expand": 2, "mlp_hidden_act": "relu2",
        "layer_norm_epsilon": 1e-5, "vocab_size": 131072, "max_position_embeddings": 262144, "use_conv_bias": True,
        "tie_word_embeddings": False, "routed_scaling_factor": 2.5, "n_group": 1, "topk_group": 1,
    }  # fmt: skip
    attention = [n for n, kind in enumerate(pattern) if kind == "*"]
    before = [n - 1 for n in attention]  # Mamba, wide as well
    left = [f"backbone.layers.{n}.mixer.{name}_proj" for n in attention for name in "qkvo"]
    left += [f"backbone.layers.{n}.mixer.{name}_proj" for n in before for name in ("in", "out")]
    (tmp_path / "config.json").write_text(json.dumps(config))
    said = {
        "quant_algo": "NVFP4",
        "kv_cache_quant_algo": "FP8",
        "group_size": 16,
        "exclude_modules": ["lm_head", *left],
    }
    (tmp_path / "hf_quant_config.json").write_text(json.dumps({"producer": {}, "quantization": said}))
    found = memory(load(tmp_path).architecture, context=1).per_device.weights
    experts, mamba = pattern.count("E"), pattern.count("M") - len(before)
    assert found == 19_323_906_944 + 8 * (experts * (2 * 128 + 2) + mamba * (5 + 1))


def test_deepseek_v3_in_awq() -> None:
    """kvcache-ai/sglang_awq: 364,589,799,936 bytes without the module behind the layers, which its index names as well.
    AutoAWQ makes all of 16 bits that it doesn't pack, biases of routers too, which are fp32 elsewhere."""
    model = load("deepseek-v3").architecture
    assert memory(model, dtype="awq:64", context=1).per_device.weights == 364_589_799_936 + 2 * 58 * 256


@pytest.mark.parametrize(("bits", "size"), [("2.0", 7.0), ("3.0", 9.9), ("4.0", 12.9), ("5.0", 15.9)])
def test_what_exl3_needs_on_a_card(bits: str, size: float) -> None:
    """WeReCooking/Gemma-3-R1984-27B-EXL3, in GiB: the table of tokens stays on the host; the output matrix, which is
    tied in the model, has 6 bits of its own. What scales of rows and columns add, 0.01 GiB, is not counted."""
    found = memory(load("gemma-3-27b").architecture, dtype=f"exl3:{bits}", context=1)
    table = sum(row.total for row in found.tensors if row.name == "embedding.token")
    assert abs((found.per_device.weights - table) / 2**30 - size) < 0.06


def test_pangu() -> None:
    """IDLEOAK/openpangu-lightweight-methods, openPangu-Embedded-7B: 16,061,784,576 bytes. Each of its 34 layers keeps
    64 frequencies of the rotation in fp32."""
    config = {
        "model_type": "PanguEmbedded", "architectures": ["PanguEmbeddedForCausalLM"], "bias": True,
        "hidden_act": "silu", "hidden_size": 4096, "intermediate_size": 12800, "max_position_embeddings": 32768,
        "num_attention_heads": 32, "num_hidden_layers": 34, "num_key_value_heads": 8, "rms_norm_eps": 1e-5,
        "rope_theta": 1.6e7, "tie_word_embeddings": False, "torch_dtype": "bfloat16", "vocab_size": 153376,
    }  # fmt: skip
    assert weights(config) == 16_061_784_576 - 34 * 64 * 4


def test_chatglm_in_four_bits() -> None:
    """Jerrykamier/blgarm, THUDM's chatglm-6b-int4: one file of 3,893,083,075 bytes, pickled with what it says of 200
    tensors."""
    config = {
        "model_type": "chatglm", "architectures": ["ChatGLMModel"], "hidden_size": 4096, "inner_hidden_size": 16384,
        "layernorm_epsilon": 1e-5, "max_sequence_length": 2048, "num_attention_heads": 32, "num_layers": 28,
        "position_encoding_2d": True, "quantization_bit": 4, "quantization_embeddings": False, "vocab_size": 130528,
        "torch_dtype": "float16",
    }  # fmt: skip
    assert 0 < 3_893_083_075 - weights(config) < 200_000


def test_qwen_7b_in_gptq() -> None:
    """gaoqinqinshan/qingshanyiliao, Qwen-7B-Chat-Int4: 5,860,564,992 bytes, with biases of zeros."""
    config = {
        "model_type": "qwen", "hidden_size": 4096, "intermediate_size": 22016, "kv_channels": 128, "no_bias": True,
        "layer_norm_epsilon": 1e-6, "num_attention_heads": 32, "num_hidden_layers": 32, "vocab_size": 151936,
        "seq_length": 8192, "tie_word_embeddings": False, **gptq(4, 128, desc_act=False),
    }  # fmt: skip
    assert weights(config) == 5_860_564_992 - 2 * 32 * (4096 + 11008 + 11008 + 4096)


def test_mistral_4_in_mlx() -> None:
    """delsakov/mcp_tests: 66,949,842,944 bytes of 118,972,826,624 parameters. Routers of 36 layers are no linear layers
    of MLX's class: two bytes a number, not nine sixteenths."""
    config = {
        "model_type": "mistral4", "hidden_size": 4096, "first_k_dense_replace": 0, "head_dim": 128, "n_group": 1,
        "intermediate_size": 12288, "kv_lora_rank": 256, "q_lora_rank": 1024, "moe_intermediate_size": 2048,
        "n_routed_experts": 128, "n_shared_experts": 1, "num_attention_heads": 32, "num_experts_per_tok": 4,
        "num_hidden_layers": 36, "num_key_value_heads": 32, "qk_nope_head_dim": 64, "qk_rope_head_dim": 64,
        "v_head_dim": 128, "vocab_size": 131072, "max_position_embeddings": 1048576, "tie_word_embeddings": False,
        "routed_scaling_factor": 1.0, "norm_topk_prob": True, "rms_norm_eps": 1e-6,
    }  # fmt: skip
    whole = {"model_type": "mistral3", "text_config": config, "quantization": {"group_size": 64, "bits": 4}}
    assert params(load(whole).architecture).total == 118_972_826_624
    assert weights(whole) == 66_949_842_944 - 36 * 128 * 4096 * 23 // 16


QWEN3_8B = {
    "hidden_size": 4096, "intermediate_size": 12288, "num_hidden_layers": 36, "num_attention_heads": 32,
    "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936, "tie_word_embeddings": False,
    "attention_bias": False, "max_position_embeddings": 32768,
}  # fmt: skip


def test_llava_onevision_15() -> None:
    """st156680/Instruct-ADS, LLaVA-OneVision-1.5-8B: 17,054,429,248 bytes, with 24 layers of a vision transformer whose
    class token has angles of its own, and what joins four patches."""
    v, d = 1024, 4096
    layer = 4 * v * v + 4 * v + 2 * v * 4096 + 4096 + v + 4 * v
    vision = 24 * layer + 3 * 14 * 14 * v + v + 32 + 2 * v + 2 * v + (4 * v) ** 2 + 4 * v + 4 * v * d + d
    text = {**QWEN3_8B, "model_type": "LLaVAOneVision1_5_text"}
    config = {"architectures": ["LLaVAOneVision1_5_ForConditionalGeneration"], "text_config": text}
    assert weights(config) == 17_054_429_248 - 2 * vision


def test_videollama_3() -> None:
    """LiamZhao326/CogStream, VideoLLaMA3-7B: 16,089,489,888 bytes, 27 layers of SigLIP and two more among them."""
    v, inner, d = 1152, 4304, 3584
    layer = 4 * v * v + 4 * v + 2 * v * inner + inner + v + 4 * v
    vision = 27 * layer + 3 * 14 * 14 * v + v + 2 * v + v * d + d + d * d + d
    config = {
        "model_type": "videollama3_qwen2", "hidden_size": 3584, "intermediate_size": 18944, "num_attention_heads": 28,
        "num_hidden_layers": 28, "num_key_value_heads": 4, "vocab_size": 152064, "tie_word_embeddings": False,
        "max_position_embeddings": 32768, "use_sliding_window": False, "vision_encoder": None,
    }  # fmt: skip
    assert weights(config) == 16_089_489_888 - 2 * vision


@pytest.mark.parametrize(("preset", "size"), [("falcon-40b", 83_671_941_120), ("falcon-180b", 359_045_130_240)])
def test_tied_heads_that_files_hold(preset: str, size: int) -> None:
    """Decentralised-AI/falcon-40b and Alikhan13r/falcon-180B-chat: their indices name lm_head.weight, which llama.cpp's
    converter then writes too, and quantises to q8_0."""
    model = load(preset).architecture
    table = model.v * model.d
    assert 2 * (params(model).total + table) == size
    vectors = (total(model, "gguf-bf16") - size) // 2  # norms, which take four bytes a number in any file
    assert total(model, "q8_0") == (size // 2 - vectors) * 34 // 32 + 4 * vectors


def test_minicpm_v_2() -> None:
    """EmotioTech/EmotioLocal, MiniCPM-V 2: 6,869,931,584 bytes, with 26 layers of SigLIP (the last is left out), 729
    places, and a resampler of 64 queries and their places."""
    v, inner, d = 1152, 4304, 2304
    layer = 4 * v * v + 4 * v + 2 * v * inner + inner + v + 4 * v
    vision = 26 * layer + 3 * 14 * 14 * v + v + 729 * v + 2 * v
    vision += 2 * 64 * d + v * d + 4 * (d * d + d) + 3 * 2 * d + d * d
    config = {
        "model_type": "minicpmv", "architectures": ["MiniCPMV"], "dim_model_base": 256, "drop_vision_last_layer": True,
        "hidden_size": 2304, "image_size": 448, "intermediate_size": 5760, "max_position_embeddings": 4096,
        "num_attention_heads": 36, "num_hidden_layers": 40, "num_key_value_heads": 36, "pretraining_tp": 1,
        "query_num": 64, "rms_norm_eps": 1e-5, "scale_depth": 1.4, "scale_emb": 12, "tie_word_embeddings": False,
        "vision_encoder": "vit_so400m_patch14_siglip_384.webli", "vocab_size": 122753,
    }  # fmt: skip
    assert weights(config) == 6_869_931_584 - 2 * vision
