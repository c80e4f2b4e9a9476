"""Attention over one latent a token and compressed entries of the past."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from gptcalc.architecture.base import Size, Strict
from gptcalc.architecture.norms import Norm
from gptcalc.architecture.rope import Rope
from gptcalc.architecture.sublayer import Sublayer


class EntryIndexer(Strict, frozen=True, kw_only=True):
    """Small heads that choose which top_k of the entries are attended to, by entries of their own of width d."""

    n_heads: Size
    d: Size
    top_k: Size


class Compression(Strict, frozen=True, kw_only=True):
    """Every so many tokens become one entry, a mixture with learned weights, channel by channel.

    overlap: an entry takes in the tokens of the entry before, too, which a second half of the projections is for.
    """

    every: Annotated[int, Meta(ge=2, le=1_000_000_000)]
    overlap: bool = False
    index: EntryIndexer | None = None


class CompressedAttention(Sublayer, tag_field="sublayer", tag="compressed_attention", frozen=True, kw_only=True):
    """Multi-query attention over one latent a token that is both K and V (DeepSeek-V4): those of a window, and with
    `compress` one entry for every so many tokens of the whole past, all of them or an indexer's choice.

    The rotation turns the last channels; the output's are turned back, as V has turned with K. The heads leave through
    n_groups narrow projections of their own, then a common one.
    """

    n_heads: Size
    d_head: Size  # the latent's width, too
    q_rank: Size
    n_groups: Size
    out_rank: Size  # what each group of heads is projected to
    window: Size
    rope: Rope | None = None
    latent_norm: Norm = Norm(eps=1e-6)
    sinks: bool = False
    compress: Compression | None = None
