"""Rotary positions: rope_theta, rope_scaling and rope_parameters, in all their spellings, as a document's `rope`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias

from gptcalc.errors import InputError, did_you_mean
from gptcalc.sources.huggingface.fields import Fields, shown
from gptcalc.sources.huggingface.pattern import CHUNKED, FULL, SLIDING
from gptcalc.sources.huggingface.reader import Hole

#: Phi-3 was published with three names for one scaling; mrope is the default rotation where there is only text
ONE_KIND = frozenset({"su", "longrope", "yarn", "default", "mrope"})
KINDS_OF_LAYER = (FULL, SLIDING, CHUNKED, "linear_attention", "main", "compress", "hybrid", "hybrid_sliding",
                  "indexed_attention")  # fmt: skip

#: a field's name, several names for it, a hole, or a constant
Number: TypeAlias = str | tuple[str, ...] | Hole | float

THETA = 10000  # where neither the config nor the class says otherwise

#: kinds that rescale nothing; some classes turn all channels then, whatever share the config says
PLAIN = (None, "default", "mrope")

#: what the scaling objects of configs say beside a scaling: read elsewhere, or of no consequence
BESIDE = frozenset({
    "type", "rope_type", "rope_theta", "partial_rotary_factor", "mrope_section", "mrope_interleaved", "interleaved",
    "finetuned", "original_max_position_embeddings", "apply_yarn_scaling", "llama_4_scaling_beta",
    "max_position_embeddings",
})  # fmt: skip


#: terms of some scalings, which transformers leaves aside in others
OF_OTHERS = frozenset({"attention_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim", "truncate"})


def rope(
    theta: Number = "rope_theta",
    *,
    layer_type: str = FULL,
    fraction: Number | None = "partial_rotary_factor",
    channels: str | None = None,
    pairing: Literal["half", "adjacent"] | Hole = "half",
    scaled: bool = True,
    backward: bool = False,
    by_layer: bool = False,
) -> Hole:
    """The rotation of one kind of layer.

    theta, fraction, channels: the config's fields for them; fraction None: whatever the config says, all channels turn.
    A hole as theta outweighs what the rotary parameters say, where it finds a number.
    scaled: whether a scaling written outside rope_parameters applies to this kind of layer.
    by_layer: the class reads rope_parameters by kinds of layers alone, and leaves aside what says nothing of them.
    """

    def read(fields: Fields) -> dict[str, Any] | None:
        fields.get("original_max_position_embeddings")
        own = parameters(fields, layer_type, scaled, by_layer)
        if own is None:
            return None
        base = theta.read(fields) if isinstance(theta, Hole) else None
        if base is None:
            source: Number = "rope_theta" if isinstance(theta, Hole) else theta
            if isinstance(source, (int, float)) and fields.present("rope_theta") and own:
                source = "rope_theta"  # what a class assumes gives way inside a mapping
            base = own.get("rope_theta", number_of(source, fields))
            fields.get("rope_theta")
        flat = fields.values.get("rope_theta") if layer_type == FULL and not isinstance(theta, Hole) else None
        base = THETA if base is None else base
        if flat is not None and base != flat:
            fields.notes.append(f"{fields.within}rope_theta = {shown(flat)} gives way to {shown(base)}")
        part = None if fraction is None else own.get("partial_rotary_factor", number_of(fraction, fields))
        if fraction is None and own.get("rope_type") == "proportional":
            part = own.get("partial_rotary_factor")  # this kind turns a share wherever it stands
        if isinstance(fraction, float) and own and "partial_rotary_factor" not in own and fields.known is not None:
            part = 1.0
        if fields.known is not None and not fields.known.partial and own.get("rope_type", own.get("type")) in PLAIN:
            part = None
        turning = fields.size(channels, least=0) if channels else None
        if part is not None and "partial_rotary_factor" in own:
            turning = None  # the share stands nearer
        return {
            "theta": positive(base, f"{fields.within}rope_theta"),
            "fraction": None if part is None or turning else positive(part, f"{fields.within}partial_rotary_factor"),
            "channels": turning,
            "pairing": pairing.read(fields) if isinstance(pairing, Hole) else pairing,
            "scaling": scaling(own, fields),
            "backward": True if backward else None,
        }

    return Hole(read)


def number_of(source: Number, fields: Fields) -> Any:
    if isinstance(source, Hole):
        return source.read(fields)
    if isinstance(source, (int, float)):
        return source
    return fields.number(*((source,) if isinstance(source, str) else source))


def parameters(
    fields: Fields, layer_type: str, scaled: bool = True, by_layer: bool = False
) -> Mapping[str, Any] | None:
    """The rotary parameters of a kind of layer: those under its name where they are nested. None: no rotation."""
    name = "rope_scaling" if fields.present("rope_scaling") else "rope_parameters"
    both = fields.mapping("rope_scaling"), fields.mapping("rope_parameters")
    own = both[0] if both[0] is not None else both[1]
    if by_layer and both[0] and both[1] and is_by_kind(both[1]) and not is_by_kind(both[0]):
        beside = both[1].get(layer_type) or {}  # a scaling that was added to what the class itself saved
        return {**beside, **both[0]} if scaled else beside
    if own is None:
        own = fields.defaults.get("rope_parameters") or {}
    if is_by_kind(own):
        if layer_type not in own:
            raise InputError(f"{fields.within}{name} has no entry for {layer_type}")
        nested = own[layer_type]
        if nested is not None and not isinstance(nested, Mapping):
            fields.wrong((name,), f"an object under {layer_type}", nested)
        return nested
    if by_layer and own and own is both[1]:
        note = f"{fields.within}{name} says nothing of kinds of layers: transformers' class of"
        fields.notes.append(f"{note} {fields.model_type} leaves it aside")
        return {}
    if not scaled and by_layer:
        return {}
    if not scaled:
        return {key: value for key, value in own.items() if key == "partial_rotary_factor"}
    return own


def is_by_kind(own: Mapping[str, Any]) -> bool:
    """Whether rotary parameters are nested, an object for each kind of layer."""
    return any(key in KINDS_OF_LAYER for key in own)


def positive(value: Any, place: str) -> float | int:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < float("inf"):
        raise InputError(f"{place}: expected a positive number, found {shown(value)}")
    return int(value) if value == int(value) else value


def scaling(own: Mapping[str, Any], fields: Fields) -> dict[str, Any] | None:
    """A scaling in a document's words. Unknown kinds and unknown parameters are refused.

    An older `type` is taken for what it says. In classes whose rotary parameters go by kinds of layers (OLMo 3, Gemma 3
    and 3n, ModernBERT, DeepSeek-V4) transformers 5.24 lays it beside its own default rope_type and doesn't read it.
    """
    kind = own.get("rope_type", own.get("type")) or "default"
    older = own.get("type") or kind
    if older != kind and not {str(older), str(kind)} <= ONE_KIND:
        raise InputError(f"{fields.within}rope_scaling: rope_type {shown(kind)} contradicts type {shown(older)}")
    reader = SCALINGS.get(kind) if isinstance(kind, str) else None
    if reader is None:
        hint = did_you_mean(str(kind), SCALINGS)
        raise InputError(f"{fields.within}rope_scaling: type {shown(kind)} is not understood", hint, "unsupported")
    terms = _Terms(own, fields)
    found = reader(terms)
    for key in own:
        if key in OF_OTHERS and key not in terms.asked and own[key] is not None and fields.known is not None:
            fields.notes.append(f"{fields.within}rope_scaling.{key} is not read for type {kind}")
        elif key not in BESIDE and key not in terms.asked and own[key] is not None:
            raise fields.unsupported(f"rope_scaling.{key}", f"not understood for type {kind}")
    return found


class _Terms:
    """The numbers in a scaling object."""

    def __init__(self, own: Mapping[str, Any], fields: Fields) -> None:
        self.own = own
        self.fields = fields
        self.asked: set[str] = set()

    def place(self, key: str) -> str:
        return f"{self.fields.within}rope_scaling.{key}"

    def number(self, key: str, needed: bool = False) -> float | None:
        self.asked.add(key)
        value = self.own.get(key)
        if not needed and (value is None or value == 0):
            return None
        return positive(value, self.place(key))

    def numbers(self, key: str) -> list[float]:
        self.asked.add(key)
        value = self.own.get(key)
        if not isinstance(value, (list, tuple)) or not value:
            raise InputError(f"{self.place(key)}: expected a list of numbers, found {shown(value)}")
        return [positive(x, self.place(key)) for x in value]

    def truth(self, key: str) -> bool | None:
        self.asked.add(key)
        value = self.own.get(key)
        if value is not None and not isinstance(value, bool):
            raise InputError(f"{self.place(key)}: expected true or false, found {shown(value)}")
        return value

    def original(self) -> int | None:
        """The trained length: the config's own field first, then the scaling's, then the model's context."""
        inner = Fields(self.own, {}, self.fields.model_type, "rope_scaling.")
        outer = self.fields.size("original_max_position_embeddings")
        return outer or inner.size("original_max_position_embeddings") or self.context()

    def context(self) -> int | None:
        return self.fields.size("max_position_embeddings", "seq_length", "n_positions", "max_seq_len")

    def factor(self) -> float | None:
        """The factor, or the ratio of the context to the trained length."""
        given = self.number("factor")
        original, context = self.original(), self.context()
        return given if given is not None or not (original and context) else context / original


