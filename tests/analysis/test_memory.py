"""Memory of devices: parts worked out by hand, and what must hold of any model however it is split."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gptcalc.analysis.memory.account import account, memory
from gptcalc.analysis.memory.inference import Inference
from gptcalc.analysis.memory.result import PARTS, Device, Memory
from gptcalc.analysis.memory.sharding import Layout, blocks_between, layout, over, padded, stage_ranges
from gptcalc.analysis.memory.weights import total
from gptcalc.architecture import Architecture
from gptcalc.conventions import ALL, InferenceRun
from gptcalc.document import build
from gptcalc.errors import InputError
from gptcalc.sources import load
from tests.strategies import documents

LLAMA_3_70B = build({"d": 8192, "v": 128256, "c": 8192, "n_heads": 64, "n_kv_heads": 8, "n_layers": 80, "d_ff": 28672})
LLAMA_3_8B = build({"d": 4096, "v": 128256, "c": 8192, "n_heads": 32, "n_kv_heads": 8, "n_layers": 32, "d_ff": 14336})
MIXTRAL: dict[str, Any] = {
    "d": 4096, "v": 32000, "c": 32768, "n_heads": 32, "n_kv_heads": 8, "n_layers": 32, "d_ff": 14336,
    "layers": "n*attn+moe", "moe": {"n_experts": 8, "top_k": 2},
}  # fmt: skip
GIB = 2**30


def test_parts_by_hand() -> None:
    """Llama 3 8B, 3 sequences of 1000 tokens. Widest is the MLP: x, n, g and u, 2·4096 + 2·14336 numbers a token."""
    found = memory(LLAMA_3_8B, batch=3, context=1000)
    assert found.per_device == Device.holding(
        weights=2 * 8_030_261_248, kv=3 * 1000 * 131_072, activations=2 * 3000 * (2 * 4096 + 2 * 14336)
    )
    assert found.total == found.per_device.total == sum(getattr(found.per_device, part) for part in PARTS)
    assert found.pieces["activations.logits"] == 3 * 128_256 * 4


def test_an_encoder_sees_all_at_once() -> None:
    """BERT base, 64 sequences of 512 tokens, more than a piece of a prompt has. Widest is the MLP: x, n and U, 2·768 +
    3072 numbers a token of the whole batch, and no cache."""
    bert = load("bert-base").architecture
    found = memory(bert, batch=64, context=512)
    assert found.per_device.activations == 2 * 64 * 512 * (2 * 768 + 3072)
    assert (found.per_device.kv, found.passes) == (0, None)
    with pytest.raises(InputError, match="--prefill-chunk: bert-base sees all tokens at once"):
        memory(bert, batch=64, context=512, prefill_chunk=8192)


def test_decode_has_one_token_a_sequence() -> None:
    """The logits are widest now: x, whose norm took its place, in 16 bits, and 128,256 in fp32."""
    found = memory(LLAMA_3_8B, batch=3, context=1000, phase="decode")
    assert found.per_device.activations == 3 * (2 * 4096 + 4 * 128_256)
    assert found.per_device.kv == 3 * 1000 * 131_072


def test_chunk_bounds_activations() -> None:
    whole = memory(LLAMA_3_8B, context=8192, prefill_chunk=ALL).per_device.activations
    assert memory(LLAMA_3_8B, context=8192, prefill_chunk=2048).per_device.activations == whole // 4
    assert memory(LLAMA_3_8B, context=8192).per_device.activations == whole
    assert memory(LLAMA_3_8B, context=16384).per_device.activations == whole


def test_experts_activations_are_of_those_chosen() -> None:
    """TM07: top_k · d_ff, not d_ff: x, n, and 2 experts' g and u; the router's 8 numbers live on."""
    found = memory(build(MIXTRAL), context=100)
    assert found.per_device.activations == 2 * 100 * (2 * 4096 + 2 * 2 * 14336 + 8)


def test_all_logits() -> None:
    last, every = (memory(LLAMA_3_8B, context=100, logits=logits) for logits in ("last", "all"))
    assert every.pieces["activations.logits"] == 100 * last.pieces["activations.logits"] == 100 * 4 * 128_256
    assert every.per_device.activations == 100 * (2 * 4096 + 4 * 128_256)


def test_overhead_is_added_to_each_device() -> None:
    found = memory(LLAMA_3_8B, tp=2, overhead=GIB)
    assert found.per_device.overhead == GIB
    assert found.sums.overhead == 2 * GIB


def test_every_part_says_what_it_is() -> None:
    found = memory(LLAMA_3_8B)
    named = {line.partition(":")[0] for line in (*found.exact, *found.estimated)}
    assert named == {"weights", "kv", "activations", "overhead"}


# --- tensor parallel --------------------------------------------------------------------------------------------------


def test_tensor_parallel_by_hand() -> None:
    """Llama 3 70B on 8: every matrix and both tables in eighths, the 161 norms whole; one KV head each."""
    found = memory(LLAMA_3_70B, context=1000, tp=8)
    norms = 2 * 161 * 8192
    assert found.per_device.weights == (2 * 70_553_706_496 - norms) // 8 + norms
    assert found.per_device.kv == 80 * 2 * 128 * 2 * 1000
    assert found.devices == 8
    assert replicated(found, "weights") == {"norms": 7 * norms}
    assert replicated(found, "kv") == {}


def test_more_devices_than_kv_heads() -> None:
    """On 16 each KV head is on two: K, V (8192 × 1024 in 80 layers) and their cache twice."""
    found = memory(LLAMA_3_70B, context=1000, tp=16)
    assert found.per_device.kv == 80 * 2 * 128 * 2 * 1000
    assert replicated(found, "kv") == {"cache": 80 * 2 * 1024 * 2 * 1000}
    each = 2 * 80 * 8192 * 1024
    assert replicated(found, "weights") == {"norms": 15 * 2 * 161 * 8192, "attn.k": each, "attn.v": each}


def test_one_kv_head_is_on_every_device() -> None:
    model = build({"d": 64, "v": 64, "c": 64, "n_heads": 8, "n_kv_heads": 1, "n_layers": 1, "d_ff": 64})
    found = memory(model, tp=4)
    assert replicated(found, "weights").keys() == {"norms", "attn.k", "attn.v"}


def test_vllm_message_under_tensor_parallelism() -> None:
    """FT02: 48 layers of 8 KV heads at tp 8, 1,048,576 tokens: 24.00 GiB on each (vllm#16118)."""
    model = build({"d": 1024, "v": 8, "c": 64, "n_heads": 8, "d_head": 128, "n_layers": 48, "d_ff": 8})
    found = memory(model, context=1_048_576, tp=8)
    assert found.per_device.kv == 24 * GIB
    assert found.sums.kv == 192 * GIB


def test_rank_with_a_share_of_the_layers() -> None:
    """FT01: 16 of 48 layers need 8 GiB of the 24, 32 need 16 (vllm#34076)."""
    for n_layers, gib in ((16, 8), (32, 16), (48, 24)):
        model = build({"d": 64, "v": 8, "c": 64, "n_heads": 4, "d_head": 128, "n_layers": n_layers, "d_ff": 8})
        assert memory(model, context=262_144).per_device.kv == gib * GIB


def test_latent_cache_is_on_every_device() -> None:
    model = build({"d": 64, "v": 64, "c": 64, "n_heads": 8, "n_layers": 2, "d_ff": 64, "layers": "n*mla+mlp",
                   "mla": {"kv_rank": 16, "d_nope": 8, "d_rope": 4, "d_v": 8}})  # fmt: skip
    found = memory(model, context=10, tp=8)
    assert found.per_device.kv == 10 * 2 * (16 + 4) * 2
    assert replicated(found, "kv") == {"cache": 7 * found.per_device.kv}


def test_vocabulary_is_padded() -> None:
    """GPT-2's 50257 rows on 4: 12565 each, three more than there are; vLLM pads to 64 first."""
    assert padded(50257, 1, 4) == 4 * 12565
    assert padded(50257, 64, 1) == 50304
    model = build({"d": 64, "v": 50257, "c": 64, "n_heads": 4, "n_layers": 1, "d_ff": 64, "tying": True})
    found = memory(model, tp=4)
    assert replicated(found, "weights")["vocabulary padding"] == 3 * 64 * 2
    assert replicated(memory(model, engine="vllm"), "weights") == {"vocabulary padding": 47 * 64 * 2}


@pytest.mark.parametrize(
    ("change", "ways", "problem"),
    [
        ({}, {"tp": 3}, "--tp 3: does not divide n_kv_heads = 8"),
        ({"n_heads": 28, "n_kv_heads": 4, "d_head": 128}, {"tp": 8}, "--tp 8: does not divide n_heads = 28"),
        ({"n_kv_heads": 32}, {"tp": 64}, "--tp 64: does not divide n_heads = 32"),
        ({"d_ff": 14338}, {"tp": 4}, "--tp 4: does not divide d_expert = 14338"),
        ({}, {"ep": 3}, "--ep 3: does not divide n_experts = 8"),
        ({}, {"ep": 16}, "--ep 16: does not divide n_experts = 8"),
        ({}, {"pp": 33}, "--pp 33: model has 32 layers"),
        ({}, {"ep": 8, "dp": 3}, "--ep 8: does not divide the 3 ranks"),
    ],
)
def test_what_does_not_divide_is_refused(change: dict[str, Any], ways: dict[str, Any], problem: str) -> None:
    model = build({**MIXTRAL, **change})
    with pytest.raises(InputError) as caught:
        memory(model, **ways)
    assert problem in caught.value.message


@pytest.mark.parametrize(
    ("change", "note"),
    [
        ({}, "--tp 16: 8 KV heads, each lies on 2 devices"),
        ({"n_kv_heads": 1}, "--tp 16: one KV head, which lies on 16 devices"),
        ({"n_kv_heads": 16}, None),
    ],
)
def test_heads_that_several_devices_hold_are_named(change: dict[str, Any], note: str | None) -> None:
    """vLLM and SGLang keep a copy of a KV head where it is fewer than devices (vllm: QKVParallelLinear)."""
    said = [n for n in memory(build({**MIXTRAL, **change}), tp=16).notes if "--tp" in n]
    assert said == ([note] if note else [])


@pytest.mark.parametrize(("dtype", "tp"), [("int4", 64), ("fp8-block", 64), ("q4_k_m", 32), ("gptq", 64)])
def test_blocks_are_not_cut(dtype: str, tp: int) -> None:
    """d_ff = 14336 = 112 · 128 = 56 · 256: neither 1/64 of it is a multiple of 128 nor 1/32 of 256."""
    with pytest.raises(InputError, match="not a multiple of"):
        memory(build({**MIXTRAL, "n_heads": 64, "d_head": 64}), dtype=dtype,
               tp=tp)  # fmt: skip


# --- experts, pipelines, data -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ways", "layout_", "experts", "width"),
    [
        ({"ep": 8}, Layout(1, 1, 8, 8), 1, 14336),  # as many ranks as experts
        ({"tp": 8, "ep": 8}, Layout(8, 1, 8, 1), 1, 14336),  # vLLM: whole experts within the tensor parallel group
        ({"tp": 8, "ep": 2}, Layout(8, 1, 2, 1), 4, 14336 // 4),  # SGLang: the rest of tp splits an expert
        ({"tp": 2, "ep": 4, "dp": 4}, Layout(2, 1, 4, 4), 2, 14336 // 2),  # Megatron: ep from dp, tp within an expert
        ({"tp": 4, "dp": 2, "ep": 8}, Layout(4, 1, 8, 2), 1, 14336),  # vLLM: ep = tp · dp
    ],
)  # fmt: skip
def test_expert_parallel(ways: dict[str, Any], layout_: Layout, experts: int, width: int) -> None:
    model = build(MIXTRAL)
    assert layout(model, InferenceRun(**ways)) == layout_
    found = memory(model, **ways)
    assert found.pieces["weights.experts"] == 2 * 32 * experts * 3 * 4096 * width


def test_pipeline_stages() -> None:
    """61 layers on 8: five are left over and go to the stages before the last (vLLM's get_pp_indices)."""
    sizes = [stop - start for start, stop in stage_ranges(61, 8)]
    assert sizes == [7, 7, 8, 8, 8, 8, 8, 7]
    assert [stop - start for start, stop in stage_ranges(10, 4)] == [2, 3, 3, 2]
    assert [stop - start for start, stop in stage_ranges(11, 2)] == [6, 5]


def test_fullest_stage_counts() -> None:
    """Llama 3 8B on 3: 11, 11 and 10 layers; the first stage has the table as well."""
    assert stage_ranges(32, 3) == [(0, 11), (11, 22), (22, 32)]
    layer = 2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14336 + 2 * 4096
    found = memory(LLAMA_3_8B, context=1000, pp=3)
    assert found.per_device.weights == 2 * (11 * layer + 128_256 * 4096)
    assert found.per_device.kv == 11 * 2 * 8 * 128 * 2 * 1000
    assert found.sums.weights == 2 * 8_030_261_248
    assert replicated(found, "weights") == {}


def test_tied_table_is_on_both_ends() -> None:
    model = build({"d": 64, "v": 1000, "c": 64, "n_heads": 4, "n_layers": 4, "d_ff": 64, "tying": True})
    assert replicated(memory(model, pp=2), "weights") == {"tied table on the last stage": 2 * 1000 * 64}


def test_data_parallel_ranks_share_the_batch() -> None:
    """7 sequences on 4: three ranks serve two, one serves one."""
    found = memory(LLAMA_3_8B, batch=7, context=1000, dp=4)
    assert found.per_device.kv == 2 * 1000 * 131_072
    assert found.sums.kv == 7 * 1000 * 131_072
    assert replicated(found, "weights") == {"data parallel copies": 3 * 2 * 8_030_261_248}


def test_devices_are_tensor_parallel_unless_said() -> None:
    model = build(MIXTRAL)
    assert over(model, 4, InferenceRun()) == InferenceRun(tp=4)
    assert over(model, 4, InferenceRun(pp=2, tp=2)) == InferenceRun(tp=2, pp=2)
    with pytest.raises(InputError, match="--devices 4: --tp, --pp and --dp make 2"):
        over(model, 4, InferenceRun(pp=2))


# --- of any model -----------------------------------------------------------------------------------------------------


def replicated(found: Memory, part: str) -> dict[str, Any]:
    return {row.name: row.bytes for row in found.replicated if row.part == part}


def architectures() -> st.SearchStrategy[Architecture]:
    return documents().map(build)


LAYOUTS: st.SearchStrategy[dict[str, Any]] = st.builds(
    dict, tp=st.sampled_from([1, 1, 2, 4]), pp=st.integers(1, 3), ep=st.sampled_from([1, 1, 2]),
    dp=st.sampled_from([None, 1, 2, 3]),
)  # fmt: skip
WAYS: st.SearchStrategy[dict[str, Any]] = st.builds(
    dict, phase=st.sampled_from(["prefill", "decode"]), engine=st.sampled_from(["ideal", "vllm", "sglang", "llama.cpp",
    "transformers"]), kv_dtype=st.sampled_from(["bf16", "q8_0", "fp8:q4_0"]), prefill_chunk=st.sampled_from([None, 3]),
    mla_cache=st.sampled_from(["latent", "expanded"]), overhead=st.sampled_from([0, 1000]),
)  # fmt: skip


def laid_out(model: Architecture, ways: dict[str, Any], how: dict[str, Any]) -> Inference:
    """A run with a layout that this model takes, and an engine whose cache of it is known."""
    try:
        run = Inference(model, InferenceRun(**ways, **how))
        run.needed(1, 1)
    except InputError:
        assume(False)
        raise AssertionError from None
    return run


@settings(max_examples=60, deadline=None)
@given(architectures(), LAYOUTS, WAYS, st.integers(1, 7), st.integers(1, 60))
def test_sum_is_the_whole_and_what_is_replicated(
    model: Architecture, ways: dict[str, Any], how: dict[str, Any], batch: int, context: int
) -> None:
    run = laid_out(model, ways, how)
    # pages of one size are grouped stage by stage, so vLLM's cache is held against itself only without stages
    try:
        found = account(run, batch, context)
        alone = Inference(model, InferenceRun(**how)).device(0, batch, context)
    except InputError:  # on one device its pages would be of several sizes beside states
        assume(False)
    extra = dict.fromkeys(PARTS, 0)
    for row in found.replicated:
        extra[row.part] += row.bytes
    weights = found.sums.weights if found.host else total(model, run.dtype)  # llama.cpp leaves tables on the host
    bare = Device.holding(weights=weights, kv=alone.kv, activations=alone.activations, overhead=alone.overhead)
    for part in PARTS:
        assert getattr(found.sums, part) == getattr(bare, part) + extra[part], part
    assert found.total == found.sums.total
    assert found.per_device.total * found.devices >= found.total


@settings(max_examples=60, deadline=None)
@given(architectures(), LAYOUTS, WAYS, st.integers(1, 7), st.integers(1, 60))
def test_memory_grows_with_batch_and_context(
    model: Architecture, ways: dict[str, Any], how: dict[str, Any], batch: int, context: int
) -> None:
    run = laid_out(model, ways, how)
    here = run.needed(batch, context)
    assert run.needed(batch + 1, context) >= here
    assert run.needed(batch, context + 1) >= here


@settings(max_examples=40, deadline=None)
@given(architectures(), st.integers(1, 3), st.integers(1, 30))
def test_memory_grows_with_the_width_of_numbers(model: Architecture, batch: int, context: int) -> None:
    sizes = [Inference(model, InferenceRun(dtype=dtype)).needed(batch, context) for dtype in ("bf16", "fp32")]
    runs = [InferenceRun(kv_dtype=dtype) for dtype in ("int4", "fp8", "bf16", "fp32")]
    caches = [Inference(model, run).needed(batch, context) for run in runs]
    assert sizes == sorted(sizes)
    assert caches == sorted(caches)


@given(st.integers(1, 6), st.integers(0, 3), st.sampled_from(["bf16", "fp8", "int8", "int4", "nf4", "q8_0"]))
def test_memory_grows_with_the_width_of_the_model(k: int, more: int, dtype: str) -> None:
    """d and d_ff in steps of a whole block."""
    sizes = []
    for step in (0, more):
        model = build({"d": 64 * (k + step), "v": 64, "c": 64, "n_heads": 4, "n_layers": 2, "d_ff": 128 * (k + step)})
        sizes.append(Inference(model, InferenceRun(dtype=dtype)).needed(2, 50))
    assert sizes == sorted(sizes)


@given(architectures(), st.data())
def test_blocks_between_are_those_walked(model: Architecture, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, model.n_layers))
    stop = data.draw(st.integers(start, model.n_layers))
    walked = list(model.blocks())[start:stop]
    assert blocks_between(model, start, stop) == {block: walked.count(block) for block in dict.fromkeys(walked)}


@given(st.integers(1, 200), st.integers(1, 30))
def test_stages_are_all_layers_once(n_layers: int, pp: int) -> None:
    assume(pp <= n_layers)
    ranges = stage_ranges(n_layers, pp)
    assert [layer for start, stop in ranges for layer in range(start, stop)] == list(range(n_layers))
    sizes = [stop - start for start, stop in ranges]
    assert max(sizes) - min(sizes) <= 1
    assert sizes[-1] == min(sizes)
