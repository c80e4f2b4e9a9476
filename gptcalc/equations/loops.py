"""Loops: how a pass begins, and what a sublayer hears of the last one.

Behind the last pass x_O is the stream that it left and Z_M are the sums that it set aside, by ẋ; h_M is an input's
message. Inside gates ḋ runs over two inputs side by side, ḃ over their rank.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from gptcalc.architecture import Attention, AttentionResiduals, Looped, Messages, Mixer
from gptcalc.equations.language import Index
from gptcalc.equations.lines import Lines, root
from gptcalc.equations.norms import norm_line
from gptcalc.equations.symbols import Symbols

#: of attention with an input each for queries, keys and values: what their symbols end with, and their weights' keys
INPUTS = (("_Q", "q."), ("_K", "k."), ("_V", "v."))


def begin(lines: Lines, loop: Looped) -> None:
    """The first layer of a loop: the stream as it begins, which later passes begin with as well; of two speeds both
    states, x_B the slow one and x_A the fast one."""
    if loop.entry == "on":
        return
    if loop.entry == "both":
        assert loop.entry_norm is not None
        first = lines.apart("norm")
        norm_line(first, loop.entry_norm, "x_I[t,i]", "x[t,i]", "i", "norm", saved=2)
        lines.during("first", first)
        norm_line(lines.under("norm"), loop.entry_norm, "x[t,i]", "x[t,i]", "i", "norm", saved=2)
        lines.pointwise("x[t,i] = x[t,i] + x_I[t,i]", saved=2)
        return
    if loop.entry in ("fast", "slow"):
        if loop.entry == "fast":
            first = lines.apart()
            first.pointwise("x_B[t,i] = x[t,i]")
            first.pointwise("x_A[t,i] = z_F[i]", z_F="start")
            lines.during("first", first)
        lines.pointwise("x[t,i] = x_A[t,i] + x_B[t,i]")
        return
    later = lines.apart()
    if loop.sums > 1:
        later.scope["ẋ"] = Symbols.derived(str(loop.sums - 1), loop.sums - 1, "streams")
        later.pointwise(f"Z_M[t,ẋ,i] = Z[t,ẋ + {loop.aside},i]")
    if loop.sums:
        later.pointwise("x_O[t,i] = x[t,i]")
    later.pointwise("x[t,i] = x_I[t,i]")
    first = lines.apart()
    first.pointwise("x_I[t,i] = x[t,i]")
    lines.during("first", first)
    lines.during("later", later)


def end(lines: Lines, loop: Looped) -> None:
    """The last layer of a loop: what leaves it, normed, which of two speeds is a state."""
    if loop.norm is not None:
        norm_line(lines.under("norm"), loop.norm, "x[t,i]", "x[t,i]", "i", "norm", name="_F", saved=2)
    if loop.entry in ("fast", "slow"):
        lines.pointwise(f"{'x_A' if loop.entry == 'fast' else 'x_B'}[t,i] = x[t,i]")


def kept_by_the_last(lines: Lines) -> None:
    """What a sublayer stores is the last pass's; those before it look back on that, and of the new tokens on their
    own."""
    whole, lines.lines = lines.lines, []
    for line in whole:
        if line.kind != "store":
            lines.lines.append(line)
            continue
        left, _, right = line.text.partition(" = ")
        before = left.replace("[", "_last[", 1)
        earlier = lines.apart()
        earlier.pointwise(f"{left} = {{{before} if s < S − T; {right} otherwise}}")
        lines.during("earlier", earlier)
        lines.lines.append(replace(line, passes="last"))


def hear(
    lines: Lines,
    mixer: Mixer,
    spec: Messages,
    loop: Looped,
    residuals: AttentionResiduals,
    source: str,
    symbols: Symbols,
) -> list[str]:
    """The inputs of a sublayer, in later passes mixed with messages: what each is called. `source`: what it reads."""
    d = lines.scope["i"]
    lines.scope |= {
        "ẋ": Symbols.derived(str(loop.sums), loop.sums, "streams"),
        "ḋ": Symbols.derived(f"2·{d.symbol}", 2 * d.size, "channels"),
        "ḃ": symbols.index("message_rank", spec.rank, "channels", mixer.section),
    }
    later = lines.apart("other")
    there = f"{{Z_M[t,ẋ,i] if ẋ < {loop.sums - 1}; x_O[t,i] otherwise}}" if loop.sums > 1 else "x_O[t,i]"
    later.pointwise(f"n_M[t,ẋ,i] = {there}", saved=2)
    norm_line(later, residuals.norm, "n_M[t,ẋ,i]", "n_M[t,ẋ,i]", "i", "messages.norm", name="_M", saved=2)
    lines.during("later", later)
    ends = INPUTS if isinstance(mixer, Attention) else (("", ""),)
    for number, (end, key) in enumerate(ends):
        lines.under("other").pointwise(f"x_H{end}[t,i] = {source.replace('ỵ', str(number))}")
        own = lines.apart("other")
        _message(own, d, end, f"messages.{key}")
        _gate(own, spec, d, end, f"messages.{key}")
        lines.during("later", own)
    return [f"x_H{end}[t,i]" for end, _ in ends]


def _message(lines: Lines, d: Index, end: str, key: str) -> None:
    """h_M: the last pass's sums, each as much as its product with the query says."""
    query: dict[str, Any] = {f"q_M{end}": f"{key}query"}
    lines.sum(f"ζ_M[t,ẋ] = Σ_i n_M[t,ẋ,i]·q_M{end}[i]", **query)
    lines.pointwise(f"α_M[t,ẋ] = softmax_ẋ(ζ_M[t,ẋ]/{root(d)})", saved=2)
    lines.sum("h_M[t,i] = Σ_ẋ α_M[t,ẋ]·n_M[t,ẋ,i]", saved=2)


def _gate(lines: Lines, spec: Messages, d: Index, end: str, key: str) -> None:
    """How much of an input is forgotten, and how much of the message is heard."""
    stream = f"x_H{end}[t,i]"
    norm_line(lines, spec.norm, "s_H[t,i]", stream, "i", f"{key}norm", name="_M", saved=2)
    norm_line(lines, spec.norm, "r_H[t,i]", "h_M[t,i]", "i", f"{key}norm", name="_M", saved=2)
    lines.pointwise(f"c_H[t,ḋ] = {{s_H[t,ḋ] if ḋ < {d.symbol}; r_H[t,ḋ − {d.symbol}] otherwise}}", saved=2)
    narrow: dict[str, Any] = {f"D_M{end}": f"{key}down"}
    lines.sum(f"ℓ_H[t,ḃ] = Σ_ḋ c_H[t,ḋ]·D_M{end}[ḋ,ḃ]", saved=2, **narrow)
    for name, matrix, word in (("f_H", "F_M", "forget"), ("g_H", "G_M", "gain")):
        wide: dict[str, Any] = {f"{matrix}{end}": f"{key}{word}"}
        lines.sum(f"{name}[t,i] = Σ_ḃ ℓ_H[t,ḃ]·{matrix}{end}[ḃ,i]", saved=2, **wide)
    lines.pointwise(f"{stream} = (1 − tanh(f_H[t,i]))·{stream} + tanh(g_H[t,i])·h_M[t,i]", saved=2)
