"""Mixtures of experts (Shazeer et al. 2017; DeepSeekMoE 2024)."""

from __future__ import annotations

import re
from typing import Any, assert_never

from msgspec.structs import astuple, replace

from gptcalc.architecture import (
    Experts,
    Hash,
    Norm,
    RouterLayers,
    SharedExperts,
    Sigmoid,
    Softmax,
    SparseMixer,
    SqrtSoftplus,
    TopkSigmoid,
    TopkSoftmax,
)
from gptcalc.equations.conditions import Chosen
from gptcalc.equations.language import ENTERS, LEAVES, Aside, Index, Line, Mark
from gptcalc.equations.lines import Lines, plus
from gptcalc.equations.mlp import OWN, Activation, Names, feed_forward
from gptcalc.equations.norms import norm_line
from gptcalc.equations.symbols import Symbols

#: shared experts' have an S behind
SHARED = Names(*(f"{name}S" if "_" in name else f"{name}_S" for name in astuple(OWN)))


def scope(m: Experts, d: Index, symbols: Symbols) -> dict[str, Index]:
    """What the index letters of a mixture run over: e all experts, f an expert's width, ḟ the shared experts' width."""
    name = m.section
    n_experts = symbols.index("n_experts", m.n_experts, "experts", name, "ep")
    width = symbols.index("d_expert", m.d_ff, "channels", name, "tp")
    letters = {"i": d, "e": n_experts, "f": width, "η": replace(n_experts, role="choices", shard=None)}
    if m.n_identity:
        choices = m.n_experts + m.n_identity
        symbols.index("n_identity", m.n_identity, "experts", name)
        letters["η"] = symbols.derived(f"{n_experts.symbol}+n_identity", choices, "choices")
    if m.shared is not None:
        if m.shared.d_ff == m.shared.n * m.d_ff:
            n_shared = symbols.index("n_shared", m.shared.n, "experts", name)
            letters["ḟ"] = symbols.derived(f"{n_shared.symbol}·{width.symbol}", m.shared.d_ff, "channels", "tp")
        else:
            letters["ḟ"] = symbols.index("d_shared", m.shared.d_ff, "channels", name, "tp")
    if m.sink is not None:
        n_shared = symbols.index("n_shared", m.sink.n, "experts", name)
        letters["ψ"] = letters["η"]
        letters["η"] = symbols.derived(f"{n_experts.symbol}+{n_shared.symbol}", m.n_experts + m.sink.n, "choices")
    if m.router.attention:
        letters["ψ"] = letters["η"]
    if m.router.layers is not None:
        letters["ṗ"] = letters["ṡ"] = symbols.index("d_router", m.router.layers.d, "channels", name)
    if m.latent is not None:
        letters["ě"] = symbols.index("d_latent", m.latent.d, "channels", name)
    if m.tokens == "images":
        letters[IMAGES] = symbols.derived("0", 0, "images")
    if m.groups is not None:
        letters["ē"] = symbols.index("n_expert_groups", m.groups.n, "choices", name)
    return letters


def experts(lines: Lines, m: Experts, token: str) -> None:
    """n[t,i] → y[t,i]; `token` is what a fixed table of experts is asked for."""
    if m.tokens == "images":
        _of_images(lines, m, token)
    else:
        _routed(lines, m, token)
    if m.out_bias:
        lines.pointwise("y[t,i] = y[t,i] + b_Y[i]", b_Y="out.bias")
    if m.shared is not None:
        _shared(lines, m, m.shared)


#: tokens of images, of which a text has none: what they alone pass is counted with this letter in the place of t
IMAGES = "ṭ"
TOKEN, READ = re.compile(r"\bt\b"), re.compile(rf"\b([{ENTERS}{LEAVES}])\[(?={IMAGES})")


def _of_images(lines: Lines, m: Experts, token: str) -> None:
    """The same of images' tokens alone; others get nothing of it."""
    own = lines.apart()
    _routed(own, m, token)
    lines.pointwise(f"n_img[{IMAGES},i] = n[image({IMAGES}),i]")
    lines.lines += [_of_an_image(line) for line in own.lines]
    lines.pointwise(f"y[t,i] = Σ_{{{IMAGES} | image({IMAGES}) = t}} y_img[{IMAGES},i]")


