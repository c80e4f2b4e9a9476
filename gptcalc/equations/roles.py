"""What things in a line are for. The analyses read these words, never a letter, a symbol or a key."""

from __future__ import annotations

from typing import Literal, TypeAlias

#: what an index runs over
Role: TypeAlias = Literal[
    "new",  # the tokens of this pass
    "slots",  # of a block of tokens that are drafted at once
    "past",  # all tokens so far, the new ones among them
    "images",  # the tokens of images, of which a text has none
    "canvas",  # the tokens of a block that is denoised at once, of which a prompt has none
    "frames",  # of sound, so many for each token of this pass
    "source",  # the tokens of the other sequence, which an encoder has read
    "entries",  # entries that each stand for several tokens of the past
    "vocabulary",  # the rows of a token table, the logits
    "positions",  # the rows of a position table
    "layers",
    "heads",
    "channels",
    "experts",
    "choices",  # what a router scores: experts, and what may be chosen beside them
    "chosen",  # places among the chosen experts
    "streams",  # residual streams side by side
    "projections",  # streams of which each is made by a matrix of its own
    "coefficients",  # numbers that mix streams
    "taps",  # tokens side by side: of a convolution, of one entry
    "distances",
    "frequencies",
]

#: what looks back
LOOKING: frozenset[Role] = frozenset({"new", "slots"})

#: tokens of which a pass over a text, or a prompt, has none
ABSENT: frozenset[Role] = frozenset({"images", "canvas"})

#: what grows with a sequence and is never split over devices
LOOKED_BACK: frozenset[Role] = frozenset({"past", "source", "entries"})

#: a weight with such an index is so many matrices, one behind the other
STACKED: frozenset[Role] = frozenset({"experts", "projections"})

#: the rows of a table that is looked up
ROWS: frozenset[Role] = frozenset({"vocabulary", "positions", "distances"})

#: along which devices an index is split; kv: like tp, but never finer than one KV head
Shard: TypeAlias = Literal["tp", "kv", "ep", "vocab"]

#: what a store line keeps
Stored: TypeAlias = Literal[
    "keys",
    "values",
    "latent",  # of which keys and values are made
    "rotary key",  # beside a latent, one for all heads
    "index keys",  # or entries: what an indexer chooses by
    "entries",  # each keys and values of several tokens
    "open entry",  # what is needed of the tokens of an entry that is not complete
    "state",  # of a recurrent mixer
    "convolution",  # the last tokens before a convolution
    "last token",  # what the next one is mixed with
]

#: a learned tensor by what is done with it
Kind: TypeAlias = Literal[
    "matrix",  # multiplied, and summed over its inputs
    "kernel",  # of a convolution, channel by channel
    "table",  # looked up
    "bias",  # added to a sum
    "vector",  # all else: factors, slopes, sinks
]

#: what a learned tensor is for, where formats, quantisers or adapters treat it in a way of its own
Use: TypeAlias = Literal[
    "tokens",  # a table of the tokens' rows
    "positions",
    "types",  # a table of segments
    "slices",  # the projection to every layer's slice of an embedding
    "logits",  # the output matrix
    "queries",
    "keys",
    "values",
    "latent keys",  # which make keys and values of a latent
    "latent values",
    "looked-up keys",  # which make keys and values of rows that n-grams look up
    "looked-up values",
    "index keys",
    "block index",  # by which blocks of keys are chosen
    "out",  # the projection of the heads' outputs
    "gate",  # the two first matrices of a feed-forward layer
    "up",
    "down",  # its second
    "router",
    "selection",  # a bias that only decides which experts are chosen
    "streams",  # which make several streams of one and one of several
    "coefficients",  # which say how streams mix
    "low rank",  # beside a residual
    "slope",  # of an activation, one number for all its channels
    "other",
]
