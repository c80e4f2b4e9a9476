"""Recurrent mixers as llama.cpp builds them: its operations in their order, each with the numbers that it makes.

They differ from the equations' lines: what goes into a convolution is put behind what the cache has of it, in a value
of its own; one matrix makes all that goes in (of Mamba gates as well, which are held to the end and put in order
there); a scan's result holds the states that are left, too; states of the delta rule are copied out of the cache.
Of RWKV-7 six mixtures with the token before are one value.
From llama.cpp (v0.5.0, October 2026): mamba-base.cpp, delta-net-base.cpp, qwen35.cpp, kimi-linear.cpp, lfm2.cpp,
rwkv7-base.cpp.
"""

from __future__ import annotations

from msgspec import Struct

from gptcalc.architecture import DeltaMixing, LinearAttention, Mamba, Mamba2, Mixer, ShortConvolution


class Operation(Struct, frozen=True):
    """What one operation makes of which values. n comes in, y goes out."""

    made: str
    token: int  # numbers for each token …
    reads: tuple[str, ...] = ()
    sequence: int = 0  # … and for each sequence
    over: str = ""  # the operand whose place it takes where nothing else needs it
    seen: bool = False  # a view of it goes on, which ggml doesn't overwrite


#: mixers of models all of whose layers add what they make to the stream (jamba.cpp, lfm2.cpp); others add it to theirs
ONTO_STREAM = (Mamba, ShortConvolution)


def operations(mixer: Mixer, d: int) -> list[Operation] | None:
    """The operations of a mixer from n to y, each d wide; None where they are not known."""
    match mixer:
        case Mamba2():
            return _mamba2(mixer, d)
        case Mamba(n_heads=1):
            return _mamba(mixer, d)
        case ShortConvolution():
            return _short(mixer, d)
        case LinearAttention(delta=True, kernel=int(), decay=decay) if decay is not None:
            return _by_head(mixer, d) if decay.over == "head" else _by_channel(mixer, d)
        case DeltaMixing():
            return _mixed_delta(mixer, d)
    return None


def _mamba2(m: Mamba2, d: int) -> list[Operation]:
    inner, channels = m.d_inner, m.d_inner + 2 * m.d_shared
    before = (m.kernel - 1) * channels
    made = [
        Operation("before", 0, sequence=before),
        Operation("in", inner + channels + m.n_heads, ("n",)),
        Operation("joined", channels, ("before", "in"), before),
        Operation("u", channels, ("joined",)),
        Operation("step", m.n_heads, ("in",)),
        Operation("scanned", inner, ("u", "step"), m.d_state * inner),
        Operation("z", inner, ("in",)),
        Operation("through", inner, ("u",)),
        Operation("o", inner, ("scanned", "through"), over="through"),
        Operation("gated", inner, ("z", "o")),
    ]
    if m.out_norm is None:
        return [*made, Operation("y", d, ("gated",))]
    return [*made, Operation("normed", inner, ("gated",)), Operation("y", d, ("normed",))]


def _mamba(m: Mamba, d: int) -> list[Operation]:
    inner, before = m.d_inner, (m.kernel - 1) * m.d_inner
    low = m.dt_rank + 2 * m.d_state
    made = [
        Operation("before", 0, sequence=before),
        Operation("in", 2 * inner, ("n",)),
        Operation("joined", inner, ("before", "in"), before),
        Operation("u", inner, ("joined",)),
        Operation("low", low, ("u",)),
        Operation("rank", m.dt_rank, ("low",)),
        Operation("step", inner, ("rank",)),
    ]
    written: tuple[str, ...] = ("low",)
    if m.inner_norm is not None:
        made += [Operation("B", m.d_state, ("low",)), Operation("C", m.d_state, ("low",))]
        written = ("B", "C")
    return [
        *made,
        Operation("scanned", inner, ("u", "step", *written), m.d_state * inner),
        Operation("z", inner, ("in",)),
        Operation("through", inner, ("u",), over="u"),
        Operation("o", inner, ("scanned", "through"), over="through"),
        Operation("gated", inner, ("z", "o")),
        Operation("y", d, ("gated",)),
    ]


def _short(m: ShortConvolution, d: int) -> list[Operation]:
    before = (m.kernel - 1) * d
    return [
        Operation("before", 0, sequence=before),
        Operation("in", 3 * d, ("n",)),
        Operation("u", d, ("in",)),
        Operation("joined", d, ("before", "u"), before),
        Operation("convolved", d, ("joined",)),
        Operation("gated", d, ("in", "convolved"), over="convolved"),
        Operation("y", d, ("gated",)),
    ]


