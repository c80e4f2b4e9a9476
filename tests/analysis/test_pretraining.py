"""Training runs: what papers say of theirs, by hand, what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from gptcalc.analysis.pretraining import Pretraining, pretrained
from gptcalc.conventions import PretrainRun
from gptcalc.errors import InputError
from gptcalc.sources import devices, load
from tests.conftest import Result

T = 10**12


def run(model: str, device: str, **how: Any) -> Pretraining:
    return pretrained(load(model).architecture, devices.device(device), PretrainRun(**how))


def test_flops_by_hand() -> None:
    """Llama 2 7B at 4096: thrice forward; matrices but the embedding twice a token, 32 layers of scores and sums."""
    found = run("llama-2-7b", "h100-sxm", tokens=2 * T, devices=64)
    matrices = 32 * (4 * 4096**2 + 3 * 4096 * 11008) + 4096 * 32000
    token = 3 * (2 * matrices + 32 * 4 * 4096 * 4097 / 2)
    assert found.flops == pytest.approx(2 * T * token, rel=1e-12)
    assert found.flops_per_token == pytest.approx(token)
    assert found.approx_6nd == 6 * (6_738_415_616 - 32000 * 4096) * 2 * T
    assert found.chinchilla_tokens == 20 * 6_738_415_616


def test_time_by_hand() -> None:
    found = run("llama-2-7b", "h100-sxm", tokens=2 * T, devices=64, mfu=0.4, price=2.5)
    assert found.flops is not None
    seconds = found.flops / (64 * 989.4e12 * 0.4)
    assert found.days == pytest.approx(seconds / 86400)
    assert found.device_hours == pytest.approx(64 * seconds / 3600)
    assert found.cost == pytest.approx(2.5 * 64 * seconds / 3600)
    assert found.basis == "mfu"
    assert found.mfu == pytest.approx(0.4)


def test_recomputation() -> None:
    """Layers once more are a third of theirs on top: HFU grows by it, the MFU does not."""
    plain, full = (run("llama-2-7b", "h100-sxm", tokens=T, mfu=0.4, recompute=r) for r in ("none", "full"))
    assert plain.flops is not None
    head = 3 * 2 * 4096 * 32000 * T
    assert full.recomputed["full"] == pytest.approx(plain.flops + (plain.flops - head) / 3)
    assert full.flops == plain.flops
    assert full.mfu == plain.mfu
    assert plain.hfu == pytest.approx(0.4)
    assert full.hfu == pytest.approx(0.4 * full.recomputed["full"] / plain.flops)


def test_the_least_time_has_recomputation_in_it() -> None:
    found = run("llama-2-7b", "h100-sxm", tokens=T, recompute="full")
    assert found.basis == "bound"
    assert found.hfu == pytest.approx(1)
    assert found.seconds == pytest.approx(found.recomputed["full"] / 989.4e12)


def test_a_measured_rate() -> None:
    """MFU = tokens a second × FLOPs a token / peak."""
    found = run("llama-2-7b", "a100-80gb", devices=8, tokens_per_second=24000)
    assert found.mfu == pytest.approx(24000 * found.flops_per_token / (8 * 312e12))
    assert (found.basis, found.days, found.flops) == ("measured", None, None)


class Published(NamedTuple):
    """A run of a Llama: the device's dense 16-bit peak, the corpus, the hours, and the model as its paper's table has
    it."""

    model: str
    device: str
    peak: float
    tokens: int
    context: int
    hours: int
    layers: int
    d: int
    kv: int  # channels of all key heads
    d_ff: int
    vocabulary: int

    def least_hours(self) -> float:
        """By hand: 6 FLOPs a token for each weight that multiplies it (6·N·D, N without the embedding and the norms),
        and of each layer 3 · 2 · 2 · d for each of the (c + 1) / 2 positions that a token sees on average."""
        layer = 2 * self.d * self.d + 2 * self.d * self.kv + 3 * self.d * self.d_ff
        n = self.layers * layer + self.d * self.vocabulary
        attention = self.layers * 12 * self.d * (self.context + 1) / 2
        return self.tokens * (6 * n + attention) / self.peak / 3600


#: datasheets' dense bf16 rates: A100 312 TFLOP/s; H100 SXM 1,978.9 with sparsity, which is twice
A100, H100 = 312e12, 1978.9e12 / 2

PUBLISHED = [
    # Touvron et al. 2023, arXiv:2307.09288, table 2: 2.0T tokens, A100 80 GB
    Published("llama-2-7b", "a100-80gb", A100, 2 * T, 4096, 184_320, 32, 4096, 4096, 11008, 32000),
    Published("llama-2-13b", "a100-80gb", A100, 2 * T, 4096, 368_640, 40, 5120, 5120, 13824, 32000),
    Published("llama-2-70b", "a100-80gb", A100, 2 * T, 4096, 1_720_320, 80, 8192, 1024, 28672, 32000),
    # Llama 3.1's model card: H100 80 GB; Dubey et al. 2024, arXiv:2407.21783, table 3: 15.6T tokens, 8K
    Published("llama-3.1-405b", "h100-sxm", H100, 156 * T // 10, 8192, 30_840_000, 126, 16384, 1024, 53248, 128256),
    Published("llama-3.1-70b", "h100-sxm", H100, 15 * T, 8192, 7_000_000, 80, 8192, 1024, 28672, 128256),
    Published("llama-3.1-8b", "h100-sxm", H100, 15 * T, 8192, 1_460_000, 32, 4096, 1024, 14336, 128256),
]


@pytest.mark.parametrize("one", PUBLISHED, ids=lambda one: one.model)
def test_no_run_was_faster_than_the_bound(one: Published, record_property: Callable[[str, object], None]) -> None:
    """… and these were at an MFU of 15 to 45 % over all (8B least: its hours have more than pre-training)."""
    found = run(one.model, one.device, tokens=one.tokens, context=one.context)
    assert found.device_hours is not None
    assert found.device_hours == pytest.approx(one.least_hours(), rel=1e-4)  # datasheets round the peak
    record_property("MFU", found.device_hours / one.hours)
    assert 0.14 < found.device_hours / one.hours < 0.45


def test_all_hours_were_at_less_than_the_mfu_of_a_step() -> None:
    """arXiv:2407.21783, table 4: steps of 405B at 8,192 tokens were at 43 % on 8,192 devices, 41 % on 16,384. The hours
    of the card have restarts and the longer contexts, too."""
    one = next(one for one in PUBLISHED if one.model == "llama-3.1-405b")
    found = run(one.model, one.device, tokens=one.tokens, context=one.context)
    assert found.device_hours is not None
    assert found.device_hours / one.hours < 0.43


def test_the_flops_of_llama_3() -> None:
    """arXiv:2407.21783, section 1: 3.8·10²⁵ FLOPs for 405B on 15.6T tokens; that is 6·N·D."""
    found = run("llama-3.1-405b", "h100-sxm", tokens=15_600_000_000_000, context=8192)
    assert found.approx_6nd == pytest.approx(3.8e25, rel=0.01)


def test_a_mixture_counts_what_is_active() -> None:
    """Mixtral: 12.9 of 46.7 billion."""
    found = run("mixtral-8x7b", "h100-sxm", tokens=T, devices=64)
    assert found.approx_6nd == 6 * (12_879_925_248 - 32000 * 4096) * T


def test_devices_share_states_unless_told_otherwise() -> None:
    """FSDP over all of them; with tensor parallelism over the rest."""
    model, device = load("llama-3-8b").architecture, devices.device("h100-sxm")
    alone = pretrained(model, device, PretrainRun(tokens=T, devices=64, context=1024))
    both = pretrained(model, device, PretrainRun(tokens=T, devices=64, tp=8, context=1024))
    assert (alone.parallel["dp"], both.parallel["dp"], both.parallel["tp"]) == (64, 8, 8)
    assert alone.memory.fits
    assert not pretrained(
        model, device, PretrainRun(tokens=T, devices=64, zero=0, tp=1, dp=64, context=1024)
    ).memory.fits


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({}, "no --tokens"),
        ({"tokens": T, "mfu": 0.9, "recompute": "full"}, "more than all of the peak rate"),
        ({"tokens": T, "mfu": 0.4, "tokens_per_second": 100}, "both --mfu and --tokens-per-second"),
        ({"tokens": T, "lora": "8"}, "adapters"),
        ({"tokens": T, "dtype": "int4"}, "trained in bf16"),
    ],
)
def test_what_is_refused(how: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        run("llama-2-7b", "h100-sxm", **how)


def test_no_rate_is_refused() -> None:
    with pytest.raises(InputError, match="no bf16 rate"):
        run("llama-2-7b", "apple-m2-ultra-192gb", tokens=T)


@pytest.mark.parametrize("words", [["--tokens", "0"], ["--tokens", "1X"], ["--tokens", "1T", "--price", "-"],
                                   ["--tokens", "1T", "--tokens-per-second", "1/2"]])  # fmt: skip
def test_bad_words(gptcalc: Callable[..., Result], words: list[str]) -> None:
    found = gptcalc("train", "llama-2-7b", "--device", "h100-sxm", *words)
    assert (found.status, found.out) == (2, "")
    assert words[-2] in found.err


def test_the_command(gptcalc: Callable[..., Result]) -> None:
    words = ("train", "llama-2-7b", "--tokens", "2T", "--device", "64xh100-sxm", "--mfu", "40%")
    matrices = 32 * (4 * 4096**2 + 3 * 4096 * 11008) + 4096 * 32000
    flops = 2 * T * (6 * matrices + 32 * 6 * 4096 * 4097)  # as test_flops_by_hand has it
    assert gptcalc(*words, "--json").json["days"] == pytest.approx(flops / (64 * 989.4e12 * 0.4) / 86400)
    assert "device hours" in gptcalc(*words).out
