"""Attention over one latent a token and compressed entries of the past."""

from typing import Annotated

from gptcalc.architecture.base import (
    AtMost,
    Choices,
    Heads,
    Inherited,
    Inner,
    Multiple,
    Narrow,
    Paired,
    Several,
    Size,
    Strict,
    Turned,
    Window,
)
from gptcalc.architecture.norms import BareNorm, ModelNorm
from gptcalc.architecture.rope import Rope, check_rotation, rotated
from gptcalc.architecture.sublayer import Sublayer
from gptcalc.errors import InputError


class EntryIndexer(Strict, frozen=True, kw_only=True):
    """Small heads that choose which top_k of the entries are attended to, by entries of their own of width d."""

    n_heads: Heads  # index heads
    d: Turned  # channels of an index head
    top_k: Choices  # entries that are attended to


class Compression(Strict, frozen=True, kw_only=True):
    """Every so many tokens become one entry, a mixture with learned weights, channel by channel.

    overlap: an entry takes in the tokens of the entry before, too, which a second half of the projections is for.
    """

    every: Annotated[Several, AtMost(3)]  # tokens of an entry
    overlap: bool = False
    index: EntryIndexer | None = None


class CompressedAttention(Sublayer, tag_field="sublayer", tag="compressed_attention", frozen=True, kw_only=True):
    """Multi-query attention over one latent a token that is both K and V (DeepSeek-V4): those of a window, and with
    `compress` one entry for every so many tokens of the whole past, all of them or an indexer's choice.

    The rotation turns the last channels; the output's are turned back, as V has turned with K. The heads leave through
    n_groups narrow projections of their own, then a common one.
    """

    n_heads: Inherited[Annotated[Size, Multiple("n_groups")]]  # heads of queries
    d_head: Paired  # the latent's width, too
    q_rank: Inner  # channels of the bottleneck of the queries
    n_groups: Heads  # groups of heads that leave together
    out_rank: Narrow  # what each group of heads is projected to
    window: Window  # newest latents that are seen
    rope: Rope | None = None
    latent_norm: ModelNorm  # of the latent, of the entries, and of the bottleneck of the queries
    q_norm: BareNorm  # of every head's query
    sinks: bool = False  # one learned logit a head takes its share of the softmax
    compress: Compression | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        name = self.section
        if self.rope is None:
            return
        check_rotation(name, self.rope, self.d_head)
        turned, index = rotated(self.rope, self.d_head), self.compress.index if self.compress is not None else None
        if index is not None and index.d < turned:
            raise InputError(f"{name}.compress.index.d: {index.d} channels, of which {turned} are to turn (rope)")
