"""Linear attention (Katharopoulos et al. 2020), with the delta rule (Yang et al. 2024, 2025) and without.

Letters with a dot are those of recurrent mixers: ġ heads of queries and keys, ṙ states that share one, ȧ channels of a
key, ẇ channels of a value. Where each state has queries and keys of its own there is only ġ; with one head of keys for
all, only ṙ. A state has no t: the lines from the first that has it to the last are walked token by token.
"""

from __future__ import annotations

from typing import Any

from gptcalc.architecture import Decay, HierarchicalRecurrence, LinearAttention
from gptcalc.equations.chunked import OF_CHUNKS, Letters, heads, in_chunks
from gptcalc.equations.convolution import OF_KEYS, convolution_scope, convolve
from gptcalc.equations.language import Index, Mark
from gptcalc.equations.lines import Lines, bracketed, ix, plus, root
from gptcalc.equations.norms import norm_line
from gptcalc.equations.roles import Use
from gptcalc.equations.symbols import Symbols


def heads_scope(shared: int, whole: int, names: tuple[str, str], section: str, symbols: Symbols) -> dict[str, Index]:
    """What the letters of heads run over; `names` are the symbols of the shared heads and of all."""
    states, _ = heads(shared, whole)
    whole_index = symbols.index(names[1], whole, "heads", section, "tp")
    if states != "ġ,ṙ":
        return {states: whole_index}
    g = symbols.index(names[0], shared, "heads", section, "kv")
    return {"ġ": g, "ṙ": symbols.derived(f"{whole_index.symbol}/{g.symbol}", whole // shared, "heads", "tp")}


def scope(a: LinearAttention, d: Index, symbols: Symbols, n_layers: int) -> dict[str, Index]:
    """What the index letters of linear attention run over."""
    name = a.section
    letters = {"i": d, **heads_scope(a.n_k_heads, a.n_heads, ("n_k_heads", "n_states"), name, symbols)}
    letters["ȧ"] = symbols.index("d_k", a.d_k, "channels", name)
    letters["ẇ"] = symbols.index("d_v", a.d_v, "channels", name)
    if a.decay is not None and a.decay.rank is not None:
        letters["ř"] = symbols.index("decay_rank", a.decay.rank, "channels", name)
    if a.decay is not None and a.decay.bounds:
        letters[OF_LAYERS] = symbols.index("n_layers", n_layers, "layers")
    if a.gate is not None and a.gate.rank is not None:
        letters["ż"] = symbols.index("gate_rank", a.gate.rank, "channels", name)
    if a.kernel is not None:
        letters |= convolution_scope(a.kernel, name, symbols, OF_KEYS)
    return letters | OF_CHUNKS


EPS = 1e-6  # in the length of queries and keys

USES: dict[str, Use] = {"q": "queries", "k": "keys", "v": "values"}


def linear_attention(lines: Lines, a: LinearAttention, chunk: int | None = None) -> None:
    """n[t,i] → y[t,i]; the states token by token, or in chunks."""
    states, few = heads(a.n_k_heads, a.n_heads)
    for name, where in (("q", ix(few, "ȧ")), ("k", ix(few, "ȧ")), ("v", ix(states, "ẇ"))):
        if name != "k" or not a.k_from_decay:
            _project(lines, a, name, where)
    if a.decay is not None:
        _decay(lines, a, a.decay, states)
    if a.k_from_decay:
        lines.pointwise(f"k[t,{ix(few, 'ȧ')}] = 1 − Ā[t,{ix(states, 'ȧ')}]", saved=2)
    if a.delta:
        lines.sum(f"β[t,{states}] = Σ_i n[t,i]·W_β[i,{states}]", saved=2, W_β="beta")
        scale = lines.factor("scale_β", a.beta_scale)
        lines.pointwise(f"β[t,{states}] = {scale}σ(β[t,{states}])", saved=2)
    decays = None if a.decay is None else a.decay.over
    if chunk is None:
        update(lines, a.delta, decays, states, few)
    else:
        left = None if decays is None else ix(states, "ȧ" if decays == "channel" else "")
        in_chunks(lines, chunk, Letters(states, few, left), delta=a.delta)
    _leave(lines, a, states)


def _project(lines: Lines, a: LinearAttention, name: str, where: str) -> None:
    """Queries, keys or values: projected, convolved, through their activation, of length 1."""
    here, upper = f"{name}[t,{where}]", name.upper()
    bias = plus(f"b_{upper}[{where}]", name in a.bias)
    marks: dict[str, Any] = {f"W_{upper}": Mark(name, USES[name]), f"b_{upper}": Mark(f"{name}.bias")}
    lines.sum(f"{here} = Σ_i n[t,i]·W_{upper}[i,{where}]{bias}", None, 2, "", **marks)
    so_far = here
    if a.kernel is not None:
        so_far = convolve(lines, name, where, f"{name}_conv", OF_KEYS, saved=2)
    if a.activation == "silu" or (a.activation == "queries" and name == "q"):
        lines.pointwise(f"{here} = silu({so_far})", saved=2)
        so_far = here
    if a.qk_norm == "l2" and name != "v":
        lines.pointwise(f"{here} = {so_far}/√(Σ_ȧ {so_far}² + ε)", saved=2, constants={"ε": EPS})
        so_far = here
    if name == "q" and a.scale != 1.0:
        scale = (
            f"{so_far}/{root(lines.scope['ȧ'])}" if a.scale is None else f"{lines.factor('scale_q', a.scale)}{so_far}"
        )
        lines.pointwise(f"{here} = {scale}")
        so_far = here
    if so_far != here:
        lines.pointwise(f"{here} = {so_far}")


def _decay(lines: Lines, a: LinearAttention, decay: Decay, states: str) -> None:
    """Ā: what is left of a state."""
    where = ix(states, "ȧ" if decay.over == "channel" else "")
    left = f"Ā[t,{where}]"
    if decay.form == "fixed":
        if "," in states:
            groups, each = (bracketed(lines.scope[letter].symbol) for letter in "ġṙ")
            n_states, head = f"({groups}·{each})", f"ġ·{each} + ṙ"  # of all heads
        else:
            n_states, head = lines.scope[states].symbol, states
        slope = f"2^(−8·({head} + 1)/{n_states})"
        layer = "(1 − layer/(n_layers − 1 + ε) + ε)"
        lines.pointwise(f"Ā[t,{states}] = exp(−{slope}·{layer})", constants={"ε": 1e-5})
        return
    f = f"F[t,{where}]"
    if decay.rank is None:
        lines.sum(f"{f} = Σ_i n[t,i]·W_F[i,{where}]", saved=2, W_F="decay")
    else:
        lines.sum("F′[t,ř] = Σ_i n[t,i]·V_F[i,ř]", saved=2, V_F="decay_a")
        lines.sum(f"{f} = Σ_ř F′[t,ř]·W_F[ř,{where}]", saved=2, W_F="decay_b")
    if a.k_from_decay and a.kernel is not None:
        f = convolve(lines, "F", where, "decay_conv", OF_KEYS, saved=2)
    inner = f"{f} + b_F[{where}]" if decay.bias else f
    rate = f"exp(A_log[{states}])"
    forms = {
        "softplus": f"exp(−{rate}·softplus({inner}))",
        "bounded": f"exp({lines.number('least_decay', decay.floor)}·σ({rate}·({inner})))",
        "sigmoid": f"exp(−softplus(−({inner}))/{lines.number('divisor', decay.divisor)})",
    }
    marks = {"b_F": "dt_bias"} if decay.form == "sigmoid" else {"b_F": "dt_bias", "A_log": "A_log"}
    lines.pointwise(f"{left} = {forms[decay.form]}", saved=2, **marks)  # type: ignore[arg-type]
    if decay.bounds:
        at_least(lines, left, where)


#: the letter of all layers, where they learn something together
OF_LAYERS = "ḻ"


def at_least(lines: Lines, left: str, where: str) -> None:
    """What is left is no less than the layers before and this one say."""
    lines.pointwise(f"λ_Ā[{where}] = Σ_{{{OF_LAYERS} | 0 < {OF_LAYERS} ≤ layer}} B_Ā[{OF_LAYERS},{where}]")
    lines.pointwise(f"{left} = λ_Ā[{where}] + (1 − λ_Ā[{where}])·{left}", saved=2)


def bounds_scope(a: LinearAttention | HierarchicalRecurrence, n_layers: Index, symbols: Symbols) -> dict[str, Index]:
    """What the letters of bounds of decays run over."""
    if isinstance(a, HierarchicalRecurrence):
        return {OF_LAYERS: n_layers, "ẇ": symbols.index("d_rnn", a.d_rnn, "channels", a.section, "tp")}
    heads_of = heads_scope(a.n_k_heads, a.n_heads, ("n_k_heads", "n_states"), a.section, symbols)
    return {OF_LAYERS: n_layers, **heads_of, "ȧ": symbols.index("d_k", a.d_k, "channels", a.section)}


def bounds(lines: Lines, a: LinearAttention | HierarchicalRecurrence) -> None:
    """B_A: by how much each layer keeps more of a state than the one before it."""
    where = ix(OF_LAYERS, "ẇ")
    if isinstance(a, LinearAttention):
        where = ix(OF_LAYERS, heads(a.n_k_heads, a.n_heads)[0], "ȧ")
    lines.pointwise(f"B_Ā[{where}] = softmax_{OF_LAYERS}(A_Ā[{where}])", saved=2, A_Ā="decay.bounds")


def update(lines: Lines, delta: bool, decays: str | None, states: str, few: str) -> None:
    """One step of the recurrence, from q, k, v, Ā and β to o: the state decays, is written to, and read."""
    state, key, query = f"M[{ix(states, 'ȧ', 'ẇ')}]", f"k[t,{ix(few, 'ȧ')}]", f"q[t,{ix(few, 'ȧ')}]"
    value, out = f"v[t,{ix(states, 'ẇ')}]", f"o[t,{ix(states, 'ẇ')}]"
    if decays is not None:
        left = ix(states, "ȧ" if decays == "channel" else "")
        lines.pointwise(f"{state} = Ā[t,{left}]·{state}")
    if delta:
        held = f"v_S[t,{ix(states, 'ẇ')}]"
        lines.sum(f"{held} = Σ_ȧ {key}·{state}")
        lines.pointwise(f"{value} = β[t,{states}]·({value} − {held})", saved=2)
    lines.sum(f"{state} += {key}·{value}")
    lines.sum(f"{out} = Σ_ȧ {query}·{state}", saved=2)
    lines.keep("M")


def _leave(lines: Lines, a: LinearAttention, states: str) -> None:
    """The heads' outputs normed, gated and projected."""
    where = ix(states, "ẇ")
    out = f"o[t,{where}]"
    if a.out_norm is not None:
        over = "ẇ" if a.out_norm.over == "head" else where
        norm_line(lines, a.out_norm, out, out, over, "out_norm", name="_o", saved=2)
    if a.gate is not None:
        gate = f"G_O[t,{where}]"
        bias = plus(f"b_OG[{where}]", a.gate.bias)
        if a.gate.rank is None:
            lines.sum(f"{gate} = Σ_i n[t,i]·W_OG[i,{where}]{bias}", saved=2, W_OG="gate", b_OG="gate.bias")
        else:
            lines.sum("G′_O[t,ż] = Σ_i n[t,i]·V_OG[i,ż]", saved=2, V_OG="gate_a")
            lines.sum(f"{gate} = Σ_ż G′_O[t,ż]·W_OG[ż,{where}]{bias}", saved=2, W_OG="gate_b", b_OG="gate_b.bias")
        function = "silu" if a.gate.function == "silu" else "σ"
        lines.pointwise(f"{out} = {function}({gate})·{out}", saved=2)
    bias = plus("b_O[i]", "out" in a.bias)
    lines.sum(f"y[t,i] = Σ_{{{where}}} {out}·W_O[{where},i]{bias}", W_O=Mark("out", "out"), b_O="out.bias")
