"""What enters the first layer: rows of tables for tokens, positions and types, frames through convolutions, or hidden
states of another model."""

from __future__ import annotations

import math
from typing import Any

from gptcalc.architecture import Convolution, ConvolutionalFront, Embedding, TargetStates
from gptcalc.equations.language import Index, Mark
from gptcalc.equations.lines import Lines, plus, root
from gptcalc.equations.norms import norm_line
from gptcalc.equations.relative import type_of
from gptcalc.equations.symbols import Symbols


def scope(e: Embedding, c: Index, width: Index, symbols: Symbols) -> dict[str, Index]:
    """ĩ: columns of the token table, where they are fewer than d; τ: rows of positions; ṯ: types."""
    letters = {"ĩ": width}
    if e.position == "learned":
        extra = e.rows - c.size
        letters["τ"] = c if extra == 0 else symbols.derived(f"{c.symbol}+{extra}", e.rows, "positions")
    if e.types:
        letters["ṯ"] = symbols.index("n_types", e.types, "positions")
    whole = width
    for n, other in enumerate(e.beside):
        letters[ROWS[n]] = symbols.index(f"n_beside{n + 1}", other.rows, "positions")
        letters[COLUMNS[n]] = own = symbols.index(f"d_beside{n + 1}", other.d, "channels")
        letters["ẑ"] = whole = symbols.derived(f"{whole.symbol}+{own.symbol}", whole.size + own.size, "channels")
    return letters


#: letters of tables of what else is given with each token
ROWS, COLUMNS = ("ř", "ŕ"), ("č", "ċ")


def embed(lines: Lines, e: Embedding, narrow: bool, kept: int, tied: bool = False, token: str = "token(t)") -> None:
    """x[t,i] of the tokens. `narrow`: rows have fewer channels than the stream; `kept`: bytes of the result that the
    backward pass keeps; `tied`: the token table is another stack's; `token`: which one is read."""
    mark = table(e, tied)
    d = lines.scope["i"]
    scale = f"{root(d)}·" if e.scale == math.sqrt(d.size) else lines.factor("scale_x", e.scale)
    late = narrow and e.projected != "token"
    x, i = ("x_E[t,ĩ]", "ĩ") if late else ("x[t,i]", "i")
    added = e.position == "learned" or bool(e.types)  # then only the sum is needed again
    whole = 0 if late else kept
    if narrow and not late:
        lines.pointwise(f"x_E[t,ĩ] = E[u,ĩ], u = {token}", saved=2, E=mark)
        project(lines, e, 0 if scale or added else kept)
        if scale:
            lines.pointwise(f"x[t,i] = {scale}x[t,i]", saved=0 if added else kept)
    else:
        lines.pointwise(f"{x} = {scale}E[u,{i}], u = {token}", saved=0 if added else whole, E=mark)
    if e.beside:
        beside(lines, e, 0 if added else whole)
    if e.norm is not None and e.normed == "token":
        norm_line(lines.under("norm"), e.norm, x, x, i, "norm", saved=kept)
    positions(lines, e, x, 0 if e.types else whole)
    if e.types:
        kind = "0" if e.type_of is None else type_of(lines, e.type_of, "t")
        lines.pointwise(f"{x} = {x} + E_T[ṯ,{i}], ṯ = {kind}", saved=whole, E_T=Mark("types", "types"))
    if late and e.projected == "sum":
        project(lines, e, kept)
        x, i = "x[t,i]", "i"
    if e.affine:
        text = f"{x} = f_E[{i}]·({x} + b_A[{i}])"
        lines.pointwise(text, saved=whole, component="other", f_E="factor", b_A="offset")
    if e.norm is not None and e.normed == "sum":
        norm_line(lines.under("norm"), e.norm, x, x, i, "norm", saved=kept if i == "i" else 2)
    if late and e.projected == "normed":
        project(lines, e, kept)


def beside(lines: Lines, e: Embedding, kept: int) -> None:
    """x[t,i] of the token's row and rows of other tables behind it, the first of each where nothing is given."""
    at = lines.scope["i" if "ĩ" not in lines.scope else "ĩ"].symbol
    pieces = [f"x[t,ẑ] if ẑ < {at}"]
    for n in range(len(e.beside)):
        row, column, name = ROWS[n], COLUMNS[n], f"e_{'AB'[n]}"
        marks: dict[str, Any] = {f"E_{'AB'[n]}": f"beside.{n}"}
        lines.pointwise(f"{name}[t,{column}] = E_{'AB'[n]}[{row},{column}], {row} = 0", saved=2, **marks)
        here = f"{name}[t,ẑ − {at if n == 0 else f'({at})'}]"
        at += f" + {lines.scope[column].symbol}"
        pieces.append(f"{here} otherwise" if n == len(e.beside) - 1 else f"{here} if ẑ < {at}")
    lines.pointwise(f"x_E[t,ẑ] = {{{'; '.join(pieces)}}}", saved=2)
    lines.sum("x[t,i] = Σ_ẑ x_E[t,ẑ]·W_E[ẑ,i] + b_E[i]", None, kept, "other", W_E="projection", b_E="projection.bias")


def table(e: Embedding, elsewhere: bool) -> Mark:
    """How a line names the token table: here for the first time, or as another stack's or stage's, or the target's."""
    if e.borrowed:
        return Mark("target.embedding.token", "tokens", "embedding", borrowed=True)
    if elsewhere:
        return Mark("embedding.token", "tokens", "embedding", tied=True)
    return Mark("token", "tokens")