def _of_an_image(line: Line) -> Line:
    """A line of a sublayer as it is of images' tokens."""
    condition = line.condition
    if isinstance(condition, Chosen):
        condition = replace(condition, token=IMAGES)
    return replace(line, text=READ.sub(r"\1_img[", TOKEN.sub(IMAGES, line.text)), condition=condition)


def _routed(lines: Lines, m: Experts, token: str) -> None:
    """y[t,i] of the chosen experts."""
    _router(lines, m, token)
    chosen = Chosen(m.top_k, m.n_experts, choices=m.n_experts + m.n_identity if m.n_identity else None)
    source, width = "n[t,i]", "i"
    if m.latent is not None:
        lines.sum("n_L[t,ě] = Σ_i n[t,i]·W_L[i,ě]", saved=2, W_L="latent_down")
        source, width = "n_L[t,ě]", "ě"
        if m.latent.norm is not None:
            norm_line(lines, m.latent.norm, source, source, "ě", "latent_norm", name="_l", saved=2)
    if m.weight_at == "input":
        lines.pointwise(f"n_E[t,e,{width}] = π[t,e]·{source}", chosen, saved=2)
        source = f"n_E[t,e,{width}]"
    _expert_layers(lines, m, source, width, chosen)
    if m.latent is not None:
        if m.latent.out_norm is not None:
            norm_line(lines, m.latent.out_norm, "y_L[t,ě]", "y_L[t,ě]", "ě", "latent_out_norm", name="_y", saved=2)
        lines.sum("y[t,i] = Σ_ě y_L[t,ě]·W_Y[ě,i]", W_Y="latent_up")
    if m.n_identity and m.identity == "input":
        identities = f"Σ_{{η | η ≥ {lines.scope['e'].symbol}, η ∈ R(t)}} π[t,η]·n[t,i]"
        lines.pointwise(f"y[t,i] = y[t,i] + {identities}")


def _router(lines: Lines, m: Experts, token: str) -> None:
    """π[t,η]: how much each chosen expert weighs; the router itself runs over all of them."""
    router = "router"
    source = "n[t,i]"
    scales = m.router.scales
    if scales is not None:
        norm_line(lines.under(router), scales.norm, "n_R[t,i]", "x[t,i]", "i", "router_norm", name="_R")
        lines.pointwise("n_R[t,i] = n_R[t,i]·s_R[i]/√d", None, 2, router, s_R="router_scale")
        source = "n_R[t,i]"
    if m.router.layers is not None:
        source = _router_layers(lines, m.router.layers, source)
    bias = plus("b_R[η]", "router" in m.bias)
    i = source[source.rindex(",") + 1 : -1]
    if m.router.attention:
        _attention_among_experts(lines, source, i)
    else:
        logits = f"ρ[t,η] = Σ_{i} {source}·W_R[{i},η]{bias}"
        lines.sum(logits, None, 2, router, W_R=Mark("router", "router"), b_R="router.bias")
    if m.router.logit_scale != 1.0:
        lines.pointwise(f"ρ[t,η] = {lines.factor('scale_ρ', m.router.logit_scale)}ρ[t,η]", component=router)
    if m.router.softcap is not None:
        cap = lines.number("softcap_ρ", m.router.softcap)
        lines.pointwise(f"ρ[t,η] = {cap}·tanh(ρ[t,η]/{cap})", component=router)
    _choose(lines, m, token)
    _weigh(lines, m)


def _attention_among_experts(lines: Lines, source: str, i: str) -> None:
    """ρ[t,η] of one query, key and value of each expert: a softmax over all experts for each."""
    router = "router"
    for name, key in (("q", "router"), ("k", "router_k"), ("v", "router_v")):
        marks: dict[str, Any] = {f"W_R{name}": Mark(key, "router")}
        lines.sum(f"{name}_R[t,η] = Σ_{i} {source}·W_R{name}[{i},η]", None, 2, router, **marks)
    lines.pointwise("α_R[t,η,ψ] = softmax_ψ(q_R[t,η]·k_R[t,ψ])", None, 2, router)
    lines.sum("ρ[t,η] = Σ_ψ α_R[t,η,ψ]·v_R[t,ψ]", None, 2, router)


