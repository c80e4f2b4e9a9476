"""What transformers 5.24's classes make of fields: small configs on which readers and classes once differed.

Totals were counted on the classes themselves; windows and rotations are those of their code.
"""

from __future__ import annotations

from typing import Any

import pytest

from gptcalc.analysis.params import params
from gptcalc.architecture import Architecture, Attention, GatedRecurrence, sublayers
from gptcalc.document import build
from gptcalc.errors import InputError
from gptcalc.sources import tolerating
from gptcalc.sources.huggingface import read
from gptcalc.sources.huggingface.unread import Ignored

SMALL = {
    "vocab_size": 97,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 128,
}
ROUTED = {
    **SMALL,
    "moe_intermediate_size": 24,
    "n_routed_experts": 6,
    "num_experts_per_tok": 2,
    "n_group": 1,
    "topk_group": 1,
}
#: three delta nets to a layer of attention, whose queries and gates are one matrix with one bias
DELTA = {
    "moe_intermediate_size": 24,
    "num_experts": 6,
    "num_experts_per_tok": 2,
    "shared_expert_intermediate_size": 40,
    "linear_num_value_heads": 4,
    "linear_num_key_heads": 2,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
}


def arch(config: dict[str, Any]) -> Architecture:
    return build(read(config).document)


def total(config: dict[str, Any]) -> int:
    return params(arch(config)).total


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"model_type": "cwm", **SMALL, "attention_bias": True}, 135_872),
        ({"model_type": "ministral", **SMALL, "mlp_bias": True}, 135_872),
        ({"model_type": "phi3", **SMALL, "mlp_bias": True}, 135_872),
        ({"model_type": "exaone4", **SMALL, "mlp_bias": True}, 136_000),
        ({"model_type": "glm4_moe", **ROUTED}, 178_514),
        ({"model_type": "sarvam_moe", **ROUTED, "first_k_dense_replace": 1, "num_shared_experts": 0}, 164_818),
        ({"model_type": "qwen3_next", **SMALL, **DELTA, "attention_bias": True}, 199_696),
        ({"model_type": "qwen3_5_text", **SMALL, **DELTA, "attention_bias": True}, 130_320),
        ({"model_type": "qwen3_5_moe_text", **SMALL, **DELTA, "attention_bias": True}, 199_696),
    ],
    ids=lambda value: value["model_type"] if isinstance(value, dict) else None,
)
def test_totals_are_the_classes(config: dict[str, Any], expected: int) -> None:
    assert total(config) == expected


@pytest.mark.parametrize(
    ("fields", "scale"),
    [({}, 50.0), ({"initializer_range": 0.05}, 20.0), ({"initializer_range": 0.05, "embedding_scale": 3.0}, 3.0)],
)
def test_hrm_text_scales_its_embedding_by_what_it_began_with(fields: dict[str, Any], scale: float) -> None:
    assert arch({"model_type": "hrm_text", **SMALL, "num_key_value_heads": 4, **fields}).embedding.scale == scale


@pytest.mark.parametrize(
    ("model_type", "n_layers", "expected"),
    [
        ("qwen3_next", 3, 5_567_926_848),
        ("qwen3_5_text", 3, 2_689_462_848),
        ("olmo_hybrid", 3, 1_387_657_464),  # its class makes the last layer attention where there is no fourth
        ("beam", 1, 1_975_280_944),  # three layers at either end would be others
    ],
)
def test_copies_of_a_few_layers(model_type: str, n_layers: int, expected: int) -> None:
    """The classes' defaults, cut."""
    assert total({"model_type": model_type, "num_hidden_layers": n_layers}) == expected


