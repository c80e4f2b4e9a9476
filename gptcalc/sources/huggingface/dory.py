"""Dory: a normalized transformer (nGPT) whose middle layers run several times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from gptcalc.errors import InputError
from gptcalc.sources.huggingface.fields import Fields
from gptcalc.sources.huggingface.llama import LLAMA
from gptcalc.sources.huggingface.pattern import FULL, SLIDING, each, every, listed, stack
from gptcalc.sources.huggingface.reader import Hole, Reader, choice, size
from gptcalc.sources.huggingface.rope import rope
from gptcalc.sources.huggingface.tensors import Held, Names, bare
from gptcalc.sources.huggingface.windows import TYPES

_unit: dict[str, Any] = {"kind": "l2norm", "weight": False, "eps": 1e-6}


def _halved(fields: Fields) -> bool:
    """Published configs count attention and MLP as a layer each."""
    return "mlp" in (fields.items("layer_types") or ())


def _layers(fields: Fields, name: str) -> int | None:
    """A number of layers, each of attention and an MLP."""
    given = fields.size(name, least=0)
    return given // 2 if given is not None and _halved(fields) else given


def _depth(fields: Fields) -> int:
    found = _layers(fields, "num_hidden_layers")
    if not found:
        raise fields.missing("num_hidden_layers")
    return found


def _mixers(fields: Fields, n: int) -> Sequence[str]:
    """Windows in all layers but every fourth, or where layer_types has them."""
    words = fields.items("layer_types")
    if words is None or not _halved(fields):
        return each(listed("layer_types", TYPES, every(4, "attn", "local")), fields, n)
    if len(words) != 2 * n or words[1::2] != ["mlp"] * n or any(word not in TYPES for word in words[::2]):
        fields.wrong(("layer_types",), f"{FULL} or {SLIDING} and mlp in turn, {n} times", words)
    return [TYPES[word] for word in words[::2]]


def _pattern(fields: Fields) -> str:
    whole = Fields({**fields.values, "n": _depth(fields)}, {}, fields.model_type, fields.within)
    return str(stack(lambda _, n: _mixers(fields, n), "mlp", n_layers="n").read(whole))


def _loop(fields: Fields) -> dict[str, Any]:
    n, first, behind = _depth(fields), _layers(fields, "n_input_layers") or 0, _layers(fields, "n_output_layers") or 0
    given = _layers(fields, "n_recurrent_layers")
    layers = n - first - behind if given is None else given
    if layers < 1 or first + layers + behind != n:
        parts = f"{first} in front, {layers} that run several times and {behind} behind"
        raise InputError(f"{fields.within}n_recurrent_layers: {parts} are not {n} layers")
    return {
        "first": first,
        "layers": layers,
        "passes": size("n_recurrent_loops"),
        "entry": "both",
        "norm": _unit,
        "caches": choice("recurrent_kv_cache_mode", per_loop="each", last_loop="last"),
    }


def _positive(fields: Fields, name: str) -> float:
    found = fields.number(name)
    if found is None or found <= 0:
        fields.wrong((name,), "a positive number", found)
    return found


def _stored(start: str, power: float) -> Hole:
    """Factors are stored as multiples of what weights begin with; they begin as a power of a field."""
    return Hole(lambda fields: fields.needed(start) ** power / _positive(fields, "initializer_range"))


def _rate(fields: Fields) -> float:
    return _positive(fields, "ngpt_alpha_init") / _positive(fields, "initializer_range")


_residual = {"residual_rate": {"scale": Hole(_rate)}}

#: as published, where attention and MLP count as a layer each, and as the class saves them
_attention: dict[str, str | Held] = {
    "attn.q": "q_proj",
    "attn.k": "k_proj",
    "attn.v": "v_proj",
    "attn.gate": "g_proj",
    "attn.out": "o_proj",
    "attn.q_scale": bare("sqk"),
    "attn.gate_scale": bare("s_gate"),
}
_mlp: dict[str, str | Held] = {
    "mlp.gate": "gate_proj",
    "mlp.up": "up_proj",
    "mlp.down": "down_proj",
    "mlp.gate_scale": bare("suv_gate"),
    "mlp.up_scale": bare("suv_up"),
}


def _either(entries: Mapping[str, str | Held], *prefixes: str) -> Names:
    def at(prefix: str, entry: str | Held) -> str | Held:
        return prefix + entry if isinstance(entry, str) else replace(entry, module=prefix + entry.module)

    return {stem: tuple(at(prefix, entry) for prefix in prefixes) for stem, entry in entries.items()}


NAMES: Names = {
    "embedding.token": "backbone.embeddings",
    **_either(_attention, "backbone.layers.{even}.mixer.", "backbone.layers.{l}.self_attn."),
    **_either(_mlp, "backbone.layers.{odd}.mixer.", "backbone.layers.{l}.mlp."),
    "attn.residual_rate": (bare("backbone.layers.{even}.attn_alpha"), bare("backbone.layers.{l}.lambda_1")),
    "mlp.residual_rate": (bare("backbone.layers.{odd}.mlp_alpha"), bare("backbone.layers.{l}.lambda_2")),
    "head": "lm_head",
    "head.scale": bare("lm_head.logit_scale"),
}

DORY = LLAMA.but(
    document={
        "n_layers": Hole(_depth),
        "layers": Hole(_pattern),
        "loop": Hole(_loop),
        "rope": rope(10_000_000),
        "norm": _unit,
        "norm_at": "stream_sandwich",
        "head": {"factors": {"scale": Hole(lambda fields: 1 / _positive(fields, "initializer_range"))}},
        "attn": {
            "gate": "full",
            "gate_first": True,
            "gate_factors": {"scale": _stored("hidden_size", 1 / 4), "squared": True},
            "qk_norm": {**_unit, "over": "head"},
            "q_factors": {"scale": _stored("head_dim", 1 / 2), "squared": True},
            "out_norm": _unit,
            **_residual,
        },
        "local": {"like": "attn", "window": size("sliding_window"), "rope": rope(10_000, layer_type=SLIDING)},
        "mlp": {
            "activation": LLAMA.document["mlp"],
            "factors": {"scale": Hole(lambda fields: fields.needed("hidden_size") ** 0.5)},
            "mid_norm": _unit,
            **_residual,
        },
    },
    defaults={"initializer_range": 0.0177},
    beyond=("initializer_range",),  # what factors are stored as multiples of
    names=NAMES,
)

READERS: dict[str, Reader] = {"dory": DORY}
