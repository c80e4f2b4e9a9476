"""A mixture of experts: a router chooses top_k of the experts for each token. Their matrices are gathered by index, so
that shapes never depend on data and no expert runs that was not chosen.

Letters: k chosen experts, f their width d_ff, e the width that they work in (d, or d_latent).
"""

from __future__ import annotations

import math
from typing import assert_never

import numpy as np

from gptcalc.architecture import (
    ACTIVATIONS,
    ExpertGroups,
    Experts,
    Hash,
    Mlp,
    RouterLayers,
    SharedExperts,
    Sigmoid,
    Softmax,
    SparseMixer,
    SqrtSoftplus,
    TopkSigmoid,
    TopkSoftmax,
)
from gptcalc.reference.activations import activate, sigmoid, softcapped, softplus
from gptcalc.reference.mlp import combined, mlp
from gptcalc.reference.norms import normed, softmax
from gptcalc.reference.step import Step
from gptcalc.reference.store import Weights
from gptcalc.reference.tally import Array


def experts(m: Experts, x: Array, stream: Array, w: Weights, step: Step) -> Array:
    """x (B, T, d) -> (B, T, d); `stream` is x before the norm in front, which some routers read instead."""
    if m.tokens != "all":
        return _apart(m, x, stream, w, step)
    y, shares = _routed(m, x, stream, w, step)
    return _beside(m, y, x, shares, w, step)


def _apart(m: Experts, x: Array, stream: Array, w: Weights, step: Step) -> Array:
    """The same where the router sees some of the tokens alone: others get nothing of its experts."""
    of_images = step.images if m.tokens == "images" else ~step.images  # (T,)
    theirs, others = np.flatnonzero(of_images), np.flatnonzero(~of_images)
    if not others.size:
        y, _ = _routed(m, x, stream, w, step)
    else:
        known = list(w.asked)
        some, _ = _routed(m, _at(x, theirs), _at(stream, theirs), w, step)
        if not theirs.size:
            w.passed_by_none(known)
        back = np.argsort(np.concatenate([theirs, others]), kind="stable")
        y = _at(np.concatenate([some, _at(x, others) * 0.0], axis=1), back)
    return _beside(m, y, x, None, w, step)


def _at(x: Array, places: Array) -> Array:
    """Some of the tokens, in this order: (B, T, …) -> (B, places, …)."""
    chosen: Array = np.take(x.swapaxes(0, 1), places, axis=0)
    return chosen.swapaxes(0, 1)


def _routed(m: Experts, x: Array, stream: Array, w: Weights, step: Step) -> tuple[Array, Array | None]:
    """What the chosen experts give (B, T, d), and what the shared ones weigh where the router weighs them."""
    d = x.shape[-1]
    index, weight = route(m, x, stream, w, step)  # (B, T, k) each, of shared experts that are weighed more
    shares = weight[..., m.top_k :] if m.sink is not None else None  # (B, T, n_shared)
    weight = weight[..., : m.top_k]
    inner = x if m.latent is None else step.linear(x, w, "latent_down", m.latent.d)  # (B, T, e)
    if m.latent is not None and m.latent.norm is not None:
        inner = normed(inner, m.latent.norm, w.at("latent_norm"))
    y = _in_pieces(m, inner, index, weight, w, step)  # (B, T, e)
    if m.latent is not None:
        if m.latent.out_norm is not None:
            y = normed(y, m.latent.out_norm, w.at("latent_out_norm"))
        y = step.linear(y, w, "latent_up", d)
    return y, shares


def _beside(m: Experts, y: Array, x: Array, shares: Array | None, w: Weights, step: Step) -> Array:
    """With what every token passes."""
    if m.out_bias:
        y = y + w("out.bias", x.shape[-1])
    if m.shared is not None:
        y = y + _shared(m, m.shared, x, shares, w, step)
    return y


def top(scores: Array, k: int) -> Array:
    """The indices of the k largest along the last axis, the largest first."""
    order: Array = np.argsort(scores * -1.0, axis=-1, kind="stable")
    return order[..., :k]