@pytest.mark.parametrize(
    ("fields", "position"),
    [
        ({}, "rope"),
        ({"rope_parameters": None}, "rope"),
        ({"rope_theta": None}, "none"),
        ({"rope_theta": None, "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}}, "rope"),
        ({"rope_parameters": {"rope_type": "default", "rope_theta": None}}, "none"),
    ],
)
def test_nothing_turns_in_olmo_hybrid_where_the_base_is_null(fields: dict[str, Any], position: str) -> None:
    """Its class makes rotations only where there is a base; an absent one is 10000."""
    attention = arch({"model_type": "olmo_hybrid", **SMALL, **fields}).blocks()
    found = {part.position for block in attention for part in sublayers(block) if isinstance(part, Attention)}
    assert found == {position}


def test_a_head_that_is_not_known_is_refused_or_left_out_by_hand() -> None:
    """What a masked Llama's class puts on the last layer only its own code says; below it is LlamaModel."""
    config = {"model_type": "llama", "architectures": ["LlamaBiForMNTP"], **SMALL}
    with pytest.raises(InputError, match="head is known") as caught:
        read(config)
    assert caught.value.hint is not None
    assert "--ignore architectures" in caught.value.hint
    with tolerating(strict=False, ignore=("architectures",)):
        found = read(config)
    assert params(found.architecture).total == total({**config, "architectures": ["LlamaModel"]})
    assert any("LlamaBiForMNTP" in note and "left out" in note for note in found.notes)


@pytest.mark.parametrize(
    "name", ["LlamaForRewardModel", "LlamaRewardModel", "LlamaModelForScore", "LlamaBidirectionalModel", "RewardModel"]
)
def test_of_an_unknown_head_without_a_vocabulary_the_model_below_it_is_counted(name: str) -> None:
    """Public code makes a reward of one or two matrices; the note says that none is counted. --strict refuses."""
    config = {"model_type": "llama", "architectures": [name], **SMALL}
    found = read(config)
    assert params(found.architecture).total == total({**config, "architectures": ["LlamaModel"]})
    assert any(
        f"names {name}" in note and "counted as LlamaModel" in note and "left out" in note for note in found.notes
    )
    with tolerating(strict=True, ignore=()), pytest.raises(InputError, match="head is known"):
        read(config)


def test_an_unknown_head_with_sizes_of_its_own_is_refused() -> None:
    """ArmoRM's gate is as wide as its config says."""
    config = {"model_type": "llama", "architectures": ["LlamaForRewardModelWithGating"], "gating_hidden_dim": 24}
    with pytest.raises(InputError, match="may read gating_hidden_dim = 24") as caught:
        read({**config, **SMALL})
    assert caught.value.hint == "--ignore gating_hidden_dim counts it as LlamaModel"


def test_the_note_names_the_class_that_is_counted() -> None:
    config = {"model_type": "llama", "architectures": ["SteelForSequenceClassification"], **SMALL}
    found = read(config)
    assert any(note.endswith("counted as LlamaForSequenceClassification") for note in found.notes)
    assert params(found.architecture).total == total({**config, "architectures": ["LlamaForSequenceClassification"]})


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (
            {
                "model_type": "zamba2",
                "hidden_size": 256,
                "intermediate_size": 1024,
                "vocab_size": 1000,
                "num_attention_heads": 8,
                "num_key_value_heads": 8,
                "attention_head_dim": 64,
                "mamba_d_state": 16,
                "n_mamba_heads": 8,
                "adapter_rank": 16,
                "num_mem_blocks": 2,
                "use_mem_rope": True,
                "num_hidden_layers": 6,
                "layers_block_type": ["mamba"] * 5 + ["hybrid"],
            },
            4_505_168,
        ),
        (
            {
                "model_type": "deepseek_v3",
                "hidden_size": 256,
                "intermediate_size": 512,
                "moe_intermediate_size": 64,
                "num_attention_heads": 4,
                "num_key_value_heads": 4,
                "n_routed_experts": 8,
                "num_experts_per_tok": 2,
                "n_group": 2,
                "topk_group": 1,
                "kv_lora_rank": 64,
                "q_lora_rank": 96,
                "qk_nope_head_dim": 32,
                "qk_rope_head_dim": 16,
                "v_head_dim": 32,
                "vocab_size": 1000,
                "first_k_dense_replace": 3,
                "num_hidden_layers": 1,
            },
            1_018_784,
        ),
    ],
    ids=["one shared block of two", "dense layers alone"],
)
def test_copies_with_less_than_their_configs_say(config: dict[str, Any], expected: int) -> None:
    """Counted on transformers' classes."""
    assert total(config) == expected


MOLMO2 = {"model_type": "molmo2_text", **SMALL, "additional_vocab_size": 5}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [({"attention_bias": True}, 136_832), ({"norm_after": True, "qk_norm_type": "olmo"}, 136_576)],
)
def test_rows_that_mark_images_have_no_logits(fields: dict[str, Any], expected: int) -> None:
    """Nothing ties the two tables of Molmo 2, whatever a config says. Totals: language_model and lm_head of
    Molmo2ForConditionalGeneration."""
    found = arch({"model_type": "molmo2", "tie_word_embeddings": True, "text_config": {**MOLMO2, **fields}})
    assert (found.v, found.head.rows, params(found).total) == (102, 97, expected)


def test_a_share_inside_a_scaling_gives_way_in_deepseek_v4() -> None:
    """The class lays its own partial_rotary_factor over that of a flat rope_scaling; logits agree with it."""
    sizes = {name: value for name, value in SMALL.items() if name != "intermediate_size"}
    found = read({
        "model_type": "deepseek_v4", **sizes, "num_key_value_heads": 1, "head_dim": 32, "partial_rotary_factor": 0.25,
        "rope_scaling": {"type": "linear", "factor": 2.0, "partial_rotary_factor": 0.5}, "moe_intermediate_size": 24,
        "n_routed_experts": 6, "num_experts_per_tok": 2, "q_lora_rank": 20, "index_n_heads": 8, "index_head_dim": 16,
        "index_topk": 4, "sliding_window": 6, "o_groups": 2, "o_lora_rank": 12, "num_hash_layers": 1,
    }).document  # fmt: skip
    assert found["csa"]["rope"]["fraction"] == 0.25


def test_layers_that_are_not_listed_turn_as_trained() -> None:
    rope = {"rope_type": "linear", "factor": 4.0, "rope_theta": 5000.0}
    found = read({**MOLMO2, "rope_parameters": rope, "rope_scaling_layers": [0, 2]}).document
    assert found["layers"] == "n*[attn+mlp unscaled+mlp]"
    assert found["rope"] == {"theta": 5000, "scaling": {"kind": "linear", "factor": 4}}
    assert found["unscaled"]["rope"] == {"theta": 5000}


@pytest.mark.parametrize(
    ("whole", "text", "tied"), [(False, True, False), (True, False, True), (None, False, False), (False, None, False)]
)
def test_the_whole_model_decides_whether_it_is_tied(whole: bool | None, text: bool | None, tied: bool) -> None:
    """mistral3: the whole's flag, where there is one; without one an older file is read as it was then."""
    flag = "tie_word_embeddings"
    inner = {"model_type": "mistral", **SMALL, **({} if text is None else {flag: text})}
    config = {"model_type": "mistral3", "text_config": inner, **({} if whole is None else {flag: whole})}
    assert total(config) == 135_872 - (97 * 64 if tied else 0)


def test_a_file_of_transformers_5_that_says_nothing_is_tied_as_its_class_is() -> None:
    config = {"model_type": "internvl", "text_config": {"model_type": "qwen2", **SMALL, "tie_word_embeddings": False}}
    assert total(config) == 136_384
    assert total({**config, "transformers_version": "5.24.0"}) == 130_176


