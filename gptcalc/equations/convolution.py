"""Causal convolutions over the last tokens, channel by channel, and what of them stays in the cache."""

from __future__ import annotations

from typing import Any, TypeAlias

from gptcalc.equations.conditions import Constant
from gptcalc.equations.language import Index
from gptcalc.equations.lines import Lines, plus
from gptcalc.equations.symbols import Symbols

#: the letters of a convolution: the tokens that it reads, those of them that stay in the cache
ConvolutionLetters: TypeAlias = tuple[str, str]
OF_KEYS: ConvolutionLetters = ("κ", "ķ")
OF_OUTPUT: ConvolutionLetters = ("ḱ", "ḵ")


def convolve(
    lines: Lines, name: str, rest: str, key: str, letters: ConvolutionLetters, saved: int = 0,
    bias: bool = False,
) -> str:  # fmt: skip
    """The causal convolution of a symbol over the last tokens, channel by channel (the indices `rest`): what
    lines then call it."""
    return _convolved(lines, name, rest, key, letters, saved, bias, lines.component)


def convolve_beside(
    lines: Lines, name: str, rest: str, key: str, letters: ConvolutionLetters, saved: int = 0,
    terms: int = 0,
) -> None:  # fmt: skip
    """A symbol plus its convolution; terms: where the sum is divided by the square root of so many."""
    y = f"{name}[t,{rest}]"
    more = _convolved(lines, name, rest, key, letters, 0, False, "other")
    lines.pointwise(_added(lines, y, more, terms), saved=saved)


def _convolved(
    lines: Lines, name: str, rest: str, key: str, letters: ConvolutionLetters, saved: int, bias: bool,
    component: str,
) -> str:  # fmt: skip
    token, before = letters
    out, near = f"{hatted(name)}[t,{rest}]", f"{name}_C[t,{token},{rest}]"
    of = name.replace("_", "")
    weight, offset = f"W_C{of}", f"b_C{of}"
    lines.pointwise(f"{near} = {name}[t − {lines.scope[token].symbol} + 1 + {token},{rest}]")
    marks: dict[str, Any] = {weight: key, offset: f"{key}.bias"}
    text = f"{out} = Σ_{token} {near}·{weight}[{token},{rest}]{plus(f'{offset}[{rest}]', bias)}"
    lines.sum(text, None, saved, component, **marks)
    _keep(lines, name, rest, lines.scope[token].symbol, before)
    return out


def hatted(name: str) -> str:
    """What a value is called when it is convolved: its letter with a hat."""
    letter, rest = name[0], name[1:]
    return f"{letter}̂{rest}"


def _keep(lines: Lines, name: str, rest: str, kernel: str, before: str) -> None:
    """What the next tokens need of these."""
    lines.store(f"R_{name}[{before},{rest}] = {name}[S − {kernel} + 1 + {before},{rest}]", "convolution", Constant())


def _added(lines: Lines, y: str, more: str, terms: int) -> str:
    return f"{y} = ({y} + {more})/√{lines.number('n_terms', terms)}" if terms else f"{y} = {y} + {more}"


def convolve_by_token(lines: Lines, name: str, source: str, heads: str, channel: str, key: str, terms: int) -> None:
    """The same with taps that each token adds something to, one number a tap and head, made of its input. Of these
    taps the first is the token's own, the last the farthest."""
    token, before = OF_KEYS
    i, rest = source[source.rindex(",") + 1 : -1], f"{heads},{channel}" if heads else channel
    at = f"{heads},{token}" if heads else token
    y, near, taps = f"{name}[t,{rest}]", f"{name}_C[t,{token},{rest}]", f"T_{name}[t,{token},{rest}]"
    made, own = f"τ_{name}[t,{at}]", f"W_C{name}"
    matrix: dict[str, Any] = {f"W_T{name}": f"{key}.taps"}
    lines.sum(f"{made} = Σ_{i} {source}·W_T{name}[{i},{at}]", saved=2, component="other", **matrix)
    kernels: dict[str, Any] = {own: f"{key}.own"}
    lines.pointwise(f"{taps} = {own}[{token},{rest}] + {made}", saved=2, component="other", **kernels)
    lines.pointwise(f"{near} = {name}[t − {token},{rest}]")
    lines.sum(f"{name}̂[t,{rest}] = Σ_{token} {near}·{taps}", component="other")
    _keep(lines, name, rest, lines.scope[token].symbol, before)
    lines.pointwise(_added(lines, y, f"{name}̂[t,{rest}]", terms), saved=2)


def convolution_scope(kernel: int, section: str, symbols: Symbols, letters: ConvolutionLetters) -> dict[str, Index]:
    """What the letters of a convolution run over."""
    token, before = letters
    tokens = symbols.index("kernel", kernel, "taps", section)
    return {token: tokens, before: symbols.derived(f"{tokens.symbol}−1", kernel - 1, "taps")}
