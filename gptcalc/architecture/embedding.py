"""How tokens enter: tables of tokens, positions and types."""

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta

from gptcalc.architecture.base import AtMost, Count, Size, Small, Stream, Strict, exclude
from gptcalc.architecture.norms import Norm
from gptcalc.errors import InputError

#: sin and cos of position / 10000^(2i/d): in turn; all sines in front of all cosines; the same, with the exponent
#: i/(d/2 − 1), as tensor2tensor spaces them
Sinusoids: TypeAlias = Literal["interleaved", "halves", "tensor2tensor"]


class TypeOf(Strict, frozen=True, kw_only=True):
    """Which type (segment) a token has: those from a row of the token table on type 0, all others another (CPM-Ant, of
    whose prompts each token is a row behind the vocabulary)."""

    special: Annotated[Count, AtMost(40)]  # the first row of tokens of type 0
    other: Annotated[Count, AtMost(1)]  # the type of all before it


class Beside(Strict, frozen=True, kw_only=True):
    """A table of something else that is given with each token, its shape or its sound, with channels of its own; its
    first row where nothing is given."""

    rows: Annotated[Size, Small(5)]
    d: Annotated[Size, Small(3)]  # channels of a row


class Embedding(Strict, frozen=True, kw_only=True):
    """How a token enters: its row, scaled, plus rows of its position and its type, normed. Where rows are narrower than
    the model (factorised), a projection widens the token's row, the sum, or the normed sum."""

    width: Stream
    borrowed: bool = False  # the token table is the target's
    scale: float = 1.0
    position: Literal["learned", "sinusoidal", "none"] = "none"
    rows: Annotated[Count, AtMost(50)] = 0  # rows of the position table
    offset: Annotated[Count, AtMost(2)] = 0  # the row of position 0
    sinusoids: Sinusoids = "interleaved"
    types: Annotated[Count, Small(2, word="types")] = 0  # rows of the table of token types (segments)
    type_of: TypeOf | None = None  # which of them a token has; default the first
    affine: bool = False  # rows are moved and multiplied, channel by channel: f·(x + b)
    norm: Norm | None = None
    normed: Literal["sum", "token"] = "sum"  # the token's row alone, in front of its position (Blenderbot Small)
    projected: Literal["token", "sum", "normed"] = "token"
    projection_bias: bool = False
    beside: Annotated[tuple[Beside, ...], Meta(max_length=2)] = ()  # behind the token's row: one matrix makes d of all

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.normed == "token" and (self.norm is None or self.affine or self.projected != "token"):
            raise InputError("embedding.normed: token needs embedding.norm, and rows that are widened as they are")
        if self.beside:
            others = {"borrowed": self.borrowed, "affine": self.affine, "normed: token": self.normed == "token"}
            exclude("embedding.beside", {**others, "scale": self.scale != 1.0, "projected": self.projected != "token"})