@pytest.mark.parametrize("model_type", ["bitnet", "helium"])
def test_heads_that_a_class_can_not_run_are_refused(model_type: str) -> None:
    """Their classes make o_proj, or the norm in front of it, as wide as the stream."""
    assert total({"model_type": model_type, **SMALL})
    with pytest.raises(InputError, match="its class runs no heads"):
        read({"model_type": model_type, **SMALL, "head_dim": 24})


@pytest.mark.parametrize(
    ("bias", "factor"), [("attention_bias", "attention_in_multiplier"), ("mamba_proj_bias", "ssm_in_multiplier")]
)
def test_a_factor_of_the_input_is_none_of_the_bias(bias: str, factor: str) -> None:
    """Falcon-H1's class multiplies what projections read, so that a bias behind them has no factor."""
    config = {"model_type": "falcon_h1", **SMALL, "mamba_d_ssm": 64, "mamba_n_heads": 8, "mamba_d_head": 8}
    for fields in ({bias: True}, {factor: 0.5}):
        assert read({**config, **fields}).document
    with pytest.raises(InputError, match="beside a factor"):
        read({**config, bias: True, factor: 0.5})


def test_a_decoder_is_as_deep_as_its_class_finds_before_other_names() -> None:
    """UMT5's class, of num_hidden_layers alone: 13 layers of the encoder, its default of 8 of the decoder."""
    sizes = {"d_model": 64, "d_kv": 16, "d_ff": 96, "num_heads": 4, "vocab_size": 97}
    found = arch({"model_type": "umt5", **sizes, "num_hidden_layers": 13})
    assert found.encoder is not None
    assert (found.encoder.n_layers, found.n_layers) == (13, 8)
    assert arch({"model_type": "umt5", **sizes, "num_layers": 3}).n_layers == 3


def test_sparse_steps_of_switch_come_of_what_its_class_finds_first() -> None:
    """Five layers of the encoder, twelve of the decoder, every fourth sparse in both: counted on the class."""
    config = {
        "model_type": "switch_transformers",
        "vocab_size": 97,
        "num_heads": 4,
        "num_experts": 6,
        "num_hidden_layers": 5,
    }
    assert total(config) == 139_328_512


def test_either_flag_ties_llava() -> None:
    config = {"model_type": "llava", "text_config": {"model_type": "llama", **SMALL, "tie_word_embeddings": False}}
    assert total({**config, "tie_word_embeddings": True}) == 129_664


def test_windows_that_have_no_switch() -> None:
    """dots1 has no use_sliding_window: a window and max_window_layers are enough."""
    document = read({"model_type": "dots1", **ROUTED, "sliding_window": 6, "max_window_layers": 2}).document
    assert "local" in document["layers"]


#: as published, with sizes of its own for the layers with windows
DOTS3 = {
    **ROUTED,
    "num_hidden_layers": 6,
    "num_key_value_heads": 4,
    "q_lora_rank": 20,
    "kv_lora_rank": 16,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 8,
    "v_head_dim": 12,
    "index_topk": 4,
    "index_head_dim": 16,
    "index_n_heads": 2,
    "moe_shared_expert_intermediate_size": 10,
    "n_shared_experts": 2,
    "swa_num_attention_heads": 2,
    "swa_num_key_value_heads": 2,
    "swa_q_lora_rank": 12,
    "swa_kv_lora_rank": 20,
    "swa_head_dim": 14,
    "swa_qk_nope_head_dim": 10,
    "swa_v_head_dim": 6,
    "sliding_window_size": 5,
    "first_k_dense_replace": 2,
    "use_dsa": True,
}
#: what the router's choice adds to 6 scores in each of 4 layers: of the class a buffer, no parameter
CHOICE = 4 * 6
OF_WINDOWS = {
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "q_lora_rank": 12,
    "kv_lora_rank": 20,
    "qk_nope_head_dim": 10,
    "qk_rope_head_dim": 4,
    "v_head_dim": 6,
    "head_dim": 14,
}


@pytest.mark.parametrize(
    ("changes", "counted"),
    [
        ({}, 221_952),
        ({"layer_types": ["full_attention"] * 2 + ["sliding_attention"] * 4}, 215_592),
        ({"use_sliding_window": False}, 241_032),
        ({"swa_qk_rope_head_dim": 4, "attention_bias": True}, 222_576),
    ],
)
@pytest.mark.parametrize("model_type", ["dots3_note", "dots3_note_text"])
def test_latents_in_windows_have_sizes_of_their_own(model_type: str, changes: dict[str, Any], counted: int) -> None:
    """Parameters of Dots3NoteForCausalLM, and its buffers of the choice."""
    assert total({"model_type": model_type, **DOTS3, **changes}) == counted + CHOICE


