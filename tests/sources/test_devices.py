"""Devices: names as people and drivers write them, one form of several never guessed, sizes with their sources."""

from __future__ import annotations

from collections import Counter

import pytest

from gptcalc.errors import InputError
from gptcalc.sources import devices


@pytest.mark.parametrize(
    ("word", "name", "count"),
    [
        ("h100-sxm", "h100-sxm", None),
        ("NVIDIA H100 80GB HBM3", "h100-sxm", None),  # as nvidia-smi prints it
        ("NVIDIA A100-SXM4-80GB", "a100-80gb", None),
        ("A100-SXM4-80GB", "a100-80gb", None),
        ("RTX 4090", "rtx-4090", None),
        ("4xa100-80gb", "a100-80gb", 4),
        ("8 x NVIDIA H200", "h200", 8),
        ("AMD Instinct MI300X", "mi300x", None),
        ("NVIDIA B300 SXM6 AC", "b300", None),
        ("Tesla V100-PCIE-16GB", "v100-pcie-16gb", None),
        ("NVIDIA GB10", "dgx-spark", None),
        ("apple-m2-ultra-192gb", "apple-m2-ultra-192gb", None),
        ("NVIDIA GH200 480GB", "gh200-96gb", None),  # the tool names it by the host's memory
        ("2x NVIDIA GH200 120GB", "gh200-96gb", 2),
        ("NVIDIA GH200 144G HBM3e", "gh200-144gb", None),
        ("NVIDIA GB300", "gb300", None),
        ("GeForce RTX 4090", "rtx-4090", None),
        ("Instinct MI300X", "mi300x", None),
    ],
)
def test_names(word: str, name: str, count: int | None) -> None:
    found = devices.asked(word)
    assert (found.model.name, found.number) == (name, count)


@pytest.mark.parametrize(
    ("word", "forms"),
    [
        ("h100", "h100-sxm, h100-pcie, h100-nvl"),
        ("apple-m3-ultra", "apple-m3-ultra-96gb, apple-m3-ultra-256gb"),
        ("m3-ultra", "apple-m3-ultra-96gb, apple-m3-ultra-256gb"),
        ("gh200", "say which: gh200-96gb, gh200-144gb"),  # not h200
        ("4090", "did you mean rtx-4090?"),
        ("mi300", "did you mean mi300x?"),
    ],
)
def test_one_of_several_forms_is_asked_for(word: str, forms: str) -> None:
    with pytest.raises(InputError) as caught:
        devices.asked(word)
    assert forms in str(caught.value.hint)


@pytest.mark.parametrize(("word", "meant"), [("h200-sxm", "h200"), ("mi300x-oam", "mi300x")])
def test_a_form_of_what_has_one_alone(word: str, meant: str) -> None:
    with pytest.raises(InputError) as caught:
        devices.asked(word)
    assert caught.value.hint == f"did you mean {meant}?"


@pytest.mark.parametrize("word", ["h300", "gh2000", "h1000", "0xh200"])
def test_never_another_generation(word: str) -> None:
    with pytest.raises(InputError) as caught:
        devices.asked(word)
    assert "h200" not in str(caught.value.hint)


def test_every_driver_name_is_one_devices_but_where_cards_differ_in_memory_alone() -> None:
    spelled = Counter(model.smi for model in devices.models() if model.smi is not None)
    several = {name for name, times in spelled.items() if times > 1}
    assert several == {"NVIDIA GeForce RTX 4060 Ti", "NVIDIA GeForce RTX 5060 Ti"}
    for name in several:
        with pytest.raises(InputError, match="several forms") as caught:
            devices.asked(name)
        assert "-ti-8gb, " in str(caught.value.hint)


@pytest.mark.parametrize(
    ("name", "mib"),
    [
        ("apple-m1-max-32gb", 21845),  # https://github.com/ollama/ollama/issues/434: 21845.34 MB
        ("apple-m2-max-96gb", 73728),  # https://github.com/ggml-org/llama.cpp/issues/3213: 73728.00 MB
    ],
)
def test_unified_memory_is_what_a_gpu_may_hold(name: str, mib: int) -> None:
    assert devices.device(name).memory == mib * 2**20
