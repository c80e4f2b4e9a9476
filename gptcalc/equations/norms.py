"""Norms and residuals: how a sublayer's input is taken from the residual stream, and its output added to it."""

from __future__ import annotations

from typing import Any

from gptcalc.architecture import Norm, Sublayer
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
) -> None:
    """target = norm(source)·γ + β, the mean taken over the index `over`; γ has the indices `weight` (default: over)."""
    weight = weight or over
    gamma, beta = f"γ{name}", f"β{name}"
    text = f"{target} = {norm.kind}_{over[-1]}({source})"
    keys: dict[str, Any] = {}
    if norm.weight:
        text += f"·(1 + {gamma}[{weight}])" if norm.offset else f"·{gamma}[{weight}]"
        keys[gamma] = f"{key}.weight"
        if norm.bias:
            text += f" + {beta}[{weight}]"
            keys[beta] = f"{key}.bias"
    lines.pointwise(text, saved=saved, **keys)


def enter(lines: Lines, sublayer: Sublayer) -> None:
    """n: what the sublayer reads, the residual stream x, normed where the norm stands in front."""
    if sublayer.norm is not None and sublayer.norm_at in ("pre", "sandwich"):
        norm_line(norms_of(lines), sublayer.norm, "n[t,i]", "x[t,i]", "i", "norm", saved=2)
    elif sublayer.norm_at in ("post", "output"):
        lines.pointwise("n[t,i] = x[t,i]")


def leave(lines: Lines, sublayer: Sublayer, dropout: bool, target: str = "x") -> None:
    """x: the residual stream after the sublayer's output y, normed where the norm stands behind.

    In a parallel part the target is that unit's share of the sum, not x.
    """
    norm, at = sublayer.norm, sublayer.norm_at
    if dropout:
        drop(lines, "y[t,i]")
    if norm is not None and at in ("output", "sandwich"):
        norm_line(norms_of(lines), norm, "y[t,i]", "y[t,i]", "i", "post_norm", name="′", saved=2)
    scale = "" if sublayer.residual_scale == 1.0 else f"{sublayer.residual_scale:g}·"
    before = "x[t,i] + " if target == "x" else ""
    lines.pointwise(f"{target}[t,i] = {before}{scale}y[t,i]", saved=2 if target == "x" else 0)
    if norm is not None and at == "post":
        norm_line(norms_of(lines), norm, "x[t,i]", "x[t,i]", "i", "post_norm", name="′", saved=2)


def drop(lines: Lines, what: str) -> None:
    """Dropout: the mask is kept, one byte an element."""
    lines.pointwise("m[t,i] = keep(t,i)", saved=1)
    lines.pointwise(f"{what} = dropout({what}, m[t,i])")


class _Norms(Lines):
    """The same lines, under the component norm."""

    def __init__(self, lines: Lines) -> None:
        super().__init__(lines.prefix, "norm", lines.scope)
        self.lines = lines.lines


def norms_of(lines: Lines) -> Lines:
    return _Norms(lines)
