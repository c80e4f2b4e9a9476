"""The figures of a grid, each as polynomials in its free symbols, collected from the equations of one architecture."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cached_property
from typing import Literal, NamedTuple

from gptcalc.analysis.memory import mixes
from gptcalc.analysis.memory.forms import checked
from gptcalc.analysis.memory.weights import total
from gptcalc.analysis.params import Entry
from gptcalc.analysis.sweep.activations import activations
from gptcalc.analysis.sweep.collected import Collected
from gptcalc.analysis.sweep.packed import Stored
from gptcalc.dtypes import FP32, weight_format
from gptcalc.equations import Tensor
from gptcalc.equations import polynomial as poly


def is_packed(dtype: str) -> bool:
    """Whether a format packs matrices. Not so GGUF's mixes, whose types go by layers and are no format."""
    format = weight_format(dtype)
    return format is not None and (not format.is_wide or bool(format.apart))


def is_mix(dtype: str) -> bool:
    """Whether these are the types of GGUF files. InputError where it is no data type at all."""
    return mixes.named(checked(dtype)) is not None


class Figured(Collected):
    """With what is counted format by format, and moment by moment."""

    @cached_property
    def weights_bytes(self) -> poly.Polynomial:
        """As the type or the format stores them."""
        if not (is_mix(self.how.dtype) or is_packed(self.how.dtype)):
            return self.params(self.entries, lambda entry: Fraction(self.width(entry.tensor)))
        if not (self.free or self.counted):
            return {(): total(self.architecture, self.how.dtype)}
        return self.stored.total()

    def width(self, tensor: Tensor) -> int:
        """Bytes of an element of a type that packs nothing; biases of a router's choice are in fp32 whatever it is."""
        if tensor.weight.use == "selection":
            return FP32.block_bytes
        format = weight_format(self.how.dtype)
        assert format is not None
        return format.wide.block_bytes

    @cached_property
    def stored(self) -> Stored:
        """Tensor by tensor."""
        return Stored(self)

    @cached_property
    def activations(self) -> tuple[poly.Polynomial, ...]:
        return activations(self)


def whole_of(_: Entry) -> Fraction:
    """Every element counts."""
    return Fraction(1)


class Figure(NamedTuple):
    """A column of a grid: the largest of several polynomials, mostly of one."""

    meaning: str
    kind: Literal["count", "bytes", "flops"]
    collect: Callable[[Figured], tuple[poly.Polynomial, ...]]


FIGURES: dict[str, Figure] = {
    "total": Figure("parameters of the main model", "count", lambda c: (c.params(c.entries, whole_of),)),
    "active": Figure("parameters that one token uses", "count", lambda c: (c.params(c.entries, c.active_share),)),
    "embedding": Figure(
        "parameters of the tables of tokens, positions and types",
        "count",
        lambda c: (c.params([e for e in c.entries if e.tensor.weight.component == "embedding"], whole_of),),
    ),
    "non_embedding": Figure(
        "total without the embedding",
        "count",
        lambda c: (c.params([e for e in c.entries if e.tensor.weight.component != "embedding"], whole_of),),
    ),
    "kv_bytes": Figure("of the cache of --batch sequences at --context", "bytes", lambda c: (c.kv_bytes,)),
    "weights_bytes": Figure("of the weights in --dtype", "bytes", lambda c: (c.weights_bytes,)),
    "activations_bytes": Figure(
        "at the widest moment of a prompt, as gptcalc memory counts them", "bytes", lambda c: c.activations
    ),
    "memory": Figure(
        "weights, cache and activations",
        "bytes",
        lambda c: tuple(poly.added(c.weights_bytes, c.kv_bytes, moment) for moment in c.activations),
    ),
    "prefill_flops": Figure("of a prompt of --context tokens", "flops", lambda c: (c.flops("prefill"),)),
    "decode_flops": Figure("of the last token of --context", "flops", lambda c: (c.flops("decode"),)),
    # a training step is 3 × the forward pass
    "train_flops": Figure(
        "of a training step on --context tokens", "flops", lambda c: (poly.scaled(c.flops("train"), 3),)
    ),
}
