"""Feed-forward layers: dense and gated (Shazeer 2020)."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

from gptcalc.architecture import (
    ACTIVATIONS,
    ClampAt,
    Factors,
    Mlp,
    Softcaps,
)
from gptcalc.equations.conditions import Condition
from gptcalc.equations.language import Aside, Index, Mark
from gptcalc.equations.lines import Lines, plus
from gptcalc.equations.norms import factor, narrowed, norm_line, widened
from gptcalc.equations.symbols import Symbols


def scope(m: Mlp, d: Index, symbols: Symbols) -> dict[str, Index]:
    """What the index letters of a dense layer run over."""
    letters = {"i": d}
    if m.adapter is not None:
        letters["ẏ"] = symbols.index("adapter_rank", m.adapter.rank, "channels", m.section)
    if m.d_ff == 4 * d.size and not ACTIVATIONS[m.activation].gated:
        return {**letters, "f": symbols.derived(f"4·{d.symbol}", m.d_ff, "channels", "tp")}
    return {**letters, "f": symbols.index("d_ff", m.d_ff, "channels", m.section, "tp")}


class Activation(Struct, frozen=True):
    """How the nonlinearity of a feed-forward layer is written, with its clamp."""

    name: str
    limit: str = ""  # the letters of its numbers
    at: ClampAt = "input"
    caps: tuple[str, str] | None = None  # of gate and up

    @classmethod
    def of(cls, lines: Lines, name: str, limit: float | None, at: ClampAt, caps: Softcaps | None) -> Activation:
        """Its numbers, as these lines call them."""
        most = "" if limit is None else lines.number("limit", limit)
        both = None
        if caps is not None:
            both = lines.number("softcap_G", caps.gate), "" if caps.up is None else lines.number("softcap_U", caps.up)
        return cls(name, most, at, both)

    @property
    def gated(self) -> bool:
        return ACTIVATIONS[self.name].gated

    def text(self, up: str, gate: str) -> str:
        """H of U, or of G and U."""
        function = ACTIVATIONS[self.name].function
        if self.limit:
            up = f"clip({up}, −{self.limit}, {self.limit})"
            gate = f"min({gate}, {self.limit})" if self.at == "input" else gate
        if function == "xielu":
            below = f"(softplus(α_n[]) + 0.5)·(exp(min({up}, −1e-06)) − 1 − {up})"
            return f"{{softplus(α_p[])·{up}² if {up} > 0; {below} otherwise}} + 0.5·{up}"
        if function == "silu_oai":
            return f"{gate}·σ(1.702·{gate})·({up} + 1)"
        if self.caps is not None:
            gate_cap, up_cap = self.caps
            if up_cap:
                up = f"{up_cap}·tanh({up}/{up_cap})"
            return f"{gate_cap}·tanh({gate}/{gate_cap})·σ({gate})·{up}"
        source = gate if self.gated else up
        active = f"relu({source})²" if function == "relu2" else f"{function}({source})"
        if not self.gated:
            return active
        if self.limit and self.at == "output":
            active = f"min({active}, {self.limit})"
        return f"{active}·{up}"


#: what a gated layer keeps beside, its activation's result; others but the fused ones (gelu_new and the like)
GATED = Aside(narrow=1)
ASIDES = {"relu": Aside(narrow=-1), "gelu": None, "silu": None, "gelu_tanh": Aside(narrow=3)}


class Names(Struct, frozen=True):
    """What the values and matrices of one feed-forward layer are called: shared experts' have an S behind."""

    gate: str = "G"
    up: str = "U"
    hidden: str = "H"
    w_gate: str = "W_G"
    w_up: str = "W_U"
    w_down: str = "W_D"
    b_gate: str = "b_G"
    b_up: str = "b_U"
    b_down: str = "b_D"


OWN = Names()


def mlp(lines: Lines, m: Mlp) -> None:
    """n[t,i] → y[t,i]."""
    norm = m.mid_norm
    keys = {"gate": "gate", "up": "up"}
    if m.adapter is not None:
        narrowed(lines, "M", "n[t,i]", "adapter")
    activation = Activation.of(lines, m.activation, m.clamp, m.clamp_at, m.softcaps)
    feed_forward(
        lines,
        "f",
        "n[t,i]",
        activation,
        m.bias,
        keys,
        sparsity=m.sparsity,
        gate_scale=m.gate_scale,
        adapted=m.adapter is not None,
        factors=m.factors,
    )
    if norm is not None:
        norm_line(lines, norm, "H[t,f]", "H[t,f]", "f", "mid_norm", name="_H", saved=2)
    bias = plus("b_D[i]", "down" in m.bias)
    lines.sum(f"y[t,i] = Σ_f H[t,f]·W_D[f,i]{bias}", saved=2 * m.out_scale, W_D=Mark("down", "down"), b_D="down.bias")
    if m.out_scale:
        lines.pointwise("y[t,i] = s_y[]·y[t,i]", s_y="out_scale")


def feed_forward(
    lines: Lines, f: str, source: str, activation: Activation, bias: tuple[str, ...], keys: dict[str, str],
    expert: str = "", condition: Condition | None = None, component: str = "", kept: bool = True,
    sparsity: float = 0.0, names: Names = OWN, gate_scale: float = 1.0, adapted: bool = False,
    factors: Factors | None = None, token: str = "t",
) -> None:  # fmt: skip
    """Up to the activation: H = φ(U), or φ(G)·U with a gate. `expert` is "e," where each expert has its own, `token`
    the tokens' letter.

    `kept` is false where H is weighted before it is multiplied: the backward pass makes it again from what is kept.
    adapted: each layer has a low-rank part of its own. factors: of what is projected to.
    """
    i = source[source.rindex(",") + 1 : -1]
    here = f"{token},{expert}{f}"
    up, gate = f"{names.up}[{here}]", f"{names.gate}[{here}]"

    def project(to: str, matrix: str, offset: str, site: Literal["gate", "up"]) -> None:
        text = f"{to} = Σ_{i} {source}·{matrix}[{expert}{i},{f}]{plus(f'{offset}[{expert}{f}]', site in bias)}"
        marks: dict[str, Any] = {matrix: Mark(keys[site], site), offset: keys[site] + ".bias"}
        lines.sum(text, condition, 2, component, **marks)
        if adapted:
            widened(lines, "M", to, f, f"adapter.{site}", to[0])
        if factors is not None:
            stored: dict[str, Any] = {f"s_{to[0]}": f"{keys[site]}_scale"}
            lines.pointwise(f"{to} = {factor(lines, factors, f's_{to[0]}', f)}·{to}", condition, 2, component, **stored)

    if activation.gated:
        project(gate, names.w_gate, names.b_gate, "gate")
        if gate_scale != 1.0:
            lines.pointwise(f"{gate} = {lines.factor('scale_G', gate_scale)}{gate}", condition)
        if sparsity:
            cutoff = f"mean_{f}({gate}) − probit({lines.number('sparsity', sparsity)})·std_{f}({gate})"
            lines.pointwise(f"{gate} = relu({gate} − {cutoff})", condition)
    project(up, names.w_up, names.b_up, "up")
    slopes: dict[str, Any] = {}
    if activation.name == "xielu":
        slopes = {"α_p": Mark("alpha_p", "slope"), "α_n": Mark("alpha_n", "slope")}
    text = f"{names.hidden}[{here}] = {activation.text(up, gate)}"
    lines.pointwise(text, condition, 2 * kept, component, aside=ASIDES.get(activation.name, GATED), **slopes)
