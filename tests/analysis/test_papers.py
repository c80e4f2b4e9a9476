"""Tables of papers about how many KV heads, latents or experts there are, recomputed by sweeps."""

from __future__ import annotations

from typing import Any

import pytest

from gptcalc.analysis.sweep.piece import Axis
from gptcalc.analysis.sweep.run import Grid, Sweep
from gptcalc.sources import load


def swept(model: str, axes: dict[str, tuple[int | str, ...]], *figures: str) -> list[dict[str, Any]]:
    """One row a point, with one token of context."""
    grid = Grid(document=load(model).document, axes=tuple(Axis(key, values) for key, values in axes.items()),
                contexts=(1,), columns=(*axes, *figures))  # fmt: skip
    return Sweep(grid).rows()


@pytest.mark.parametrize(("model", "n_h", "layers"), [("deepseek-v2-lite", 16, 27), ("deepseek-v2", 128, 60)])
def test_caches_of_four_kinds_of_attention(model: str, n_h: int, layers: int) -> None:
    """DeepSeek-V2 (arXiv:2405.04434), table 1, elements a token: MHA 2·n_h·d_h·l, GQA 2·n_g·d_h·l, MQA 2·d_h·l, MLA
    (d_c + d_h^R)·l ≈ 9/2·d_h·l. Section 2.1.4: d_c is 4·d_h and d_h^R d_h/2, as much as GQA of 2.25 groups has."""
    d_h = 128
    words = ("as-is", "mha", "gqa:8", "gqa:4", "gqa:1")
    elements = {row["with"]: row["kv_bytes"] // 2 for row in swept(model, {"with": words}, "kv_bytes")}
    assert elements == {
        "as-is": (4 * d_h + d_h // 2) * layers,
        "mha": 2 * n_h * d_h * layers,
        "gqa:8": 2 * 8 * d_h * layers,
        "gqa:4": 2 * 4 * d_h * layers,
        "gqa:1": 2 * d_h * layers,
    }
    assert elements["as-is"] == 9 * d_h * layers // 2
    assert elements["as-is"] / elements["gqa:1"] == 2.25


def test_latents_against_heads() -> None:
    """The same paper, section D.2, table 9 (7 in its first versions), on both in mixtures of experts of two sizes.
    Cache a token in elements: small 110.6K and 15.6K, large 860.2K and 34.6K. Parameters in all, small: 15.8B and
    15.7B. It doesn't say the large one's heads: in 60 layers 860.2K are 2·128·60 for each of 56."""
    words = ("mha", "as-is")
    small = swept("deepseek-v2-lite", {"with": words}, "total", "kv_bytes")
    assert [f"{row['kv_bytes'] / 2 / 1000:.1f}K" for row in small] == ["110.6K", "15.6K"]
    assert [f"{row['total'] / 1e9:.1f}B" for row in small] == ["15.8B", "15.7B"]
    large = swept("deepseek-v2", {"with": words, "n_heads": (56,)}, "kv_bytes")
    assert [f"{row['kv_bytes'] / 2 / 1000:.1f}K" for row in large] == ["860.2K", "34.6K"]


def test_experts_of_switch_transformers() -> None:
    """Fedus et al. 2021 (arXiv:2101.03961), table 9: Switch-Base has 7B parameters, 128 experts in every other layer,
    T5-Base 0.2B; a token uses as many of one as of the other, but for what chooses. The table's MLPs have gates and
    2048 hidden channels, three matrices of 768·2048; those of the checkpoints two of 768·3072, which are as many."""
    rows = swept("switch-base-8", {"moe.n_experts": (1, 8, 128)}, "total", "active")
    dense, _, switch = rows
    assert f"{switch['total'] / 1e9:.0f}B" == "7B"
    assert f"{dense['total'] / 1e9:.1f}B" == "0.2B"
    # 6 of 12 layers of the encoder and of the decoder have experts: two matrices of 768·3072 each, and 768 to choose by
    for row in rows:
        more = row["moe.n_experts"] - 1
        assert row["total"] - dense["total"] == 12 * more * (2 * 768 * 3072 + 768)
        assert row["active"] - dense["active"] == 12 * more * 768