def positions(lines: Lines, e: Embedding, x: str, kept: int) -> None:
    """What positions add to x, where the embedding says something of them."""
    i = x[x.index(",") + 1 : -1]
    row = f"t + {e.offset}" if e.offset else "t"
    if e.position == "learned":
        lines.pointwise(f"{x} = {x} + P[τ,{i}], τ = {row}", saved=kept, P=Mark("position", "positions"))
    elif e.position == "sinusoidal":
        lines.pointwise(f"{x} = {x} + {_sines(lines, e, i, f'({row})')}")


def _sines(lines: Lines, e: Embedding, i: str, row: str) -> str:
    """Sine and cosine of the position in channel i (arXiv:1706.03762, §3.5)."""
    d, base = lines.scope[i].symbol, lines.number("θ", SINES)
    if e.sinusoids == "interleaved":
        angle = f"{row}/{base}^(2·⌊{i}/2⌋/{d})"
        return f"{{sin({angle}) if {i} = 2·⌊{i}/2⌋; cos({angle}) otherwise}}"
    half = f"{d}/2" if e.width % 2 == 0 else f"({d} + 1)/2"
    spacing = f"({{}}/{f'({half} − 1)' if e.width > 2 else '1'})" if e.sinusoids == "tensor2tensor" else f"(2·{{}}/{d})"
    first, second = (f"{row}/{base}^{spacing.format(place)}" for place in (i, f"({i} − {half})"))
    return f"{{sin({first}) if {i} < {half}; cos({second}) otherwise}}"


#: the base of the frequencies of sines and cosines
SINES = 10000.0


def project(lines: Lines, e: Embedding, kept: int) -> None:
    text = f"x[t,i] = Σ_ĩ x_E[t,ĩ]·W_E[ĩ,i]{plus('b_E[i]', e.projection_bias)}"
    lines.sum(text, None, kept, "other", W_E="projection", b_E="projection.bias")


# --- hidden states of a target ----------------------------------------------------------------------------------------


def states_scope(target: TargetStates, d: Index, symbols: Symbols) -> dict[str, Index]:
    """ḷ: layers of the target; ḧ: their channels."""
    own = d if target.d == d.size else symbols.index("d_target", target.d, "channels")
    return {"ḷ": symbols.index("n_target", target.layers, "layers"), "ḧ": own}


def states(lines: Lines, target: TargetStates, kept: int) -> None:
    """x[t,i] of the target's hidden states; x_T[ť,i] where a block of tokens attends to them."""
    t, x = ("t", "x[t,i]") if target.block is None else ("ť", "x_T[ť,i]")
    h = f"h_T[{t},ḷ,ḧ]"
    lines.pointwise(f"{h} = hidden({t}, ḷ, ḧ)", saved=2)
    if target.norm is not None:
        norm_line(lines.under("norm"), target.norm, h, h, "ḧ", "norm", "ḷ,ḧ", "_h", saved=2)
    lines.sum(f"{x} = Σ_{{ḷ,ḧ}} {h}·W_h[ḷ,ḧ,i]", saved=kept, W_h="projection")
    if target.out_norm is not None:
        norm_line(lines.under("norm"), target.out_norm, x, x, "i", "out_norm", "", "_t", saved=kept)


# --- frames -----------------------------------------------------------------------------------------------------------


def front_scope(front: ConvolutionalFront, d: Index, symbols: Symbols) -> dict[str, Index]:
    """ḿ: channels of a frame; ẗ: frames behind the first of two convolutions, χ their channels; κ, ķ: taps."""
    first, *second = front.convolutions
    letters = {
        "ḿ": symbols.index("n_mels", front.channels, "channels"),
        "κ": symbols.index("kernel", first.kernel, "channels", "front"),
    }
    if second:
        n = second[0].stride
        letters |= {
            "ẗ": symbols.derived(f"{n}·N" if n > 1 else "N", n, "frames"),
            "ķ": symbols.index("kernel", second[0].kernel, "channels", "front"),
            "χ": d,
        }
    return letters


def frames(lines: Lines, front: ConvolutionalFront, kept: int) -> None:
    """x[t,i] of the frames F, zeros beyond both ends."""
    first, *second = front.convolutions
    at, out, target = ("ẗ", "χ", "x_F[ẗ,χ]") if second else ("t", "i", "x[t,i]")
    lines.pointwise(f"F_C[{at},κ,ḿ] = frame({_near(first, at, 'κ')}, ḿ)", saved=2)
    text = f"{target} = Σ_{{ḿ,κ}} F_C[{at},κ,ḿ]·W_F[ḿ,κ,{out}] + b_F[{out}]"
    lines.sum(text, saved=2, W_F="front.0.conv", b_F="front.0.conv.bias")
    lines.pointwise(f"{target} = {front.function}({target})", saved=0 if second else kept)
    if second:
        lines.pointwise(f"x_C[t,ķ,χ] = x_F[{_near(second[0], 't', 'ķ')},χ]", saved=2)
        text = "x[t,i] = Σ_{χ,ķ} x_C[t,ķ,χ]·W_FF[χ,ķ,i] + b_FF[i]"
        lines.sum(text, saved=2, W_FF="front.1.conv", b_FF="front.1.conv.bias")
        lines.pointwise(f"x[t,i] = {front.function}(x[t,i])", saved=kept)


def _near(convolution: Convolution, at: str, tap: str) -> str:
    """Which of the values before it a convolution's tap reads."""
    step = f"{convolution.stride}·{at}" if convolution.stride > 1 else at
    return f"{step} + {tap} − {(convolution.kernel - 1) // 2}"
