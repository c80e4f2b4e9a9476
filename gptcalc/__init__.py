"""What a transformer costs before anyone runs it.

    import gptcalc

    model = gptcalc.load("llama-3-8b")            # a preset, a path to a config.json, a folder, a hub id of a preset
    gptcalc.params(model).total                   # 8030261248
    gptcalc.kv(model, context=8192).bytes         # 1073741824
    gptcalc.flops(model, context=1024).total

Every figure is an exact integer; the fields are the keys of the JSON. The witness is `gptcalc.reference`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gptcalc.analysis.cache import KVCache
    from gptcalc.analysis.flops import Flops
    from gptcalc.analysis.params import Params
    from gptcalc.architecture import Architecture
    from gptcalc.sources import Model

__all__ = ["flops", "kv", "load", "params"]


def load(reference: str, overrides: Sequence[str] = ()) -> Model:
    """The model that a reference names, with edits such as "n_kv_heads=4" laid over it.

    `.architecture` is what the analyses and the witness read, `.document` the preset's keys. Raises InputError.
    """
    from gptcalc.sources import load

    return load(reference, overrides)


def params(model: str | Model | Architecture) -> Params:
    """Parameters: total, active, by component, by layer group, by tensor."""
    from gptcalc.analysis.params import params

    return params(_architecture(model))


def kv(model: str | Model | Architecture, **options: Any) -> KVCache:
    """The cache of a batch at a context; the options of `gptcalc.analysis.cache.kv`, such as context=8192."""
    from gptcalc.analysis.cache import kv

    return kv(_architecture(model), **options)


def flops(model: str | Model | Architecture, **options: Any) -> Flops:
    """FLOPs of a prefill, a decode step or a training step; the options of `gptcalc.analysis.flops.flops`."""
    from gptcalc.analysis.flops import flops

    return flops(_architecture(model), **options)


def _architecture(model: str | Model | Architecture) -> Architecture:
    from gptcalc.architecture import Architecture

    if isinstance(model, Architecture):
        return model
    return (load(model) if isinstance(model, str) else model).architecture