def test_sizes_of_windows_as_transformers_writes_them() -> None:
    kinds = ["indexed_attention"] * 2 + ["sliding_attention"] * 4
    flat = {name: value for name, value in DOTS3.items() if not name.startswith(("swa_", "use_"))}
    saved = {**flat, "layer_types": kinds, "per_layer_config": {str(i): OF_WINDOWS for i in range(2, 6)}}
    assert total({"model_type": "dots3_note_text", **saved}) == 215_592 + CHOICE


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"swa_head_dim": 15, "swa_qk_rope_head_dim": 4}, "swa_head_dim = 15 is not"),
        ({"per_layer_config": {"0": OF_WINDOWS}}, "other layers than those with windows are not understood"),
        ({"per_layer_config": {str(i): {"hidden_size": 3} for i in (2, 3, 4)}}, "only head_dim, kv_lora_rank"),
        (
            {"per_layer_config": {str(i): {**OF_WINDOWS, "v_head_dim": i} for i in (2, 3, 4)}},
            "layers with different v_head_dim are not understood",
        ),
        ({"use_dsa": False}, "use_dsa: only true is understood"),
    ],
)
def test_sizes_of_windows_that_are_not_understood(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read({"model_type": "dots3_note_text", **DOTS3, **changes})


def test_layer_types_decide_windows_of_smollm3() -> None:
    config = {"model_type": "smollm3", **SMALL, "sliding_window": 6, "use_sliding_window": True}
    assert "local" not in read({**config, "layer_types": ["full_attention"] * 4}).document["layers"]
    kinds = ["sliding_attention", "full_attention"] * 2
    assert read({**config, "layer_types": kinds}).document["layers"].count("local") > 0


def test_null_rotations_are_the_classes() -> None:
    """gpt-oss stretches by YaRN, CWM as Llama 3 does, where a config has null."""
    assert read({"model_type": "gpt_oss", "rope_parameters": None}).document["rope"]["scaling"]["kind"] == "yarn"
    assert read({"model_type": "cwm", **SMALL, "rope_parameters": None}).document["rope"]["scaling"]["kind"] == "llama3"


def test_a_flat_theta_does_not_reach_apertus() -> None:
    assert read({"model_type": "apertus", **SMALL, "rope_theta": 500.0}).document["rope"]["theta"] == 12_000_000


def test_unscaled_rotations_of_llama_turn_all_channels() -> None:
    assert "fraction" not in str(
        read({"model_type": "llama", **SMALL, "partial_rotary_factor": 0.5}).document.get("rope")
    )


def test_truncated_copies_are_read() -> None:
    """All layers dense: the section of experts is not used, and the modules for further tokens are none."""
    config = {
        "model_type": "glm_moe_dsa", **ROUTED, "num_hidden_layers": 1, "first_k_dense_replace": 1, "index_n_heads": 8,
        "index_head_dim": 16, "index_topk": 4, "kv_lora_rank": 16, "q_lora_rank": 20, "qk_nope_head_dim": 8,
        "qk_rope_head_dim": 8, "v_head_dim": 12, "num_nextn_predict_layers": 0,
    }  # fmt: skip
    assert "moe" not in read(config).document


def test_exaone_3_by_its_published_names() -> None:
    config = {key: value for key, value in SMALL.items() if key not in ("num_hidden_layers", "head_dim")}
    published = {**config, "num_layers": 4, "activation_function": "silu", "layer_norm_epsilon": 1e-5}
    assert total({"model_type": "exaone", **published}) == 135_872


def test_heads_without_a_channel_are_refused() -> None:
    with pytest.raises(InputError, match="hidden_size has no channel for each"):
        read({"model_type": "falcon", "hidden_size": 64, "alibi": True})


def test_laguna_gates_every_element_where_the_flag_is_false() -> None:
    assert read({"model_type": "laguna", "gating": False}).document["attn"]["gate"] == "full"


def test_the_larger_model_gives_its_text_model_a_type() -> None:
    """A type that nobody knows inside one whose class doesn't look at it, as older files have them."""
    reading = read({"model_type": "qwen3_asr", "text_config": {"model_type": "qwen3_asr_words", **SMALL}})
    assert reading.model_type == "qwen3"


def test_a_part_that_the_class_does_not_look_into_is_ignored_and_named() -> None:
    """Qwen3ASRForConditionalGeneration of transformers 5.24 on such a file holds a text model of 1,720,574,976."""
    part = {"model_type": "qwen3_asr_thinker", "text_config": {"model_type": "qwen3_asr_text", **SMALL}}
    config = {"model_type": "qwen3_asr", "thinker_config": part}
    reading = read(config)
    assert params(reading.architecture).total == 1_720_574_976
    assert [note.names for note in reading.notes if isinstance(note, Ignored)] == [("thinker_config",)]
    with tolerating(True, []), pytest.raises(InputError, match="thinker_config: transformers' class of qwen3_asr"):
        read(config)
    assert arch(part).d == 64


def test_biases_of_shared_experts() -> None:
    """mlp_bias of nemotron_h: two biases more in the shared experts, 7688 + 64; none in the routed ones."""
    config = {"model_type": "nemotron_h", "hidden_size": 64, "vocab_size": 97, "layers_block_type": ["moe"],
              "mlp_bias": True, "n_routed_experts": 2, "moe_intermediate_size": 24}  # fmt: skip
    without = params(arch({**config, "mlp_bias": False})).total
    assert params(arch(config)).total == without + 7688 + 64


def test_a_class_that_ties_nothing_is_untied_whatever_the_flag() -> None:
    """NemotronHForCausalLM lists no tied weights, and so holds an output matrix of 97 × 64 though the flag is set."""
    table = {"model_type": "nemotron_h", "hidden_size": 64, "vocab_size": 97, "layers_block_type": ["mlp"]}
    untied, tied = (params(arch({**table, "tie_word_embeddings": tie})).total for tie in (False, True))
    assert untied == tied == 2 * 97 * 64 + 64 + 64 + 2 * 64 * 21504


def test_windows_of_all_softmax_layers() -> None:
    """MiniMaxModel masks with a window where the config has one."""
    config = {"model_type": "minimax", **SMALL, "sliding_window": 6, "num_local_experts": 6}
    assert read(config).document["attn"]["window"] == 6


def test_heads_that_do_not_divide_a_width() -> None:
    """floor(64/5) = 12 channels a head for classes without a check (Qwen3's default is 128); Llama's refuses."""
    config = {**SMALL, "num_attention_heads": 5, "num_key_value_heads": 5, "head_dim": None}
    assert "d_head: 12" in str(read({"model_type": "mixtral", **config}).document).replace("'", "")
    with pytest.raises(InputError, match="not a multiple of n_heads"):
        read({"model_type": "llama", **config})


@pytest.mark.parametrize(
    ("outer", "fields", "expected", "model_type"),
    [
        # Phi-3-mini's text model, flat in the config of Phi-3-vision: 3,821,079,552 as published for the text model
        ("phi3_v", {"vocab_size": 32064, "hidden_size": 3072, "intermediate_size": 8192, "num_hidden_layers": 32,
                    "num_attention_heads": 32, "num_key_value_heads": 32, "max_position_embeddings": 131072},
         3_821_079_552, "phi3"),
        # GLM-4-9B-0414's sizes, which GLM-4.1V has: 9,400,279,040
        ("glm4v", {"vocab_size": 151552, "hidden_size": 4096, "intermediate_size": 13696, "num_hidden_layers": 40,
                   "num_attention_heads": 32, "num_key_value_heads": 2, "max_position_embeddings": 65536},
         9_400_279_040, "glm4v_text"),
        # Phi-2: 2,779,683,840
        ("bunny-phi", {"vocab_size": 51200, "hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 32,
                       "num_attention_heads": 32, "num_key_value_heads": 32, "max_position_embeddings": 2048},
         2_779_683_840, "phi"),
        # Llama-3-8B and Qwen2-7B behind LLaVA's towers (Cambrian, FastVLM); Qwen3-8B (Keye-VL)
        ("cambrian_llama", {"mm_vision_tower": "clip", "vocab_size": 128256, "hidden_size": 4096,
                            "intermediate_size": 14336, "num_key_value_heads": 8, "tie_word_embeddings": False},
         8_030_261_248, "llama"),
        ("llava_qwen2", {"mm_vision_tower": "clip", "vocab_size": 152064, "hidden_size": 3584, "num_key_value_heads": 4,
                         "intermediate_size": 18944, "num_hidden_layers": 28, "num_attention_heads": 28,
                         "tie_word_embeddings": False},
         7_615_616_512, "qwen2"),
        ("Keye", {"vocab_size": 151936, "hidden_size": 4096, "intermediate_size": 12288, "num_hidden_layers": 36,
                  "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "tie_word_embeddings": False},
         8_190_735_360, "qwen3"),
    ],
)  # fmt: skip
def test_text_models_flat_in_a_larger_config(
    outer: str, fields: dict[str, Any], expected: int, model_type: str
) -> None:
    reading = read({"model_type": outer, **fields, "vision_config": {"hidden_size": 1024}})
    assert reading.model_type == model_type
    assert params(reading.architecture).total == expected


def test_a_type_called_as_llava_s_are_is_none_of_them_without_a_tower() -> None:
    with pytest.raises(InputError, match="'cambrian_llama' is not known"):
        read({"model_type": "cambrian_llama", **SMALL})


def test_minicpm_v_has_text_models_of_several_types() -> None:
    assert read({"model_type": "minicpmv", **SMALL, "max_window_layers": 4}).model_type == "qwen2"
    assert read({"model_type": "minicpmv", **SMALL, "pretraining_tp": 1}).model_type == "llama"
    with pytest.raises(InputError, match="minicpmv"):
        read({"model_type": "minicpmv", **SMALL})


def test_null_is_what_the_class_makes_of_it() -> None:
    """Flint's mlp_only_layers is declared null, of which its class makes [0, 1]."""
    config = {"model_type": "flint", **SMALL, "num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 24}
    assert read({**config, "mlp_only_layers": None}).document == read(config).document


@pytest.mark.parametrize(
    ("model_type", "field"),
    [
        ("deepseek_v3", "num_nextn_predict_layers"),
        ("qwen3_5_text", "mtp_num_hidden_layers"),
    ],
)
def test_modules_for_further_tokens_count_though_no_class_builds_them(model_type: str, field: str) -> None:
    assert params(arch({"model_type": model_type, field: 1})).mtp > 0
    assert params(arch({"model_type": model_type, field: 0})).mtp == 0


def test_a_class_that_assumes_no_tie_does_not_take_the_text_models() -> None:
    """qwen3_vl: of the text's flag alone its class makes nothing."""
    text = {"model_type": "qwen3_vl_text", **SMALL, "tie_word_embeddings": True}
    silent = read({"model_type": "qwen3_vl", "text_config": text}).architecture
    said = read({"model_type": "qwen3_vl", "text_config": text, "tie_word_embeddings": True}).architecture
    assert params(silent).total - params(said).total == 97 * 64


def test_no_layer_of_a_size_of_its_own() -> None:
    """Gemma4TextConfig as it saves itself where full layers have the others' width: Gemma4ForCausalLM has 189,096
    parameters, and in a buffer of each of 4 layers the factor of its output."""
    config = {
        "model_type": "gemma4_text", "vocab_size": 97, "vocab_size_per_layer_input": 97, "hidden_size": 64,
        "hidden_size_per_layer_input": 8, "intermediate_size": 96, "num_hidden_layers": 4, "num_attention_heads": 4,
        "num_key_value_heads": 2, "num_kv_shared_layers": 0, "head_dim": 32, "per_layer_config": {},
        "layer_types": ["sliding_attention", "full_attention"] * 2, "sliding_window": 6,
    }  # fmt: skip
    assert params(arch(config)).total == 189_096 + 4


def test_biases_of_hyv3s_shared_experts() -> None:
    """Three layers of experts of 24 + 24 + 64 biases more, as HYV3ForCausalLM counts."""
    config = {
        "model_type": "hy_v3", **SMALL, "moe_intermediate_size": 24, "num_experts": 6, "num_experts_per_tok": 2,
        "num_shared_experts": 1,
    }  # fmt: skip
    dense = 96 + 96 + 64
    without = params(arch(config)).total
    assert params(arch({**config, "mlp_bias": True})).total == without + dense + 3 * (24 + 24 + 64)


def test_a_part_that_leaves_sizes_out() -> None:
    """Voxtral fills its text config with sizes of its own, PaliGemma does not: 4 layers of Gemma's 24,576."""
    text = {"model_type": "gemma", **SMALL}
    text.pop("intermediate_size")
    assert read({"model_type": "paligemma", "text_config": text}).document["d_ff"] == 24576
    llama = {key: value for key, value in SMALL.items() if key not in ("head_dim", "vocab_size")}
    found = read({"model_type": "voxtral", "text_config": {"model_type": "llama", **llama}}).document
    assert (found["d_head"], found["v"]) == (128, 131072)


SWITCH = {
    "model_type": "switch_transformers", "architectures": ["SwitchTransformersForConditionalGeneration"],
    "vocab_size": 97, "d_model": 64, "num_layers": 4, "num_heads": 4, "num_experts": 6,
}  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"num_sparse_decoder_layers": 1, "decoder_sparse_step": 4, "encoder_sparse_step": 1}, 15_216_448),
        ({"encoder_sparse_step": 0}, 9_972_032),
    ],
)
def test_a_step_that_is_given_outweighs_the_number_of_sparse_layers(fields: dict[str, Any], expected: int) -> None:
    """The class computes it, then takes what the file says."""
    assert total({**SWITCH, **fields}) == expected


