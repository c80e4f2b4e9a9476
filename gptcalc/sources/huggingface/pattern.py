"""Layers: from the lists and rules of config.json files to one short layer expression."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import groupby
from typing import TypeAlias

from gptcalc.errors import InputError, is_count
from gptcalc.sources.huggingface.fields import Fields, shown
from gptcalc.sources.huggingface.reader import Hole

#: what stands in each layer: one section name for all, or a function of the fields and n_layers that lists them
Units: TypeAlias = str | Callable[[Fields, int], Sequence[str]]

MOST_LISTED = 10_000
LONGEST_PERIOD = 64

FULL, SLIDING, CHUNKED = "full_attention", "sliding_attention", "chunked_attention"
RECURRENT = "linear_attention"


def stack(mixer: Units, feed_forward: Units, joint: str = "+", n_layers: str = "num_hidden_layers") -> Hole:
    """The expression of layers that consist of a mixer and a feed-forward part."""

    def read(fields: Fields) -> str:
        if isinstance(mixer, str) and isinstance(feed_forward, str):
            return f"n*{mixer}{joint}{feed_forward}"
        n = fields.needed(n_layers)
        if n > MOST_LISTED:
            raise InputError(f"{fields.within}{n_layers} = {n}: layers of several kinds are read up to {MOST_LISTED}")
        both = zip(each(mixer, fields, n), each(feed_forward, fields, n), strict=True)
        return expression([m + joint + f for m, f in both])

    return Hole(read)


def each(units: Units, fields: Fields, n: int) -> Sequence[str]:
    return [units] * n if isinstance(units, str) else units(fields, n)


def listed(
    name: str, meanings: dict[str, str], otherwise: Units = "attn", *, longer: bool = False
) -> Callable[[Fields, int], Sequence[str]]:
    """Units by a list with a word for each layer, such as layer_types; `otherwise` where the config has no list."""

    def read(fields: Fields, n: int) -> Sequence[str]:
        words = fields.items(name)
        if words is None:
            return each(otherwise, fields, n)
        with suppress(InputError):  # the rule that the list stands for: its fields count as known, no more
            each(otherwise, fields, n)
        if len(words) != n and not (longer and len(words) > n):
            raise InputError(f"{fields.within}{name} has {len(words)} entries, the model {n} layers")
        for i, word in enumerate(words):
            if not isinstance(word, str) or word not in meanings:
                raise fields.unsupported(f"{name}[{i}]", f"layer type {shown(word)} is not understood")
        return [meanings[word] for word in words[:n]]

    return read


def flagged(name: str, unit: str, other: str, otherwise: Units) -> Units:
    """`unit` where a list of the config has a 1, `other` where it has a 0; `otherwise` where there is no list."""

    def read(fields: Fields, n: int) -> Sequence[str]:
        value = fields.get(name)
        if not isinstance(value, list):
            return each(otherwise, fields, n)
        if len(value) != n or any(flag not in (0, 1) for flag in value):
            raise InputError(f"{fields.within}{name}: expected {n} entries 0 or 1, found {shown(value)}")
        return [unit if flag else other for flag in value]

    return read


def enumerated(name: str, unit: str, other: str, otherwise: Units) -> Units:
    """`unit` in the layers that a field numbers, as a list or as text with commas, `other` in the rest."""

    def read(fields: Fields, n: int) -> Sequence[str]:
        value = fields.get(name)
        if value is None:
            return each(otherwise, fields, n)
        words = value.split(",") if isinstance(value, str) else value
        if not isinstance(words, list) or not all(is_count(str(word).strip()) for word in words):
            fields.wrong((name,), "numbers of layers", value)
        chosen = {str(word).strip() for word in words}
        return [unit if str(i) in chosen else other for i in range(n)]

    return read


def every(k: str | int, unit: str, other: str, *, offset: int = -1) -> Units:
    """`unit` in every k-th layer (layers k−1, 2k−1, … unless the offset says otherwise), `other` in the rest."""

    def read(fields: Fields, n: int) -> Sequence[str]:
        step = k if isinstance(k, int) else fields.needed(k)
        return [unit if (i - offset) % step == 0 else other for i in range(n)]

    return read


def first(k: str | int, unit: str, other: Units) -> Units:
    """`unit` in the first k layers, then `other`."""

    def read(fields: Fields, n: int) -> Sequence[str]:
        count = min(k, n) if isinstance(k, int) else fields.size(k, least=0) or 0
        if count > n:  # a copy that is cut to its first layers
            fields.notes.append(
                f"{fields.within}{k} = {count} exceeds the {n} layers of the model: all are of one kind"
            )
            return [unit] * n
        return [unit] * count + list(each(other, fields, n))[count:]

    return read


# --- the shortest expression ------------------------------------------------------------------------------------------


def expression(blocks: Sequence[str]) -> str:
    """The shortest layer expression that stands for these blocks: runs and repeating patterns, one count open."""
    n = len(blocks)
    periods = range(1, min(n, LONGEST_PERIOD if n <= 512 else 16) + 1)
    repeated = {period: _repeated(blocks, period) for period in periods}
    ways: dict[int, list[tuple[int, tuple[str, ...], int]]] = {}  # from each block that is reached: end, body, count
    left = [0]
    while left:
        start = left.pop()
        if start in ways or start == n:
            continue
        ways[start] = []
        for period in range(1, min(len(periods), n - start) + 1):
            body = tuple(blocks[start : start + period])
            covered = period + repeated[period][start]
            count = covered // period
            ways[start].append((start + count * period, body, count))
            if start + covered == n and start + count * period < n:  # the last repetition is cut
                ways[start].append((n, body, 0))
        left += [end for end, _, _ in ways[start]]
    best: dict[int, tuple[int, tuple[_Item, ...]]] = {n: (0, ())}
    for start in sorted(ways, reverse=True):
        lengths = [len(_item(count, body)) + 1 + best[end][0] for end, body, count in ways[start]]
        shortest = lengths.index(min(lengths))
        end, body, count = ways[start][shortest]
        best[start] = (lengths[shortest], ((count, body), *best[end][1]))
    return " ".join(_item(*item) for item in _open(best[0][1]))


_Item: TypeAlias = tuple[int, tuple[str, ...]]  # how often, and the blocks; 0 is written n


def _repeated(blocks: Sequence[str], period: int) -> list[int]:
    """For each block, how many from there on equal the one a period later, without a gap."""
    run = [0] * (len(blocks) + 1)
    for i in range(len(blocks) - period - 1, -1, -1):
        run[i] = run[i + 1] + 1 if blocks[i] == blocks[i + period] else 0
    return run


def _open(items: tuple[_Item, ...]) -> list[_Item]:
    """One item's count becomes n: that of the longest, the later of equals."""
    if any(count == 0 for count, _ in items):
        return list(items)
    longest = max(range(len(items)), key=lambda i: (items[i][0] * len(items[i][1]), i))
    return [(0, body) if i == longest else (count, body) for i, (count, body) in enumerate(items)]


def _item(count: int, body: tuple[str, ...]) -> str:
    prefix = {0: "n*", 1: ""}.get(count, f"{count}*")
    if len(body) == 1:
        return prefix + body[0]
    runs = [(block, len(list(same))) for block, same in groupby(body)]
    inner = " ".join(block if length == 1 else f"{length}*{block}" for block, length in runs)
    return f"{prefix}[{inner}]" if prefix else inner
