"""Causal convolutions over the last tokens, channel by channel, and what of them stays in the cache."""

from __future__ import annotations

from typing import TypeAlias

from gptcalc.equations.conditions import Constant
from gptcalc.equations.language import Index, Lines
from gptcalc.equations.symbols import Symbols

#: the letters of a convolution: the tokens that it reads, those of them that stay in the cache
ConvolutionLetters: TypeAlias = tuple[str, str]
OF_KEYS: ConvolutionLetters = ("κ", "ϰ")
OF_OUTPUT: ConvolutionLetters = ("ϑ", "ς")


def convolve(
    lines: Lines, name: str, rest: str, key: str, kernel: int, letters: ConvolutionLetters, saved: int = 0,
    alone: bool = False, bias: bool = False,
) -> None:  # fmt: skip
    """A symbol plus its causal convolution over the last `kernel` tokens, channel by channel (the indices `rest`);
    alone: the convolution in the symbol's place."""
    token, before = letters
    y, near = f"{name}[t,{rest}]", f"{name}_C[t,{token},{rest}]"
    weight, offset = f"W_C{name}", f"b_C{name}"
    lines.pointwise(f"{near} = {name}[t − {kernel - 1} + {token},{rest}]")
    added = f" + {offset}[{rest}]" if bias else ""
    text = f"{name}̂[t,{rest}] = Σ_{token} {near}·{weight}[{token},{rest}]{added}"
    lines.sum(text, component="" if alone else "other", **{weight: key, offset: f"{key}.bias"})  # type: ignore[arg-type]
    lines.store(f"R_{name}[{before},{rest}] = {name}[S − {kernel - 1} + {before},{rest}]", "convolution", Constant())
    lines.pointwise(f"{y} = {name}̂[t,{rest}]" if alone else f"{y} = {y} + {name}̂[t,{rest}]", saved=saved)


def convolution_scope(kernel: int, section: str, symbols: Symbols, letters: ConvolutionLetters) -> dict[str, Index]:
    """What the letters of a convolution run over."""
    token, before = letters
    tokens = symbols.index("kernel", kernel, "taps", section)
    return {token: tokens, before: symbols.derived(str(kernel - 1), kernel - 1, "taps")}
