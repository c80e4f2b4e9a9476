"""How a grid is shown: as a table, or piece by piece as lines."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gptcalc.analysis.sweep.figures import FIGURES
from gptcalc.report.table import Column, Kind, Table, View

KINDS: dict[str, Kind] = {key: figure.kind for key, figure in FIGURES.items()}
TITLES = {
    "total": "parameters",
    "kv_bytes": "cache",
    "tokens_per_second": "tokens a second",
    "weights_bytes": "weights",
    "activations_bytes": "activations",
    "prefill_flops": "prefill",
    "decode_flops": "decode step",
    "train_flops": "training step",
    "non_embedding": "non-embedding",
}


def view(rows: Sequence[Mapping[str, Any]], keys: Sequence[str]) -> View:
    """A row a point."""
    columns = [Column(key, TITLES.get(key, key), KINDS.get(key, "number")) for key in keys]
    table = Table(columns, [[row[key] for key in keys] for row in rows], turns=True)
    return View([table] if rows else ["none"], table)


def csv(blocks: Iterator[list[list[Any]]], keys: Sequence[str]) -> Iterator[str]:
    """Keys as the header, raw numbers below."""
    from gptcalc.report.delimited import csv

    yield ",".join(keys) + "\n"
    for block in blocks:
        if all(isinstance(column[0], int) for column in block):
            yield "".join([",".join(row) + "\n" for row in zip(*(map(str, column) for column in block), strict=True)])
        else:
            table = Table([Column(key, key) for key in keys], list(zip(*block, strict=True)))
            yield csv(table).partition("\n")[2]


def lines(blocks: Iterator[list[list[Any]]], keys: Sequence[str]) -> Iterator[str]:
    """A JSON object a line."""
    names = [json.dumps(key) + ":" for key in keys]
    for block in blocks:
        texts = [
            [name + (str(v) if isinstance(v, int) else json.dumps(v)) for v in column]
            for name, column in zip(names, block, strict=True)
        ]
        yield "".join(["{" + ",".join(row) + "}\n" for row in zip(*texts, strict=True)])


def array(blocks: Iterator[list[list[Any]]], keys: Sequence[str]) -> Iterator[str]:
    """A JSON array, an entry a line."""
    before = "[\n"
    for piece in lines(blocks, keys):
        yield before + piece.rstrip("\n").replace("\n", ",\n")
        before = ",\n"
    yield "\n]\n" if before != "[\n" else "[]\n"
