"""Norms as lines."""

from __future__ import annotations

from typing import Any

from gptcalc.architecture import Factors, Norm
from gptcalc.equations.conditions import Condition
from gptcalc.equations.language import Aside, Mark
from gptcalc.equations.lines import Lines


def factor(lines: Lines, factors: Factors, name: str, where: str) -> str:
    """Learned factors as a line has them: the stored weight `name` times a constant, squared or not."""
    stored = f"{name}[{where}]"
    if factors.scale == 1.0:
        return f"{stored}²" if factors.squared else stored
    whole = f"{lines.factor(f'scale_{name}', factors.scale)}{stored}"
    return f"({whole})²" if factors.squared else whole


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
    lines.pointwise(text, condition, saved=saved, constants={"ε": norm.eps}, aside=_aside(norm, over), **keys)


def _aside(norm: Norm, over: str) -> Aside:
    """Mean and deviation of a layer norm; the deviation of an RMS norm, which multiplies 1 + γ in fp32."""
    if norm.kind == "layernorm":
        return Aside(row=8, over=over)
    return Aside(
        upcast=True, narrow=norm.weight and not norm.offset, wide=norm.weight and norm.offset, row=4, over=over
    )


def narrowed(lines: Lines, name: str, source: str, key: str) -> None:
    """ℓ_name: the source through a layer's own matrix to a low rank."""
    i = source[source.rindex(",") + 1 : -1]
    left: dict[str, Any] = {f"A_{name}": Mark(f"{key}.left", own=True)}
    lines.sum(f"ℓ_{name}[t,ẏ] = Σ_{i} {source}·A_{name}[{i},ẏ]", saved=2, **left)


def widened(lines: Lines, name: str, target: str, where: str, key: str, matrix: str = "") -> None:
    """A projection's low-rank part, of each layer its own: target += ℓ_name·B."""
    matrix = f"B_{matrix or name}"
    right: dict[str, Any] = {matrix: Mark(key, own=True)}
    lines.sum(f"{target} += Σ_ẏ ℓ_{name}[t,ẏ]·{matrix}[ẏ,{where}]", **right)
