"""Feed-forward layers: dense, gated, and mixtures of experts (Shazeer 2020; Shazeer et al. 2017; DeepSeekMoE 2024)."""

from __future__ import annotations

from typing import Any, NamedTuple

from gptcalc.architecture import ACTIVATIONS, ClampAt, Experts, Mlp, Norm
from gptcalc.equations.conditions import Chosen, Condition
from gptcalc.equations.language import Index, Lines, Mark, plus
from gptcalc.equations.norms import norm_line
from gptcalc.equations.symbols import Symbols


def mlp_scope(m: Mlp, d: Index, symbols: Symbols) -> dict[str, Index]:
    """What the index letters of a dense layer run over."""
    if m.d_ff == 4 * d.size and not ACTIVATIONS[m.activation].gated:
        return {"i": d, "f": symbols.derived(f"4·{d.symbol}", m.d_ff, "channels", "tp")}
    return {"i": d, "f": symbols.index("d_ff", m.d_ff, "channels", m.section, "tp")}


def experts_scope(m: Experts, d: Index, symbols: Symbols) -> dict[str, Index]:
    """What the index letters of a mixture run over: e all experts, f an expert's width, k the shared experts' width."""
    name = m.section
    n_experts = symbols.index("n_experts", m.n_experts, "experts", name, "ep")
    width = symbols.index("d_expert", m.d_ff, "channels", name, "tp")
    letters = {"i": d, "e": n_experts, "f": width, "q": n_experts._replace(role="choices", shard=None)}
    if m.n_identity:
        choices = m.n_experts + m.n_identity
        symbols.index("n_identity", m.n_identity, "experts", name)
        letters["q"] = symbols.derived(f"{n_experts.symbol}+n_identity", choices, "choices")
    if m.n_shared:
        if m.d_shared == m.n_shared * m.d_ff:
            n_shared = symbols.index("n_shared", m.n_shared, "experts", name)
            letters["k"] = symbols.derived(f"{n_shared.symbol}·{width.symbol}", m.d_shared, "channels", "tp")
        else:
            letters["k"] = symbols.index("d_shared", m.d_shared, "channels", name, "tp")
    if m.shared_sink:
        n_shared = symbols.index("n_shared", m.n_shared, "experts", name)
        letters["p"] = symbols.derived(f"{n_experts.symbol}+{n_shared.symbol}", m.n_experts + m.n_shared, "choices")
    if m.d_latent is not None:
        letters["l"] = symbols.index("d_latent", m.d_latent, "channels", name)
    return letters


class Clamp(NamedTuple):
    """How clamped values are written."""

    limit: float | None
    at: ClampAt

    def both(self, value: str) -> str:
        return value if self.limit is None else f"clip({value}, ±{self.limit:g})"

    def gate(self, function: str, value: str) -> str:
        if self.limit is None:
            return f"{function}({value})"
        if self.at == "input":
            return f"{function}(min({value}, {self.limit:g}))"
        return f"min({function}({value}), {self.limit:g})"


def mlp(lines: Lines, m: Mlp) -> None:
    """n[t,i] → y[t,i]."""
    keys = {"gate": "gate", "up": "up", "down": "down"}
    norm = m.mid_norm
    clamp = Clamp(m.clamp, m.clamp_at)
    _feed_forward(lines, "f", "n[t,i]", m.activation, m.bias, keys, clamp=clamp, sparsity=m.sparsity)
    if m.activation == "xielu":
        lines.pointwise("xielu's slopes α_p[], α_n[]", α_p="alpha_p", α_n="alpha_n")
    if norm is not None:
        norm_line(lines, norm, "h[t,f]", "h[t,f]", "f", "mid_norm", name="_m", saved=2)
    bias = plus("b_D[i]", "down" in m.bias)
    lines.sum(f"y[t,i] = Σ_f h[t,f]·W_D[f,i]{bias}", saved=2 * m.out_scale, W_D=Mark("down", "down"), b_D="down.bias")
    if m.out_scale:
        lines.pointwise("y[t,i] = s_y[]·y[t,i]", s_y="out_scale")


