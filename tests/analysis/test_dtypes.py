"""Data types: bytes of rows and matrices, worked out by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gptcalc.dtypes import DTYPES, FORMATS, GGML, INT4, MXFP4, NVFP4, Packing, dtype, weight_format
from gptcalc.errors import InputError


@pytest.mark.parametrize(
    ("name", "elements", "size"),
    [
        ("fp32", 100, 400), ("bf16", 100, 200), ("fp16", 3, 6), ("fp8", 100, 100), ("int8", 7, 7), ("int4", 7, 4),
        # ggml: 32 numbers and an fp16 scale, with _1 an fp16 minimum as well
        ("q8_0", 32, 34), ("q5_0", 32, 4 + 16 + 2), ("q5_1", 32, 4 + 16 + 4), ("q4_0", 32, 18), ("q4_1", 32, 20),
        # a row is rounded up to whole blocks
        ("q8_0", 33, 68), ("q4_0", 1, 18), ("q8_0", 576, 612),
        # 16 bytes of 4-bit numbers and one exponent; 8 and an fp8 scale
        ("mxfp4", 64, 34), ("nvfp4", 64, 36),
    ],
)  # fmt: skip
def test_row(name: str, elements: int, size: int) -> None:
    assert dtype(name).row_bytes(elements) == size


@pytest.mark.parametrize(
    ("name", "bits"), [("q2_k", 2.625), ("q3_k", 3.4375), ("q4_k", 4.5), ("q5_k", 5.5), ("q6_k", 6.5625)]
)
def test_k_quants(name: str, bits: float) -> None:
    """Bits per weight as llama.cpp's k-quants pull request (#1684) gives them; Q2_K since then with 4-bit scales."""
    assert GGML[name].block_bytes * 8 / GGML[name].block == bits


def test_fp8_block_scales() -> None:
    """300 × 200: 3 × 2 blocks of 128 × 128."""
    assert FORMATS["fp8-block"].packing.bytes(300, 200) == 300 * 200 + 4 * 3 * 2


def test_fp8_tensor_scale() -> None:
    assert FORMATS["fp8"].packing.bytes(300, 200) == 300 * 200 + 4


def test_int8_channel_scales() -> None:
    assert FORMATS["int8"].packing.bytes(300, 200) == 300 * 200 + 2 * 200


def test_awq() -> None:
    """4096 × 1024 in groups of 128: 32 groups an output, each an fp16 scale and a 4-bit zero point."""
    assert FORMATS["awq"].packing.bytes(4096, 1024) == 4096 * 1024 // 2 + 32 * 1024 * 2 + 32 * 1024 // 2


def test_gptq_has_the_order_of_inputs() -> None:
    awq, gptq = FORMATS["awq"].packing, FORMATS["gptq"].packing
    assert gptq.bytes(4096, 1024) - awq.bytes(4096, 1024) == 4 * 4096


def test_group_size_and_symmetry() -> None:
    grouped = weight_format("int4:32:sym")
    assert grouped is not None
    assert grouped.packing.bytes(64, 10) == 64 * 10 // 2 + 2 * 10 * 2


def test_mlx_group_of_64() -> None:
    """QC08: a scale and a bias of 16 bits for 64 weights: 4.5 bits each (jundot/omlx#3489)."""
    logical = 32_762_123_264
    assert Packing(INT4).bytes(logical, 1) == 16_381_061_632
    assert Packing(INT4, scale_bits=32, group=64).bytes(logical, 1) == 18_428_694_336


def test_qlora_bits() -> None:
    """QLoRA (arXiv:2305.14314, §3): absmax costs 0.5 bits a weight; doubly quantised 0.127, 8/64 + 32/(64·256)."""
    n = 2**24
    single, double = FORMATS["nf4"].packing, FORMATS["nf4-double"].packing
    assert single.bytes(n, 1) - single.per_matrix == n // 2 + n // 16
    extra = (double.bytes(n, 1) - double.per_matrix - n // 2) * 8 / n
    assert round(extra, 3) == 0.127


def test_nf4_blocks_run_through_the_matrix() -> None:
    """10 inputs × 32 outputs are 320 numbers, 5 blocks of 64, whatever the rows."""
    packing = FORMATS["nf4"].packing
    assert packing.bytes(10, 32) - packing.per_matrix == 160 + 5 * 4


def test_four_bit_float_blocks() -> None:
    assert Packing(MXFP4).bytes(2880, 5760) == 5760 * 90 * 17
    assert FORMATS["nvfp4"].packing.bytes(64, 10) == 10 * 4 * NVFP4.block_bytes + 8


@given(st.sampled_from(sorted(FORMATS)), st.integers(1, 600), st.integers(1, 600))
def test_more_numbers_take_no_less(name: str, inputs: int, outputs: int) -> None:
    packing = FORMATS[name].packing
    size = packing.bytes(inputs, outputs)
    assert packing.bytes(inputs + 1, outputs) >= size
    assert packing.bytes(inputs, outputs + 1) >= size


def test_spellings() -> None:
    assert dtype("BF16") == dtype("bfloat16") == DTYPES["bf16"]
    assert dtype("f16") == DTYPES["fp16"]


@pytest.mark.parametrize("name", ["", "bf61", "q4_k", "q4_k_m", "nope\x1b[31m"])
def test_no_such_cache_type(name: str) -> None:
    with pytest.raises(InputError, match="unknown data type") as caught:
        dtype(name)
    assert "\x1b" not in caught.value.message


@pytest.mark.parametrize("name", ["int4:0", "int4:-1", "int4:x", "int4:", "int4:64:asym", "int4:99999999", "bf16:64"])
def test_no_such_group(name: str) -> None:
    with pytest.raises(InputError):
        weight_format(name)
