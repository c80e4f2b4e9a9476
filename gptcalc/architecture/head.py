"""What leaves the last layer: logits over the vocabulary, labels, one vector for the whole text, or nothing."""

from typing import Annotated, Literal, TypeAlias

from gptcalc.architecture.base import AtMost, Count, Narrow, Positive, Size, Small, Stream, Strict
from gptcalc.architecture.factors import Factors
from gptcalc.architecture.norms import Norm
from gptcalc.errors import InputError

DenseFunction: TypeAlias = Literal["tanh", "gelu", "gelu_tanh", "relu", "silu", "none"]


class Dense(Strict, frozen=True, kw_only=True):
    """A layer in front of an output matrix: a projection to d channels, a function, a norm."""

    d: Stream
    function: DenseFunction = "gelu"
    bias: bool = True
    norm: Norm | None = None


class Pooler(Strict, frozen=True, kw_only=True):
    """What is read off the first token, the last one or each: through a dense layer or as it is, to so many labels.

    Without labels the dense layer's output is the result (BERT's pooler).
    """

    token: Literal["first", "last", "each"] = "first"
    dense: Dense | None = None
    labels: Annotated[Count, Small(3)] = 0
    bias: bool = True  # of the labels


class Markov(Strict, frozen=True, kw_only=True):
    """What the token in front says of the next one in a block that is drafted at once: its row of a table of this rank,
    through a matrix to the logits, to which that is added (DSpark).

    confidence: how likely what is drafted is accepted, one number of a slot's state, or of that and the row.
    """

    rank: Narrow  # channels of a row
    confidence: Literal["none", "state", "both"] = "none"


class Gru(Strict, frozen=True, kw_only=True):
    """What all tokens in front say of the next one in a block that is drafted at once: a gated recurrent unit
    (arXiv:1406.1078; as in torch, without biases) walks over their rows of the token table. Its state and the slot's
    pass a layer of so many hidden units with a SiLU, and what that makes is added to the logits (Domino)."""

    d_state: Narrow  # channels of the state
    d_hidden: Narrow  # hidden units behind it
    first: Annotated[Count, AtMost(1)] = 0  # tokens whose logits it adds nothing to


class Head(Strict, frozen=True, kw_only=True):
    """How logits leave: the final norm, a dense layer (BERT), the projection back where the embedding is factorised,
    the output matrix. Without `vocabulary` there are no logits over it: a bare model, or what the pooler makes."""

    tying: bool
    norm: Norm | None
    bias: bool = False
    scale: float = 1.0  # factor of the logits
    factors: Factors | None = None  # of the logits, one a row of the vocabulary
    softcap: Positive | None = None
    vocabulary: bool = True
    dense: Dense | None = None
    pooler: Pooler | None = None
    rows: Annotated[Size, Small(37)] | None = None  # of its own vocabulary, where that isn't the one that is read
    borrowed: bool = False  # the output matrix is the target's
    markov: Markov | None = None
    gru: Gru | None = None
    fixed_bias: bool = False  # an offset of the logits that checkpoints hold as a buffer, not learned (BART)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rows is not None and (self.borrowed or self.tying):
            raise InputError(f"head.rows: the output matrix is the {'embedding' if self.tying else 'target'}'s")
        if self.borrowed and (self.tying or not self.vocabulary):
            raise InputError("head.borrowed: there is no output matrix beside the embedding")
        if self.gru is not None and self.markov is not None:
            raise InputError("head.gru: not defined together with head.markov")