def _by_head(a: LinearAttention, d: int) -> list[Operation]:
    """The gated delta rule with one decay a head: queries, keys and values are one matrix."""
    assert a.kernel is not None
    channels = 2 * a.k_width + a.v_width
    before, states = (a.kernel - 1) * channels, a.n_heads * a.d_k * a.d_v
    return [
        Operation("before", 0, sequence=before),
        Operation("in", channels, ("n",)),
        Operation("joined", channels, ("before", "in"), before),
        Operation("states", 0, sequence=states),
        Operation("qkv", channels, ("joined",)),
        Operation("q", a.k_width, ("qkv",)),
        Operation("k", a.k_width, ("qkv",)),
        Operation("rate", a.n_heads, ("n",)),
        Operation("decay", a.n_heads, ("rate",)),
        Operation("strength", a.n_heads, ("n",)),
        Operation("β", a.n_heads, ("strength",)),
        Operation("scanned", a.v_width, ("q", "k", "qkv", "decay", "β", "states"), states),
        Operation("o", a.v_width, ("scanned",)),
        Operation("z", a.v_width, ("n",)),
        Operation("gate", a.v_width, ("z",)),
        Operation("gated", a.v_width, ("o", "gate"), over="o"),
        Operation("y", d, ("gated",), seen=True),
    ]


def _by_channel(a: LinearAttention, d: int) -> list[Operation]:
    """The same with one decay a channel of the keys: three matrices, each convolved by itself."""
    assert a.kernel is not None
    assert a.decay is not None
    widths = {"q": a.k_width, "k": a.k_width, "v": a.v_width}
    values = list(widths)[-1]
    states = a.n_heads * a.d_k * a.d_v
    made = [Operation("before", 0, sequence=(a.kernel - 1) * sum(widths.values()))]
    for name, width in widths.items():
        joined = Operation(f"{name} joined", width, ("before", f"{name} in"), (a.kernel - 1) * width)
        made += [Operation(f"{name} in", width, ("n",)), joined]
    made.append(Operation("states", 0, sequence=states))
    for name, width in widths.items():
        convolved = Operation(f"{name} convolved", width, (f"{name} joined",))
        made += [convolved, Operation(f"{name} lit", width, (f"{name} convolved",))]
        made.append(Operation(name, width, (f"{name} lit",), over=f"{name} lit" if name == values else ""))
    rank = a.decay.rank or 0
    gate_rank = a.gate.rank or 0 if a.gate is not None else 0
    return [
        *made,
        Operation("rate low", rank, ("n",)),
        Operation("rate", a.k_width, ("rate low",)),
        Operation("decay", a.k_width, ("rate",)),
        Operation("strength", a.n_heads, ("n",)),
        Operation("β", a.n_heads, ("strength",)),
        Operation("scanned", a.v_width, ("q", "k", "v", "decay", "β", "states"), states),
        Operation("in order", a.v_width, ("scanned",)),
        Operation("o", a.v_width, ("in order",)),
        Operation("z low", gate_rank, ("n",)),
        Operation("z", a.v_width, ("z low",)),
        Operation("gate", a.v_width, ("z",)),
        Operation("gated", a.v_width, ("o", "gate"), over="o"),
        Operation("flat", a.v_width, ("gated",)),
        Operation("y", d, ("flat",)),
    ]


#: what RWKV-7 mixes with the token before: r, w, k, v, a and the gate
MIXTURES = 6


def _mixed_delta(m: DeltaMixing, d: int) -> list[Operation]:
    """RWKV-7's time mixing. What goes in is held to the end, as the next token mixes with it."""
    inner, rank = m.n_heads * m.d_k, m.value_rank or 0
    return [
        Operation("before", 0, sequence=2 * d),
        Operation("states", 0, sequence=m.n_heads * m.d_k * m.d_v),
        Operation("first", inner),  # values of the first layer
        Operation("shifted", d, ("before", "n")),
        Operation("mixed", MIXTURES * d, ("shifted", "n")),
        Operation("r", inner, ("mixed",)),
        Operation("w low", m.decay_rank, ("mixed",)),
        Operation("w", inner, ("w low",)),
        Operation("k", inner, ("mixed",)),
        Operation("a low", m.rate_rank, ("mixed",)),
        Operation("a", inner, ("a low",)),
        Operation("ka", inner, ("k",)),
        Operation("less", inner, ("a", "ka")),
        Operation("kept", inner, ("k", "less"), over="less"),
        Operation("v", inner, ("mixed",)),
        Operation("lacks", inner, ("first", "v")),
        Operation("v low", rank, ("mixed",)),
        Operation("share", inner, ("v low",)),
        Operation("taken", inner, ("lacks", "share"), over="lacks"),
        Operation("value", inner, ("v", "taken"), over="v"),
        Operation("κ", inner, ("k",), over="k"),
        Operation("unit", inner, ("κ",)),
        Operation("−κ", inner, ("unit",)),
        Operation("rate", inner, ("unit", "a"), over="unit"),
        Operation("scanned", inner, ("r", "w", "kept", "value", "−κ", "rate", "states"), m.n_heads * m.d_k * m.d_v),
        Operation("normed", inner, ("scanned",)),
        Operation("weighed", inner, ("normed",)),
        Operation("rk", inner, ("kept", "r")),
        Operation("bonus", m.n_heads, ("rk",)),
        Operation("added", inner, ("value", "bonus")),
        Operation("o", inner, ("weighed", "added"), over="weighed"),
        Operation("z low", m.gate_rank, ("mixed",)),
        Operation("z", inner, ("z low",)),
        Operation("gated", inner, ("o", "z", "first"), over="o"),
        Operation("y", d, ("gated", "n"), seen=True),
    ]
