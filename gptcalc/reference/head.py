"""What leaves the last layer: logits over the vocabulary, labels, one vector for the whole text.

Letters: B sequences, T tokens, d channels, v rows of the vocabulary.
"""

from __future__ import annotations

from gptcalc.architecture import Dense, Head, Pooler
from gptcalc.reference.activations import activate, softcapped
from gptcalc.reference.norms import factors, normed
from gptcalc.reference.step import Step
from gptcalc.reference.store import Weights
from gptcalc.reference.tally import Array


def logits(head: Head, x: Array, v: int, width: int, table: Weights, w: Weights, step: Step) -> Array:
    """Logits (B, T, v or the head's rows) of the normed stream x (B, T, d).

    width: the embedding's, which the output matrix reads where no dense layer in front has another; table: the token
    table, where it is the output matrix.
    """
    if head.dense is not None:
        x, width = dense(head.dense, x, w, step), head.dense.d
    elif width != x.shape[-1]:
        x = step.linear(x, w, "projection", width)
    rows = head.rows or v
    if head.borrowed:
        matrix = table.borrowed("head.weight", width, rows)
    elif head.tying:
        matrix = table("embedding.token", v, width).swapaxes(0, 1)
    else:
        matrix = w("weight", width, rows)
    y = step.dot(x, matrix)
    if head.bias:
        y += w("bias", rows)
    if head.fixed_bias and (offset := w.fixed("fixed_bias")) is not None:
        y += offset.reshape(rows).astype(y.dtype)
    if head.factors is not None:
        y = y * factors(head.factors, w("scale", rows))
    if head.scale != 1.0:
        y *= head.scale
    return softcapped(y, head.softcap)


def dense(d: Dense, x: Array, w: Weights, step: Step) -> Array:
    """norm(f(x·W + b)): (…, T, d.d)."""
    x = step.linear(x, w, "dense", d.d, d.bias)
    if d.function != "none":
        x = activate(d.function, x)
    return x if d.norm is None else normed(x, d.norm, w.at("dense").at("norm"))


def pooled(p: Pooler, x: Array, w: Weights, step: Step) -> Array:
    """What the dense layer makes of the first token, the last one (B, 1, …) or each (B, T, …), or its labels."""
    if p.token != "each":
        x = x[:, :1] if p.token == "first" else x[:, x.shape[1] - 1 :]
    if p.dense is not None:
        x = dense(p.dense, x, w, step)
    return step.linear(x, w, "labels", p.labels, p.bias) if p.labels else x