def test_the_parts_of_t5gemma_have_the_rows_that_they_say() -> None:
    """T5GemmaConfig's own vocab_size is read by none of its tables."""
    part = {**SMALL, "vocab_size": 101}
    config = {"model_type": "t5gemma", "vocab_size": 97, "encoder": part, "decoder": part}
    assert build(read(config).document).v == 101


def test_null_is_the_default_of_layers_that_choose_by_a_table() -> None:
    """Three layers of DeepSeek-V4 choose by a fixed table, without a selection bias."""
    config = {"model_type": "deepseek_v4", "num_hidden_layers": 6}
    assert read({**config, "num_hash_layers": None}).document == read(config).document


def test_dbrx_turns_by_its_rotary_parameters() -> None:
    """rope_theta among the attention's fields is what published files have."""
    config = {"model_type": "dbrx", "attn_config": {"rope_theta": 5e5}}
    assert read(config).document["rope"]["theta"] == 5e5
    given = {**config, "rope_parameters": {"rope_type": "default", "rope_theta": 2e4}}
    assert read(given).document["rope"]["theta"] == 2e4


@pytest.mark.parametrize(
    ("model_type", "said"),
    [("bert", "a second bias"), ("nomic_bert", "a second bias"), ("bart", "one for both"),
     ("t5", "as published files have them")],
)  # fmt: skip
@pytest.mark.parametrize("tied", [False, None])
def test_what_version_5_makes_of_untied_tables_is_said(model_type: str, said: str, tied: bool | None) -> None:
    """BertForMaskedLM then has a bias that nothing reads, BART's class four tables, T5's one."""
    notes = read({"model_type": model_type, "tie_word_embeddings": tied}).notes
    assert any(said in note for note in notes)


