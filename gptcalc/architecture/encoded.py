"""What an encoder that is no part of a model has made of another sequence."""

from gptcalc.architecture.base import Length, Stream, Strict


class Encoded(Strict, frozen=True, kw_only=True):
    """States of another sequence, d channels each, to which layers attend (cross-attention to an image,
    arXiv:2204.14198); c of them where nobody says how many."""

    d: Stream  # channels of a state
    c: Length  # how many states there are
