"""Memory of training: bytes a parameter as published, and what must hold however a model is trained and split."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Literal

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gptcalc.analysis.flops import flops
from gptcalc.analysis.memory.optimizer import OPTIMIZERS, named
from gptcalc.analysis.memory.result import PARTS
from gptcalc.analysis.memory.training import Training, training
from gptcalc.analysis.memory.zero import Parameter, Plan, host_planned, states
from gptcalc.analysis.params import params
from gptcalc.architecture import Architecture
from gptcalc.conventions import Offload, TrainingRun, ZeroStage
from gptcalc.document import build
from gptcalc.errors import InputError
from tests.strategies import documents

ADAM = named("adam")
GPT2: dict[str, Any] = {
    "d": 768, "v": 50257, "c": 1024, "n_heads": 12, "n_layers": 12, "tying": True, "position": "learned",
    "norm": "layernorm", "mlp": "gelu_tanh", "bias": "all",
}  # fmt: skip
GPT2_PARAMS = 124_439_808  # Radford et al. 2019, counted in test_equations
MIXTRAL: dict[str, Any] = {
    "d": 4096, "v": 32000, "c": 32768, "n_heads": 32, "n_kv_heads": 8, "n_layers": 32, "d_ff": 14336,
    "layers": "n*attn+moe", "moe": {"n_experts": 8, "top_k": 2},
}  # fmt: skip
GIB, MIB = 2**30, 2**20


def model_of(params: int, largest: int, ranks: int) -> list[Parameter]:
    """A model of so many parameters in layers of at most `largest`, weights in 16 bits."""
    whole, rest = divmod(params, largest)
    sizes = [(largest, whole), (rest, 1)] if rest else [(largest, whole)]
    return [Parameter(f"layer{k}", f"layer{k}", (n,), times, 2 * n, ranks=ranks) for k, (n, times) in enumerate(sizes)]


def on_device(plan: Plan, params: int, largest: int, ranks: int) -> int:
    found = states(model_of(params, largest, ranks), plan)
    return found.weights + found.gradients + found.optimizer


# --- published bytes a parameter --------------------------------------------------------------------------------------


def test_megatron_counts_18_bytes_and_with_its_distributed_optimizer_6_and_12_divided() -> None:
    """TM01, NVIDIA/Megatron-LM#654: 7e9 parameters, 8 data parallel ranks. 16 is the common wrong value."""
    assert on_device(Plan(ADAM), 7 * 10**9, 10**9, 8) == 126 * 10**9
    assert on_device(Plan(ADAM, zero=1), 7 * 10**9, 10**9, 8) == 52_500_000_000


@pytest.mark.parametrize(
    ("zero", "offload", "printed"),
    [
        (2, "none", "15.93"), (2, "optimizer", "5.31"),
        (3, "none", "6.09"), (3, "optimizer", "0.78"), (3, "parameters", "0.12"),
    ],
)  # fmt: skip
def test_deepspeed_table_of_devices(zero: ZeroStage, offload: Offload, printed: str) -> None:
    """TM02, DeepSpeed docs/code-docs/source/memory.rst: 2851e6 parameters, largest layer 32e6, 8 GPUs; GB is GiB."""
    size = on_device(Plan(ADAM, zero, offload), 2_851_000_000, 32_000_000, 8)
    assert f"{size / GIB:.2f}" == printed


@pytest.mark.parametrize(
    ("zero", "offload", "zero_init", "printed"),
    [
        (2, "optimizer", False, "127.45"), (2, "none", False, "127.45"),
        (3, "parameters", True, "71.69"), (3, "parameters", False, "127.45"),
        (3, "optimizer", True, "63.72"), (3, "optimizer", False, "127.45"),
        (3, "none", True, "1.43"), (3, "none", False, "127.45"),
    ],
)  # fmt: skip
def test_deepspeed_table_of_the_host(zero: ZeroStage, offload: Offload, zero_init: bool, printed: str) -> None:
    """TM02, the column per CPU."""
    offloaded = 8 * states(model_of(2_851_000_000, 32_000_000, 8), Plan(ADAM, zero, offload)).host
    if zero == 2 and offload == "optimizer":
        assert offloaded == 16 * 2_851_000_000
    planned = host_planned(offloaded, 2_851_000_000, 32_000_000, 8, zero_init)
    assert f"{planned / GIB:.2f}" == printed


