"""Multi-head latent attention (arXiv:2405.04434): keys and values unfold from one latent a token, which is all that is
cached, with one rotary key for all heads. Two forms give the same result:

    expanded   k and v of every head are computed from the latents, then ordinary attention
    absorbed   the up-projection moves to the query's side, and heads attend to the latents themselves

Letters: B, T, S, n = n_heads, m = d_nope, r = d_rope, c = d_v, l = kv_rank.
"""

from __future__ import annotations

import math

import numpy as np

from gptcalc.architecture import Indexer, LatentAttention
from gptcalc.reference.attention import gated
from gptcalc.reference.compressed import Mixtures
from gptcalc.reference.experts import top
from gptcalc.reference.norms import normed, softmax
from gptcalc.reference.rope import rotate
from gptcalc.reference.step import Step
from gptcalc.reference.store import Weights
from gptcalc.reference.tally import Array


def latent_attention(a: LatentAttention, x: Array, w: Weights, step: Step) -> Array:
    """x (B, T, d) -> (B, T, d)."""
    source, read, q_nope, q_rope = _queries(a, x, w, step)  # (B, T, q_rank or d) twice, (B, T, n, m), (B, T, n, r)
    key = w.prefix.rstrip(".")
    absorbed = step.form == "absorbed" or (step.form == "auto" and step.new == 1)
    if step.form == "expanded":
        held = _expanded_held(a, x, w, step, key)
    else:
        held = _latents_held(a, x, w, step, key)
    step.shared[a.section] = held
    if a.index is not None:
        held, mask = _indexed(a, a.index, held, x, source, w, step)
    else:
        held = _seen(a, held, step)
        mask = step.mask(next(iter(held.values())).shape[-2], a.window, None)
    if absorbed:
        o = _absorbed(a, q_nope, q_rope, held, mask, w, step)
    else:
        o = _expanded(a, q_nope, q_rope, _unfolded(a, held, w, step), mask, w, step)
    if a.gate is not None:
        o = gated(a.gate, o, read if a.raw_queries else x, w, step)  # (B, T, n, c)
    flat = o.reshape(*x.shape[:2], a.n_heads * a.d_v)
    return step.linear(flat, w, "out", x.shape[-1], "out" in a.bias)


def _queries(a: LatentAttention, x: Array, w: Weights, step: Step) -> tuple[Array, Array, Array, Array]:
    """The normed bottleneck (else x), what the queries are made of, and their parts without and with rotation."""
    name, read = "q", x
    if a.q_rank is not None:
        x = step.linear(x, w, "q_a", a.q_rank, "q_a" in a.bias)
        raw, x = x, normed(x, a.latent_norm, w.at("q_a_norm"))  # (B, T, q_rank)
        name, read = "q_b", np.concatenate([x, raw], axis=-1) if a.raw_queries else x
    q = step.linear(read, w, name, a.n_heads * (a.d_nope + a.d_rope), "q_b" in a.bias)
    q = q.reshape(*x.shape[:2], a.n_heads, a.d_nope + a.d_rope)
    q = q * (a.q_scale * a.score_scale)
    if a.temperature is not None:
        q = q * step.temperature(a.temperature)
    if a.ssmax:
        q = q * step.ssmax(w.at("ssmax"), a.n_heads)
    return x, read, q[..., : a.d_nope], _rotated(a, q[..., a.d_nope :], step)


def _rotated(a: LatentAttention, x: Array, step: Step, pairing: str | None = None) -> Array:
    """x (B, T, heads, width) with its first d_rope channels turned."""
    if a.rope is None or not a.d_rope:
        return x
    return rotate(x, *step.angles(a.rope, a.d_rope), pairing or a.rope.pairing)


def _new_latents(a: LatentAttention, x: Array, w: Weights, step: Step) -> tuple[Array, Array]:
    """The latents (B, T, l), normed, and the rotary keys (B, T, r) of the new tokens."""
    latent = step.linear(x, w, "kv_a", a.kv_rank, "kv_a" in a.bias)
    latent = normed(latent, a.latent_norm, w.at("kv_a_norm")) * a.kv_scale
    if not a.d_rope:
        return latent, latent[..., :0]
    k_rope = step.linear(x, w, "k_rope", a.d_rope, "kv_a" in a.bias)
    if a.k_rope_norm is not None:
        k_rope = normed(k_rope, a.k_rope_norm, w.at("k_rope_norm"))
    return latent, _rotated(a, k_rope[:, :, None, :], step)[:, :, 0]


def _latents_held(a: LatentAttention, x: Array, w: Weights, step: Step, key: str) -> dict[str, Array]:
    """latent (B, S, l) and k_rope (B, S, r)."""
    if a.kv is not None:
        return step.shared[a.kv.from_]
    latent, k_rope = _new_latents(a, x, w, step)
    return _with_past(a, {"latent": latent, "k_rope": k_rope}, step, key)


