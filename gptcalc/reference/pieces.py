"""Functions of single rows, row by row: some rows after the other, so that what is made on the way stays at hand."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gptcalc.reference.tally import Array

#: numbers of a piece: some arrays of so many fit into a core's own cache
PIECE = 2**16


def by_rows(function: Callable[[Array], Array], x: Array, axes: int = 1) -> Array:
    """function(x) for a function of each row, the last `axes` axes of x, for itself, of the row's shape."""
    if not isinstance(x, np.ndarray) or x.size <= PIECE:
        return function(x)
    row = x.shape[x.ndim - axes :]
    rows = x.reshape(-1, *row)
    y, n = np.empty_like(rows), max(1, PIECE * len(rows) // x.size)
    for start in range(0, len(rows), n):
        y[start : start + n] = function(rows[start : start + n])
    return y.reshape(*x.shape)