#: what the choice goes by, and what the chosen ones weigh before they are divided by their sum
SCORES = {
    "softmax": "softmax_η(ρ[t,η])",
    "sigmoid": "σ(ρ[t,η])",
    "sqrtsoftplus": "√softplus(ρ[t,η])",
}


def _router_layers(lines: Lines, layers: RouterLayers, source: str) -> str:
    """What the logits are made of, through the router's own layers."""
    router = "router"
    lines.sum(
        f"ρ_D[t,ṗ] = Σ_i {source}·W_RD[i,ṗ] + b_RD[ṗ]", None, 2, router, W_RD="router_down", b_RD="router_down.bias"
    )
    carried = " + f_R[ṗ]·h_R_before[t,ṗ]" * layers.carried
    lines.pointwise(f"h_R[t,ṗ] = ρ_D[t,ṗ]{carried}", None, 2, router, f_R="router_carried")
    norm_line(lines.under(router), layers.norm, "n_H[t,ṗ]", "h_R[t,ṗ]", "ṗ", "router_norm", name="_H2", saved=2)
    for n in "12":
        marks: dict[str, Any] = {f"W_R{n}": f"router_{n}", f"b_R{n}": f"router_{n}.bias"}
        lines.sum(f"a_R[t,ṡ] = Σ_ṗ n_H[t,ṗ]·W_R{n}[ṗ,ṡ] + b_R{n}[ṡ]", None, 2, router, **marks)
        lines.pointwise("n_H[t,ṗ] = gelu(a_R[t,ṗ])", None, 2, router)
    return "n_H[t,ṗ]"


def _members(lines: Lines) -> str:
    """How many of what the router chooses from are a group."""
    of = lines.scope["ψ" if "ψ" in lines.scope else "η"].symbol
    return f"{f'({of})' if '+' in of else of}/{lines.scope['ē'].symbol}"


def _choose(lines: Lines, m: Experts, token: str) -> None:
    """R(t): the experts of a token."""
    top_k = lines.number("top_k", m.top_k)
    if isinstance(m.choice, Hash):
        lines.pointwise(f"R(t) = listed_η({top_k}, {token})", component="router")
        return
    one = "ψ" if m.sink is not None else "η"  # which runs over what may be chosen
    score = SCORES.get(m.router.kind, "ρ[t,η]").replace("η", one) + f" + b_S[{one}]" * m.selection_bias
    over = one
    if m.groups is not None and m.groups.n > 1:
        members = _members(lines)
        merit = "largest" if m.groups.score == "max" else "best_two"
        groups = lines.number("top_groups", m.groups.top_k)
        text = f"B(t) = top_ē({groups}, {merit}_{{{one} | ⌊{one}/({members})⌋ = ē}}({score}))"
        lines.pointwise(text, component="router", b_S=Mark("selection_bias", "selection"))
        over = f"{{{one} | ⌊{one}/({members})⌋ ∈ B(t)}}"
    lines.pointwise(f"R(t) = top_{over}({top_k}, {score})", component="router", b_S=Mark("selection_bias", "selection"))


def _weigh(lines: Lines, m: Experts) -> None:
    """π[t,η], of the chosen ones and of shared experts that the router weighs, too."""
    router = "router"
    among = f"η ≥ {lines.scope['e'].symbol}" if m.sink is not None else ""
    match m.router:
        case TopkSoftmax():
            share = "softmax_{η | η ∈ R(t)}(ρ[t,η])"
        case TopkSigmoid():
            share = "σ(ρ[t,η])"
        case SparseMixer(
            jitter=jitter
        ):  # one after the other, by a softmax over those left within a margin (arXiv:2409.12136)
            margin = f"{lines.number('margin', 2 * jitter)}·max(abs(ρ[t,e]), ρ[t,η])"
            near = f"ρ[t,e] ≤ ρ[t,η], ρ[t,η] − ρ[t,e] ≤ {margin}"
            share = f"1/(Σ_{{e | {near}}} exp(ρ[t,e] − ρ[t,η]))"
        case Softmax() | Sigmoid() | SqrtSoftplus():
            share = SCORES[m.router.kind]
        case _ as never:
            assert_never(never)
    factor = lines.factor("scale_π", m.router.scale)
    factor += "s_π[]·" * m.router.learned_scale
    scales = "·s_E[η]" * (m.router.scales is not None)
    if m.normalize:
        lines.pointwise(f"π[t,η] = {share}", component=router)
        total = "Σ_{η | η ∈ R(t)} π[t,η]" + (f" + Σ_{{η | {among}}} π[t,η]" if among else "")
        lines.pointwise(f"Π[t] = {total}", component=router)
        share = "π[t,η]/Π[t]"
    text = f"π[t,η] = {factor}{share}{scales}"
    lines.pointwise(text, component=router, s_E="expert_scale", s_π="route_scale")


