"""What llama.cpp sets aside, as its log says it (libllama of October 2026, commit 0c1e570, without data)."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from gptcalc import fit
from gptcalc.analysis.memory.account import memory
from gptcalc.analysis.memory.cache import kv
from gptcalc.analysis.memory.fit import fitted
from gptcalc.analysis.memory.inference import Inference
from gptcalc.analysis.memory.sharding import over
from gptcalc.analysis.memory.weights import total
from gptcalc.architecture import Architecture
from gptcalc.conventions import Engine, FitRun, InferenceRun
from gptcalc.errors import InputError
from gptcalc.sources import load


@pytest.mark.parametrize(
    ("preset", "batch", "context", "size"),
    [
        ("minicpm3-4b", 1, 8192, 6_501_171_200),  # keys and values, not the latents
        ("gemma-3-27b", 8, 16384, 14_445_182_976),  # eight windows and one micro-batch
        ("gpt-oss-20b", 4, 8192, 830_472_192),
        ("command-a-111b", 8, 16384, 15_133_048_832),
    ],
)
def test_one_cache_for_all_sequences(preset: str, batch: int, context: int, size: int) -> None:
    found = kv(load(preset).architecture, engine="llama.cpp", kv_dtype="fp16", batch=batch, context=context)
    assert found.bytes == size


def test_windows_and_full_layers_of_one_sequence() -> None:
    """llama.cpp#21394: Gemma 4 31B with q5_0, K and V of ten full layers 1612.19 MiB each, 1,536 cells of windows."""
    found = kv(load("gemma-4-31b").architecture, engine="llama.cpp", kv_dtype="q5_0", context=120064)
    windows, full = found.groups
    assert windows.cached_tokens == 1536
    assert full.bytes == 10 * 120064 * 2 * 2048 * 22 // 32


def test_the_token_table_stays_on_the_host() -> None:
    """Llama 3 8B as Q4_K_M: 4,403 MiB on the card; on the host 128,256 rows of 4096 numbers, 144 bytes for 256."""
    found = memory(load("llama-3-8b").architecture, engine="llama.cpp", dtype="q4_k_m", context=16)
    assert int(found.per_device.weights / 2**20) == 4403
    assert found.host == 128256 * 4096 // 256 * 144


@pytest.mark.parametrize(("ngl", "layers", "output"), [(0, 0, 0), (1, 0, 1), (11, 10, 1), (33, 32, 1), (99, 32, 1)])
def test_layers_on_the_device(ngl: int, layers: int, output: int) -> None:
    """The output is one of them, then the last layers; the cache goes with its layer."""
    model = load("llama-3-8b").architecture
    found = memory(model, engine="llama.cpp", dtype="q8_0", kv_dtype="fp16", context=256, ngl=ngl)
    layer = (2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14336) // 32 * 34 + 2 * 4 * 4096
    head = 128256 * 4096 // 32 * 34
    cache = 256 * 2 * 1024 * 2
    assert found.per_device.weights == layers * layer + output * (head + 4 * 4096)
    assert found.per_device.kv == layers * cache
    assert found.host == head + (32 - layers) * (layer + cache) + (1 - output) * (head + 4 * 4096)


def test_a_tied_table_is_on_both_sides() -> None:
    model = load("llama-3.2-1b").architecture
    found = memory(model, engine="llama.cpp", dtype="q8_0", context=16)
    assert found.host == 128256 * 2048 // 32 * 34
    assert found.per_device.weights == total(model, "q8_0")


