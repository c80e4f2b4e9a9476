"""Positions as distances between a query and a key, learned."""

from typing import Annotated

from gptcalc.architecture.base import AtMost, Size, Small, Strict
from gptcalc.architecture.norms import Norm


class Buckets(Strict, frozen=True, kw_only=True):
    """A learned bias of the scores, one number for each head and bucket of distances (T5, arXiv:1910.10683, §2.1).

    Half of the buckets hold one distance each, the others grow, by the logarithm, up to max_distance and beyond. Where
    keys behind a query are seen, half of all buckets are theirs.
    """

    n: Annotated[Size, AtMost(8)]  # buckets of distances
    max_distance: Annotated[Size, AtMost(8)]  # where the last bucket begins
    shared: bool = True  # one table for all layers of the stack
    # of two tokens of different types, of which there are so many, their types decide instead: a bias for each pair
    segments: Annotated[Size, Small(2, word="types")] | None = None

    @property
    def rows(self) -> int:
        """Rows of the table."""
        return self.n + (0 if self.segments is None else self.segments**2)


class Disentangled(Strict, frozen=True, kw_only=True):
    """Distances as vectors, 2·span rows of one table for all layers (DeBERTa, arXiv:2006.03654): a query meets the key
    that the layer makes of its distance (c2p), a key the query of it (p2c). Scores are divided by one more √2 or √3.

    Distances of at least span/2 grow by the logarithm up to max_distance, where there is one; beyond span they are cut.
    """

    span: Annotated[Size, AtMost(6)]  # distances on each side
    max_distance: Annotated[Size, AtMost(12)] | None = None  # up to which distances grow by the logarithm
    c2p: bool = True  # a query meets the key of its distance
    p2c: bool = True  # a key meets the query of its distance
    own: bool = False  # matrices of its own for positions, not those of queries and keys
    own_key_bias: bool = True  # of that which makes keys; in the first version it has none
    norm: Norm | None = None  # of the table's rows