@pytest.mark.parametrize(
    "config",
    [{"model_type": "ernie4_5_moe", "moe_norm_min": 10.0}, {"model_type": "deberta", "relative_attention": True}],
)
def test_what_would_change_a_pass_is_refused(config: dict[str, Any]) -> None:
    with pytest.raises(InputError) as caught:
        read(config)
    assert caught.value.kind == "unsupported"


def test_what_t5s_class_writes_of_its_activation_outweighs_the_word() -> None:
    """T5ForConditionalGeneration of these sizes has 3,940,032 parameters, 2,891,456 without gates."""
    config = {"model_type": "t5", "vocab_size": 97, "d_model": 64, "num_layers": 4, "num_heads": 4, "d_ff": 2048}
    assert total(config) == 2_891_456
    assert total({**config, "is_gated_act": True}) == 3_940_032
    umt5 = {"model_type": "umt5", "vocab_size": 97, "d_model": 64, "num_heads": 4}
    assert total(umt5) == 4_729_536  # gated by default


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        # T5-XXL's encoder, as image models read their text
        ({"model_type": "t5", "architectures": ["T5EncoderModel"], "d_model": 4096, "d_ff": 10240, "d_kv": 64,
          "num_heads": 64, "num_layers": 24, "feed_forward_proj": "gated-gelu"}, 4_762_310_656),
        ({"model_type": "umt5", "architectures": ["UMT5EncoderModel"]}, 146_941_952),
        ({"model_type": "mt5", "architectures": ["MT5EncoderModel"]}, 146_940_608),
        ({"model_type": "switch_transformers", "architectures": ["SwitchTransformersEncoderModel"]}, 156_832_896),
    ],
    ids=lambda value: value["model_type"] if isinstance(value, dict) else None,
)  # fmt: skip
def test_an_encoder_alone(config: dict[str, Any], expected: int) -> None:
    assert total(config) == expected
    assert arch(config).sees_all


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("BartForSequenceClassification", 407_344_131),
        ("BartForQuestionAnswering", 406_293_506),
        ("MBartForSequenceClassification", 407_348_227),
        ("MvpForQuestionAnswering", 406_295_554),
        ("PLBartForSequenceClassification", 139_813_635),
        ("T5ForSequenceClassification", 60_770_819),
        ("T5ForTokenClassification", 35_332_355),
        ("T5ForQuestionAnswering", 60_508_163),
        ("MT5ForTokenClassification", 146_942_147),
        ("UMT5ForSequenceClassification", 172_386_307),
    ],
)
def test_labels_of_encoder_decoders(name: str, expected: int) -> None:
    """Of default configs with three labels; where answers begin and end are two."""
    assert total({"model_type": name.split("For")[0].lower(), "architectures": [name], "num_labels": 3}) == expected