def _feed_forward(
    lines: Lines, f: str, source: str, activation: str, bias: tuple[str, ...], keys: dict[str, str],
    expert: str = "", condition: Condition | None = None, component: str = "", kept: bool = True,
    clamp: Clamp | None = None, sparsity: float = 0.0,
) -> None:  # fmt: skip
    """Up to the activation: h = φ(u), or φ(g)·u with a gate. `expert` is "e," where each expert has its own.

    `kept` is false where h is weighted before it is multiplied: the backward pass makes it again from what is kept.
    """
    function, gated = ACTIVATIONS[activation]
    clamp = clamp or Clamp(None, "input")
    i = source[source.rindex(",") + 1 : -1]
    here = f"t,{expert}{f}"
    marks: dict[str, Any] = {"W_U": keys["up"], "b_U": keys["up"] + ".bias"}
    text = f"u[{here}] = Σ_{i} {source}·W_U[{expert}{i},{f}]{plus(f'b_U[{expert}{f}]', 'up' in bias)}"
    if not gated:
        lines.sum(text, condition, 2, component, **marks)
        lines.pointwise(f"h[{here}] = {function}({clamp.both(f'u[{here}]')})", condition, 2 * kept, component)
        return
    gate = f"g[{here}] = Σ_{i} {source}·W_G[{expert}{i},{f}]{plus(f'b_G[{expert}{f}]', 'gate' in bias)}"
    lines.sum(gate, condition, 2, component, W_G=keys["gate"], b_G=keys["gate"] + ".bias")
    if sparsity:
        lines.pointwise(f"g[{here}] = max(g[{here}] − its {sparsity:g} quantile if normal, 0)", condition)
    lines.sum(text, condition, 2, component, **marks)
    gate, up = clamp.gate(function, f"g[{here}]"), clamp.both(f"u[{here}]")
    lines.pointwise(f"h[{here}] = {gate}·{up}", condition, 2 * kept, component)


def experts(lines: Lines, m: Experts) -> None:
    """n[t,i] → y[t,i]."""
    _router(lines, m)
    chosen = Chosen(m.top_k, m.n_experts, "top_k")
    source, width = "n[t,i]", "i"
    if m.d_latent is not None:
        lines.sum("ν[t,l] = Σ_i n[t,i]·W_L[i,l]", saved=2, W_L="latent_down")
        source, width = "ν[t,l]", "l"
        if m.latent_norm is not None:
            norm_line(lines, m.latent_norm, source, source, "l", "latent_norm", name="_l", saved=2)
    if m.weight_at == "input":
        lines.pointwise(f"a[t,e,{width}] = π[t,e]·{source}", chosen, saved=2)
        source = f"a[t,e,{width}]"
    _expert_layers(lines, m, source, width, chosen)
    if m.d_latent is not None:
        lines.sum("y[t,i] = Σ_l υ[t,l]·W_Y[l,i]", W_Y="latent_up")
    if m.n_identity:
        lines.pointwise("y[t,i] = y[t,i] + Σ_e π[t,e]·n[t,i], e an identity")
    if m.out_bias:
        lines.pointwise("y[t,i] = y[t,i] + b_Y[i]", b_Y="out.bias")
    if m.n_shared:
        _shared(lines, m)


def _router(lines: Lines, m: Experts) -> None:
    """π[t,e]: how much each chosen expert weighs; the router itself runs over all of them."""
    router = "router"
    source = "n[t,i]"
    if m.router_scale:
        lines.pointwise("ν_R[t,i] = rmsnorm_i(x[t,i])·s_R[i]", None, 2, router, s_R="router_scale")
        source = "ν_R[t,i]"
    p = "p" if m.shared_sink else "q"
    bias = plus(f"b_R[{p}]", "router" in m.bias)
    matrix = Mark("router", "router")
    lines.sum(f"ρ[t,{p}] = Σ_i {source}·W_R[i,{p}]{bias}", None, 2, router, W_R=matrix, b_R="router.bias")
    if m.router_logit_scale != 1.0:
        lines.pointwise(f"ρ[t,{p}] = {m.router_logit_scale:g}·ρ[t,{p}]", component=router)
    score = f"{m.router}_q(ρ[t,q])"
    by = " + b_S[q]" if m.selection_bias else ""
    where = f", {m.groups.top_k} of {m.groups.n} groups first" if m.groups is not None else ""
    chosen = f"the {m.top_k} that a fixed table has for the token at t" if m.hash else ""
    chosen = chosen or f"the {m.top_k} largest of {score}{by}{where}"
    lines.pointwise(f"E(t) = {chosen}", component=router, b_S="selection_bias")
    factor = "" if m.route_scale == 1.0 else f"{m.route_scale:g}·"
    share = f"{score}/Σ_E" if m.normalize else score
    if m.shared_sink:
        share = f"{score}/Σ over E and the shared experts"
    if m.learned_route_scale:
        factor += "s_π[]·"
    scales = "·s_E[q]" if m.router_scale else ""
    lines.pointwise(f"π[t,q] = {factor}{share}{scales}", component=router, s_E="expert_scale", s_π="route_scale")


