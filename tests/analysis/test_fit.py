"""fit: messages of engines, the largest batch and context, and what a shell script sees."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gptcalc import fit, units
from gptcalc.analysis.memory.cache import kv
from gptcalc.analysis.memory.fit import Fit
from gptcalc.analysis.memory.inference import Inference
from gptcalc.analysis.memory.room import largest
from gptcalc.architecture import Architecture
from gptcalc.cli import run
from gptcalc.conventions import ALL, InferenceRun
from gptcalc.document import build
from gptcalc.errors import InputError
from gptcalc.sources import devices
from tests import REPOSITORY
from tests.analysis.test_memory_cache import GPT_OSS, alternating, decoder
from tests.strategies import documents

GIB = 2**30
LLAMA_3_8B = build({"d": 4096, "v": 128256, "c": 8192, "n_heads": 32, "n_kv_heads": 8, "n_layers": 32, "d_ff": 14336})


def gib(text: str) -> int:
    return int(Fraction(text) * GIB)


# --- what engines printed ---------------------------------------------------------------------------------------------


def longest(model: Architecture, available: int, **how: Any) -> int | None:
    """The longest context whose cache alone fits."""
    return largest(lambda context: kv(model, context=context, **how).bytes <= available)


def test_vllm_maximum_length() -> None:
    """FT01 (vllm#34076): 48 layers of 4 × 128; 3.18 GiB hold 34,734 tokens, in whole pages 34,720.

    vLLM suggested 34,736 = 2171 pages, which need 3.18018 GiB: what it had rounds to the printed 3.18.
    """
    model = decoder(48, 4, 128)
    assert kv(model, context=262_144).bytes == 24 * GIB
    assert longest(model, gib("3.18")) == 34_734
    assert longest(model, gib("3.18"), engine="vllm") == 34_720
    assert longest(model, gib("3.1803"), engine="vllm") == 34_736


def test_vllm_maximum_length_on_one_of_eight() -> None:
    """FT02 (vllm#16118): 24,576 bytes a token on each device, 9.97 GiB."""
    assert longest(decoder(48, 1, 128), gib("9.97")) == 435_595


def test_vllm_maximum_length_with_windows() -> None:
    """FT04 (vllm#27508): gpt-oss-120b with 1.71 GiB: windowed layers as they are, and all at full length."""
    model = alternating(36, 8, 64, 128, GPT_OSS)
    assert longest(model, gib("1.71")) == 49_679
    assert largest(lambda n: kv(model, context=n).full_bytes <= gib("1.71")) == 24_903


# --- units ------------------------------------------------------------------------------------------------------------


def test_gb_and_gib() -> None:
    """FT05: 16,060,522,496 bytes are 16.06 GB and 14.96 GiB; an H100's 81559 MiB are 85.52 GB and 79.65 GiB."""
    weights = 2 * 8_030_261_248
    assert weights == 16_060_522_496
    assert units.short_bytes(weights) == "15.0 GiB"
    assert units.size("16.060522496GB") == weights
    assert devices.device("h100-sxm").memory == units.size("81559MiB") == 85_520_809_984
    assert units.size("80GB") < units.size("80GiB")


def test_more_than_the_card() -> None:
    """FT06: 83 GB on a card of 80 GiB are 77.3 GiB."""
    assert units.short_bytes(units.size("83GB")) == "77.3 GiB"


def test_budget_in_gb_holds_less() -> None:
    """8B parameters in 16 bits fit 16 GiB and not 16 GB."""
    found = {size: fit(LLAMA_3_8B, units.size(size), context=1).fits for size in ("16GiB", "16GB")}
    assert found == {"16GiB": True, "16GB": False}


# --- the search -------------------------------------------------------------------------------------------------------


@given(st.integers(0, 10**12))
def test_largest_finds_the_edge(edge: int) -> None:
    assert largest(lambda n: n <= edge) == edge


def test_largest_of_everything_is_any() -> None:
    assert largest(lambda _: True) is None


def test_by_hand() -> None:
    """Llama 3 8B in 20 GiB: 5,414,313,984 bytes beside the weights; a token takes 131,072 of cache, 73,728 of pass."""
    found = fit(LLAMA_3_8B, 20 * GIB, context=8192, prefill_chunk=ALL)
    left = 20 * GIB - 16_060_522_496
    assert found.needed == 16_060_522_496 + 8192 * (131_072 + 2 * 36_864)
    assert found.headroom == 20 * GIB - found.needed
    assert found.max_context == left // (131_072 + 2 * 36_864)
    assert found.max_batch == left // (8192 * (131_072 + 2 * 36_864))
    assert found.fits


def test_max_context_is_not_capped() -> None:
    found = fit(LLAMA_3_8B, 80 * GIB)
    assert found.max_context is not None
    assert found.max_context > LLAMA_3_8B.c


def test_any_context_where_nothing_grows() -> None:
    model = decoder(2, 1, 32, attn={"window": 16})
    found = fit(model, GIB, prefill_chunk=64)
    assert found.max_context is None
    assert found.max_batch is not None


def test_what_would_have_to_give() -> None:
    """Weights in bf16 alone exceed 14 GiB. In 8 bits 6.98 G of linear weights take half, or two devices a half each."""
    found = fit(LLAMA_3_8B, 14 * GIB, context=1000)
    assert not found.fits
    assert (found.limited_by, found.max_batch, found.max_context) == ("weights", 0, 0)
    assert found.would_fit == {"dtype": "fp8", "tp": 2}  # a byte a weight; torchao-fp8 has a scale an output more
    assert found.headroom == found.budget - found.needed < 0


def test_cache_limits() -> None:
    """At 16 GiB one sequence of 8192 tokens is 0.2 GiB too much; half of it fits, and 8 bits of cache do."""
    found = fit(LLAMA_3_8B, 16 * GIB, context=8192)
    assert not found.fits
    assert found.limited_by == "kv"
    assert found.max_batch == 0
    assert found.max_context == (16 * GIB - 16_060_522_496) // 204_800


def test_widest_type() -> None:
    assert fit(LLAMA_3_8B, 40 * GIB, context=100).widest_dtype == "fp32"
    assert fit(LLAMA_3_8B, 20 * GIB, context=100).widest_dtype == "bf16"
    assert fit(LLAMA_3_8B, 7 * GIB, context=100, engine="llama.cpp", dtype="q8_0").widest_dtype == "q6_k"


def test_utilization() -> None:
    found = fit(LLAMA_3_8B, 24564 * 2**20, utilization=Fraction(9, 10), context=100)
    assert found.budget == 24564 * 2**20 * 9 // 10
    for share in (Fraction(0), Fraction(11, 10)):
        with pytest.raises(InputError, match="utilization"):
            fit(LLAMA_3_8B, GIB, utilization=share)


@settings(max_examples=60, deadline=None)
@given(
    documents().map(build), st.integers(1, 5), st.integers(1, 40), st.sampled_from(["ideal", "llama.cpp",
    "transformers"]), st.integers(0, 10**6), st.sampled_from([{}, {"tp": 2}, {"pp": 2}, {"dp": 2}]),
)  # fmt: skip
def test_largest_batch_and_context_are_tight(
    model: Architecture, batch: int, context: int, engine: Any, room: int, ways: dict[str, Any]
) -> None:
    """They fit, and one more does not, unless the next token has no position."""
    table = model.c if model.embedding.position == "learned" else None
    context = min(context, table or context)
    try:
        run = Inference(model, InferenceRun(engine=engine, **ways))
        budget = run.fullest(1, 1)[1].weights + room
    except InputError:
        assume(False)
    found = fit(model, budget, batch=batch, context=context, engine=engine, advice=False, **ways)
    assert found.fits == (run.needed(batch, context) <= budget)
    assert found.needed == run.needed(batch, context)
    for most, needed in ((found.max_batch, lambda n: run.needed(n, context)),
                         (found.max_context, lambda n: run.needed(batch, n))):  # fmt: skip
        if most is None:
            assert needed(2**80) <= budget
            continue
        assert most == 0 or needed(most) <= budget
        assert needed(most + 1) > budget or (most == table and most == found.max_context)


@settings(max_examples=40, deadline=None)
@given(
    documents().map(build), st.integers(1, 5), st.integers(1, 40), st.integers(0, 10**6),
    st.sampled_from([{}, {"tp": 2}, {"pp": 2}, {"dp": 2}]),
)  # fmt: skip
def test_largest_batch_and_context_are_tight_in_vllm(
    model: Architecture, batch: int, context: int, room: int, ways: dict[str, Any]
) -> None:
    """Of vLLM's two runners fit may judge by either, so its largest are held against its own answers there."""
    table = model.c if model.embedding.position == "learned" else None
    context = min(context, table or context)
    try:
        budget = Inference(model, InferenceRun(engine="vllm", **ways)).needed(1, 1) + room
        found = fit(model, budget, batch=batch, context=context, engine="vllm", advice=False, **ways)
    except InputError:
        assume(False)

    def fits(n: int, length: int) -> bool:
        return fit(model, budget, batch=n, context=length, engine="vllm", advice=False, **ways).fits

    for most, holds in (
        (found.max_batch, lambda n: fits(n, context)), (found.max_context, lambda n: fits(batch, n))
    ):  # fmt: skip
        if most is None:  # windows alone: nothing grows any more
            assert holds(2**40)
            continue
        assert most == 0 or holds(most)
        assert (most == table and most == found.max_context) or not holds(most + 1)


@settings(max_examples=30, deadline=None)
@given(documents().map(build), st.integers(0, 10**6))
def test_changes_that_would_do_do(model: Architecture, room: int) -> None:
    n = min(30, model.c)
    budget = max(Inference(model, InferenceRun()).needed(2, n) - 1 - room, 1)
    found = fit(model, budget, batch=2, context=n)
    changes = found.would_fit
    assert not found.fits
    if "context" in changes:
        assert fit(model, budget, batch=2, context=changes["context"], advice=False).fits
    if "batch" in changes:
        assert fit(model, budget, batch=changes["batch"], context=n, advice=False).fits
    if "dtype" in changes:
        assert fit(model, budget, batch=2, context=n, dtype=changes["dtype"], advice=False).fits
    if "tp" in changes:
        assert fit(model, budget, batch=2, context=n, tp=changes["tp"], advice=False).fits


def test_fewer_devices_do_not_suffice() -> None:
    found = fit(LLAMA_3_8B, 5 * GIB, context=1000)
    assert found.would_fit["tp"] == 4
    assert not fit(LLAMA_3_8B, 5 * GIB, context=1000, tp=2).fits


# --- devices ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "mib"),
    # H100 … T4: https://github.com/modal-labs/modal-client/pull/2797
    [("h100-sxm", 81559), ("a100-80gb", 81920), ("a100-40gb", 40960), ("a10", 23028), ("l40s", 46068), ("l4", 23034),
     ("t4", 15360), ("rtx-4090", 24564), ("rtx-3090", 24576), ("rtx-5090", 32607), ("b200", 183359)],
)  # fmt: skip
def test_memory_as_the_driver_reports_it(name: str, mib: int) -> None:
    assert devices.device(name).memory == mib * 2**20


@pytest.mark.parametrize("name", devices.names())
def test_device_file(name: str) -> None:
    found = devices.device(name)
    assert found.source
    assert found.memory_source
    assert 5 * 10**10 < found.bandwidth < 10**13
    assert found.peak
    for kind, rate in found.peak.items():
        assert 10**12 < rate < 2 * 10**16, kind


def test_unknown_device() -> None:
    with pytest.raises(InputError) as caught:
        devices.device("rtx-4099")
    assert caught.value.hint is not None
    assert "rtx-4090" in caught.value.hint


# --- the command line -------------------------------------------------------------------------------------------------


def command(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = run(arguments)
    captured = capsys.readouterr()
    return status, captured.out, captured.err


KEYS = {"model", "fits", "budget", "needed", "headroom", "max_batch", "max_context", "limited_by"}
MEMORY_KEYS = {"model", "devices", "per_device", "total"}


def test_json_of_fit(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = command(capsys, "fit", "llama-3-8b", "--budget", "20GiB", "--json")
    found = json.loads(out)
    assert (status, err) == (0, "")
    assert set(found) >= KEYS
    assert found["budget"] == 20 * GIB
    assert found["fits"] is True
    assert found["per_device"]["total"] == found["needed"]


def test_json_of_memory(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = command(capsys, "memory", "llama-3-8b", "--tp", "2", "--json")
    found = json.loads(out)
    assert status == 0
    assert set(found) >= MEMORY_KEYS
    assert set(found["per_device"]) == {"weights", "kv", "activations", "gradients", "optimizer", "overhead", "total"}
    assert found["devices"] == 2


@pytest.mark.parametrize(("budget", "status", "answer"), [("20GiB", 0, "yes: "), ("10GiB", 1, "no: ")])
def test_exit_status_is_the_answer(capsys: pytest.CaptureFixture[str], budget: str, status: int, answer: str) -> None:
    assert command(capsys, "fit", "llama-3-8b", "--budget", budget, "--quiet") == (status, "", "")
    found, out, _ = command(capsys, "fit", "llama-3-8b", "--budget", budget)
    assert found == status
    assert out.startswith(answer)
    assert "exact: " in out
    assert "estimate: " in out


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--budget", "24"], "has no unit"),
        (["--budget", "24gx"], "unknown unit"),
        ([], "neither --budget nor --device"),
        (["--budget", "24GiB", "--device", "rtx-4090"], "both --budget and --device"),
        (["--device", "rtx-4009"], "no device 'rtx-4009'; did you mean rtx-4090?"),
        (["--budget", "24GiB", "--utilization", "90"], "is not a share"),
        (["--budget", "24GiB", "--utilization", "1e9999999"], "is not a share"),
        (["--budget", "24GiB", "--dtype", "q4"], "unknown data type 'q4'"),
        (["--budget", "24GiB", "--devices", "3"], "--tp 3: does not divide n_kv_heads = 8"),
        (["--budget", "24GiB", "--devices", "4", "--tp", "2"], "make 2"),
        (["--budget", "24GiB", "--tp", "0"], "--tp"),
    ],
)
def test_wrong_usage(capsys: pytest.CaptureFixture[str], arguments: list[str], problem: str) -> None:
    status, out, err = command(capsys, "fit", "llama-3-8b", *arguments)
    assert (status, out) == (2, "")
    assert problem in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("name", ["memory", "fit"])
@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--zero", "3"], "--zero is about training; add --training"),
        (["--micro-batch", "2"], "--micro-batch is about training"),
        (["--training", "--engine", "vllm"], "--engine vllm: it serves and doesn't train"),
        (["--training", "--kv-dtype", "fp8"], "--kv-dtype is about inference"),
        (["--training", "--dtype", "q4_k_m"], "--dtype q4_k_m"),
        (["--training", "--zero", "4"], "--zero"),
    ],
)
def test_options_of_the_other_kind(
    capsys: pytest.CaptureFixture[str], name: str, arguments: list[str], problem: str
) -> None:
    """An option that would be ignored is refused."""
    budget = ["--budget", "80GiB"] if name == "fit" else []
    status, out, err = command(capsys, name, "gpt2", *budget, *arguments)
    assert (status, out) == (2, "")
    assert problem in err
    assert err.count("\n") == 1