@pytest.mark.parametrize("model_type", ["olmo3", "gemma3_text", "gemma3n_text"])
def test_rotations_that_say_nothing_of_kinds_of_layers_are_left_aside(model_type: str) -> None:
    """The classes read rope_parameters.full_attention and rope_parameters.sliding_attention, and write what they
    assume beside what is flat."""
    config = {"model_type": model_type, "num_hidden_layers": 6, "num_kv_shared_layers": 0}
    flat = read({**config, "rope_parameters": {"rope_type": "yarn", "factor": 4.0, "rope_theta": 100.0}})
    assert flat.document == read(config).document
    assert any("says nothing of kinds of layers" in note for note in flat.notes)


def test_beam_turns_by_its_rotary_parameters_alone() -> None:
    """BeamConfig.convert_rope_params_to_dict looks at nothing beside rope_parameters.sliding_attention."""
    config = {"model_type": "beam"}
    assert read({**config, "rope_theta": 5e6}).document.get("rope") == read(config).document.get("rope")
    nested = {"sliding_attention": {"rope_type": "default", "rope_theta": 5e6}, "full_attention": None}
    assert read({**config, "rope_parameters": nested}).document["rope"]["theta"] == 5e6


def test_what_stands_inside_a_scaling_for_all_is_overwritten() -> None:
    """DeepseekV4Config: theta of entries and of windows stand beside it."""
    config = {"model_type": "deepseek_v4", "rope_parameters": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e3}}
    found = read(config).document
    assert (found["csa"]["rope"]["theta"], found["csa"]["rope"]["scaling"]["kind"]) == (160000, "linear")
    assert found["local"]["rope"].get("theta", 10000) == 10000


def test_learned_frequencies_are_those_of_all_pairs() -> None:
    with pytest.raises(InputError, match="partial_rotary_factor: only 1"):
        read({"model_type": "mistral_large4_text", "rope_parameters": {"rope_type": "yarn", "factor": 4.0,
              "original_max_position_embeddings": 8, "partial_rotary_factor": 0.25}})  # fmt: skip


def test_minimax_turns_the_share_that_its_rotary_parameters_say() -> None:
    """rotary_dim stands for a share where there is none (MiniMaxM2Config)."""
    config = {"model_type": "minimax_m2", "head_dim": 16, "rotary_dim": 8}
    assert read(config).document["rope"]["channels"] == 8
    scaled = read({**config, "rope_scaling": {"rope_type": "linear", "factor": 2.0, "partial_rotary_factor": 0.25}})
    assert scaled.document["rope"]["fraction"] == 0.25
    assert "channels" not in scaled.document["rope"]


def test_shared_experts_of_no_width_are_as_wide_as_dense_layers() -> None:
    """NemotronHMLP: `intermediate_size or config.intermediate_size`."""
    config = {"model_type": "nemotron_h", **ROUTED, "n_shared_experts": 1, "layers_block_type": ["mamba", "moe"]}
    config |= {"num_hidden_layers": 2, "moe_shared_expert_intermediate_size": 96}
    assert total({**config, "moe_shared_expert_intermediate_size": 0}) == total(config)


def test_the_gate_of_griffins_recurrence_has_the_configs_activation() -> None:
    """RecurrentGemmaRecurrentBlock.act_fn."""
    found = arch({"model_type": "recurrent_gemma", "hidden_activation": "silu"})
    assert {m.activation for m in found.mixers() if isinstance(m, GatedRecurrence)} == {"silu"}


@pytest.mark.parametrize(
    "config",
    [
        {"model_type": "falcon_h1", "hidden_act": "gelu"},  # its Mamba's activation, too
        {"model_type": "bamba", "hidden_act": "gelu"},
        {"model_type": "jamba", "hidden_act": "gelu"},
        {"model_type": "nemotron_h", "mamba_hidden_act": "gelu"},
        {"model_type": "hy_v4", "hidden_act": "gelu"},  # of dense layers; experts' is SiLU
    ],
    ids=lambda config: config["model_type"],
)
def test_activations_of_some_layers_alone_are_refused(config: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="hidden_act") as caught:
        read(config)
    assert caught.value.kind == "unsupported"


def test_what_xlstms_class_cannot_run_is_refused() -> None:
    with pytest.raises(InputError, match="contradicts embedding_dim = 64"):
        read({"model_type": "xlstm", "embedding_dim": 64})
    with pytest.raises(InputError, match="3 heads do not divide"):
        read({"model_type": "xlstm", "num_heads": 3})


COHERE2_MOE = {"model_type": "cohere2_moe", **SMALL, "num_experts": 6, "num_experts_per_tok": 2}
LFM3 = {"model_type": "lfm3", **SMALL, "attention_bias": True, "intermediate_size": 128}


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({**COHERE2_MOE, "num_shared_experts": 1, "mlp_layer_types": ["dense"] * 3 + ["sparse"]}, 240_384),
        (LFM3, 168_864),
        ({"model_type": "falcon_mamba", "vocab_size": 97, "hidden_size": 64, "num_hidden_layers": 4,
          "use_falcon_mambapy": True}, 137_088),
        ({"model_type": "granite_swa", **SMALL, "layer_rope_theta": [1e4] * 4, "rope_theta": 1e4}, 129_680),
    ],
    ids=lambda value: value["model_type"] if isinstance(value, dict) else None,
)  # fmt: skip
def test_what_was_refused_though_the_class_runs_it(config: dict[str, Any], expected: int) -> None:
    assert total(config) == expected


def test_indexers_of_layers_that_are_not_there_do_not_matter() -> None:
    config = {"model_type": "minimax_m3_vl_text", "layer_types": ["full_attention"] * 60, "index_head_dim": 64}
    assert all(m.index is None for m in arch(config).mixers() if isinstance(m, Attention))