@pytest.mark.parametrize(("offload", "mib"), [("none", 3291), ("parameters", 125), ("optimizer", 477)])
def test_deepspeed_worked_example(offload: Offload, mib: int) -> None:
    """TM03, the same page: t5-large, 737.67M parameters, largest layer 32.90M, 4 GPUs."""
    assert on_device(Plan(ADAM, 3, offload), 737_670_000, 32_900_000, 4) // MIB == mib


@pytest.mark.parametrize(("zero", "gigabytes"), [(0, 120), (1, 31.4), (2, 16.6), (3, 1.9)])
def test_zero_paper(zero: ZeroStage, gigabytes: float) -> None:
    """arXiv:1910.02054, figure 1: 7.5e9 parameters, 64 ranks, gradients in 16 bits; the largest layer left out."""
    found = states(model_of(7_500_000_000, 10**7, 64), Plan(ADAM, zero, gradients="bf16"))
    size = found.weights + found.gradients + found.optimizer - found.gathered_weights - found.gathered_gradients
    assert round(size / 10**9, 1) == gigabytes


@pytest.mark.parametrize(
    ("optimizer", "dtype", "weights", "gradients", "states"),
    [
        ("adam", "bf16", 2, 4, 12),
        ("adam", "fp16", 2, 4, 12),
        ("adam", "fp32", 4, 4, 8),  # nothing is wider than the weights
        ("adam-bf16", "bf16", 2, 2, 4),
        ("sgd", "bf16", 2, 4, 4),
        ("sgd-momentum", "bf16", 2, 4, 8),
        ("sgd", "fp32", 4, 4, 0),
    ],
)
def test_bytes_a_parameter(optimizer: str, dtype: str, weights: int, gradients: int, states: int) -> None:
    """transformers' guide to model memory: 6 of weights with the fp32 copy, 8 of Adam, 4 of momentum or gradients."""
    found = training(build(GPT2), optimizer=optimizer, dtype=dtype, context=8).per_device
    assert found.weights == weights * GPT2_PARAMS
    assert found.gradients == gradients * GPT2_PARAMS
    assert found.optimizer == states * GPT2_PARAMS


def test_gradients_in_16_bits_make_it_16_bytes() -> None:
    found = training(build(GPT2), gradients="bf16", context=8)
    assert found.per_device.gradients == 2 * GPT2_PARAMS
    assert found.per_device.total - found.per_device.activations == 16 * GPT2_PARAMS
    assert found.gradients == "bf16"


def test_adafactor_keeps_rows_and_columns() -> None:
    """GPT-2: c and d, v and d of the tables; d + d four times, d + 4d twice in a layer; vectors whole; fp32."""
    d, v, c, n = 768, 50257, 1024, 12
    matrices = (v + d) + (c + d) + n * (4 * 2 * d + 2 * (d + 4 * d))
    vectors = n * (4 * d + 5 * d + 4 * d) + 2 * d
    found = training(build(GPT2), optimizer="adafactor", context=8)
    assert found.pieces["optimizer.moments"] == 4 * (matrices + vectors)
    assert found.pieces["optimizer.master weights"] == 4 * GPT2_PARAMS


def test_adafactor_factors_every_expert_for_itself() -> None:
    assert OPTIMIZERS["adafactor"].state((8, 100, 7), 2) == 4 * 8 * (100 + 7)
    assert OPTIMIZERS["adafactor"].state((100,), 2) == 400


