"""Fragments of layers with windows: which layers have one, and what differs there.

What decides is the mask that a class makes. transformers 5.24's shared cache goes by sliding_window and layer_types of
any config: where a class's masks don't read them it drops tokens that are attended to; where a class has a cache of its
own (MiniMax) it keeps tokens that no mask lets through. Neither is followed here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gptcalc.sources.huggingface.fields import Fields
from gptcalc.sources.huggingface.pattern import FULL, SLIDING, listed, stack
from gptcalc.sources.huggingface.reader import Hole, size

#: layer_types -> sections
TYPES = {FULL: "attn", SLIDING: "local"}


def windows(fields: Fields) -> str:
    """Positions of the full layers: none where others have a window."""
    return "none" if fields.size("sliding_window") else "rope"


def all_if_windowed(fields: Fields, n: int) -> Sequence[str]:
    """Windows in all layers where the config has one."""
    return ["local" if fields.size("sliding_window") else "attn"] * n


#: Mistral with windows in some layers
WINDOWS_IN_PLACES = {
    "layers": stack(listed("layer_types", TYPES, all_if_windowed), "mlp"),
    "local": {"like": "attn", "window": size("sliding_window")},
}


def upper_layers(fields: Fields, n: int) -> Sequence[str]:
    """A window, where the config switches it on or its class has no switch, in the layers from max_window_layers on."""
    on = fields.flag("use_sliding_window") or not fields.reads("use_sliding_window")
    local = on and fields.size("sliding_window") is not None
    start = fields.size("max_window_layers", least=0)
    return ["local" if local and start is not None and i >= start else "attn" for i in range(n)]


def of_kind(name: str, layer_type: str) -> Hole:
    """A number, or a list with one for each layer, of which the layers of one kind must agree."""

    def read(fields: Fields) -> Any:
        value = fields.get(name)
        if not isinstance(value, list):
            return fields.number(name)
        kinds = fields.items("layer_types") or [FULL] * len(value)
        own = [x for x, kind in zip(value, kinds, strict=False) if kind == layer_type]
        if any(x != own[0] for x in own):
            raise fields.unsupported(name, f"{layer_type} layers that differ are not understood")
        return own[0] if own else None

    return Hole(read)