def test_experts_on_the_host() -> None:
    """Of the first layers' experts all three matrices with their biases (in 32 bits), nothing else."""
    model = load("gpt-oss-120b").architecture
    plain = memory(model, engine="llama.cpp", dtype="mxfp4_moe", context=1024)
    spared = memory(model, engine="llama.cpp", dtype="mxfp4_moe", context=1024, n_cpu_moe=10)
    moved = 10 * 128 * 3 * (2880 * 2880 // 32 * 17 + 2880 * 4)
    assert spared.per_device.weights == plain.per_device.weights - moved
    assert spared.host == plain.host + moved


def test_fit_says_how_much_to_leave_there() -> None:
    model = load("gpt-oss-120b").architecture
    found = fit(model, 24 * 2**30, engine="llama.cpp", dtype="mxfp4_moe", context=32768)
    for key in ("ngl", "n_cpu_moe"):
        n = found.would_fit[key]
        most = {"ngl": n + 1} if key == "ngl" else {"n_cpu_moe": n - 1}
        for changes, fits in (({key: n}, True), (most, False)):
            again = memory(model, engine="llama.cpp", dtype="mxfp4_moe", context=32768, **changes)
            assert (again.per_device.total <= 24 * 2**30) == fits


def test_no_other_engine_splits_so() -> None:
    with pytest.raises(InputError, match="--engine vllm has no such split"):
        memory(load("gpt2").architecture, engine="vllm", ngl=3)
    with pytest.raises(InputError, match="only where devices have whole layers"):
        memory(load("gpt2").architecture, engine="llama.cpp", tp=2, n_cpu_moe=3)


def layers(model: Architecture, **options: Any) -> list[tuple[int, int]]:
    return Inference(model, InferenceRun(engine="llama.cpp", **options)).ranges


def test_devices_have_whole_layers() -> None:
    """Each as many of the 32 and the output as llama.cpp's log says (load_tensors: layer … assigned to device …)."""
    model = load("llama-3-8b").architecture
    assert layers(model, pp=2) == [(0, 17), (17, 32)]
    assert layers(model, pp=4) == [(0, 9), (9, 17), (17, 25), (25, 32)]
    assert layers(model, pp=2, tensor_split="3,1") == [(0, 25), (25, 32)]
    assert layers(model, pp=2, ngl=20, tensor_split="3,1") == [(13, 28), (28, 32)]
    assert layers(model, pp=2, ngl=0) == [(32, 32), (32, 32)]


def test_devices_together_hold_what_one_would() -> None:
    model = load("llama-3-8b").architecture
    one, two = (memory(model, engine="llama.cpp", dtype="q4_k_m", context=4096, pp=n) for n in (1, 2))
    assert two.sums.weights == one.sums.weights
    assert two.sums.kv == one.sums.kv
    assert two.host == one.host


def test_overridden_tensors_stay_on_the_host() -> None:
    """As patterns of llama.cpp's names say: all experts as --n-cpu-moe has it, then those of layers 10 to 19, then the
    router with its bias, then heads' matrices that are one tensor."""
    model = load("gpt-oss-120b").architecture
    how: dict[str, Any] = {"engine": "llama.cpp", "dtype": "mxfp4_moe", "context": 1024}
    moe = memory(model, **how, n_cpu_moe=36)
    assert memory(model, **how, override_tensor=r"ffn_(up|down|gate)_exps=CPU").host == moe.host
    plain = memory(model, **how)
    experts = 128 * 3 * (2880 * 2880 // 32 * 17 + 2880 * 4)
    found = memory(model, **how, override_tensor=r"blk\.1[0-9]\.ffn_.*_exps=CPU")
    assert found.host == plain.host + 10 * experts
    assert found.per_device.weights == plain.per_device.weights - 10 * experts
    found = memory(model, **how, override_tensor="ffn_gate_inp=CPU")
    assert found.host == plain.host + 36 * (2880 + 1) * 128 * 4
    fused = load("phi-4").architecture
    plain = memory(fused, engine="llama.cpp", dtype="q8_0", context=1024)
    found = memory(fused, engine="llama.cpp", dtype="q8_0", context=1024, override_tensor=r"attn_qkv=CPU,^output\.=CPU")
    assert found.host == plain.host + (40 * (5120 + 2 * 1280) * 5120 + (100352 * 5120)) // 32 * 34


@pytest.mark.parametrize(
    ("option", "text", "problem"),
    [
        ("override_tensor", "exps=CUDA1", "names no place that is known here"),
        ("override_tensor", "exps", "names no place that is known here"),
        ("override_tensor", "(=CPU", "is no pattern"),
        ("override_tensor", "((.*)*)*x=CPU", "repeats a group"),
        ("tensor_split", "3,1", "2 shares for 1 devices"),
        ("tensor_split", "a", "not a list of shares"),
        ("tensor_split", "0", "not a list of shares"),
    ],
)
def test_what_no_split_is(option: str, text: str, problem: str) -> None:
    how: dict[str, Any] = {option: text}
    with pytest.raises(InputError, match=problem):
        memory(load("gpt2").architecture, engine="llama.cpp", **how)


def test_fit_over_several_devices() -> None:
    """--devices splits by layers; the most layers that fit are those of the whole machine."""
    model = load("llama-3.1-70b").architecture
    how = over(model, 2, InferenceRun(engine="llama.cpp", dtype="q4_k_m", context=8192)).to(FitRun)
    assert (how.tp, how.pp) == (1, 2)
    found = fitted(model, 16 * 2**30, how)
    assert not found.fits
    ngl = found.would_fit["ngl"]
    for n, fits in ((ngl, True), (ngl + 1, False)):
        assert fitted(model, 16 * 2**30, replace(how, ngl=n, advice=False)).fits == fits


@pytest.mark.parametrize("engine", ["vllm", "llama.cpp"])
def test_no_decoder_that_attends_to_an_image(engine: Engine) -> None:
    """Neither runs Llama 3.2 Vision any more: of its cross-attention layers an engine would set nothing aside."""
    with pytest.raises(InputError, match="it runs no decoder that attends to another encoder's states"):
        kv(load("llama-3.2-11b-vision").architecture, engine=engine)


def test_an_image_is_kept_once() -> None:
    """Keys and values of 8 layers, 8 heads of 128, for each of 4 tiles of 1,601 states; of a token 32 layers'."""
    model = load("llama-3.2-11b-vision").architecture
    image, token = 2 * 2 * 8 * 8 * 128 * 4 * 1601, 2 * 2 * 32 * 8 * 128
    assert kv(model, context=100).bytes == image + 100 * token
    assert kv(model, context=100, source=1601).bytes == image // 4 + 100 * token
