"""Softmax attention: multi-head, grouped, multi-query; whole past, window or chunk.

Letters: B sequences, T new tokens, S keys held, g KV heads, r query heads that share one, h = d_head, c = d_v.
"""

from __future__ import annotations

import numpy as np

from gptcalc.architecture import (
    LENGTH_EPS,
    Attention,
    KeyValueConvolution,
    OutNorm,
    OutputGate,
    QKNorm,
    RelativeBias,
)
from gptcalc.reference.activations import sigmoid, softcapped, softplus
from gptcalc.reference.convolution import convolved, convolved_by_token
from gptcalc.reference.convolved import delayed_values, filtered, mixed_heads
from gptcalc.reference.differential import difference, dynamically_masked
from gptcalc.reference.experts import route_softmax_of_top
from gptcalc.reference.indexed import indexed
from gptcalc.reference.norms import exponentials, factors, normed, softmax
from gptcalc.reference.relative import bucket_bias, disentangled_bias
from gptcalc.reference.rope import turn, turned_channels
from gptcalc.reference.step import Step
from gptcalc.reference.store import Weights
from gptcalc.reference.strided import attend_one, visible_blocks
from gptcalc.reference.tally import Array


def attention(a: Attention, x: Array, w: Weights, step: Step) -> Array:
    """Each token's mixture of the values it may see: x (B, T, d) -> (B, T, d).

    Where queries, keys and values have an input each, x is (B, T, 3, d)."""
    of_keys, of_values = (x, x) if a.inputs == 1 else (x[:, :, 1], x[:, :, 2])
    x = x[:, :, 0] if a.inputs > 1 else x
    d = x.shape[-1] // 2 if a.with_embedding else x.shape[-1]
    step.note("x", x)
    if a.experts is not None:
        return attention_experts(a, x, w, step)
    if a.filter is not None:
        of_keys = filtered(a.filter, x, w.at("filter"), step)
    if a.cca is None:
        q = _queries(a, of_keys if a.filter is not None else x, w, step)  # (B, T, n_heads, h)
        k, v = keys_and_values(a, of_keys, of_values, w, step)  # (B, g, S, h), (B, g, S, c)
    else:
        q, new_k = mixed_heads(a, a.cca, x, w, step)
        values = delayed_values(a, x, w, step).swapaxes(1, 2)
        k, v = _with_past(a, _factored_keys(a, new_k, w, step), values, step, w)
    q = _prepared(a, q, w, step)
    allowed = _biases(a, q, k, x, w, step)
    if a.dynamic_mask is not None:
        k, v, allowed = dynamically_masked(a.dynamic_mask, k, v, w.at("mask"), step)
    if a.index is not None:
        k, v, allowed = indexed(a, a.index, k, v, x, w.at("index"), step)
    if a.strided is not None and step.new > 1:
        allowed = visible_blocks(a, a.strided, k.shape[2], step)
    if a.strided is not None and step.new == 1:
        o = attend_one(a, a.strided, q, k, v, step)
    else:
        o = attend(a, q, k, v, w, step, allowed, token_sinks(a, x, w, step))  # (B, T, n_heads, c)
    if a.gate is not None and a.gate.first:
        o = gated(a.gate, o, x, w, step)
    if a.out_norm is not None:
        o = _out_normed(a.out_norm, o, w.at("out_norm"))
    if a.gate is not None and not a.gate.first:
        o = gated(a.gate, o, x, w, step)
    flat = o.reshape(*x.shape[:2], a.n_heads * a.d_v)  # (B, T, n_heads · c)
    return step.linear(flat, w, "out", d, "out" in a.bias)


def _queries(a: Attention, x: Array, w: Weights, step: Step) -> Array:
    """(B, T, n_heads, h), as projected."""
    name, bias = "q", "q" in a.bias
    if a.bottleneck is not None:
        x = step.linear(x, w, "q_a", a.bottleneck.rank)  # (B, T, q_rank)
        x = normed(x, a.bottleneck.norm, w.at("q_a_norm"))
        name = "q_b"
    q = _projected(a, x, w, step, name, a.n_heads * a.d_head, bias)
    return q.reshape(*x.shape[:2], a.n_heads, a.d_head)


