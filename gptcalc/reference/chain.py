"""A block that is drafted at once, token by token: what those in front say of the next one.

Letters: B sequences, K tokens that are drafted, d channels, v rows of the vocabulary, g channels of a state.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gptcalc.architecture import Gru, Head, Markov
from gptcalc.reference.activations import sigmoid
from gptcalc.reference.step import Step
from gptcalc.reference.store import Weights
from gptcalc.reference.tally import Array


class Drafted(NamedTuple):
    """What becomes of a block."""

    logits: Array  # (B, K, v), with what the tokens in front add
    block: Array  # (B, 1 + K): the known token, and the likeliest behind it
    confidence: Array | None  # (B, K, 1)


def chained(head: Head, y: Array, x: Array, known: Array, table: Array, w: Weights, step: Step) -> Drafted:
    """Of logits y (B, K, v) of a block's states x (B, K, d) and its known token (B, 1); `table` is that of the tokens'
    rows (v, d)."""
    rows = _Rows(head.markov, y.shape[-1], w, step) if head.markov is not None else None
    recurrence = _Recurrence(head.gru, x, w.at("gru"), step) if head.gru is not None else None
    block, logits = [known], []
    for slot in range(y.shape[1]):
        one = y[:, slot : slot + 1]
        if rows is not None:
            one = one + rows.after(block[-1])
        if recurrence is not None:
            one = recurrence.after(np.take(table, block[-1], axis=0), one, x[:, slot : slot + 1], slot)
        logits.append(one)
        block.append(one.argmax(-1))
    confidence = rows.confidence(x) if rows is not None and rows.m.confidence != "none" else None
    return Drafted(np.concatenate(logits, axis=1), np.concatenate(block, axis=1), confidence)


class _Rows:
    """A low-rank table of the token in front (DSpark)."""

    def __init__(self, m: Markov, v: int, w: Weights, step: Step) -> None:
        self.m, self.v, self.w, self.step = m, v, w, step
        self.table = w("markov.table", v, m.rank)
        self.read: list[Array] = []  # (B, 1, rank) each

    def after(self, token: Array) -> Array:
        """What a token (B, 1) adds to the logits behind it: (B, 1, v)."""
        self.read.append(np.take(self.table, token, axis=0))
        return self.step.linear(self.read[-1], self.w, "markov.out", self.v)

    def confidence(self, x: Array) -> Array:
        """How likely what is drafted is accepted: (B, K, 1)."""
        both = x if self.m.confidence == "state" else np.concatenate([x, np.concatenate(self.read, axis=1)], axis=-1)
        return self.step.linear(both, self.w, "confidence", 1, bias=True)


class _Recurrence:
    """A gated recurrent unit over the tokens in front (Domino)."""

    def __init__(self, g: Gru, x: Array, w: Weights, step: Step) -> None:
        self.g, self.w, self.step = g, w, step
        self.state = np.broadcast_to(x[:, :1, :1] * 0.0, (x.shape[0], 1, g.d_state))

    def after(self, row: Array, y: Array, x: Array, slot: int) -> Array:
        """The logits y (B, 1, v) behind a token whose row is given (B, 1, d), with what it adds to those of the slot's
        state x (B, 1, d)."""
        g, step, w = self.g.d_state, self.step, self.w
        of_row, of_state = step.linear(row, w, "input", 3 * g), step.linear(self.state, w, "state", 3 * g)
        reset = sigmoid(of_row[..., :g] + of_state[..., :g])
        update = sigmoid(of_row[..., g : 2 * g] + of_state[..., g : 2 * g])
        candidate = np.tanh(of_row[..., 2 * g :] + reset * of_state[..., 2 * g :])
        self.state = update * self.state + (1.0 - update) * candidate
        if slot < self.g.first:
            return y
        h = step.linear(np.concatenate([x, self.state], axis=-1), w, "hidden", self.g.d_hidden)
        return y + step.linear(h * sigmoid(h), w, "out", y.shape[-1])
