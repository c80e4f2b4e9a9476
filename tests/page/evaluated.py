"""A page's data evaluated as its scripts do it, in Python's integers: sizes, counts, products, sums."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from fractions import Fraction
from math import prod
from typing import Any, NamedTuple
from zlib import decompress

Data = dict[str, Any]


def data_of(page: str) -> Data:
    """What a page's script inflates."""
    packed = re.search(r'<script id="data" type="text/plain">([A-Za-z0-9+/=]+)</script>', page)
    assert packed is not None
    found: Data = json.loads(decompress(b64decode(packed[1]), wbits=-15))
    return found


class NoModel(Exception):
    """A size would be a fraction."""


class At(NamedTuple):
    """A setting."""

    keys: dict[str, int]
    length: int
    batch: int = 1
    phase: str = "prefill"
    dtype: str = "bf16"
    cache: str = "bf16"
    modules: bool = False


class Evaluated:
    """The numbers of a variant at a setting."""

    def __init__(self, data: Data, structure: Data, at: At) -> None:
        self.data, self.structure, self.at = data, structure, at
        self.sizes: dict[int, int] = {}

    def size(self, place: int) -> int:
        if place not in self.sizes:
            total = Fraction(0)
            for above, below, powers in self.data["sizes"][place][1]:
                total += Fraction(above, below) * prod(Fraction(self.at.keys[key]) ** n for key, n in powers.items())
            self.sizes[place] = whole(total)
        return self.sizes[place]

    def product(self, places: list[int]) -> int:
        return prod(self.size(place) for place in places)

    def count(self, place: int) -> int:
        _, below, above = [piece for piece in self.data["counts"][place] if piece[0] <= self.at.length][-1]
        return whole(Fraction(sum(n * self.at.length**power for power, n in enumerate(above)), below))

    def lines(self, phase: str) -> list[tuple[Data, int, Data]]:
        found = []
        for stage in self.structure["stages"][phase]:
            if stage["runs"] == "mtp" and not self.at.modules:
                continue
            constant, each, below = stage["times"]
            times = whole(Fraction(constant + each * self.at.keys.get("n_layers", 0), below))
            found += [(stage, times, self.data["lines"][n]) for n in self.data["bodies"][stage["body"]]["lines"]]
        return found

    def totals(self) -> dict[str, int]:
        """What `params`, `flops`, `kv` and `memory` say."""
        at = self.at
        found = dict.fromkeys(("total", "active", "mtp", "flops", "attention", "cache", "weights", "activations"), 0)
        for stage, times, line in self.lines("prefill"):
            for tensor in line["tensors"]:
                if tensor["counted"]:
                    copies = 1 if tensor["shared"] else times
                    above, below, more = tensor["bytes"][at.dtype]
                    n = self.product(tensor["sizes"])
                    found["weights"] += copies * (whole(Fraction(n * above, below)) + self.size(more))
                    if stage["runs"] == "mtp":
                        found["mtp"] += copies * n
                        continue
                    found["total"] += copies * n
                    found["active"] += copies * self.product(tensor["active"])
            if line["store"]:
                rows, row = self.count(line["store"]["rows"]), self.size(line["store"]["bytes"][at.cache])
                found["cache"] += at.batch * times * stage["passes"][line["passes"]] * rows * row
        modules = sum(times for stage, times, _ in {id(s): (s, t, 0) for s, t, _ in self.lines(at.phase)}.values()
                      if stage["runs"] == "mtp")  # fmt: skip
        for stage, times, line in self.lines(at.phase):
            if line["terms"]:
                passes = stage["passes"][line["passes"]]
                n = 2 * self.count(line["terms"][0]) * self.product(line["terms"][1]) * times * passes * at.batch
                n *= 1 + (modules if stage["name"] == "output" else 0)
                found["flops"] += n
                found["attention"] += n if line["attends"] else 0
        found["activations"] = self.activations()
        return found

    def activations(self) -> int:
        at, rules = self.at, self.data["pass"]
        past = at.batch * at.length
        piece = rules["tokens"] if "decode" in self.structure["stages"] else past
        tokens = at.batch if at.phase == "decode" else min(past, piece)
        source = 0 if at.phase == "decode" else at.batch * self.count(self.structure["source"])
        width = rules["widths"][at.dtype]
        most = 0
        for stage in self.structure["stages"][at.phase]:
            for moment in self.data["bodies"][stage["body"]]["moments"] or ():
                token, before, logits, once, other = (
                    sum(n * self.product(places) for places, n in parts) for parts in moment
                )
                elements = token * tokens + before * past + once + other * source
                most = max(most, width * elements + rules["logits"] * logits * min(at.batch, tokens))
        return most


def whole(number: Fraction) -> int:
    if number.denominator != 1:
        raise NoModel(number)
    return number.numerator