def _projected(a: Attention, x: Array, w: Weights, step: Step, name: str, n: int, bias: bool) -> Array:
    """x · W + b, and x · A · B where each layer adds a low-rank part of its own to shared weights."""
    y = step.linear(x, w, name, n, bias)
    if a.adapter is None:
        return y
    own = step.own().at(f"{name}_adapter")
    both: Array = y + step.linear(step.linear(x, own, "left", a.adapter.rank), own, "right", n)
    return both


def _out_normed(norm: OutNorm, o: Array, w: Weights) -> Array:
    """The heads' outputs (B, T, n_heads, c), normed together or each apart."""
    if norm.over == "head":
        return normed(o, norm, w)
    return normed(o.reshape(*o.shape[:2], o.shape[2] * o.shape[3]), norm, w).reshape(*o.shape)


def keys_and_values(a: Attention, x: Array, of_values: Array, w: Weights, step: Step) -> tuple[Array, Array]:
    """Keys (B, g, S, h) and values (B, g, S, c) of all positions that a new token may see, newest last."""
    if a.source:
        return _of_the_source(a, w, step)
    if a.with_target:
        return _with_states(a, x, w, step)
    if not a.causal:
        return new_keys_and_values(a, x, of_values, w, step)
    if a.kv is not None:
        held = step.shared[a.kv.from_]
    else:
        return _with_past(a, *new_keys_and_values(a, x, of_values, w, step), step, w)
    return _seen(a, held, step, w)


def _with_past(a: Attention, k: Array, v: Array, step: Step, w: Weights) -> tuple[Array, Array]:
    """The new tokens' keys and values, behind those that the cache holds."""
    key = step.place.rstrip(".")
    held = {"k": step.cache.append(key, "k", k), "v": step.cache.append(key, "v", v)}
    step.cache.keep(key, step.reach(a.window, a.chunk))
    return _seen(a, held, step, w)


def _seen(a: Attention, held: dict[str, Array], step: Step, w: Weights) -> tuple[Array, Array]:
    """What some new token may see of the keys and values held."""
    step.shared[a.section] = held
    n = step.needed(a.window, a.chunk)
    k, v = held["k"], held["v"]
    k, v = k[:, :, max(k.shape[2] - n, 0) :], v[:, :, max(v.shape[2] - n, 0) :]
    if a.qk_norm is not None and a.qk_norm.at_read:
        k = _heads_normed(a.qk_norm, k.swapaxes(1, 2), w.at("k_norm")).swapaxes(1, 2)
    return k, v


def _of_the_source(a: Attention, w: Weights, step: Step) -> tuple[Array, Array]:
    """Keys (B, g, N, h) and values (B, g, N, c) of the encoder's output: made once, then kept."""
    key = step.place.rstrip(".")
    if step.source is not None:
        k, v = new_keys_and_values(a, step.source, step.source, w, step)
        step.cache.put(key, "k", k)
        step.cache.put(key, "v", v)
        return k, v
    return step.cache.held(key, "k"), step.cache.held(key, "v")


def _with_states(a: Attention, x: Array, w: Weights, step: Step) -> tuple[Array, Array]:
    """Keys and values of what a target made of all tokens so far, which stay, and behind them the block's own."""
    assert step.context_states is not None
    states, before = step.context_states
    key = step.place.rstrip(".")
    k, v = new_keys_and_values(a, states, states, w, before)
    k, v = step.cache.append(key, "k", k), step.cache.append(key, "v", v)
    own_k, own_v = new_keys_and_values(a, x, x, w, step)
    return np.concatenate([k, own_k], axis=2), np.concatenate([v, own_v], axis=2)


def new_keys_and_values(a: Attention, x: Array, of_values: Array, w: Weights, step: Step) -> tuple[Array, Array]:
    """Keys (B, g, T, h) and values (B, g, T, c) of the new tokens, from what each is made of (B, T, d)."""
    heads = (*x.shape[:2], a.n_kv_heads)
    k = _projected(a, x, w, step, "k", a.n_kv_heads * a.d_head, "k" in a.bias)
    # where one projection serves both, V is the raw one; K is normed and rotated below
    v = k if a.k_eq_v else _projected(a, of_values, w, step, "v", a.n_kv_heads * a.d_v, "v" in a.bias)
    if a.kv_conv is not None:
        k = _convolved(a, a.kv_conv, k, x, "k_conv", w, step)
        v = _convolved(a, a.kv_conv, v, of_values, "v_conv", w, step)
    k, v = k.reshape(*heads, a.d_head), v.reshape(*heads, a.d_v)
    late = a.qk_norm is not None and a.qk_norm.at_read
    k = k if a.qk_limit is None else shortened(k, a.qk_limit)
    k = _normed_and_rotated(a, k, None if late else a.qk_norm, w.at("k_norm"), step)
    if a.v_norm is not None:
        v = normed(v, a.v_norm, w.at("v_norm"))
    v = _clipped(a, v)
    if a.value_scale != 1.0:
        v = v * a.value_scale
    return k.swapaxes(1, 2), v.swapaxes(1, 2)


