"""config.json files: what is read, what is refused, and that the document says neither less nor more."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from gptcalc.analysis.params import params
from gptcalc.analysis.stored import expected_tensors
from gptcalc.architecture import Architecture, Attention, Experts, LatentAttention, Mlp, sublayers
from gptcalc.document import build, expression
from gptcalc.errors import InputError
from gptcalc.sources import huggingface
from gptcalc.sources.huggingface import pattern as patterns
from gptcalc.sources.huggingface import read, tensor_names
from gptcalc.sources.huggingface.families import FAMILIES, READERS
from gptcalc.sources.huggingface.unsupported import UNSUPPORTED
from tests.golden_models import FOLDER, NAMES

LLAMA = {
    "model_type": "llama",
    "vocab_size": 320,
    "hidden_size": 48,
    "num_hidden_layers": 5,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "intermediate_size": 100,
    "max_position_embeddings": 64,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": False,
}
DEEPSEEK = {
    **{key: value for key, value in LLAMA.items() if key != "num_key_value_heads"},
    "model_type": "deepseek_v3",
    "moe_intermediate_size": 20,
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
    "n_group": 1,
    "topk_group": 1,
    "q_lora_rank": 24,
    "kv_lora_rank": 16,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 4,
    "v_head_dim": 8,
    "first_k_dense_replace": 2,
    "num_nextn_predict_layers": 0,
}


def arch(config: dict[str, Any], **changes: Any) -> Architecture:
    return build(read({**config, **changes}).document)


def attention(config: dict[str, Any], **changes: Any) -> Attention:
    first = next(sublayers(next(arch(config, **changes).blocks())))
    assert isinstance(first, Attention)
    return first


def refusal(config: dict[str, Any], **changes: Any) -> str:
    with pytest.raises(InputError) as caught:
        read({**config, **changes})
    return caught.value.message + (f" ({caught.value.hint})" if caught.value.hint else "")


# --- documents --------------------------------------------------------------------------------------------------------


def test_a_document_says_only_what_is_not_the_default() -> None:
    assert read(LLAMA).document == {
        "d": 48, "v": 320, "c": 64, "n_heads": 6, "n_layers": 5, "n_kv_heads": 2, "d_ff": 100,
    }  # fmt: skip


def test_gpt2_in_the_words_of_a_preset() -> None:
    gpt2 = {"model_type": "gpt2", "n_layer": 12, "n_embd": 768, "n_head": 12, "n_positions": 1024, "vocab_size": 50257}
    assert read(gpt2).document == {
        "d": 768, "v": 50257, "c": 1024, "n_heads": 12, "n_layers": 12, "tying": True, "position": "learned",
        "norm": "layernorm", "mlp": "gelu_tanh", "bias": "all", "storage": {
            "fused": ["qkv"], "gguf": "gpt2",
            "modules": {"qkv": "c_attn", "out": "c_proj", "up": "c_fc", "down": "c_proj"},
        },
    }  # fmt: skip


def test_latent_attention_and_its_dense_layers() -> None:
    assert read(DEEPSEEK).document == {
        "d": 48, "v": 320, "c": 64, "n_heads": 6, "n_layers": 5, "d_ff": 100, "layers": "2*mla+mlp n*mla+moe",
        "rope": {"pairing": "adjacent"},
        "mla": {"q_rank": 24, "kv_rank": 16, "d_nope": 8, "d_rope": 4, "d_v": 8, "latent_norm": {"eps": 1e-6}},
        "moe": {"n_experts": 8, "top_k": 2, "d_ff": 20, "n_shared": 1, "route_scale": 2.5, "router": "sigmoid",
                "selection_bias": True},
        "storage": {"gguf": "deepseek2", "lora_experts": True},
    }  # fmt: skip


def test_a_document_is_plain_json() -> None:
    for name in NAMES:
        document = read(json.loads((FOLDER / name / "config.json").read_text())).document
        assert json.loads(json.dumps(document)) == document


PLAIN = {
    "vocab_size": 100,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 96,
    "max_position_embeddings": 128,
}
MIXTURE = {**PLAIN, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
ROUTED = {"n_routed_experts": 4, "num_experts_per_tok": 2}
GPT = {"n_embd": 64, "n_head": 4, "n_layer": 2, "n_positions": 128, "vocab_size": 100}
NAS_BLOCK = {"attention": {"n_heads_in_group": 2}, "ffn": {"ffn_mult": 2.5}}
JAIS = {**GPT, "activation_function": "swiglu"}
SIZES: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("baichuan", "internlm", "internlm2", "mimo", "minicpm", "orion", "qwen"), PLAIN),
    **dict.fromkeys(("xverse", "aquila", "skywork", "sparsellama", "mobilellm", "yuan", "PanguEmbedded"), PLAIN),
    "llada": {
        "d_model": 64,
        "n_heads": 4,
        "n_layers": 2,
        "mlp_hidden_size": 96,
        "vocab_size": 100,
        "max_sequence_length": 128,
    },
    "deepseek_ocr2_text": ROUTED,
    "samba": {"attn": {"layers": [1], "num_heads": 4}},
    "molmo": PLAIN,
    **dict.fromkeys(("jais", "btlm"), JAIS),
    **{name: {**GPT, "rotary_dim": 8} for name in ("phi-msft", "mixformer-sequential")},
    "telechat": {
        "hidden_size": 64,
        "n_head": 4,
        "n_layer": 2,
        "seq_length": 128,
        "vocab_size": 100,
        "ffn_hidden_size": 96,
    },
    **dict.fromkeys(("bailing_moe", "bailing_moe_v2"), MIXTURE),
    "t5gemma": {"encoder": {}, "decoder": {}},
    **{name: {"head_dim": 128} for name in ("glm4_moe", "glm4v_moe_text", "qwen3_omni_moe_text")},
    "chatglm": {
        "hidden_size": 64,
        "num_layers": 2,
        "num_attention_heads": 4,
        "ffn_hidden_size": 96,
        "padded_vocab_size": 100,
        "seq_length": 128,
    },
    "chatglm-6b": {
        "hidden_size": 64,
        "num_layers": 2,
        "num_attention_heads": 4,
        "inner_hidden_size": 96,
        "vocab_size": 100,
        "max_sequence_length": 128,
    },
    "deepseek": {**PLAIN, **ROUTED, "moe_intermediate_size": 32, "n_shared_experts": 1, "first_k_dense_replace": 1},
    "DFlashDraftModel": {**PLAIN, "block_size": 4, "dflash_config": {"target_layer_ids": [1, 2]}},
    "DSparkDraftModel": {
        **PLAIN,
        "block_size": 4,
        "dflash_config": {"target_layer_ids": [1, 2], "markov_rank": 8, "confidence_head_alpha": 1.0},
    },
    "DominoDraftModel": {
        **PLAIN,
        "block_size": 4,
        "dflash_config": {"target_layer_ids": [1, 2], "emb_dim": 8, "gru_hidden_dim": 12},
    },
    "Eagle3LlamaForCausalLM": {**PLAIN, "num_hidden_layers": 1, "draft_vocab_size": 64},
    "QwenDFlashDraftModel": {**PLAIN, "block_size": 4, "dflash_config": {"target_layer_ids": [1, 2]}},
    "LlamaForCausalLMEagle3": {**PLAIN, "num_hidden_layers": 1, "draft_vocab_size": 64, "fc_norm": True},
    "deepseek_v2": {"num_experts_per_tok": 2},
    "minimind": ROUTED,
    "dots1": ROUTED,
    "grok-1": {**PLAIN, "num_experts": 4, "num_selected_experts": 2},
    "grok-2": {**PLAIN, "num_local_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 48},
    "hunyuan": {**PLAIN, "num_experts": 4, "moe_topk": 2, "num_shared_expert": 1},
    "kimi_k3_text": {
        **PLAIN,
        "num_hidden_layers": 3,
        "attn_res_block_size": 2,
        "hidden_act": "situ",
        "kv_lora_rank": 16,
        "q_lora_rank": 24,
        "qk_nope_head_dim": 8,
        "qk_rope_head_dim": 4,
        "v_head_dim": 8,
        "mla_use_nope": True,
        "mla_use_output_gate": True,
        "num_experts": 4,
        "num_experts_per_token": 2,
        "num_shared_experts": 1,
        "moe_intermediate_size": 32,
        "first_k_dense_replace": 1,
        "routed_expert_hidden_size": 24,
        "latent_moe_use_norm": True,
        "linear_attn_config": {
            "kda_layers": [1, 2],
            "full_attn_layers": [3],
            "head_dim": 16,
            "num_heads": 4,
            "use_full_rank_gate": True,
        },
    },
    "diffusion_gemma_text": {"num_experts": 4, "top_k_experts": 2, "moe_intermediate_size": 32},
    "openelm": {
        "model_dim": 64,
        "num_transformer_layers": 2,
        "head_dim": 16,
        "num_query_heads": [4, 2],
        "num_kv_heads": [2, 1],
        "ffn_multipliers": [1.0, 2.0],
        "ffn_dim_divisor": 16,
        "normalize_qk_projections": True,
    },
    "deci": {**PLAIN, "num_key_value_heads_per_layer": [2, 1]},
    "nemotron-nas": {**PLAIN, "block_configs": [NAS_BLOCK, NAS_BLOCK]},
    "qwen4_exp_text": {
        "indexer_n_heads": 2,
        "indexer_kv_heads": 1,
        "indexer_head_dim": 256,
        "indexer_budget": 64,
        "indexer_compress_ratio": 16,
    },
    "step3_text": {
        **PLAIN,
        "num_hidden_layers": 6,
        "share_q_dim": 32,
        "share_expert_dim": 32,
        "moe_num_experts": 4,
        "moe_top_k": 2,
        "moe_intermediate_size": 32,
    },
}  # what a config must say where a class gives no size, or sizes that do not fit together


@pytest.mark.parametrize("model_type", sorted(READERS))
def test_every_weight_of_every_type_has_a_tensor_name(model_type: str) -> None:
    reading = read({"model_type": model_type, **SIZES.get(model_type, {})})
    architecture = build(reading.document)
    names = tensor_names(model_type, architecture)
    for key, _ in expected_tensors(architecture):
        assert names.places(key), key


# --- values that are wrong --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_hidden_layers": -2}, "num_hidden_layers: expected an integer from 1 to 1000000000, found -2"),
        ({"num_attention_heads": 0}, "num_attention_heads: expected an integer from 1 to 1000000000, found 0"),
        ({"num_hidden_layers": 31.5}, "num_hidden_layers: expected an integer, found 31.5"),
        ({"hidden_size": "48"}, "hidden_size: expected an integer, found '48'"),
        ({"num_hidden_layers": True}, "num_hidden_layers: expected an integer, found true"),
        ({"hidden_size": float("nan")}, "hidden_size: expected an integer, found nan"),
        ({"hidden_size": 10**40}, "hidden_size: expected an integer from 1 to 1000000000, found 1000000"),
        ({"hidden_size": None}, "hidden_size is missing"),
        ({"rms_norm_eps": "small"}, "rms_norm_eps: expected a number, found 'small'"),
        ({"tie_word_embeddings": 1}, "tie_word_embeddings: expected true or false, found 1"),
        ({"hidden_act": "mish"}, "hidden_act: activation 'mish' is not understood (model_type 'llama')"),
        (
            {"model_type": "qwen3", "layer_types": ["full_attention"] * 4},
            "layer_types has 4 entries, the model 5 layers",
        ),
        (
            {"model_type": "qwen3", "layer_types": ["chunky"] * 5},
            "layer_types[0]: layer type 'chunky' is not understood",
        ),
        ({"num_attention_heads": 7, "num_key_value_heads": 7}, "(d is hidden_size, n_heads is num_attention_heads)"),
        ({"num_key_value_heads": 5}, "(n_heads is num_attention_heads, n_kv_heads is num_key_value_heads)"),
        ({"rope_scaling": {"type": "spiral"}}, "rope_scaling: type 'spiral' is not understood"),
        ({"rope_scaling": {"type": "linear"}}, "rope_scaling.factor: expected a positive number, found null"),
        ({"rope_scaling": {"type": "linear", "factor": 2, "twist": 3}}, "rope_scaling.twist: not understood"),
        ({"rope_scaling": 4}, "rope_scaling: expected an object, found 4"),
        ({"is_encoder_decoder": True}, "is_encoder_decoder: only false is understood, found true"),
        ({"attention_bias": "yes"}, "attention_bias: expected true or false, found 'yes'"),
    ],
)
def test_wrong_values_are_refused_by_name(changes: dict[str, Any], message: str) -> None:
    assert message in refusal(LLAMA, **changes)


def test_more_experts_chosen_than_there_are() -> None:
    mixtral = {**LLAMA, "model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 9}
    assert "(top_k is num_experts_per_tok, n_experts is num_local_experts)" in refusal(mixtral)


def test_more_dense_layers_than_layers() -> None:
    cut = read({**DEEPSEEK, "first_k_dense_replace": 40})
    assert cut.document["layers"] == "n*mla+mlp"
    assert any(n.startswith("first_k_dense_replace = 40 exceeds the 5 layers of the model") for n in cut.notes)


def test_an_integral_float_is_noted() -> None:
    reading = read({**LLAMA, "num_hidden_layers": 5.0})
    assert reading.document["n_layers"] == 5
    assert reading.notes == ("num_hidden_layers is written 5.0, read as 5",)


def test_what_the_class_decides_is_noted() -> None:
    assert read({key: LLAMA[key] for key in LLAMA if key != "max_position_embeddings"}).notes == (
        "left to the class's defaults: max_position_embeddings = 2048",
    )


# --- fields that are unknown ------------------------------------------------------------------------------------------


def test_a_misspelt_field_is_corrected() -> None:
    config = {key: value for key, value in LLAMA.items() if key != "num_hidden_layers"}
    assert "did you mean num_hidden_layers?" in refusal(config, num_hiden_layers=3)
    hub = {**config, "model_type": "internlm2"}
    assert "num_hidden_layers is missing (did you mean it by num_hiden_layers?)" in refusal(hub, num_hiden_layers=3)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("torch_dtype", "bfloat16"),
        ("quantization_config", {"quant_method": "fp8", "ignore": ["re:(a+)+$"]}),
        ("time_step_limit", [0.0, float("inf")]),
        ("foo_gate", None),
        ("_anything", 1),
        ("attention_bias", False),
        ("n_shared_experts", 0),
    ],
)
def test_fields_that_say_nothing_change_nothing(field: str, value: Any) -> None:
    assert read({**LLAMA, field: value}).document == read(LLAMA).document


def test_two_names_for_one_field_must_agree() -> None:
    gpt_oss = {"model_type": "gpt_oss", "num_experts_per_tok": 4}
    assert read({**gpt_oss, "experts_per_token": 4}).document == read(gpt_oss).document
    assert refusal(gpt_oss, experts_per_token=2) == "experts_per_token = 2 contradicts num_experts_per_tok = 4"
    qwen = {"model_type": "qwen3_moe", "num_local_experts": 8}
    assert refusal(qwen, num_experts=4) == "num_experts = 4 contradicts num_local_experts = 8"


# --- types ------------------------------------------------------------------------------------------------------------


def test_an_unknown_type_is_refused_with_the_nearest() -> None:
    assert refusal(LLAMA, model_type="lama") == "model_type 'lama' is not known (did you mean llama?)"
    assert "\\x1b" in refusal(LLAMA, model_type="x\x1b[31m")


def test_a_missing_type_is_that_of_the_class() -> None:
    config = {key: value for key, value in LLAMA.items() if key != "model_type"}
    assert "model_type is missing" in refusal(config)
    reading = read({**config, "architectures": ["LlamaForCausalLM"]})
    assert reading.model_type == "llama"
    assert reading.notes == ("model_type is missing; read as 'llama', the type of LlamaForCausalLM",)


def test_a_file_of_other_code_is_named() -> None:
    with pytest.raises(InputError, match="model_type is missing") as caught:
        read({"dim": 4096, "n_layers": 32, "n_heads": 32, "n_kv_heads": 8, "hidden_dim": 14336, "vocab_size": 32000})
    assert "params.json" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("model_type", "why"), [("big_bird", "drawn at random"), ("longformer", "tokens that all others see")]
)
def test_what_is_not_read_says_why(model_type: str, why: str) -> None:
    assert why in refusal({"model_type": model_type})


def test_each_file_of_readers_has_the_types_that_the_table_gives_it() -> None:
    found = {}
    for file in Path(huggingface.__file__).parent.glob("*.py"):
        if file.stem != "families" and "\nREADERS" in file.read_text("utf-8"):
            found[file.stem] = sorted(import_module(f"gptcalc.sources.huggingface.{file.stem}").READERS)
    assert found == {family: sorted(types.split()) for family, types in FAMILIES.items()}


def test_no_type_is_both_read_and_refused() -> None:
    assert not set(READERS) & set(UNSUPPORTED)


# --- text models inside larger ones -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path", [["text_config"], ["language_config"], ["llm_config"], ["thinker_config", "text_config"]]
)
def test_the_text_model_of_a_multimodal_config(path: list[str]) -> None:
    whole: dict[str, Any] = LLAMA
    for key in reversed(path):
        whole = {key: whole}
    reading = read({"model_type": "some_vl", "vision_config": {"hidden_size": 7}, **whole})
    assert reading.document == read(LLAMA).document
    assert reading.notes == (f"text model of a multimodal config ({'.'.join(path)}); the rest is left out",)


def test_the_tie_flag_of_the_whole_model_counts_where_the_text_model_says_nothing() -> None:
    silent = {key: value for key, value in LLAMA.items() if key != "tie_word_embeddings"}
    assert read({"text_config": silent, "tie_word_embeddings": True}).document["tying"] is True
    assert read({"text_config": {**LLAMA, "tie_word_embeddings": True}}).document["tying"] is True
    both = read({"text_config": LLAMA, "tie_word_embeddings": True})
    assert "tying" not in both.document
    assert any(note.startswith("tie_word_embeddings is true for the whole model and false") for note in both.notes)


def test_errors_name_the_place() -> None:
    assert "text_config.hidden_size: expected an integer" in refusal({"text_config": {**LLAMA, "hidden_size": 1.5}})
    assert refusal({"model_type": "x", "text_config": [1]}) == "text_config: expected an object, found list"
    internlm = {**LLAMA, "model_type": "internlm2"}
    assert "field 'text_config.foo' of model_type 'internlm2'" in refusal({"text_config": {**internlm, "foo": 1}})


def test_gemma_3_leaves_most_of_its_text_model_to_the_class() -> None:
    text = {"model_type": "gemma3_text", "hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34,
            "sliding_window": 1024, "rope_scaling": {"factor": 8.0, "rope_type": "linear"}}  # fmt: skip
    document = read({"model_type": "gemma3", "text_config": text}).document
    assert (document["v"], document["n_heads"], document["n_kv_heads"], document["d_head"]) == (262208, 8, 4, 256)
    assert document["layers"] == "n*[5*local+mlp attn+mlp]"
    assert document["rope"] == {"theta": 1000000, "scaling": {"kind": "linear", "factor": 8}}
    assert document["local"] == {"like": "attn", "window": 1024, "rope": {"theta": 10000}}


# --- the same in other words ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "spelling",
    [
        {"rope_theta": 5e5, "rope_scaling": {"type": "linear", "factor": 4.0}},
        {"rope_theta": 5e5, "rope_scaling": {"rope_type": "linear", "type": "linear", "factor": 4}},
        {"rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 500000}},
        {"rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 4.0, "rope_theta": 500000.0}}},
    ],
)
def test_spellings_of_a_rotation(spelling: dict[str, Any]) -> None:
    assert read({**LLAMA, **spelling}).document["rope"] == {"theta": 500000, "scaling": {"kind": "linear", "factor": 4}}


def test_absent_and_null_kv_heads_mean_all_heads() -> None:
    assert attention(LLAMA, num_key_value_heads=None).n_kv_heads == 6
    assert attention({key: value for key, value in LLAMA.items() if key != "num_key_value_heads"}).n_kv_heads == 6


def test_context_is_never_multiplied_by_a_factor() -> None:
    scaled = {"rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}}
    assert arch(LLAMA, **scaled).c == 64


def test_a_window_is_switched_by_its_flag() -> None:
    qwen = {**LLAMA, "model_type": "qwen2", "sliding_window": 8, "max_window_layers": 3}
    assert "layers" not in read({**qwen, "use_sliding_window": False}).document
    assert read({**qwen, "use_sliding_window": True}).document["layers"] == "n*attn+mlp 2*local+mlp"


def test_falcon_under_its_first_name() -> None:
    old = {"model_type": "RefinedWebModel", "hidden_size": 4544, "n_head": 71, "n_layer": 32, "vocab_size": 65024,
           "multi_query": True, "parallel_attn": True, "bias": False, "alibi": False}  # fmt: skip
    new = {"model_type": "falcon", "num_attention_heads": 71, "num_hidden_layers": 32,
           **{key: value for key, value in old.items() if key not in ("model_type", "n_head", "n_layer")}}  # fmt: skip
    assert read(old).document == read(new).document


def test_qwen_1_writes_twice_the_width() -> None:
    qwen = {"model_type": "qwen", **PLAIN, "kv_channels": 16, "seq_length": 128, "no_bias": True}
    blocks = sublayers(next(arch(qwen).blocks()))
    assert [m.d_ff for m in blocks if isinstance(m, Mlp)] == [48]
    assert refusal(qwen, intermediate_size=101).startswith("intermediate_size = 101: expected an even number")


def test_chatglm_counts_its_kv_heads_in_groups() -> None:
    glm = {"model_type": "chatglm", "hidden_size": 4096, "num_layers": 28, "num_attention_heads": 32,
           "ffn_hidden_size": 13696, "padded_vocab_size": 65024, "vocab_size": 64794, "kv_channels": 128,
           "multi_query_attention": True, "multi_query_group_num": 2, "seq_length": 8192,
           "add_qkv_bias": True, "add_bias_linear": False}  # fmt: skip
    assert attention(glm).n_kv_heads == 2
    assert attention(glm).bias == ("q", "k", "v")
    assert arch(glm).v == 65024


def test_chatglm_6b_is_told_from_later_versions_by_a_field_of_its_own() -> None:
    first = {"model_type": "chatglm", "architectures": ["ChatGLMModel"], "hidden_size": 64, "num_layers": 2,
             "num_attention_heads": 4, "inner_hidden_size": 96, "max_sequence_length": 128, "vocab_size": 100,
             "position_encoding_2d": True}  # fmt: skip
    mixer = attention(first)
    assert mixer.rope is not None
    assert (mixer.rope.axes, mixer.whole_prompt, mixer.norm_at) == (2, True, "stream")
    assert mixer.stream_scale == pytest.approx(56**0.5)  # of 28 layers, as its class has it for any depth
    # a table; of each layer four matrices d × d, two d × d_ff, their biases and two norms; the last norm
    layer = 4 * 64 * 64 + 4 * 64 + 2 * 64 * 96 + 96 + 64 + 2 * 2 * 64
    assert params(arch(first)).total == 100 * 64 + 2 * layer + 2 * 64
    assert refusal(first, position_encoding_2d=False).startswith("position_encoding_2d: only true is understood")
    assert any("P-tuning" in note for note in read({**first, "pre_seq_len": 128}).notes)


def test_dbrx_and_mpt_keep_fields_in_objects() -> None:
    mpt = {"model_type": "mpt", "d_model": 64, "n_heads": 4, "n_layers": 2, "attn_config": {"clip_qkv": 8}}
    assert attention(mpt).clip == 8
    assert "field 'attn_config.twist' of model_type 'mpt'" in refusal(mpt, attn_config={"twist": 1})
    assert refusal(mpt, attn_config=[1]) == "attn_config: expected an object, found [1]"


def test_searched_architectures_have_a_section_for_each_width() -> None:
    def block(group: int | None, factor: float | None) -> dict[str, Any]:
        return {"attention": {"no_op": group is None, "n_heads_in_group": group},
                "ffn": {"no_op": factor is None, "ffn_mult": factor}}  # fmt: skip

    nas = {key: LLAMA[key] for key in LLAMA if key not in ("num_key_value_heads", "intermediate_size")}
    nas |= {"model_type": "nemotron-nas", "hidden_size": 768, "num_attention_heads": 8}
    document = read(
        {**nas, "block_configs": [block(2, 1.0)] * 2 + [block(None, 1.0), block(4, None), block(4, 2.0)]}
    ).document
    assert document["layers"] == "n*attn_4+mlp_512 mlp_512 attn_2 attn_2+mlp_1024"
    assert document["attn_2"] == {"like": "attn", "n_kv_heads": 2}
    assert document["mlp_1024"] == {"like": "mlp", "d_ff": 1024}


def test_keys_and_values_are_reused_by_the_last_layers_of_gemma_4() -> None:
    gemma = {
        "model_type": "gemma4_text",
        "num_hidden_layers": 12,
        "num_kv_shared_layers": 6,
        "use_double_wide_mlp": True,
    }
    document = read(gemma).document
    assert document["layers"] == "5*local+mlp attn+mlp 5*local_reuse+wide reuse+wide".replace(
        "5*local_reuse", "n*local_reuse"
    )
    assert document["local_reuse"] == {"like": "local", "kv": {"from": "local"}}
    assert document["reuse"] == {"like": "attn", "kv": {"from": "attn"}}


def test_gemma_3n_has_a_section_for_each_width_and_sparsity() -> None:
    gemma = {
        "model_type": "gemma3n_text",
        "num_hidden_layers": 10,
        "num_kv_shared_layers": 5,
        "intermediate_size": [64] * 5 + [128] * 5,
        "activation_sparsity_pattern": [0.95] * 2 + [0.0] * 8,
    }
    document = read(gemma).document
    assert document["layers"] == "2*local+sparse 2*local+mlp attn+mlp n*local_reuse+mlp_128 reuse+mlp_128"
    assert document["d_ff"] == 64
    assert document["sparse"] == {"like": "mlp", "sparsity": 0.95}
    assert document["mlp_128"] == {"like": "mlp", "d_ff": 128}
    assert document["altup"] == {"n": 4, "scale": True}
    assert document["attn"]["laurel"] == {"rank": 64}
    assert "layers" in read({"model_type": "gemma3n_text"}).document  # sparse in ten layers if the config doesn't say


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"intermediate_size": [64]}, "intermediate_size has 1 entries, the model 35 layers"),
        ({"intermediate_size": [64.5] * 35}, "intermediate_size: expected positive integers, found 64.5"),
        ({"activation_sparsity_pattern": ["0"] * 35}, "activation_sparsity_pattern[0]: expected a number, found '0'"),
        ({"activation_sparsity_pattern": [1.5] * 35}, "sparse.sparsity: expected float < 1.0, found 1.5"),
        ({"altup_active_idx": 4}, "altup.active: there is no stream 4 among 4"),
        ({"hidden_size_per_layer_input": 0}, "altup.scale: there is no per_layer_embedding"),
    ],
)
def test_wrong_fields_of_gemma_3n(changes: dict[str, Any], message: str) -> None:
    assert message in refusal({"model_type": "gemma3n_text", **changes})


def test_an_indexer_that_follows_another() -> None:
    glm = {"model_type": "glm_moe_dsa", "num_hidden_layers": 7, "index_topk_freq": 3, "index_skip_topk_offset": 2}
    mixers = [next(sublayers(block)) for block in arch(glm).blocks()]
    shared = [m.index.shared for m in mixers if isinstance(m, LatentAttention) and m.index is not None]
    assert shared == [False, False, True, True, False, True, True]


def test_router_and_experts_of_a_sigmoid_mixture() -> None:
    blocks = list(arch(DEEPSEEK, n_group=4, topk_group=2, norm_topk_prob=False).blocks())
    experts = next(m for m in sublayers(blocks[-1]) if isinstance(m, Experts))
    assert (experts.router.kind, experts.selection_bias, experts.normalize) == ("sigmoid", True, False)
    assert experts.groups is not None
    assert (experts.groups.n, experts.groups.top_k, experts.groups.score) == (4, 2, "top2")


# --- layer expressions ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("blocks", "text"),
    [
        ("a", "n*a"),
        ("aaaa", "n*a"),
        ("ab", "a n*b"),
        ("aaabbbbb", "3*a n*b"),
        ("abababab", "n*[a b]"),
        ("aaaaabaaaaabaa", "n*[5*a b]"),
        ("xaabaabaab", "x n*[2*a b]"),
        ("aaaaxaaaa", "4*a x n*a"),
        ("axb", "a x n*b"),
        ("abcabcabca", "n*[a b c]"),
    ],
)
def test_the_shortest_expression(blocks: str, text: str) -> None:
    assert patterns.expression(list(blocks)) == text


@pytest.mark.parametrize(
    "blocks", ["abcacbbbacabcabcabcaabbaabb", "a" * 61, "ab" * 100 + "a", "abbbb" * 13 + "cc", "abcdefg"]
)
def test_an_expression_stands_for_its_blocks(blocks: str) -> None:
    text = patterns.expression(list(blocks))

    def walk(items: Any) -> list[str]:
        found: list[str] = []
        for item in items:
            found += walk(item.body) * (item.count or 0) if isinstance(item, expression.Repeated) else [str(item)]
        return found

    assert "".join(walk(expression.parse(text, len(blocks)))) == blocks


def test_patterns_of_too_many_layers_are_refused_at_once() -> None:
    gemma = {"model_type": "gemma3_text", "num_hidden_layers": 10_000_000}
    assert "layers of several kinds are read up to 10000" in refusal(gemma)


def test_ntk_scaling_of_gte_is_a_linear_one_of_another_base() -> None:
    """text-embeddings-inference (candle's rotary.rs): frequencies of θ·f, divided by f^(2/h)."""
    config = {
        "model_type": "new",
        "hidden_size": 128,
        "num_attention_heads": 2,
        "num_hidden_layers": 1,
        "rope_theta": 20000,
    }
    found = read({**config, "rope_scaling": {"type": "ntk", "factor": 8.0}}).document["rope"]
    theta, factor = found["theta"], found["scaling"]["factor"]
    for pair in range(32):
        expected = (20000 * 8.0) ** (-2 * pair / 64) / 8.0 ** (2 / 64)
        assert theta ** (-2 * pair / 64) / factor == pytest.approx(expected, rel=1e-12)
    with pytest.raises(InputError, match="mixed_b"):
        read({**config, "rope_scaling": {"type": "ntk", "factor": 8.0, "mixed_b": 0.6}})