def route(m: Experts, x: Array, stream: Array, w: Weights, step: Step) -> tuple[Array, Array]:
    """Which experts each token goes to, and with what weights: (B, T, k) each."""
    router = m.router
    choices = m.n_experts + m.n_identity + (m.sink.n if m.sink is not None else 0)
    if router.scales is not None:
        x = normed(stream, router.scales.norm, w.at("router_norm"))
        x = x * w("router_scale", x.shape[-1]) * (1 / math.sqrt(x.shape[-1]))
    if router.layers is not None:
        x = _router_layers(router.layers, x, w, step)
    if router.attention:
        logits = _attended(x, choices, w, step)
    else:
        logits = step.linear(x, w, "router", choices, "router" in m.bias)  # (B, T, choices)
    if router.logit_scale != 1.0:
        logits = logits * router.logit_scale
    logits = softcapped(logits, router.softcap)
    match router:
        case SparseMixer():
            index, weight = _sparsemixer(logits, m.top_k, router.jitter)
        case TopkSoftmax() | TopkSigmoid():
            index = _index(m, logits, w, step)
            best = np.take_along_axis(logits, index, axis=-1)
            weight = softmax(best) if isinstance(router, TopkSoftmax) else sigmoid(best)
        case Softmax() | Sigmoid() | SqrtSoftplus():
            scores = _scores(router, logits)
            index = _index(m, scores[..., : m.n_experts + m.n_identity], w, step)
            weight = np.take_along_axis(scores, index, axis=-1)
            if m.sink is not None:
                weight = np.concatenate([weight, scores[..., m.n_experts :]], axis=-1)
        case _:
            assert_never(router)
    if m.normalize:
        weight = weight / (weight.sum(axis=-1, keepdims=True) + 1e-20)
    if router.scales is not None:
        weight = weight * np.take(w("expert_scale", m.n_experts), index, axis=0)
    if router.learned_scale:
        weight = weight * w("route_scale", 1)
    return index, weight * router.scale


def _attended(x: Array, choices: int, w: Weights, step: Step) -> Array:
    """Logits (B, T, choices) by attention of each expert to all, within each token."""
    q, k, v = (step.linear(x, w, name, choices)[..., None] for name in ("router", "router_k", "router_v"))
    logits = step.dot(softmax(q * k.swapaxes(-1, -2)), v, "values")  # (B, T, choices, 1)
    return logits.reshape(*logits.shape[:-1])


def _router_layers(layers: RouterLayers, x: Array, w: Weights, step: Step) -> Array:
    """What the logits are made of, through the router's own layers: (B, T, layers.d)."""
    h = step.linear(x, w, "router_down", layers.d, True)
    if layers.carried:
        assert step.router is not None, "the first router of a model has none before it"
        h = h + step.router * w("router_carried", layers.d)
    step.router = h
    h = normed(h, layers.norm, w.at("router_norm"))
    for name in ("router_1", "router_2"):
        h = activate("gelu", step.linear(h, w, name, layers.d, True))
    return h


def route_softmax_of_top(logits: Array, top_k: int) -> tuple[Array, Array]:
    """The top_k experts, weighted by the softmax of their logits alone."""
    index = top(logits, top_k)
    return index, softmax(np.take_along_axis(logits, index, axis=-1))


def _scores(router: Softmax | Sigmoid | SqrtSoftplus, logits: Array) -> Array:
    if isinstance(router, Softmax):
        return softmax(logits)
    if isinstance(router, Sigmoid):
        return sigmoid(logits)
    root: Array = np.sqrt(softplus(logits))
    return root


def _index(m: Experts, scores: Array, w: Weights, step: Step) -> Array:
    """The chosen experts (B, T, k): those of the largest scores, or those that a fixed table has for the token."""
    if isinstance(m.choice, Hash):
        return w.listed("table", step.tokens, m.top_k, m.n_experts)
    return top(_selection(m, scores, w), m.top_k)


def _selection(m: Experts, scores: Array, w: Weights) -> Array:
    """What the choice goes by: the scores, a learned bias added, those outside the best groups taken out."""
    if m.selection_bias:
        scores = scores + w("selection_bias", scores.shape[-1])
    if m.groups is not None and m.groups.n > 1:
        scores = _within_groups(m.groups, scores)
    return scores