def _convolved(a: Attention, c: KeyValueConvolution, y: Array, read: Array, name: str, w: Weights, step: Step) -> Array:
    """Keys or values (B, T, g · h) with their convolution."""
    if c.token_taps:
        return convolved_by_token(y, read, a.n_kv_heads, name, c, w, step)
    return convolved(y, name, c.kernel, w, step, c.scaled)


def shortened(x: Array, limit: float) -> Array:
    """Vectors along the last axis, none longer than the limit."""
    length = np.sqrt(np.square(x).sum(axis=-1, keepdims=True))
    y: Array = x * np.minimum(limit / (length + LENGTH_EPS), 1.0)
    return y


def token_sinks(a: Attention, x: Array, w: Weights, step: Step) -> Array | None:
    """Logits that each token's input has for its sinks, (B, g, r, T, 1); None where sinks are not of the token."""
    if not a.scores.token_sinks:
        return None
    made = step.linear(x, w, "token_sinks", a.n_heads).swapaxes(1, 2)
    return made.reshape(x.shape[0], a.n_kv_heads, a.n_heads // a.n_kv_heads, x.shape[1], 1)


def _factored_keys(a: Attention, k: Array, w: Weights, step: Step) -> Array:
    """New keys (B, T, g, h) normed, times their heads' factors, and rotated: (B, g, T, h)."""
    if a.qk_norm is not None:
        k = _heads_normed(a.qk_norm, k, w.at("k_norm"))
    k = k * w("k_factor", a.n_kv_heads).reshape(a.n_kv_heads, 1)
    return _normed_and_rotated(a, k, None, w, step).swapaxes(1, 2)


def _prepared(a: Attention, q: Array, w: Weights, step: Step) -> Array:
    """Queries normed, rotated and scaled: (B, T, n_heads, h)."""
    if a.qk_limit is not None:
        q = shortened(q * w("q_factor", a.n_heads, a.d_head), a.qk_limit)
    q = _normed_and_rotated(a, q, a.qk_norm, w.at("q_norm"), step)
    if a.q_factors is not None:
        q = q * factors(a.q_factors, w("q_scale", a.n_heads, a.d_head))
    if a.scores.temperature is not None:
        q = q * step.temperature(a.scores.temperature)
    if a.scores.log_length is not None:
        q = q * step.log_growth(a.scores.log_length)
    step.note("q", q.swapaxes(1, 2))
    return q * a.score_scale


def _normed_and_rotated(a: Attention, x: Array, norm: QKNorm | None, w: Weights, step: Step) -> Array:
    """Queries or keys (B, T, heads, h) after the norm, the clamp and the rotation, in the order that `a` says."""
    if norm is not None and not norm.after_rope:
        x = _heads_normed(norm, x, w)
    x = _clipped(a, x)
    if a.rope is not None:
        cos, sin = step.angles(a.rope, turned_channels(a.rope, a.d_head))
        x = turn(x, a.rope, cos, sin)
    if norm is not None and norm.after_rope:
        x = _heads_normed(norm, x, w)
    return x


def _heads_normed(norm: QKNorm, x: Array, w: Weights) -> Array:
    if norm.over == "full":
        flat = x.reshape(*x.shape[:2], x.shape[2] * x.shape[3])  # (B, T, heads · h)
        return normed(flat, norm, w).reshape(*x.shape)
    return normed(x, norm, w, *(x.shape[2:] if norm.over == "each" else x.shape[3:]))


def _clipped(a: Attention, x: Array) -> Array:
    return x if a.clip is None else np.minimum(np.maximum(x, -a.clip), a.clip)


def attend(
    a: Attention,
    q: Array,
    k: Array,
    v: Array,
    w: Weights,
    step: Step,
    allowed: Array | None = None,
    sinks: Array | None = None,
) -> Array:
    """softmax(q kᵀ) v for scaled queries (B, T, n_heads, h) -> (B, T, n_heads, c).

    allowed: what is added to the scores of every query and key, (B, g, 1 or r, T, S), −∞ where a key is not seen; where
    it is not given, keys are seen by position alone. sinks: what tokens have for them, (B, g, r, T, 1).
    """
    batch, new, n_heads, _ = q.shape
    g, keys = k.shape[1:3]
    q = q.swapaxes(1, 2).reshape(batch, g, n_heads // g, new, a.d_head)  # (B, g, r, T, h)
    if a.scores.sinks:
        sinks = w("sinks", n_heads).reshape(g, n_heads // g, 1, 1)
    step.note("k", k)
    step.note("v", v)
    added = []  # to scores, (…, T, S) each
    if a.position == "alibi":
        bias = step.alibi(n_heads, keys).reshape(g, n_heads // g, new, keys)
        added.append(bias if a.scores.alibi_scale == 1.0 else bias * a.scores.alibi_scale)
    mask = mask_of(a, keys, step) if allowed is None else allowed
    if mask is not None:
        added.append(mask)
    if a.differential is not None:
        return difference(a, a.differential, _shares(a, q, k, added, sinks, step), v, w, step)
    if step.at_once:
        o = step.dot(_shares(a, q, k, added, sinks, step), v[:, :, None], "values")  # (B, g, r, T, c)
        step.note("output", o)
        return o.reshape(batch, n_heads, new, v.shape[-1]).swapaxes(1, 2)
    return _by_blocks(a, q, k, v, added, sinks, step).reshape(batch, new, n_heads, v.shape[-1])


def _scores(a: Attention, q: Array, k: Array, added: list[Array], step: Step) -> Array:
    """How well each query meets each key: (B, g, r, T, S)."""
    s = step.dot(q, k[:, :, None].swapaxes(-1, -2), "scores")
    if step.tally.watched:
        step.note("scores", s / a.score_scale)
        step.note("scaled", s)
    s = softcapped(s, a.scores.softcap)
    for bias in added:
        s += bias
    step.note("masked", s)
    return s


def _shares(a: Attention, q: Array, k: Array, added: list[Array], sinks: Array | None, step: Step) -> Array:
    """How much of each key each query takes, Σ = 1: (B, g, r, T, S)."""
    p = softmax(_scores(a, q, k, added, step), sinks)
    step.note("softmax", p)
    if step.attention is not None:
        step.attention.append(p.reshape(p.shape[0], p.shape[1] * p.shape[2], *p.shape[3:]))
    return p


def _by_blocks(
    a: Attention, q: Array, k: Array, v: Array, added: list[Array], sinks: Array | None, step: Step
) -> Array:
    """The same outputs, (B, T, g, r, c): some queries of one KV head after the other, over the keys that any of them
    sees, so that their scores are few enough to stay at hand. What is mixed is divided, not each share of it."""
    batch, g, r, new, h = q.shape
    keys, c = v.shape[2:]
    added = [np.broadcast_to(bias, (batch, g, r, new, keys)) for bias in added]
    sinks = None if sinks is None else np.broadcast_to(sinks, (batch, g, r, new, 1))
    o, seen = np.empty((batch, new, g, r, c), q.dtype), 0
    sight = (None, None, False) if a.source else (a.window, a.chunk, not a.sees_ahead)
    blocks = list(step.blocks(keys, *sight))
    for head in range(g):
        one = slice(head, head + 1)
        for rows, near in blocks:
            s = _scores(a, q[:, one, :, rows], k[:, one, near], [bias[:, one, :, rows, near] for bias in added], step)
            e, total = exponentials(s, None if sinks is None else sinks[:, one, :, rows])
            mixed = step.dot(e, v[:, one, None, near], "values") / total
            o[:, rows, one] = mixed.transpose(0, 3, 1, 2, 4)
            seen += e.size
    unseen = batch * g * r * new * keys - seen
    step.tally.skipped("scores", unseen * h)
    step.tally.skipped("values", unseen * c)
    return o


def mask_of(a: Attention, keys: int, step: Step) -> Array | None:
    """−∞ where a query doesn't see a key, as far as positions decide."""
    return None if a.source else step.mask(keys, a.window, a.chunk, not a.sees_ahead)


def _biases(a: Attention, q: Array, k: Array, x: Array, w: Weights, step: Step) -> Array | None:
    """What learned distances add to the scores, with the mask: (B, g, r, T, S), −∞ where a key is not seen."""
    keys = k.shape[2]
    if a.scores.relative is not None:
        return _biased(a, a.scores.relative, keys, x, w.at("relative"), step)
    if a.scores.buckets is not None:
        bias = bucket_bias(a, a.scores.buckets, keys, w, step)
    elif a.scores.disentangled is not None:
        bias = disentangled_bias(a, a.scores.disentangled, q, k, w, step, x.shape[-1])
    else:
        return None
    mask = mask_of(a, keys, step)
    if mask is not None:
        bias = bias + mask
    return bias.reshape(bias.shape[0], a.n_kv_heads, a.n_heads // a.n_kv_heads, step.new, keys)


def _biased(a: Attention, relative: RelativeBias, keys: int, x: Array, w: Weights, step: Step) -> Array:
    """The learned bias of each query for each key by their distance, −∞ where it sees none: (B, g, r, T, S)."""
    width, extent = relative.d, relative.extent
    states = step.linear(x, w, "states", a.n_heads * width).reshape(*x.shape[:2], a.n_heads, width)
    if relative.limit is not None:
        states = shortened(states * w("factor", a.n_heads, width), relative.limit)
    if a.scores.temperature is not None:
        states = states * step.temperature(a.scores.temperature)
    by_distance = step.dot(states, w("profiles", width, extent)).swapaxes(1, 2)  # (B, n_heads, T, extent)
    distance = step.distance(keys)  # (T, S)
    place = np.minimum(np.maximum(distance, 0), extent - 1)[None, None]
    bias: Array = np.where(distance < extent, np.take_along_axis(by_distance, place, axis=-1), 0.0).astype(step.dtype)
    mask = step.mask(keys, a.window, a.chunk)
    if mask is not None:
        bias = bias + mask
    return bias.reshape(x.shape[0], a.n_kv_heads, a.n_heads // a.n_kv_heads, step.new, keys)


def gated(gate: OutputGate, o: Array, x: Array, w: Weights, step: Step) -> Array:
    """The heads' outputs (B, T, n_heads, c) times σ(x · W + b), one gate a head or one a channel, and so are biases."""
    n_heads, c = o.shape[2:]
    width = 1 if gate.over == "head" else c
    g = step.linear(x, w, "gate", n_heads * width).reshape(*x.shape[:2], n_heads, width)
    if gate.bias:
        of_each = width if gate.bias == "full" else 1
        g = g + w("gate.bias", n_heads * of_each).reshape(n_heads, of_each)
    if gate.factors is not None:
        g = g * factors(gate.factors, w("gate_scale", n_heads, width))
    return o * (sigmoid(g) if gate.function == "sigmoid" else softplus(g))


def attention_experts(a: Attention, x: Array, w: Weights, step: Step) -> Array:
    """Queries and outputs through the top_k of n_experts projections, keys and values shared (arXiv:2404.07413)."""
    assert a.experts is not None
    batch, new, d = x.shape
    n, top_k = a.experts.n_experts, a.experts.top_k
    index, weight = route_softmax_of_top(step.dot(x, w("router", d, n)), top_k)  # (B, T, k)
    q_matrix = w.chosen("q", index, n, d, a.n_heads * a.d_head)  # (B, T, k, d, n_heads · h)
    q = step.dot(x[:, :, None, None, :], q_matrix).reshape(batch, new, top_k, a.n_kv_heads, -1, a.d_head)
    q = q.transpose(0, 1, 3, 2, 4, 5).reshape(batch, new, top_k * a.n_heads, a.d_head)  # heads by (g, expert, r)
    k, v = keys_and_values(a, x, x, w, step)
    o = attend(a, _prepared(a, q, w, step), k, v, w, step)  # (B, T, g · k · r, c)
    o = o.reshape(batch, new, a.n_kv_heads, top_k, -1, a.d_v).transpose(0, 1, 3, 2, 4, 5)
    o = o.reshape(batch, new, top_k, 1, a.n_heads * a.d_v)
    out_matrix = w.chosen("out", index, n, a.n_heads * a.d_v, d)  # (B, T, k, n_heads · c, d)
    y: Array = (step.dot(o, out_matrix).reshape(batch, new, top_k, d) * weight[..., None]).sum(axis=2)
    if "out" in a.bias:
        y = y + w("out.bias", d)
    return y