def test_training_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Adam in mixed precision: 2 + 4 + 12 bytes a parameter of GPT-2's 124,439,808."""
    for arguments in (["--training"], ["--phase", "train"]):
        status, out, _ = command(capsys, "memory", "gpt2", *arguments, "--json")
        found = json.loads(out)["per_device"]
        assert status == 0
        assert (found["weights"], found["gradients"], found["optimizer"], found["kv"]) == (
            2 * 124_439_808, 4 * 124_439_808, 12 * 124_439_808, 0,
        )  # fmt: skip


def test_largest_training_batch_is_tight(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["fit", "gpt2", "--training", "--budget", "12GiB", "--recompute", "selective"]
    status, out, _ = command(capsys, *arguments, "--json")
    most = json.loads(out)["max_batch"]
    assert status == 0
    assert most > 1
    assert command(capsys, *arguments, "--batch", str(most), "--quiet")[0] == 0
    assert command(capsys, *arguments, "--batch", str(most + 1), "--quiet")[0] == 1


def test_what_would_do_in_training(capsys: pytest.CaptureFixture[str]) -> None:
    """Llama 3 8B: 18 bytes a parameter are 135 GiB; on 8 ranks with ZeRO 3 an eighth of it."""
    arguments = ["fit", "llama-3-8b", "--training", "--budget", "80GiB", "--context", "1K", "--dp", "8"]
    status, out, _ = command(capsys, *arguments, "--json")
    found = json.loads(out)
    assert status == 1
    assert found["limited_by"] == "optimizer"
    assert found["would_fit"]["zero"] in (1, 2, 3)
    assert command(capsys, *arguments, "--zero", str(found["would_fit"]["zero"]), "-q")[0] == 0


def test_device_leaves_a_tenth(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = command(capsys, "fit", "llama-3-8b", "--device", "rtx-4090", "--get", "budget")
    assert int(out) == 24081 * 2**20 * 9 // 10  # of what a program sees


def test_devices_are_tensor_parallel(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["fit", "llama-3-8b", "--budget", "12GiB", "--context", "1K", "--quiet"]
    assert [command(capsys, *arguments, "--devices", n)[0] for n in ("1", "2")] == [1, 0]


def script(text: str) -> subprocess.CompletedProcess[str]:
    """Run a shell script in which `gptcalc` is the command."""
    root = REPOSITORY
    prelude = f'gptcalc() {{ "{sys.executable}" -m gptcalc "$@"; }}\n'
    environment = {**os.environ, "PYTHONPATH": str(root)}
    return subprocess.run(["sh", "-c", prelude + text], capture_output=True, text=True, env=environment, check=False)


#: in the README: the first of several models that fits. 70 B in 4 bits are 35 GB alone, 8 B are 16 GB in 16 bits
FIRST_THAT_FITS = """
for model in llama-3-70b qwen3-30b-a3b llama-3-8b gpt2; do
    if gptcalc fit "$model" --dtype int4 --context 8K --budget 12GiB --quiet; then
        echo "$model"
        break
    fi
done
"""


def test_script_of_the_readme() -> None:
    """12 GiB are 12.9 GB. 30.5 B weights take more in 4 bits; of 8.03 B 6.98 B take 0.52 bytes, the rest 2: 5.7 GB."""
    done = script(FIRST_THAT_FITS)
    assert (done.stdout, done.stderr, done.returncode) == ("llama-3-8b\n", "", 0)


def test_or_and_xargs() -> None:
    done = script('gptcalc fit llama-3-70b --dtype int4 --context 8K --budget 24GiB --quiet || echo "too big"')
    assert done.stdout == "too big\n"
    done = script(f'printf "llama-3-70b\\nllama-3-8b\\n" | xargs -I MODEL "{sys.executable}" -m gptcalc fit MODEL '
                  "--budget 20GiB --get headroom")  # fmt: skip
    assert [int(line) > 0 for line in done.stdout.split()] == [False, True]


def test_answer_is_one_structure() -> None:
    """What the Python call returns has the keys of the JSON."""
    assert set(Fit.__struct_fields__) >= KEYS


def test_formats_that_an_engine_reads() -> None:
    """MLX's and ExLlama's no other program reads; of formats of like width the plain one is named."""
    model = "llama-3.1-70b"
    assert fit(model, "80GiB", context=4096).widest_dtype == "mlx8"
    assert fit(model, "80GiB", context=4096, engine="vllm").widest_dtype == "fp8"
    found = fit(model, "80GiB", context=4096, engine="vllm", dtype="mlx4")
    assert "weights: vllm has no mlx4" in found.estimated