#: what each expert makes is kept where it is weighted afterwards (transformers' own kernels)
WEIGHED = Aside(narrow=1, along="e")


def _expert_layers(lines: Lines, m: Experts, source: str, width: str, chosen: Chosen) -> None:
    i = width
    keys = {"gate": "gate", "up": "up"}
    weigh = "" if m.weight_at == "input" else "π[t,e]·"
    activation = Activation.of(lines, m.activation, m.clamp, m.clamp_at, m.softcaps)
    normed = m.expert_norm is not None
    feed_forward(lines, "f", source, activation, m.bias, keys, "e,", chosen, kept=not weigh or normed)
    if m.expert_norm is not None:
        _normed_experts(lines, m, m.expert_norm, i, weigh, chosen)
        return
    bias = plus(f"b_D[e,{i}]", "down" in m.bias)
    if weigh:
        lines.pointwise("H[t,e,f] = π[t,e]·H[t,e,f]", chosen, saved=2)
    target = "y_L[t,ě]" if m.latent is not None else "y[t,i]"
    lines.sum(
        f"{target} = Σ_{{e,f}} H[t,e,f]·W_D[e,f,{i}]{plus(f'Σ_e {weigh}b_D[e,{i}]', bool(bias))}",
        chosen,
        2 if m.latent is not None else 0,
        aside=WEIGHED if weigh else None,
        W_D=Mark("down", "down"),
        b_D="down.bias",
    )


def _normed_experts(lines: Lines, m: Experts, norm: Norm, i: str, weigh: str, chosen: Chosen) -> None:
    """Each expert's output normed, then weighted and summed."""
    bias = plus(f"b_D[e,{i}]", "down" in m.bias)
    each = f"y_E[t,e,{i}]"
    lines.sum(f"{each} = Σ_f H[t,e,f]·W_D[e,f,{i}]{bias}", chosen, 2, W_D=Mark("down", "down"), b_D="down.bias")
    norm_line(lines, norm, each, each, i, "expert_norm", name="_x", saved=2, condition=chosen)
    target = "y_L[t,ě]" if m.latent is not None else "y[t,i]"
    lines.pointwise(f"{target} = Σ_e {weigh}{each}", saved=2 if m.latent is not None else 0)


def _shared(lines: Lines, m: Experts, shared: SharedExperts) -> None:
    """Experts that every token passes; side by side they are one dense layer of their joint width."""
    name = "shared_experts"
    keys = {"gate": "shared.gate", "up": "shared.up"}
    bias = ("gate", "up", "down") if "shared" in m.bias else ()
    activation = Activation.of(lines, m.activation, m.shared_clamp, m.clamp_at, m.softcaps)
    kept = m.sink is None
    feed_forward(lines, "ḟ", "n[t,i]", activation, bias, keys, component=name, kept=kept, names=SHARED)
    if m.sink is not None:
        share = f"π[t,{lines.scope['e'].symbol} + ⌊ḟ/{lines.number('d_one', shared.d_ff // shared.n)}⌋]"
        lines.pointwise(f"H_S[t,ḟ] = {share}·H_S[t,ḟ]", None, 2, name)
    out = plus("b_DS[i]", bool(bias))
    text = f"y_S[t,i] = Σ_ḟ H_S[t,ḟ]·W_DS[ḟ,i]{out}"
    lines.sum(text, None, 2 * shared.gate, name, W_DS=Mark("shared.down", "down"), b_DS="shared.down.bias")
    if shared.gate:
        lines.sum("γ_S[t] = Σ_i n[t,i]·W_SG[i]", None, 2, name, W_SG="shared_gate")
        lines.pointwise("y_S[t,i] = σ(γ_S[t])·y_S[t,i]", component=name)
    lines.pointwise("y[t,i] = y[t,i] + y_S[t,i]", component=name)
