"""Which blocks of keys each head sees, by where they stand (Phi-3-small, arXiv:2404.14219)."""

from __future__ import annotations

from gptcalc.architecture import Attention, Strided
from gptcalc.equations.conditions import Pairs, Strides
from gptcalc.equations.lines import Lines, ix


def blocks(lines: Lines, a: Attention, s: Strided, heads: str) -> Strides:
    """How far a key's block is from a query's, and the condition on it."""
    step = s.step(a.n_heads)
    head = "h" if heads == "h" else f"({lines.scope['r'].symbol}·g + r)"
    moved = f" + {head}" if step == 1 else f" + {lines.number('head_step', step)}·{head}" if step else ""
    block, stride = lines.number("block", s.block), lines.number("stride", s.stride)
    place = f"(⌊s/{block}⌋{moved} + 1)"
    far = f"far[{ix('t', 's', heads)}]"
    seen = f"{place} = {stride}·⌊{place}/{stride}⌋"
    lines.pointwise(f"{far} = {{0 if {seen}; ⌊t/{block}⌋ − ⌊s/{block}⌋ otherwise}}", Pairs())
    firsts = tuple(s.first(head, a.n_heads) for head in range(a.n_heads))
    return Strides(s.block, s.local, s.stride, firsts, a.n_kv_heads, far)
