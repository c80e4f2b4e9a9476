"""Selective state spaces: Mamba (Gu and Dao 2023) and Mamba-2 (Dao and Gu 2024).

Letters: ġ groups of heads, ṙ heads of a group, ȧ channels of a state (d_state), ẇ channels of a head, as in linear
attention.
"""

from __future__ import annotations

from gptcalc.architecture import Mamba, Mamba2
from gptcalc.equations.chunked import OF_CHUNKS, Letters, heads, in_chunks
from gptcalc.equations.convolution import OF_KEYS, convolution_scope, convolve
from gptcalc.equations.language import Index, Mark
from gptcalc.equations.linear import heads_scope
from gptcalc.equations.lines import Lines, ix, plus
from gptcalc.equations.norms import norm_line
from gptcalc.equations.symbols import Symbols

#: what the matrices of gate and input are called
OF = {"G_O": "OG", "x_R": "xR"}


def mamba2_scope(m: Mamba2, d: Index, symbols: Symbols) -> dict[str, Index]:
    """What the index letters of Mamba-2 run over."""
    name = m.section
    return {
        "i": d,
        **heads_scope(m.n_groups, m.n_heads, ("n_groups", "n_states"), name, symbols),
        "ȧ": symbols.index("d_state", m.d_state, "channels", name),
        "ẇ": symbols.index("d_inner_head", m.d_head, "channels", name),
        **convolution_scope(m.kernel, name, symbols, OF_KEYS),
        **OF_CHUNKS,
    }


def mamba2(lines: Lines, m: Mamba2, chunk: int | None = None) -> None:
    """n[t,i] → y[t,i]; the states token by token, or in chunks."""
    states, few = heads(m.n_groups, m.n_heads)
    channels = ix(states, "ẇ")
    scales = dict(zip(("G_O", "x_R", "B", "C", "τ"), m.scales, strict=True))
    keys = {"G_O": "z", "x_R": "x", "B": "B", "C": "C", "τ": "dt"}
    for name, where in (("G_O", channels), ("x_R", channels), ("B", ix(few, "ȧ")), ("C", ix(few, "ȧ")), ("τ", states)):
        key, here, of = keys[name], f"{name}[t,{where}]", OF.get(name, name)
        bias = plus(f"b_{of}[{where}]", "in" in m.bias)
        marks = {f"W_{of}": key, f"b_{of}": f"{key}.bias"}
        lines.sum(f"{here} = Σ_i n[t,i]·W_{of}[i,{where}]{bias}", saved=2, **marks)  # type: ignore[arg-type]
        if scales[name] != 1.0:
            lines.pointwise(f"{here} = {lines.factor(f'scale_{name[0]}', scales[name])}{here}")
        if name in ("x_R", "B", "C"):
            conv_bias = "conv" in m.bias
            convolved = convolve(lines, name, where, f"{key}_conv", OF_KEYS, saved=2, bias=conv_bias)
            lines.pointwise(f"{here} = silu({convolved})", saved=2)
    step = f"τ[t,{states}]"
    lines.pointwise(f"{step} = {_bounded(lines, m, f'softplus({step} + b_dt[{states}])')}", saved=2, b_dt="dt_bias")
    lines.pointwise(f"v[t,{channels}] = {step}·x_R[t,{channels}]", saved=2)
    kept = f"exp(−exp(A_log[{states}])·{step})"
    if chunk is None:
        state = f"M[{ix(states, 'ȧ', 'ẇ')}]"
        lines.pointwise(f"{state} = {kept}·{state}", A_log="A_log")
        lines.sum(f"{state} += B[t,{ix(few, 'ȧ')}]·v[t,{channels}]")
        lines.sum(f"o[t,{channels}] = Σ_ȧ C[t,{ix(few, 'ȧ')}]·{state}")
        lines.keep("M")
    else:
        lines.pointwise(f"Ā[t,{states}] = {kept}", A_log="A_log")
        in_chunks(lines, chunk, Letters(states, few, states), key="B", query="C")
    lines.pointwise(f"o[t,{channels}] = o[t,{channels}] + D[{states}]·x_R[t,{channels}]", saved=2, D="D")
    _gate(lines, m, channels, ix("ṙ" if few == "ġ" and states != "ġ" else states if not few else "", "ẇ"))
    bias = plus("b_O[i]", "out" in m.bias)
    text = f"y[t,i] = Σ_{{{channels}}} o[t,{channels}]·W_O[{channels},i]{bias}"
    lines.sum(text, W_O=Mark("out", "out"), b_O="out.bias")


