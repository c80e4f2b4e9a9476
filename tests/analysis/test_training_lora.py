"""Low-rank adapters: trainable parameters as PEFT printed them, and what frozen weights save."""

from __future__ import annotations

import json
from math import prod
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gptcalc.analysis.memory import lora
from gptcalc.analysis.memory.training import training
from gptcalc.analysis.params import params
from gptcalc.document import build
from gptcalc.errors import InputError
from gptcalc.sources import load
from gptcalc.sources.huggingface import read
from gptcalc.sources.huggingface.published import GGML, LORA
from tests.strategies import documents

DATA = Path(__file__).parents[1] / "data"

LLAMA_7B: dict[str, Any] = {"d": 4096, "v": 32000, "c": 2048, "n_heads": 32, "n_layers": 32, "d_ff": 11008}
LLAMA_32_3B: dict[str, Any] = {
    "d": 3072, "v": 128256, "c": 131072, "n_heads": 24, "n_kv_heads": 8, "d_head": 128, "n_layers": 28, "d_ff": 8192,
    "tying": True,
}  # fmt: skip
CHATGLM_6B: dict[str, Any] = {
    "d": 4096, "v": 130528, "c": 2048, "n_heads": 32, "n_layers": 28, "mlp": "gelu", "bias": "all",
    "norm": "layernorm", "storage": {"fused": ["qkv"], "modules": {"qkv": "query_key_value"}},
}  # fmt: skip
MIXTURE: dict[str, Any] = {
    "d": 64, "v": 100, "c": 64, "n_heads": 4, "n_kv_heads": 2, "n_layers": 3, "layers": "n*attn+moe",
    "moe": {"n_experts": 8, "top_k": 2, "d_ff": 96, "n_shared": 1},
}  # fmt: skip


def trainable(document: dict[str, Any], lora: str) -> int:
    return training(build(document), lora=lora, context=8).trainable


@pytest.mark.parametrize(
    ("document", "lora", "printed"),
    [
        (CHATGLM_6B, "8:attn.qkv", 3_670_016),  # TM06, shibing624/textgen#40: one fused matrix of 4096 × 12288
        (CHATGLM_6B, "8:query_key_value", 3_670_016),
        (CHATGLM_6B, "8:attn.q,attn.k,attn.v", 5_505_024),  # the common wrong value: three of 4096 × 4096
        (LLAMA_7B, "8", 4_194_304),  # ymcui/Chinese-LLaMA-Alpaca#189: q_proj and v_proj
        (LLAMA_7B, "8:q_proj,v_proj", 4_194_304),
        (LLAMA_32_3B, "8:k_proj,q_proj", 2_293_760),  # meta-llama/llama-cookbook#814
        # ChenDelong1999/polite-flamingo#3, rank 64: 262,144 each side of 4096, 704,512 of 11008, in 32 layers
        (LLAMA_7B, "64:all", 32 * (4 * 2 * 262_144 + 3 * (262_144 + 704_512))),
    ],
)
def test_trainable_parameters_as_printed(document: dict[str, Any], lora: str, printed: int) -> None:
    assert trainable(document, lora) == printed


def test_all_parameters_as_printed() -> None:
    """llama-cookbook#814: 3,215,043,584 with the adapters."""
    found = training(build(LLAMA_32_3B), lora="8:q_proj,k_proj", context=8)
    assert found.params + found.trainable == 3_215_043_584


