"""Attention of a block of tokens that are drafted at once, to what a target made of all tokens so far and to each other
(DFlash, arXiv:2602.06036).

Letters: t slots of the block, ţ the same as keys; ť the tokens whose states come in; s all of them so far.
"""

from __future__ import annotations

from gptcalc.architecture import Attention
from gptcalc.equations import attention_heads
from gptcalc.equations.conditions import Pairs
from gptcalc.equations.language import LOG_SUM_EXP, Mark
from gptcalc.equations.lines import Lines, ix, plus, root
from gptcalc.equations.rope import Rotation

#: where the block's slots stand: behind all tokens so far
BEHIND = "(S + t)"


def scored(lines: Lines, a: Attention, rotation: Rotation | None) -> None:
    """n[t,i] and the target's states x_T[ť,i] → o[t,h,w]."""
    q, kv = attention_heads.head_indices(a)
    _keys_and_values(lines, a, rotation, "x_T", "ť", "ť", "", kv)
    k, v = ix("s", kv, "a"), ix("s", kv, "w")
    lines.store(f"K[{k}] = k[{k}]", "keys", Pairs())
    lines.store(f"V[{v}] = v[{v}]", "values", Pairs())
    _keys_and_values(lines, a, rotation, "n", "t", BEHIND, "_B", kv)
    here, beside, query = ix("t", "s", q), ix("t", "ţ", q), ix("t", q, "a")
    lines.sum(f"z[{here}] = Σ_a q[{query}]·K[{k}]")
    lines.sum(f"z_B[{beside}] = Σ_a q[{query}]·k_B[{ix('ţ', kv, 'a')}]")
    factor = f"/{root(lines.scope['a'])}" if a.scores.scale is None else f"·{lines.number('scale_z', a.scores.scale)}"
    one, other = f"z[{here}]{factor}", f"z_B[{beside}]{factor}"
    lines.pointwise(f"α[{here}] = softmax_s({one}; {other})", saved=2, flash=LOG_SUM_EXP)
    lines.pointwise(f"α_B[{beside}] = softmax_ţ({other}; {one})", saved=2)
    out = f"o[{ix('t', q, 'w')}]"
    lines.sum(f"{out} = Σ_s α[{here}]·V[{v}]")
    lines.sum(f"{out} += Σ_ţ α_B[{beside}]·v_B[{ix('ţ', kv, 'w')}]", saved=2)


def _keys_and_values(
    lines: Lines, a: Attention, rotation: Rotation | None, source: str, at: str, position: str, name: str, kv: str
) -> None:
    """The same matrices make them of the target's states and of the block's tokens."""
    for plain, key, letter, use in (("k", "k", "a", "keys"), ("v", "v", "w", "values")):
        big, where = plain.upper(), ix(kv, letter)
        here = f"{plain}{name}[{ix(at, where)}]"
        bias = plus(f"b_{big}[{where}]", plain in a.bias)
        marks = {f"W_{big}": Mark(key, "keys" if use == "keys" else "values"), f"b_{big}": f"{key}.bias"}
        lines.sum(f"{here} = Σ_i {source}[{at},i]·W_{big}[i,{where}]{bias}", saved=2, **marks)  # type: ignore[arg-type]
        if plain == "k":
            attention_heads.positioned(lines, a, rotation, "k", here, kv, position)
