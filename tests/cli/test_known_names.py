"""Names that people bring from the hub, from engines and from config.json files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Command


@pytest.mark.parametrize(
    "name",
    [
        "Qwen3-8B", "qwen/qwen3-8b", "Qwen/Qwen3-8B", "https://huggingface.co/Qwen/Qwen3-8B", "hf.co/Qwen/Qwen3-8B",
        "huggingface.co/Qwen/Qwen3-8B/tree/main", "https://huggingface.co/qwen/qwen3-8b/blob/main/config.json",
        "https://huggingface.co/Qwen/Qwen3-8B?library=transformers",
    ],
)  # fmt: skip
def test_names_of_a_preset(name: str, gptcalc: Command) -> None:
    assert gptcalc("params", name, "--get", "total,model").out == "8190735360\nqwen3-8b\n"


@pytest.mark.parametrize(
    ("name", "preset"), [("bert-base-uncased", "bert-base"), ("Meta-Llama-3-8B", "llama-3-8b"), ("t5-base", "t5-base")]
)
def test_a_repository_without_its_owner(name: str, preset: str, gptcalc: Command) -> None:
    assert gptcalc("params", name, "--get", "model").out == f"{preset}\n"


def test_a_repository_of_several_presets_is_none_of_them(
    gptcalc: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two"):
        own = (
            f"name: {name}\nsource: mine\naliases: [{name}/same]\nd: 8\nv: 8\nc: 8\nn_heads: 1\nn_layers: 1\nd_ff: 8\n"
        )
        (tmp_path / f"{name}.yaml").write_text(own, encoding="utf-8")
    monkeypatch.setenv("GPTCALC_PRESETS", str(tmp_path))
    assert gptcalc("params", "one/same", "--get", "model").out == "one\n"
    found = gptcalc("params", "same")
    assert (found.status, found.out) == (2, "")
    assert "no preset 'same'" in found.err


@pytest.mark.parametrize(
    ("known", "ours"),
    [
        ("--tensor-parallel-size", "--tp"), ("--pipeline-parallel-size", "--pp"), ("--data-parallel-size", "--dp"),
        ("--max-model-len", "--context"), ("--ctx-size", "--context"), ("--batch-size", "--batch"),
    ],
)  # fmt: skip
def test_options_of_engines(known: str, ours: str, gptcalc: Command) -> None:
    """vLLM's and llama.cpp's spellings mean ours."""
    told = gptcalc("memory", "gpt2", ours, "2", "--json").out
    assert gptcalc("memory", "gpt2", known, "2", "--json").out == told != gptcalc("memory", "gpt2", "--json").out


def test_quantization_is_the_type_of_the_weights(gptcalc: Command) -> None:
    told = gptcalc("memory", "gpt2", "--dtype", "awq", "--json").out
    assert gptcalc("memory", "gpt2", "--quantization", "awq", "--json").out == told
    assert gptcalc("memory", "gpt2", "--quantization", "awq", "--json").json["dtype"] == "awq"


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("hidden_size=1024", "d=1024"), ("num_attention_heads=16", "n_heads=16"),
        ("num_key_value_heads=4", "n_kv_heads=4"),
        ("intermediate_size=8192", "d_ff=8192"), ("ffn_dim=8192", "d_ff=8192"), ("n_inner=8192", "d_ff=8192"),
        ("max_position_embeddings=128K", "c=131072"), ("n_ctx=2k", "c=2000"), ("rope_theta=1e6", "rope.theta=1000000"),
        ("rms_norm_eps=1e-6", "norm.eps=1e-6"), ("num_hidden_layers=2", "n_layers=2"), ("vocab_size=32K", "v=32768"),
    ],
)  # fmt: skip
def test_keys_of_a_config_in_set(theirs: str, ours: str, gptcalc: Command) -> None:
    assert gptcalc("show", "llama-3-8b", "--set", theirs).out == gptcalc("show", "llama-3-8b", "--set", ours).out != ""


SPELLINGS = """
hf://Qwen/Qwen3-8B
hf://Qwen/Qwen3-8B/
hf://models/Qwen/Qwen3-8B
hf://Qwen/Qwen3-8B@main
Qwen/Qwen3-8B/
https://huggingface.co/Qwen/Qwen3-8B/
"""


@pytest.mark.parametrize("reference", SPELLINGS.split())
def test_a_hub_id_in_any_spelling(reference: str, gptcalc: Command) -> None:
    assert gptcalc("params", reference, "--get", "total").out == gptcalc("params", "qwen3-8b", "--get", "total").out