def test_every_expert_has_its_adapter_and_the_router_none() -> None:
    d, f, e, r = 64, 96, 8, 4
    attention = 2 * r * (d + d) + 2 * r * (d + d // 2)
    assert trainable(MIXTURE, "4:every") == 3 * (attention + (e + 1) * 3 * r * (d + f))
    assert trainable(MIXTURE, "4:moe.router") == 3 * r * (d + e)
    assert trainable(MIXTURE, "4:moe.up,moe.shared.up") == 3 * (e + 1) * r * (d + f)


@pytest.mark.parametrize(
    ("preset", "lora", "printed"),
    [
        ("phi-3-mini-4k", "16:all", 25_165_824),  # queries, keys and values are one matrix, gate and up another
        ("glm-4-9b-0414", "16:all", 47_595_520),
        ("pythia-160m", "16:all", 2_359_296),
        ("qwen1.5-moe-a2.7b", "16:all", 15_925_632),  # experts are parameters with three axes, no nn.Linear
        ("gpt-oss-20b", "16:all", 7_962_624),
        ("mixtral-8x7b", "16:all", 359_665_664),  # but of these PEFT knows the old names; routers are adapted too
        ("qwen3-30b-a3b", "16:all", 996_507_648),
        ("deepseek-v2", "16:all", 3_574_464_000),  # and takes the dense layers' names for the experts'
        ("phi-2", "16", 18_350_080),
        ("pythia-160m", "16", 589_824),
        ("phi-3-mini-4k", "16:q_proj,k_proj,v_proj,o_proj", 3_145_728),  # only the last is a module
        ("opt-125m", "16:q_proj,k_proj,v_proj,o_proj", 884_736),  # all but the last, which is out_proj here
    ],
)
def test_as_peft_counts_them(preset: str, lora: str, printed: int) -> None:
    """PEFT 0.21.2 on transformers 5.24's classes, on the meta device."""
    found = training(load(preset).architecture, dtype="nf4", lora=lora, context=8)
    assert found.trainable == printed


#: types for which PEFT has default targets (utils/constants.py, August 2026)
PEFT_TYPES = frozenset({
    "t5", "mt5", "bart", "gpt2", "bloom", "blip-2", "opt", "gptj", "gpt_neox", "gpt_neo", "bert", "roberta",
    "xlm-roberta", "electra", "deberta-v2", "deberta", "layoutlm", "llama", "llama4", "chatglm", "gpt_bigcode",
    "mpt", "RefinedWebModel", "RefinedWeb", "falcon", "btlm", "codegen", "mistral", "mixtral", "stablelm", "phi",
    "gemma", "gemma2", "gemma3_text", "gemma4", "qwen2", "qwen3", "nemotron_h", "rwkv", "rwkv7",
})  # fmt: skip


def test_default_targets_are_known_where_pefts_table_has_the_type() -> None:
    for name, types in GGML.items():
        known = {t in PEFT_TYPES or t.removesuffix("_text") in PEFT_TYPES for t in types.split()}
        assert known == {name in lora.WITH_DEFAULT} or name in lora.OF_SEVERAL, name
    assert PEFT_TYPES.issuperset(LORA)


@pytest.mark.parametrize("preset", ["phi-3-mini-4k", "olmo-2-7b", "qwen3-30b-a3b", "gpt-oss-20b", "deepseek-v3"])
def test_without_targets_peft_asks_for_some(preset: str) -> None:
    """ "Please specify `target_modules` in `peft_config`" (tuners/tuners_utils.py)."""
    with pytest.raises(InputError, match="PEFT has no default targets") as caught:
        training(load(preset).architecture, lora="16", context=8)
    assert "16:all" in (caught.value.hint or "")


@pytest.mark.parametrize(("preset", "said"), [("llama-3-8b", True), ("qwen3-8b", False), ("phi-2", False)])
def test_assumed_targets_are_said(preset: str, said: bool) -> None:
    found = training(load(preset).architecture, lora="16", context=8)
    assert any("without targets" in note for note in found.notes) == said


def test_no_module_of_these_names() -> None:
    with pytest.raises(InputError, match="'o_proj' is no matrix"):
        training(load("opt-125m").architecture, lora="8:o_proj", context=8)


def test_tables_can_be_adapted() -> None:
    assert trainable(MIXTURE, "4:embedding.token,head.weight") == 2 * 4 * (100 + 64)


def test_second_sublayer_of_a_kind_is_adapted_alike() -> None:
    twice = {**MIXTURE, "layers": "n*attn+moe+attn+moe"}
    assert trainable(twice, "4:attn.q") == 3 * 2 * 4 * (64 + 64)
    assert trainable(twice, "4:attn2.q") == 3 * 4 * (64 + 64)


def test_adapters_are_trained_in_fp32_beside_frozen_weights() -> None:
    """PEFT casts them: 4 + 4 + 8 bytes with Adam, 2 of each frozen weight."""
    found = training(build(LLAMA_7B), lora="8", context=8)
    adapters = 4_194_304
    assert found.per_device.weights == 2 * 6_738_415_616 + 4 * adapters
    assert found.per_device.gradients == 4 * adapters
    assert found.per_device.optimizer == 8 * adapters
    assert found.lora == "8:attn.q,attn.v"


def test_qlora() -> None:
    """nf4 of every matrix of the layers: half a byte, an fp32 maximum for 64, a table; the rest stays 16 bits wide."""
    layer = [(4096, 4096)] * 4 + [(4096, 11008)] * 3
    matrices = sum(n * m for n, m in layer)
    packed = sum(n * m // 2 + 4 * (n * m // 64) + 64 for n, m in layer)
    rest = 6_738_415_616 - 32 * matrices
    found = training(build(LLAMA_7B), dtype="nf4", lora="64:all", context=8)
    adapters = 32 * sum(64 * (n + m) for n, m in layer)
    assert found.per_device.weights == 32 * packed + 2 * rest + 4 * adapters
    assert found.per_device.gradients == 4 * adapters == 4 * found.trainable
    assert found.dtype == "nf4"


def test_adapters_keep_what_is_between_their_matrices() -> None:
    """Rank numbers a token of 16 bits, of an expert's adapter for each of the top_k."""
    plain = training(build(MIXTURE), context=10, micro_batch=2).per_device.activations

    def more(lora: str) -> int:
        return training(build(MIXTURE), context=10, micro_batch=2, lora=lora).per_device.activations - plain

    assert more("4:attn.q,attn.v") == 20 * 3 * 2 * 4 * 2
    assert more("4:attn.q+attn.k+attn.v") == 20 * 3 * 4 * 2
    assert more("4:moe.up") == 20 * 3 * 2 * 4 * 2
    assert any("upper bound" in line for line in training(build(MIXTURE), lora="4").estimated)


def test_split_adapters() -> None:
    """Of a column-split matrix the second half is split, of a row-split one the first."""
    found = training(build(LLAMA_7B), lora="8:attn.q,attn.out", context=8, tp=4)
    whole, split = 32 * 8 * 4096, 32 * 8 * 4096 // 4
    assert found.per_device.gradients == 4 * 2 * (whole + split)
    assert found.trainable == 4 * whole


def test_stages_divide_frozen_weights_too() -> None:
    """Stage 3 over 4 ranks: a quarter of everything, and the largest layer whole: a table; no gradient of it."""
    found = training(build(LLAMA_7B), lora="8", context=8, zero=3, dp=4)
    assert found.per_device.weights == (2 * 6_738_415_616 + 4 * 4_194_304) // 4 + 2 * 32000 * 4096
    assert found.per_device.gradients == 4_194_304 + 4 * 8 * 4096  # and one adapter's matrix


@pytest.mark.parametrize(
    ("lora", "problem"),
    [
        ("x", "'x': no rank"), ("0", "'0': no rank"), ("-8:all", "no rank"), ("8:attn.x", "'attn.x' is no matrix"),
        ("8:attn.q,mlp.up", "'mlp.up' is no matrix"), ("8:attn.q+mlp.up", "is no matrix"), ("8:", "no target"),
        ("8:attn.q+attn.out+moe.up", "differ in their inputs"), ("8:attn.norm.weight", "is no matrix"),
    ],
)  # fmt: skip
def test_wrong_targets_are_refused(lora: str, problem: str) -> None:
    with pytest.raises(InputError) as caught:
        training(build(MIXTURE), lora=lora, context=8)
    assert problem in caught.value.message


def test_default_targets_need_a_model_that_has_them() -> None:
    latent = build({**MIXTURE, "n_kv_heads": None, "layers": "n*mla+moe", "mla": {
        "q_rank": 16, "kv_rank": 16, "d_nope": 8, "d_rope": 8, "d_v": 8,
    }})  # fmt: skip
    with pytest.raises(InputError) as caught:
        training(latent, lora="8", context=8)
    assert "attn.q_a, attn.q_b" in (caught.value.hint or "")


#: the last words of the keys of matrices
MATRICES = {
    "q", "q_a", "q_b", "k", "v", "out", "gate", "kv_a", "k_rope", "k_b", "v_b", "weights", "up", "down", "latent_down",
    "latent_up", "shared_gate", "kv", "out_a", "out_b", "states", "token_sinks",
}  # fmt: skip


#: what stands beside the layers' sublayers: maps of streams before each of them and before the head (streams2., head.)
BESIDE = ("ple.", "altup.", "streams", "head.")


@settings(max_examples=40, deadline=None)
@given(documents(), st.integers(1, 5))
def test_every_is_every_matrix_of_the_layers(document: dict[str, Any], rank: int) -> None:
    """Counted off the tensors that `params` lists: two axes, with experts three."""
    model = build(document)
    rows = [row for group in params(model).groups for row in group.tensors]
    mine = [row for row in rows if row.name.split(".")[-1] in MATRICES and not row.name.startswith(BESIDE)]
    counts = (row.count * prod(row.shape[:-2]) * rank * (row.shape[-2] + row.shape[-1]) for row in mine)
    assert training(model, lora=f"{rank}:every", context=8).trainable == sum(counts)


PEFT = [json.loads(line) for line in (DATA / "peft_adapters.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("case", PEFT, ids=lambda case: f"{case['config']['model_type']}-{case['target']}")
def test_as_many_as_peft(case: dict[str, Any]) -> None:
    """37 types, with all-linear and with names of which a model may have some or none."""
    model = build(read(case["config"]).document)
    how: dict[str, Any] = {"lora": f"4:{case['target']}", "context": 8}
    if case["trainable"] is None:
        with pytest.raises(InputError, match="is no matrix of this model"):
            training(model, **how)
        return
    assert training(model, **how).trainable == case["trainable"]


@pytest.mark.parametrize(
    ("preset", "lora", "said"),
    [
        ("mamba2-130m", "16:all", "refuses all-linear"),  # _check_lora_target_modules_mamba
        ("deepseek-v3", "16:gate_proj,down_proj", "only with up_proj"),  # _convert_peft_config_moe
    ],
)
def test_what_peft_refuses(preset: str, lora: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        training(load(preset).architecture, lora=lora, context=8)