def _bounded(lines: Lines, m: Mamba2, step: str) -> str:
    """A time step within its bounds."""
    if m.dt_min > 0:
        step = f"max({step}, {lines.number('dt_min', m.dt_min)})"
    return step if m.dt_max is None else f"min({step}, {lines.number('dt_max', m.dt_max)})"


def _gate(lines: Lines, m: Mamba2, channels: str, group: str) -> None:
    """The output gated, and normed over the channels of a group."""
    out, gated = f"o[t,{channels}]", f"o[t,{channels}] = silu(G_O[t,{channels}])·o[t,{channels}]"
    if m.out_norm is None or m.gate_first:
        lines.pointwise(gated, saved=2)
    if m.out_norm is not None:
        norm_line(lines, m.out_norm, out, out, group, "out_norm", channels, name="_o", saved=2)
        if not m.gate_first:
            lines.pointwise(gated, saved=2)


def mamba_scope(m: Mamba, d: Index, symbols: Symbols) -> dict[str, Index]:
    """What the index letters of Mamba run over."""
    name = m.section
    inner = symbols.index("d_inner", m.d_inner, "channels", name, "tp")
    letters = {"i": d, "ẇ": inner}
    if m.n_heads > 1:
        letters["ḣ"] = symbols.index("n_states", m.n_heads, "heads", name, "tp")
        letters["ẇ"] = symbols.derived(f"{inner.symbol}/{letters['ḣ'].symbol}", m.d_inner // m.n_heads, "channels")
    letters["ȧ"] = symbols.index("d_state", m.d_state, "channels", name)
    letters["ř"] = symbols.index("dt_rank", m.dt_rank, "channels", name)
    return letters | convolution_scope(m.kernel, name, symbols, OF_KEYS)


def mamba(lines: Lines, m: Mamba) -> None:
    """n[t,i] → y[t,i]."""
    head = "ḣ" if m.n_heads > 1 else ""
    channels = ix(head, "ẇ")
    for name, key in (("G_O", "z"), ("x_R", "x")):
        of = OF[name]
        bias = plus(f"b_{of}[{channels}]", "in" in m.bias)
        marks = {f"W_{of}": key, f"b_{of}": f"{key}.bias"}
        text = f"{name}[t,{channels}] = Σ_i n[t,i]·W_{of}[i,{channels}]{bias}"
        lines.sum(text, saved=2, **marks)  # type: ignore[arg-type]
    convolved = convolve(lines, "x_R", channels, "inner_conv", OF_KEYS, saved=2, bias="conv" in m.bias)
    lines.pointwise(f"x_R[t,{channels}] = silu({convolved})", saved=2)
    for name, key, letter in (("δ", "dt_a", "ř"), ("B", "B", "ȧ"), ("C", "C", "ȧ")):
        here = f"{name}[t,{ix(head, letter)}]"
        text = f"{here} = Σ_ẇ x_R[t,{channels}]·W_{name}[{ix(channels, letter)}]"
        lines.sum(text, saved=2, **{f"W_{name}": key})  # type: ignore[arg-type]
        if m.inner_norm is not None:
            norm_line(lines, m.inner_norm, here, here, letter, f"{key}_norm", letter, name=f"_{name}", saved=2)
    step = f"τ[t,{channels}]"
    lines.sum(f"{step} = Σ_ř δ[t,{ix(head, 'ř')}]·W_τ[{ix(head, 'ř', 'ẇ')}]", saved=2, W_τ="dt_b")
    lines.pointwise(f"{step} = softplus({step} + b_τ[{channels}])", saved=2, b_τ="dt_b.bias")
    state = f"M[{ix(channels, 'ȧ')}]"
    lines.pointwise(f"v[t,{channels}] = {step}·x_R[t,{channels}]", saved=2)
    lines.pointwise(f"{state} = exp(−exp(A_log[{ix(channels, 'ȧ')}])·{step})·{state}", A_log="A_log")
    lines.sum(f"{state} += v[t,{channels}]·B[t,{ix(head, 'ȧ')}]")
    lines.sum(f"o[t,{channels}] = Σ_ȧ {state}·C[t,{ix(head, 'ȧ')}]")
    lines.keep("M")
    lines.pointwise(f"o[t,{channels}] = o[t,{channels}] + D[{channels}]·x_R[t,{channels}]", saved=2, D="D")
    lines.pointwise(f"o[t,{channels}] = silu(G_O[t,{channels}])·o[t,{channels}]", saved=2)
    bias = plus("b_O[i]", "out" in m.bias)
    text = f"y[t,i] = Σ_{{{channels}}} o[t,{channels}]·W_O[{channels},i]{bias}"
    lines.sum(text, W_O=Mark("out", "out"), b_O="out.bias")
