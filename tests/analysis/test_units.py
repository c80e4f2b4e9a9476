"""Sizes as people write and read them."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gptcalc import units
from gptcalc.errors import InputError


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("4096", 4096), ("8K", 8192), ("8k", 8000), ("1M", 1 << 20), ("1m", 10**6), ("2G", 1 << 31), ("25.6k", 25600),
        ("1_000", 1000), (" 7 ", 7), ("131072k", 131_072_000),
    ],
)  # fmt: skip
def test_counts(text: str, value: int) -> None:
    assert units.count(text) == value


@pytest.mark.parametrize(
    "text", ["", "K", "1e6", "-1", "+1", "1.5", "8.5K", "8 K", "0x10", "1__0", "٣", "8KiB", "9" * 40]
)
def test_what_is_no_count(text: str) -> None:
    with pytest.raises(InputError):
        units.count(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("24GiB", 24 * 1024**3), ("80GB", 80 * 10**9), ("1.5TiB", 3 * 1024**4 // 2), ("512 MiB", 512 * 1024**2),
        ("81559MiB", 85_520_809_984),  # an H100 as its driver reports it: 85.52 GB
        ("7B", 7),
    ],
)  # fmt: skip
def test_sizes_of_memory(text: str, value: int) -> None:
    assert units.size(text) == value


@pytest.mark.parametrize("text", ["24", "24G", "24gi", "GiB", "-1GiB", "1e3GiB", "24 GiB each", ""])
def test_a_size_needs_its_unit(text: str) -> None:
    with pytest.raises(InputError):
        units.size(text)


def test_the_mend_of_a_bare_size_is_named() -> None:
    with pytest.raises(InputError) as error:
        units.size("24")
    assert "24GiB" in (error.value.hint or "")


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("12..96..12", [12, 24, 36, 48, 60, 72, 84, 96]),
        ("1K..16K", [1024, 2048, 4096, 8192, 16384]),
        ("1,8,64", [1, 8, 64]),
        ("5", [5]),
        ("1..4,100", [1, 2, 4, 100]),
        ("10..25..10", [10, 20, 25]),  # both ends are included, on the grid or not
        ("1..5", [1, 2, 4, 5]),
    ],
)
def test_ranges(text: str, values: list[int]) -> None:
    assert units.points(text) == values


@pytest.mark.parametrize("text", ["", "1..", "..4", "1..2..3..4", "4..1", "0..4", "1,,2", "1..2..0", "1..999999999..1"])
def test_what_is_no_range(text: str) -> None:
    with pytest.raises(InputError):
        units.points(text)


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [("7B..9B", 7 * 10**9, 9 * 10**9), ("..1.5B", 0, 1_500_000_000), ("70B..", 70 * 10**9, None),
     ("8B", 7_500_000_000, 8_500_000_000), ("1.5B", 1_450_000_000, 1_550_000_000)],
)  # fmt: skip
def test_spans_of_parameters(text: str, low: int, high: int | None) -> None:
    assert units.span(text) == (low, high)


@pytest.mark.parametrize("text", ["", "B", "7GiB", "1..2..3", "x..y"])
def test_what_is_no_span(text: str) -> None:
    with pytest.raises(InputError):
        units.span(text)


@pytest.mark.parametrize(
    ("value", "count", "size"),
    [
        (0, "0", "0 B"),
        (-(71 << 30), "-76.2 B", "-71.0 GiB"),
        (999, "999", "999 B"),
        (9_999, "10.0 k", "9.76 KiB"),
        (999_999, "1.00 M", "977 KiB"),
        (124_439_808, "124 M", "119 MiB"),
        (1 << 30, "1.07 B", "1.00 GiB"),
        (30_532_122_624, "30.5 B", "28.4 GiB"),
        (2_780_000_000_000, "2.78 T", "2.53 TiB"),
    ],
)
def test_short_forms(value: int, count: str, size: str) -> None:
    assert units.short_count(value) == count
    assert units.short_bytes(value) == size


@given(st.integers(0, 10**20))
def test_a_short_form_is_within_half_a_percent(value: int) -> None:
    number, _, prefix = units.short_count(value).partition(" ")
    scale = {"": 1, "k": 10**3, "M": 10**6, "B": 10**9, "T": 10**12}[prefix]
    assert abs(Fraction(number) * scale - value) * 200 <= value


def test_shares_and_ratios() -> None:
    assert units.percent(1, 3) == "33.3%"
    assert units.percent(1, 10**6) == "<0.1%"
    assert units.percent(0, 5) == "0.0%"
    assert units.percent(0, 0) == "0.0%"
    assert units.ratio(2, 3) == "1.50×"
    assert units.ratio(0, 3) == "–"


@pytest.mark.parametrize(
    ("seconds", "text"), [(2.5, "2.50 s"), (0.0123, "12.3 ms"), (4e-6, "4.00 µs"), (5e-10, "0.50 ns")]
)
def test_durations(seconds: float, text: str) -> None:
    assert units.duration(seconds) == text


def test_numbers_of_flops() -> None:
    """As they are shown, with or without their unit; in no other."""
    words = ("20GFLOP", "20 GFLOP", "20G", "20B", "0.02TFLOPs", "20000000000")
    assert {units.flops(word) for word in words} == {20 * 10**9}
    with pytest.raises(InputError, match="is not a number of FLOPs"):
        units.flops("20GiB")