def _nothing(terms: _Terms) -> None:
    terms.asked |= {"factor", "original_max_position_embeddings"}


def _linear(terms: _Terms) -> dict[str, Any]:
    return {"kind": "linear", "factor": terms.number("factor", needed=True)}


def _dynamic(terms: _Terms) -> dict[str, Any]:
    """With `alpha` (Hunyuan) the base is stretched once; with a factor, as the length grows."""
    alpha = terms.number("alpha")
    if alpha:
        terms.asked |= {"factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim"}
        return {"kind": "ntk", "factor": alpha}
    return {"kind": "dynamic", "factor": terms.number("factor", needed=True), "original": terms.context()}


def _yarn(terms: _Terms) -> dict[str, Any]:
    return {
        "kind": "yarn",
        "factor": terms.factor(),
        "original": terms.original(),
        **{
            key: terms.number(key) for key in ("beta_fast", "beta_slow", "attention_factor", "mscale", "mscale_all_dim")
        },
        "truncate": terms.truth("truncate"),
    }


def _llama3(terms: _Terms) -> dict[str, Any]:
    return {
        "kind": "llama3",
        "factor": terms.number("factor", needed=True),
        "original": terms.original(),
        "low": terms.number("low_freq_factor"),
        "high": terms.number("high_freq_factor"),
    }


def _longrope(terms: _Terms) -> dict[str, Any]:
    """Phi-3.5-MoE writes the factor of attention itself, for both lengths."""
    short, long = terms.number("short_mscale"), terms.number("long_mscale")
    if short != long:
        raise terms.fields.unsupported("rope_scaling.long_mscale", "other than short_mscale is not understood")
    return {
        "kind": "longrope",
        "short": terms.numbers("short_factor"),
        "long": terms.numbers("long_factor"),
        "original": terms.original(),
        "factor": terms.factor(),
        "attention_factor": terms.number("attention_factor") or short,
    }


def _proportional(terms: _Terms) -> dict[str, Any]:
    return {"kind": "proportional", "factor": terms.number("factor")}


SCALINGS: dict[str, Callable[[_Terms], dict[str, Any] | None]] = {
    "default": _nothing,
    "mrope": _nothing,
    "linear": _linear,
    "dynamic": _dynamic,
    "yarn": _yarn,
    "llama3": _llama3,
    "longrope": _longrope,
    "su": _longrope,
    "proportional": _proportional,
}
