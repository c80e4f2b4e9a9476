"""Norms as lines."""

from __future__ import annotations

from typing import Any

from gptcalc.architecture import Norm
from gptcalc.equations.conditions import Condition
from gptcalc.equations.language import Lines


def norm_line(
    lines: Lines,
    norm: Norm,
    target: str,
    source: str,
    over: str,
    key: str,
    weight: str = "",
    name: str = "",
    saved: int = 0,
    condition: Condition | None = None,
) -> None:
    """target = norm(source)·γ + β, the mean taken over the index `over`; γ has the indices `weight` (default: over)."""
    weight = weight or over
    gamma, beta = f"γ{name}", f"β{name}"
    keys: dict[str, Any] = {}
    factor = ""
    if norm.weight:
        factor = f"·(1 + {gamma}[{weight}])" if norm.offset else f"·{gamma}[{weight}]"
        keys[gamma] = f"{key}.weight"
    inside, outside = (factor, "") if norm.weight_at == "input" else ("", factor)
    letters = f"{{{over}}}" if "," in over else over
    text = f"{target} = {norm.kind}_{letters}({source}{inside}){outside}"
    if norm.bias:
        text += f" + {beta}[{weight}]"
        keys[beta] = f"{key}.bias"
    lines.pointwise(text, condition, saved=saved, constants={"ε": norm.eps}, **keys)
