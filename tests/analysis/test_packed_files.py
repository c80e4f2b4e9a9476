"""Packed checkpoints: their bytes as an index of their files says (metadata.total_size)."""

from __future__ import annotations

import pytest

from gptcalc.analysis.memory.account import memory
from gptcalc.analysis.memory.weights import total
from gptcalc.analysis.params import params
from gptcalc.sources import load


@pytest.mark.parametrize(
    ("preset", "dtype", "size"),
    [
        # MLX: a 16-bit scale and bias for a group, the tables too; sizes as exo's model cards copy them from the index
        ("mistral-7b", "mlx4", 4_073_857_024),
        ("nemotron-nano-9b-v2", "mlx4", 5_002_791_936),
        ("nemotron-nano-9b-v2", "mlx6", 7_224_298_496),
        # its routers are no linear layers, and stay wide
        ("glm-4.7", "mlx4", 198_556_925_568),
        ("glm-4.7", "mlx6", 286_737_579_648),
        ("glm-4.7", "mlx8:32", 396_963_397_248),
        ("glm-5", "bf16", 1_487_822_475_264),
        # llm-compressor#1215, W4A16 and W4A8 in groups of 128: the latter takes a byte a number
        ("llama-3.1-8b", "w4a16", 5_700_595_200),
        ("llama-3.1-8b", "int8:128", 9_190_252_544),
    ],
)
def test_as_the_index_says(preset: str, dtype: str, size: int) -> None:
    assert total(load(preset).architecture, dtype) == size


def test_tables_by_name() -> None:
    """As in Arp1tMoga/fast_qwen: eight bits and a 16-bit scale and bias for 64 numbers are 17 bytes for 16."""
    model = load("qwen3.6-27b").architecture
    table = model.v * model.d
    wide, four = total(model, "bf16,output=bf16"), total(model, "mlx4:32")
    assert total(model, "bf16,output=mlx8,embedding=mlx8") == wide - 2 * (2 * table - table * 17 // 16)
    assert total(model, "mlx4:32,output=mlx8,embedding=mlx8") == four + 2 * (table * 17 // 16 - table * 5 // 8)
    assert total(model, "nvfp4,output=nvfp4") == total(model, "nvfp4") - 2 * table + table * 9 // 16 + 8


def test_routers_by_name() -> None:
    """Of glm-4.7, whose 89 sparse layers choose among 160 experts: wide in MLX, or in eight bits where asked for."""
    model = load("glm-4.7").architecture
    routers = 89 * 160 * model.d
    assert total(model, "mlx4,router=mlx8") == total(model, "mlx4") - 2 * routers + routers * 17 // 16


@pytest.mark.parametrize(
    ("preset", "four", "eight"),
    [
        ("qwen3.5-27b", 16_054_266_848, 29_500_943_328),
        ("qwen3.5-9b", 5_950_062_560, 10_426_433_504),
        ("qwen3.5-35b-a3b", 20_391_405_152, 37_721_130_592),  # routers and gates are linear layers here
        ("qwen3.5-122b-a10b", 69_593_314_272, 130_648_036_320),
        ("qwen3.5-397b-a17b", 223_860_768_352, 422_032_580_192),
        ("minimax-m2.5", 128_666_664_960, 242_986_745_856),  # its routers have 8 bits in both
    ],
)
def test_what_is_packed(preset: str, four: int, eight: int) -> None:
    """The difference of 4 and 8 bits, in which a vision tower that stays wide cancels out."""
    model = load(preset).architecture
    assert total(model, "mlx8") - total(model, "mlx4") == eight - four


def test_kimi_ships_its_experts_in_four_bits() -> None:
    """moonshotai/Kimi-K2.6's index: 595,148,192,736 bytes, less its vision tower of 27 layers and the projector."""
    d, inner, joined = 1152, 4304, 4 * 1152
    layer = 4 * d * d + 4 * d + 2 * d * inner + inner + d + 4 * d  # projections, biases, two layer norms
    tower = 27 * layer + (3 * 14 * 14 * d + d) + 64 * 64 * d + 2 * d  # patches, positions, the last norm
    projector = 2 * d + joined * joined + joined + joined * 7168 + 7168
    found = memory(load("kimi-k2.6").architecture, context=1)
    assert found.dtype == "w4a16:32:experts"
    assert found.per_device.weights == 595_148_192_736 - 2 * (tower + projector)


def test_deepseek_v4_ships_its_experts_in_four_bits_and_the_rest_in_eight() -> None:
    """Of Flash's 43 layers with 256 experts of three matrices of 4,096 × 2,048: 17 bytes for 32 numbers. Its shared
    expert's are a byte each, and one for 128 × 128."""
    found = memory(load("deepseek-v4-flash").architecture, context=1)
    sizes = {row.name: row.bytes for row in found.tensors}
    assert found.dtype == "fp8-mxfp4"
    assert sizes["moe.up"] == 256 * 4096 * 2048 // 32 * 17
    assert sizes["moe.shared.up"] == 4096 * 2048 + 32 * 16
    assert any(line.startswith("weights: all matrices in fp8-mxfp4, though") for line in found.estimated)


@pytest.mark.parametrize(("preset", "exact"), [("llama-3.1-8b", True), ("glm-4.7", False)])
def test_routers_by_mlx_are_an_estimate(preset: str, exact: bool) -> None:
    found = memory(load(preset).architecture, dtype="mlx4", context=1)
    assert any(line.startswith("weights") for line in found.exact) == exact
    assert any("routers" in line for line in found.estimated) != exact


def test_the_largest_qwen_as_published() -> None:
    """Qwen3.8-2.4T-A95B in bf16 with its multi-token module: 4.89 TB (Unsloth's page on it)."""
    counts = params(load("qwen3.8-2.4t-a95b").architecture)
    assert round(2 * (counts.total + counts.mtp) / 10**12, 2) == 4.89