def _within_groups(groups: ExpertGroups, scores: Array) -> Array:
    grouped = scores.reshape(*scores.shape[:-1], groups.n, scores.shape[-1] // groups.n)  # (B, T, n, members)
    match groups.score:
        case "max":
            merit = grouped.max(axis=-1)
        case "top2":
            two = np.take_along_axis(grouped, top(grouped, 2), axis=-1)
            merit = two.sum(axis=-1)
        case _:
            assert_never(groups.score)
    best = top(merit, groups.top_k)[..., None]  # (B, T, top_k, 1)
    inside = (best == np.arange(groups.n)).any(axis=-2)[..., None]  # (B, T, n, 1)
    kept: Array = np.where(inside, grouped, -math.inf)
    return kept.astype(scores.dtype).reshape(*scores.shape)


def _sparsemixer(logits: Array, top_k: int, jitter: float) -> tuple[Array, Array]:
    """Experts one after the other, each weighted by a softmax over those within a margin of it (arXiv:2409.12136)."""
    left, indices, weights = logits, [], []
    for _ in range(top_k):
        index = left.argmax(axis=-1, keepdims=True)  # (B, T, 1)
        best = np.take_along_axis(left, index, axis=-1)
        far = (best - logits) / np.maximum(np.absolute(logits), best) > 2 * jitter
        near = softmax(np.where(far, -math.inf, left))
        indices.append(index)
        weights.append(np.take_along_axis(near, index, axis=-1))
        left = np.where(index == np.arange(logits.shape[-1]), -math.inf, left)
    return np.concatenate(indices, axis=-1), np.concatenate(weights, axis=-1).astype(logits.dtype)


#: how many numbers of the chosen experts' matrices may lie gathered in memory at once: half a GiB of float32
GATHERED = 2**27


def _in_pieces(m: Experts, x: Array, index: Array, weight: Array, w: Weights, step: Step) -> Array:
    """The mixture, of a few tokens at a time where gathering every token's matrices at once would fill the memory."""
    batch, new, e = x.shape
    tokens = max(1, GATHERED // (batch * m.top_k * e * m.d_ff))
    if tokens >= new or not isinstance(x, np.ndarray):  # arrays without data take no memory
        return _mixture(m, x, index, weight, w, step)
    cuts = [slice(start, start + tokens) for start in range(0, new, tokens)]
    pieces = [_mixture(m, x[:, cut], index[:, cut], weight[:, cut], w, step) for cut in cuts]
    whole: Array = np.concatenate(pieces, axis=1)
    return whole


def _mixture(m: Experts, x: Array, index: Array, weight: Array, w: Weights, step: Step) -> Array:
    """The chosen experts' outputs, weighted and summed: (B, T, e)."""
    e = x.shape[-1]
    each = x[:, :, None, None, :]  # (B, T, 1, 1, e)
    if m.weight_at == "input":
        each = each * weight[..., None, None]  # (B, T, k, 1, e)
    expert = np.minimum(index, m.n_experts - 1) if m.n_identity else index

    def project(inner: Array, name: str, n_in: int, n_out: int) -> Array:
        y = step.dot(inner, w.chosen(name, expert, m.n_experts, n_in, n_out))  # (B, T, k, 1, n_out)
        if name in m.bias:
            y += w.chosen(f"{name}.bias", expert, m.n_experts, n_out)[..., None, :]
        return y

    gate = project(each, "gate", e, m.d_ff) if ACTIVATIONS[m.activation].gated else None
    up = project(each, "up", e, m.d_ff)
    y = project(combined(m.activation, gate, up, m.clamp, w, m.clamp_at, m.softcaps), "down", m.d_ff, e)
    y = y.reshape(*index.shape, e)  # (B, T, k, e)
    if m.expert_norm is not None:
        y = normed(y, m.expert_norm, w.at("expert_norm"))
    if m.n_identity:
        other = x[:, :, None, :] if m.identity == "input" else x[:, :, None, :] * 0.0
        y = np.where((index >= m.n_experts)[..., None], other, y)
    if m.weight_at == "output":
        y = y * weight[..., None]
    total: Array = y.sum(axis=2)
    return total


def _shared(m: Experts, shared: SharedExperts, x: Array, shares: Array | None, w: Weights, step: Step) -> Array:
    """The expert that every token passes through: (B, T, d)."""
    bias = tuple(site for site in ("gate", "up", "down") if "shared" in m.bias)
    dense = Mlp(
        section=m.section,
        norm=None,
        d_ff=shared.d_ff,
        activation=m.activation,
        bias=bias,  # type: ignore[arg-type]
        clamp=m.shared_clamp,
        clamp_at=m.clamp_at,
        softcaps=m.softcaps,
    )
    y = mlp(dense, x, w.at("shared"), step, shares)
    if shared.gate:
        y = y * sigmoid(step.linear(x, w, "shared_gate", 1))
    return y
