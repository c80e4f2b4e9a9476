"""Which class a config.json is for, and what becomes of fields that this class doesn't read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gptcalc import load, params
from gptcalc.errors import InputError
from gptcalc.sources.huggingface import read
from gptcalc.sources.huggingface.classes import class_of
from gptcalc.sources.huggingface.unread import Ignored
from tests.conftest import Command

#: 4 layers of 64 channels; transformers 5.24 counts 135,872 parameters
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
LLAMA = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], **SMALL}


def ignored(config: dict[str, Any]) -> list[str]:
    return [name for note in read(config).notes if isinstance(note, Ignored) for name in note.names]


def refusal(config: dict[str, Any]) -> InputError:
    with pytest.raises(InputError) as caught:
        read(config)
    return caught.value


# --- the type's own class ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("field", ["foo_gate", "num_experts", "kv_channels_x", "attention_chunk_size", "use_mrope"])
@pytest.mark.parametrize("custom", [{}, {"auto_map": {"AutoModelForCausalLM": "modeling_x.LlamaForCausalLM"}}])
def test_what_the_class_does_not_read_is_ignored_and_named(field: str, custom: dict[str, Any]) -> None:
    config = {**LLAMA, **custom, field: 3}
    assert ignored(config) == [field]
    assert read(config).document == read(LLAMA).document


@pytest.mark.parametrize("value", [None, False, 0, [], {}])
def test_values_that_switch_nothing_on_are_not_named(value: Any) -> None:
    assert ignored({**LLAMA, "num_experts": value}) == []


def test_the_default_of_the_class_says_nothing() -> None:
    qwen = {"model_type": "qwen3_moe", "num_local_experts": 8}
    assert class_of("qwen3_moe") is not None
    assert read({**qwen, "router_aux_loss_coef": 0.001}).document == read(qwen).document


@pytest.mark.parametrize(
    ("model_type", "field"),
    [
        ("mistral", "attention_bias"), ("phi3", "mlp_bias"), ("exaone4", "attention_bias"), ("cwm", "attention_bias"),
        ("mixtral", "attention_bias"), ("ministral", "mlp_bias"), ("gpt_neox", "num_key_value_heads"),
        ("gpt_neox", "head_dim"), ("persimmon", "num_key_value_heads"), ("deepseek_v3", "first_k_dense"),
    ],
)  # fmt: skip
def test_fields_that_a_class_does_not_have_are_not_counted(model_type: str, field: str) -> None:
    config = {"model_type": model_type}
    value = 2 if "bias" not in field else True
    assert read({**config, field: value}).document == read(config).document
    assert ignored({**config, field: value}) == [field]


def test_other_names_of_a_field_are_the_classes() -> None:
    """attribute_map of transformers 5.24: sarvam's num_shared_experts, glm4_moe_lite's head_dim."""
    assert "n_shared" not in json.dumps(read({"model_type": "sarvam_moe", "num_shared_experts": 0}).document["moe"])
    small = read({"model_type": "glm4_moe_lite", "head_dim": 32}).document["mla"]
    assert small["d_rope"] == 32


def test_a_size_said_again_must_agree() -> None:
    assert ignored({**LLAMA, "n_layers": 4}) == ["n_layers"]
    assert refusal({**LLAMA, "n_layers": 5}).message == "n_layers = 5 contradicts num_hidden_layers = 4"
    # Llama 3's own file with a model_type: transformers' class sees none of it, and would take keys for all 32 heads
    meta = {"model_type": "llama", "dim": 4096, "n_layers": 32, "n_heads": 32, "n_kv_heads": 8, "vocab_size": 128256}
    assert refusal(meta).message.startswith("n_kv_heads = 8 is not what the class reads: without num_key_value_heads")
    assert refusal({"model_type": "llama", "dim": 2048}).message.endswith("without hidden_size it takes 4096")


def test_a_slip_of_the_pen_is_not_ignored() -> None:
    config = {key: value for key, value in LLAMA.items() if key != "num_hidden_layers"}
    assert refusal({**config, "num_hiden_layers": 80}).hint == "did you mean num_hidden_layers?"


def test_without_a_class_all_unknown_fields_are_named_at_once() -> None:
    error = refusal({"model_type": "internlm2", **SMALL, "foo": 1, "bar": 2})
    assert error.message.startswith("fields 'foo', 'bar' of model_type 'internlm2' are not understood")


def test_a_field_that_the_class_reads_and_the_reader_does_not_is_refused() -> None:
    """Sizes of single layers, which every config class of transformers 5 may have."""
    error = refusal({**LLAMA, "rope_parameters": {"rope_type": "spiral"}})
    assert "spiral" in error.message


# --- another class ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "concept"),
    [
        ({"architectures": ["LlamaForCausalLMEagle"]}, "layers that read hidden states of another model"),
        (
            {"architectures": ["DFlashSpeculator"]},
            "a class other than DFlashDraftModel, DSparkDraftModel and DominoDraftModel (DFlash)",
        ),
        ({"architectures": ["PEagleDraftModel"]}, "(P-EAGLE)"),
        ({"architectures": ["LlamaForCausalLMMedusa"]}, "heads for further tokens"),
        ({"draft_vocab_size": 32000}, "(EAGLE-3)"),
        ({"eagle_config": {"layers": [1]}}, "layers that read hidden states of another model"),
        ({"num_target_layers": 3}, "layers that read hidden states of another model"),
    ],
)
def test_draft_models_are_never_counted_as_another(changes: dict[str, Any], concept: str) -> None:
    error = refusal({**LLAMA, **changes})
    assert "a draft model, not the class that model_type 'llama' names" in error.message
    assert concept in (error.hint or "")


def test_a_draft_vocabulary_of_null_is_none() -> None:
    assert read({**LLAMA, "draft_vocab_size": None}).document == read(LLAMA).document


def test_a_class_of_another_type_contradicts() -> None:
    message = refusal({**LLAMA, "model_type": "mixtral"}).message
    assert message == "model_type 'mixtral' contradicts architectures LlamaForCausalLM, a class of llama"


def test_an_unknown_class_may_not_say_more_than_the_one_assumed() -> None:
    config = {**LLAMA, "architectures": ["SteelForCausalLM"]}
    assert any("SteelForCausalLM" in note and "LlamaForCausalLM" in note for note in read(config).notes)
    assert ignored({**config, "mlp_type": "senet"}) == ["mlp_type"]
    error = refusal({**config, "num_local_experts": 8})
    assert "SteelForCausalLM" in error.message
    assert "num_local_experts = 8" in error.message
    assert read({**config, "num_local_experts": 0}).document == read(LLAMA).document


# --- by hand ----------------------------------------------------------------------------------------------------------


def test_strict_refuses_and_ignore_accepts(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**LLAMA, "num_experts": 3, "foo": 1}))
    assert params(load(str(path))).total == 135_872
    with pytest.raises(InputError, match="fields 'num_experts', 'foo' of model_type 'llama' are ignored by its class"):
        load(str(path), strict=True)
    assert params(load(str(path), strict=True, ignore=["foo", "num_experts"])).total == 135_872
    path.write_text(json.dumps({"model_type": "internlm2", **SMALL, "foo": 1}))
    with pytest.raises(InputError, match="'foo'"):
        load(str(path))
    assert load(str(path), ignore=["foo"]).architecture.d == 64


def test_the_command_line_says_what_was_ignored(tmp_path: Path, gptcalc: Command) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**LLAMA, "num_experts": 3}))
    for command in ("params", "kv", "flops", "memory"):
        done = gptcalc(command, str(path), "--json")
        assert done.json["ignored"] == ["num_experts"]
        assert "num_experts = 3" in done.err
    assert gptcalc("params", str(path), "--get", "ignored.0").out == "num_experts\n"
    refused = gptcalc("kv", str(path), "--strict")
    assert (refused.status, refused.out, len(refused.lines)) == (2, "", 1)
    assert gptcalc("kv", str(path), "--strict", "--ignore", "num_experts").status == 0