def _with_past(a: LatentAttention, new: dict[str, Array], step: Step, key: str) -> dict[str, Array]:
    """What is made of the new tokens, behind what the cache holds, which keeps what the next one may see."""
    held = {name: step.cache.append(key, name, array) for name, array in new.items()}
    step.cache.keep(key, step.reach(a.window, None))
    return held


def _seen(a: LatentAttention, held: dict[str, Array], step: Step) -> dict[str, Array]:
    """Of what is held as much as some new token may see."""
    n = step.needed(a.window, None)
    return {name: array[..., max(array.shape[-2] - n, 0) :, :] for name, array in held.items()}


def _expanded_held(a: LatentAttention, x: Array, w: Weights, step: Step, key: str) -> dict[str, Array]:
    """Keys (B, n, S, m + r) and values (B, n, S, c), cached as such: only new tokens' latents are unfolded.

    Shared latents are unfolded by each layer's own projections.
    """
    if a.kv is None:
        latent, k_rope = _new_latents(a, x, w, step)
        new = {"latent": latent, "k_rope": k_rope}
    else:
        new = step.shared[f"{a.kv.from_}.new"]
    step.shared[f"{a.section}.new"] = new
    return _with_past(a, _unfolded(a, new, w, step), step, key)


def _up(a: LatentAttention, w: Weights, name: str, width: int) -> Array:
    """An up-projection by heads: (n, l, width)."""
    matrix = w(name, a.kv_rank, a.n_heads * width)
    return matrix.reshape(a.kv_rank, a.n_heads, width).swapaxes(0, 1)


def _up_bias(a: LatentAttention, w: Weights, name: str, width: int) -> Array:
    return w(f"{name}.bias", a.n_heads * width).reshape(a.n_heads, 1, width)


def _unfolded(a: LatentAttention, held: dict[str, Array], w: Weights, step: Step) -> dict[str, Array]:
    """k (B, n, S, m + r) and v (B, n, S, c) from the latents."""
    if "k" in held:
        return held
    latent, k_rope = held["latent"], held["k_rope"]
    batch, keys, _ = latent.shape
    k = step.linear(latent, w, "k_b", a.n_heads * a.d_nope, "kv_b" in a.bias)
    v = step.linear(latent, w, "v_b", a.n_heads * a.d_v, "kv_b" in a.bias)
    k = k.reshape(batch, keys, a.n_heads, a.d_nope).swapaxes(1, 2)
    v = v.reshape(batch, keys, a.n_heads, a.d_v).swapaxes(1, 2)
    shared = np.broadcast_to(k_rope[:, None], (batch, a.n_heads, keys, a.d_rope))
    return {"k": np.concatenate([k, shared], axis=-1), "v": v}


def _expanded(
    a: LatentAttention,
    q_nope: Array,
    q_rope: Array,
    held: dict[str, Array],
    mask: Array | None,
    w: Weights,
    step: Step,
) -> Array:
    """(B, T, n, c), by ordinary attention of n heads."""
    q = np.concatenate([q_nope, q_rope], axis=-1).swapaxes(1, 2)  # (B, n, T, m + r)
    s = step.dot(q, held["k"].swapaxes(-1, -2), "scores")  # (B, n, T, S)
    p = _probabilities(a, s, mask, w, step)
    return step.dot(p, held["v"], "values").swapaxes(1, 2)


def _absorbed(
    a: LatentAttention,
    q_nope: Array,
    q_rope: Array,
    held: dict[str, Array],
    mask: Array | None,
    w: Weights,
    step: Step,
) -> Array:
    """(B, T, n, c), by n heads that attend to the same latents."""
    latent, k_rope = held["latent"][:, None], held["k_rope"][:, None]  # (B, 1, S, l), (B, 1, S, r)
    q_nope, q_rope = q_nope.swapaxes(1, 2), q_rope.swapaxes(1, 2)  # (B, n, T, m), (B, n, T, r)
    q_latent = step.dot(q_nope, _up(a, w, "k_b", a.d_nope).swapaxes(-1, -2))  # (B, n, T, l)
    s = step.dot(q_latent, latent.swapaxes(-1, -2), "scores")  # (B, n, T, S)
    if a.d_rope:
        s += step.dot(q_rope, k_rope.swapaxes(-1, -2), "scores")
    # a bias of the keys adds the same to every score of a query, which the softmax does not see
    p = _probabilities(a, s, mask, w, step)
    o = step.dot(step.dot(p, latent, "values"), _up(a, w, "v_b", a.d_v))  # (B, n, T, c)
    if "kv_b" in a.bias:
        o += _up_bias(a, w, "v_b", a.d_v)
    return o.swapaxes(1, 2)


def _probabilities(a: LatentAttention, s: Array, mask: Array | None, w: Weights, step: Step) -> Array:
    if mask is not None:
        s += mask
    p = softmax(s, w("sinks", a.n_heads).reshape(a.n_heads, 1, 1) if a.sinks else None)
    if step.attention is not None:
        step.attention.append(p)
    return p