def _expert_layers(lines: Lines, m: Experts, source: str, width: str, chosen: Chosen) -> None:
    i = width
    keys = {"gate": "gate", "up": "up"}
    weigh = "" if m.weight_at == "input" else "π[t,e]·"
    clamp = Clamp(m.clamp, m.clamp_at)
    normed = m.expert_norm is not None
    _feed_forward(lines, "f", source, m.activation, m.bias, keys, "e,", chosen, kept=not weigh or normed, clamp=clamp)
    if m.expert_norm is not None:
        _normed_experts(lines, m, m.expert_norm, i, weigh, chosen)
        return
    bias = plus(f"b_D[e,{i}]", "down" in m.bias)
    if weigh:
        lines.pointwise("h[t,e,f] = π[t,e]·h[t,e,f]", chosen, saved=2)
    target = "υ[t,l]" if m.d_latent is not None else "y[t,i]"
    lines.sum(
        f"{target} = Σ_{{e,f}} h[t,e,f]·W_D[e,f,{i}]{plus(f'Σ_e {weigh}b_D[e,{i}]', bool(bias))}",
        chosen, 2 if m.d_latent is not None else 0, W_D=Mark("down", "down"), b_D="down.bias",
    )  # fmt: skip


def _normed_experts(lines: Lines, m: Experts, norm: Norm, i: str, weigh: str, chosen: Chosen) -> None:
    """Each expert's output normed, then weighted and summed."""
    bias = plus(f"b_D[e,{i}]", "down" in m.bias)
    each = f"φ[t,e,{i}]"
    lines.sum(f"{each} = Σ_f h[t,e,f]·W_D[e,f,{i}]{bias}", chosen, 2, W_D=Mark("down", "down"), b_D="down.bias")
    norm_line(lines, norm, each, each, i, "expert_norm", name="_x", saved=2, condition=chosen)
    target = "υ[t,l]" if m.d_latent is not None else "y[t,i]"
    lines.pointwise(f"{target} = Σ_e {weigh}{each}", saved=2 if m.d_latent is not None else 0)


def _shared(lines: Lines, m: Experts) -> None:
    """Experts that every token passes; side by side they are one dense layer of their joint width."""
    name = "shared_experts"
    keys = {"gate": "shared.gate", "up": "shared.up"}
    bias = ("gate", "up", "down") if "shared" in m.bias else ()
    clamp = Clamp(m.shared_clamp or m.clamp, m.clamp_at)
    _feed_forward(lines, "k", "n[t,i]", m.activation, bias, keys, component=name, clamp=clamp, kept=not m.shared_sink)
    if m.shared_sink:
        lines.pointwise("h[t,k] = h[t,k], each expert's part times its weight", None, 2, name)
    out = plus("b_D[i]", bool(bias))
    lines.sum(
        f"y_S[t,i] = Σ_k h[t,k]·W_D[k,i]{out}",
        None,
        2 * m.shared_gate,
        name,
        W_D=Mark("shared.down", "down"),
        b_D="shared.down.bias",
    )
    if m.shared_gate:
        lines.sum("γ_S[t] = Σ_i n[t,i]·W_SG[i]", None, 2, name, W_SG="shared_gate")
        lines.pointwise("y_S[t,i] = σ(γ_S[t])·y_S[t,i]", component=name)
    lines.pointwise("y[t,i] = y[t,i] + y_S[t,i]", component=name)