def test_gpt2s_scores_have_the_factor_that_its_config_says() -> None:
    """GPT2Attention.forward; by the layer's number in Mistral's GPT-2 (stanford-crfm)."""
    config = {"model_type": "gpt2", "n_embd": 64, "n_head": 4, "n_layer": 3}
    plain = arch(config)

    def factors(**changed: bool) -> list[float]:
        found = arch({**config, **changed})
        assert params(found).total == params(plain).total
        return [m.score_scale for block in found.blocks() for m in sublayers(block) if isinstance(m, Attention)]

    assert factors(scale_attn_weights=False) == [1, 1, 1]
    assert factors(scale_attn_by_inverse_layer_idx=True, reorder_and_upcast_attn=True) == [1 / 4, 1 / 8, 1 / 12]
    both = factors(scale_attn_by_inverse_layer_idx=True, scale_attn_weights=False)
    assert both == [1, 1 / 2, 1 / 3]


def test_roformers_table_of_sines_is_named() -> None:
    assert any("sines" in note for note in read({"model_type": "roformer"}).notes)


@pytest.mark.parametrize("model_type", ["olmo3", "gemma3_text"])
def test_a_scaling_added_to_what_the_class_saved_is_the_full_layers(model_type: str) -> None:
    """Their classes lay rope_scaling over the full layers' rope_parameters; the others' stand, whatever rope_theta is.
    Logits of transformers 5.24 agree."""
    kinds = {
        "sliding_attention": {"rope_type": "default", "rope_theta": 500_000.0},
        "full_attention": {"rope_type": "default", "rope_theta": 20_000.0},
    }
    fields = {"rope_parameters": kinds, "rope_scaling": {"rope_type": "linear", "factor": 4.0}, "sliding_window": 8}
    layers = {"layer_types": ["sliding_attention", "full_attention"], "rope_theta": 10_000.0}
    model = arch({"model_type": model_type, **SMALL, "num_hidden_layers": 2, **fields, **layers})
    parts = [part for block in model.blocks() for part in sublayers(block) if isinstance(part, Attention)]
    found = {part.window: (part.rope.theta, part.rope.scaling) for part in parts if part.rope is not None}
    assert {window: theta for window, (theta, _) in found.items()} == {8: 500_000, None: 20_000}
    assert found[8][1] is None
    assert found[None][1] is not None


def test_a_share_inside_a_flat_scaling_says_nothing_of_olmo_3_s_windows() -> None:
    """Nor does a flat rope_theta: they turn by the class's 500,000. Logits of transformers 5.24 agree."""
    scaling = {"rope_type": "proportional", "partial_rotary_factor": 0.5}
    whole = read({"model_type": "olmo3", **SMALL, "rope_theta": 10_000.0, "rope_scaling": scaling}).whole
    assert (whole["local"]["rope"]["theta"], whole["local"]["rope"].get("fraction")) == (500_000, None)
    assert (whole["rope"]["theta"], whole["rope"]["fraction"]) == (10_000, 0.5)


def test_a_flat_partial_rotary_factor_is_none_of_gpt_neox() -> None:
    """Its class takes rotary_pct, 0.25 where it isn't said; logits of transformers 5.24 agree."""
    found = read({"model_type": "gpt_neox", **SMALL, "partial_rotary_factor": 1.0})
    assert any("partial_rotary_factor = 1.0 is ignored" in note for note in found.notes)
    assert found.whole["rope"]["fraction"] == 0.25


@pytest.mark.parametrize(("bias", "expected"), [(False, 136_776), (True, 137_552)])
def test_biases_of_doge_s_attention_are_its_mask_s_too(bias: bool, expected: int) -> None:
    """Of DogeForCausalLM; the bias is 64 + 2 · 32 + 64 of the projections and 2 of dt_proj, in each of 4 layers."""
    config = {
        "model_type": "doge", "vocab_size": 97, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4,
        "num_attention_heads": 4, "num_key_value_heads": 2, "attention_bias": bias, "tie_word_embeddings": False,
    }  # fmt: skip
    assert total(config) == expected


def test_keys_are_as_wide_as_their_parts() -> None:
    """LongCat's class makes queries of qk_head_dim channels and splits them in two of other sizes: that can't run."""
    config = {"model_type": "longcat_flash", "qk_nope_head_dim": 24, "qk_rope_head_dim": 8}
    assert read({**config, "qk_head_dim": 32}).whole["mla"]["d_nope"] == 24
    with pytest.raises(InputError, match="qk_head_dim = 16 is not qk_nope_head_dim"):
        read({**config, "qk_head_dim": 16})


@pytest.mark.parametrize(("gated", "expected"), [({}, 3), ({"is_gated_act": True}, 3), ({"is_gated_act": None}, 2)])
def test_a_gate_that_is_null_is_none(gated: dict[str, Any], expected: int) -> None:
    """What T5's class writes beside the word outweighs it, null too: two matrices of d · d_ff in each layer."""
    sizes = {"vocab_size": 97, "d_model": 64, "d_ff": 1024, "num_layers": 8, "num_decoder_layers": 4, "num_heads": 4}
    found = params(arch({"model_type": "umt5", **sizes, "feed_forward_proj": "gated-gelu", **gated}))
    assert found.components["mlp"] == 12 * expected * 64 * 1024


def test_another_norm_of_dbrx_s_weights_is_refused() -> None:
    """Its class divides them by their p-norm, and p is 1 in all published files."""
    with pytest.raises(InputError, match="moe_normalize_expert_weights: only 1"):
        read({"model_type": "dbrx", "ffn_config": {"moe_normalize_expert_weights": 0.5}})
    for value, normalizes in ((1, True), (1.0, True), (None, False)):
        found = read({"model_type": "dbrx", "ffn_config": {"moe_normalize_expert_weights": value}})
        assert found.whole["moe"]["normalize"] is normalizes