# --- the indexer of DeepSeek sparse attention -------------------------------------------------------------------------


def _indexed(
    a: LatentAttention,
    index: Indexer,
    held: dict[str, Array],
    x: Array,
    source: Array,
    w: Weights,
    step: Step,
) -> tuple[dict[str, Array], Array | None]:
    """What may be attended to after the indexer's choice. A single query gathers its top_k keys; several ones, whose
    choices differ, are masked."""
    if not index.shared:
        step.choice = _choice(a, index, x, source, w, step)
    assert step.choice is not None, "the first indexer of a model must make its own choice"
    choice, keys = step.choice, next(iter(held.values())).shape[-2]  # (B, T, k)
    if step.new == 1:
        at = choice[:, 0] if index.block is None else _tokens(index.block, choice[:, 0], keys)  # (B, k)
        gathered = {
            name: np.take_along_axis(array, at[(slice(None), *[None] * (array.ndim - 3), slice(None), None)], axis=-2)
            for name, array in held.items()
        }
        return gathered, None
    number = np.arange(0, keys, like=step.tokens)
    if index.block is None:
        listed = (choice[..., None] == number).any(axis=-2)  # (B, T, S)
    else:
        complete, number = ((step.positions + 1) // index.block)[:, None], number // index.block
        listed = (choice[..., None] == number).any(axis=-2) & (number < complete) | (number == complete)
    mask = step.mask(keys, None, None)
    assert mask is not None
    allowed: Array = np.where(listed, mask, -math.inf).astype(step.dtype)
    return held, allowed[:, None]  # (B, 1, T, S)


def _tokens(block: int, blocks: Array, keys: int) -> Array:
    """The positions of the tokens of chosen blocks (B, k), and of those that fill none: (B, k · block + rest)."""
    whole = keys // block * block
    at = (blocks[..., None] * block + np.arange(0, block, like=blocks)).reshape(blocks.shape[0], -1)
    rest = np.broadcast_to(np.arange(whole, keys, like=blocks), (blocks.shape[0], keys - whole))
    both: Array = np.concatenate([at, rest], axis=-1)
    return both


def _index_rotated(a: LatentAttention, index: Indexer, x: Array, step: Step) -> Array:
    """The indexer's queries or keys (B, T, heads, width) with their first or last d_rope channels turned."""
    still = index.d - a.d_rope if index.rotates == "last" else 0
    turned = _rotated(a, x[..., still:], step, index.pairing)
    return np.concatenate([x[..., :still], turned], axis=-1) if still else turned


def _choice(a: LatentAttention, index: Indexer, x: Array, source: Array, w: Weights, step: Step) -> Array:
    """The positions of the top_k keys by Σ over index heads of weight · relu(q · k): (B, T, k)."""
    w = w.at("index")
    n, width = index.n_heads, index.d
    if index.q_norm is not None:
        source = normed(source, index.q_norm, w.at("q_norm"))
    q = step.linear(source, w, "q", n * width).reshape(*x.shape[:2], n, width)
    if index.ssmax:
        q = q * step.ssmax(w.at("ssmax"), n)
    q = _index_rotated(a, index, q, step) * (1 / math.sqrt(width))  # (B, T, n, width)
    k = normed(step.linear(x, w, "k", width), index.k_norm, w.at("k_norm"))
    k = _index_rotated(a, index, k[:, :, None, :], step)[:, :, 0]  # (B, T, width)
    if index.block is None:
        k = step.cache.append(w.prefix.rstrip("."), "k", k)  # (B, S, width)
        mask = step.mask(k.shape[1], None, None)
    else:
        k, mask = _block_keys(index.block, k, x, w.at("compress"), step)  # (B, S / block, width)
    s = np.maximum(step.dot(q, k[:, None].swapaxes(-1, -2), "scores"), 0.0)  # (B, T, n, S)
    weight = step.linear(x, w, "weights", n)[:, :, None, :] * (1 / math.sqrt(n))  # (B, T, 1, n)
    score = step.dot(weight, s, "scores")[:, :, 0]  # (B, T, S)
    if mask is not None:
        score += mask
    return top(score, min(index.top_k, k.shape[1]))


def _block_keys(block: int, k: Array, x: Array, w: Weights, step: Step) -> tuple[Array, Array]:
    """One key for each complete block (B, blocks, width), and what is added to a token's scores of them (T, blocks)."""
    new = Mixtures(block, k.shape[-1]).completed(k, x, w, step)
    held = step.cache.append(w.prefix.rstrip("."), "entries", new)
    complete = ((step.positions + 1) // block)[:, None]
    seen = np.arange(0, held.shape[1], like=step.tokens) < complete
    return held, np.where(seen, 0.0, -math.inf).astype(step.dtype)