def test_adam_in_8_bits() -> None:
    """bitsandbytes: two states of a byte and an fp32 maximum for 256 of them; below 4096 elements fp32."""
    d, v, c, n = 768, 50257, 1024, 12
    matrices = [v * d, c * d] + n * ([d * d] * 4 + [4 * d * d] * 2)  # 768·50257 is not a multiple of 256
    small = n * (4 * d + 5 * d + 4 * d) + 2 * d  # biases and norms; the longest has 3072
    expected = sum(2 * (size + 4 * -(-size // 256)) for size in matrices) + 8 * small
    assert training(build(GPT2), optimizer="adam-8bit", context=8).pieces["optimizer.moments"] == expected


@pytest.mark.parametrize(("spelled", "name"), [("adamw", "adam"), ("AdamW_8bit", "adam-8bit"), ("SGD", "sgd")])
def test_other_spellings_of_optimizers(spelled: str, name: str) -> None:
    assert named(spelled).name == name


def test_chinchilla_prints_which_formula_it_used() -> None:
    """FL09: 6ND of 70e9 and 1.4e12 is 5.88e23, the paper's budget 5.76e23, its own count another. Each has its name."""
    assert 6 * 70 * 10**9 * 14 * 10**11 == 588 * 10**21
    chinchilla = build(
        {"d": 8192, "v": 32000, "c": 2048, "n_heads": 64, "n_layers": 80, "mlp": "gelu", "position": "none"}
    )  # Hoffmann et al. 2022, table 4, without relative positions
    found = flops(chinchilla, batch=14 * 10**11 // 2048, context=2048, phase="train")
    assert found.approx_6nd is not None
    assert abs(found.approx_6nd / 5.88e23 - 1) < 0.10
    assert found.total > found.approx_6nd
    assert found.convention.startswith("3 × the forward pass")


# --- what it is made of -----------------------------------------------------------------------------------------------


def test_a_device_is_the_sum_of_its_parts() -> None:
    found = training(build(GPT2), context=1024, optimizer="adam", overhead=GIB)
    assert found.per_device.kv == 0
    assert found.per_device.overhead == GIB
    assert found.per_device.total == sum(getattr(found.per_device, part) for part in PARTS)
    assert found.params == found.trainable == GPT2_PARAMS == params(build(GPT2)).total
    for part in ("weights", "gradients", "optimizer", "activations"):
        pieces = [size for name, size in found.pieces.items() if name.startswith(f"{part}.")]
        assert sum(pieces) == getattr(found.per_device, part)
    named = {line.partition(":")[0] for line in (*found.exact, *found.estimated)}
    assert named == {"weights", "gradients", "optimizer", "activations", "overhead"}


def test_largest_layer_is_a_matrix_with_its_bias() -> None:
    """GPT-2's is the token table; a model with few tokens has its widest matrix, whose bias is gathered with it."""
    table = training(build(GPT2), zero=3, dp=2, context=8)
    assert table.pieces["weights.largest layer"] == table.pieces["gradients.largest layer"] == 2 * 50257 * 768
    matrix = training(build({**GPT2, "v": 100}), zero=3, dp=2, context=8)
    assert matrix.pieces["weights.largest layer"] == 2 * (768 * 3072 + 3072)


def test_experts_are_divided_among_those_that_hold_the_same() -> None:
    """Mixtral, ep 4 of dp 8, stage 1: 12 bytes of two of eight experts over 2 ranks, of the rest over 8."""
    model = build(MIXTRAL)
    experts = 32 * 8 * 3 * 4096 * 14336
    rest = 46_702_792_704 - experts  # Mixtral 8x7B's published total
    found = training(model, zero=1, dp=8, ep=4, context=8)
    assert found.per_device.weights == 2 * (experts // 4 + rest)
    assert found.per_device.optimizer == 12 * experts // 4 // 2 + 12 * rest // 8


def test_stages_of_a_pipeline_have_their_own_parameters() -> None:
    """GPT-2 on 2: six layers each, both ends the tied table, the last the final norm."""
    layer = 12 * 768 * 768 + 13 * 768
    found = training(build(GPT2), pp=2, context=8)
    assert found.sums.weights == 2 * (GPT2_PARAMS + 50257 * 768)
    assert found.per_device.weights == 2 * (6 * layer + (50257 + 1024) * 768)
    assert {row.part: row.bytes for row in found.replicated}["weights"] == 2 * 50257 * 768


def test_offloaded_is_in_the_host() -> None:
    found = training(build(GPT2), offload="optimizer", context=8, zero=2, dp=4)
    assert found.per_device.gradients == found.per_device.optimizer == 0
    assert found.host == 16 * GPT2_PARAMS
    assert found.host_planned == 24 * GPT2_PARAMS  # half as much again; more than 4 · 4 · 1.5 to build the model
    kept = training(build(GPT2), offload="optimizer", context=8)
    assert kept.per_device.gradients == 4 * GPT2_PARAMS
    assert kept.host == 12 * GPT2_PARAMS


def test_one_rank_has_nothing_to_divide() -> None:
    plain, *others = (training(build(GPT2), zero=zero, context=8) for zero in (0, 1, 2, 3))
    assert all(other.per_device == plain.per_device for other in others)
    assert any("nothing is divided" in note for note in others[0].notes)


@pytest.mark.parametrize(
    ("how", "problem"),
    [
        ({"optimizer": "adm"}, "unknown optimizer 'adm'"),
        ({"dtype": "nf4"}, "--dtype nf4: weights are trained in bf16, fp16 or fp32"),
        ({"dtype": "q4_k_m"}, "--dtype q4_k_m: weights are trained"),
        ({"dtype": "q4_k_m", "lora": "8:all"}, "--dtype q4_k_m: GGUF types"),
        ({"offload": "parameters", "zero": 2}, "--offload parameters: only stage 3"),
        ({"batch": 7, "micro_batch": 4, "dp": 2}, "--micro-batch 4 on 2 data parallel ranks"),
    ],
)
def test_wrong_use_is_refused(how: dict[str, Any], problem: str) -> None:
    with pytest.raises(InputError) as caught:
        training(build(GPT2), context=8, **how)
    assert problem in caught.value.message
    assert caught.value.hint


# --- of any model -----------------------------------------------------------------------------------------------------


def architectures() -> st.SearchStrategy[Architecture]:
    return st.tuples(documents(), st.booleans()).map(lambda drawn: build({**drawn[0], "dropout": drawn[1]}))


LAYOUTS: st.SearchStrategy[dict[str, Any]] = st.builds(
    dict, tp=st.sampled_from([1, 1, 2, 4]), pp=st.integers(1, 3), ep=st.sampled_from([1, 1, 2]),
    dp=st.sampled_from([None, 1, 2, 3]),
)  # fmt: skip
WAYS: st.SearchStrategy[dict[str, Any]] = st.builds(
    dict, dtype=st.sampled_from(["bf16", "fp32"]), optimizer=st.sampled_from(list(OPTIMIZERS)),
    zero=st.integers(0, 3), recompute=st.sampled_from(["none", "selective", "full"]),
    attention=st.sampled_from(["flash", "eager"]), sequence_parallel=st.booleans(),
    gradients=st.sampled_from([None, "bf16", "fp32"]), micro_batch=st.sampled_from([None, 1, 2]),
    lora=st.sampled_from([None, None, "3:all"]), offload=st.sampled_from(["none", "none", "optimizer"]),
)  # fmt: skip


def trained(model: Architecture, ways: dict[str, Any], **how: Any) -> Training:
    """A run that this model takes."""
    try:
        run = Training(model, TrainingRun(**ways, **how))
        run.needed(None, 4)
    except InputError:
        assume(False)
        raise AssertionError from None
    return run


@settings(max_examples=60, deadline=None)
@given(architectures(), LAYOUTS, WAYS, st.sampled_from([None, 12, 30]), st.integers(1, 60))
def test_sum_is_the_whole_and_what_is_replicated(
    model: Architecture, ways: dict[str, Any], how: dict[str, Any], batch: int | None, context: int
) -> None:
    run = trained(model, ways, **how)
    found = run.memory(batch, context)
    whole = run.whole(batch, context)
    extra = dict.fromkeys(PARTS, 0)
    for row in found.replicated:
        assert row.bytes > 0
        extra[row.part] += row.bytes
    for part in PARTS:
        assert getattr(found.sums, part) == getattr(whole, part) + extra[part], part
    assert found.total == found.sums.total
    assert found.per_device.total <= found.total <= found.per_device.total * found.devices


@settings(max_examples=60, deadline=None)
@given(architectures(), LAYOUTS, WAYS, st.integers(6, 40), st.integers(1, 60))
def test_memory_grows_with_batch_and_context(
    model: Architecture, ways: dict[str, Any], how: dict[str, Any], batch: int, context: int
) -> None:
    run = trained(model, ways, **how)
    here = run.needed(batch, context)
    assert run.needed(batch + 1, context) >= here
    assert run.needed(batch, context + 1) >= here


@settings(max_examples=60, deadline=None)
@given(architectures(), LAYOUTS, WAYS, st.integers(1, 3), st.integers(1, 60))
def test_recomputing_more_keeps_less(
    model: Architecture, ways: dict[str, Any], how: dict[str, Any], batch: int, context: int
) -> None:
    del how["recompute"]
    modes: tuple[Literal["none", "selective", "full"], ...] = ("none", "selective", "full")
    none, selective, full = (trained(model, ways, recompute=mode, **how).needed(batch, context) for mode in modes)
    assert full <= selective <= none


@settings(max_examples=60, deadline=None)
@given(architectures(), LAYOUTS, WAYS)
def test_a_higher_stage_never_holds_more(model: Architecture, ways: dict[str, Any], how: dict[str, Any]) -> None:
    """Beside the largest layer, which stage 3 has whole: in models this small that can be most of all."""
    del how["zero"]
    for number in range(ways["pp"]):
        sizes = []
        for zero in range(4):
            own = trained(model, ways, zero=zero, **how).states[number]
            gathered = own.gathered_weights + own.gathered_gradients
            sizes.append(own.weights + own.gradients + own.optimizer - gathered)
        rounding = 4 * 4  # what is divided is rounded up: states, gradients and weights, of experts and the rest
        assert all(after <= before + rounding for before, after in pairwise(sizes))


@given(st.integers(2, 64), st.sampled_from(list(OPTIMIZERS)), st.integers(1, 60))
def test_a_higher_stage_never_holds_more_in_all(ranks: int, optimizer: str, layers: int) -> None:
    """Where no layer is more than a quarter of the model."""
    parameters = model_of(layers * 4 * 10**6, 10**6, ranks)
    sizes = []
    for zero in (0, 1, 2, 3):
        found = states(parameters, Plan(named(optimizer), zero))
        sizes.append(found.weights + found.gradients + found.optimizer)
    assert sizes == sorted(sizes, reverse=True)


@settings(max_examples=40, deadline=None)
@given(architectures(), st.sampled_from(list(OPTIMIZERS)))
def test_what_is_trained_is_every_parameter_once(model: Architecture, optimizer: str) -> None:
    found = training(model, optimizer=optimizer)
    assert found.trainable == found.params == params(model).total
    # a router's selection bias takes 32 bits: two bytes more a choice
    rows = [row for group in params(model).groups for row in group.tensors for _ in range(group.layers)]
    wide = sum(row.params for row in rows if row.name.endswith("selection_bias"))
    assert found.per_device.weights == 2 * params(model).total + 2 * wide
