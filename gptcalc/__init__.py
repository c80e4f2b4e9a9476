"""What a transformer costs before anyone runs it.

    import gptcalc

    model = gptcalc.load("llama-3-8b")            # a preset, a path to a config.json, a folder, a hub id of a preset
    gptcalc.params(model).total                   # 8030261248
    gptcalc.kv(model, context=8192).bytes         # 1073741824
    gptcalc.flops(model, context=1024).total
    gptcalc.memory(model, dtype="int4", tp=2).per_device.total
    gptcalc.fit(model, "24GiB", dtype="fp8").max_context

Every figure is an exact integer; the fields are the keys of the JSON. The witness is `gptcalc.reference`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gptcalc.analysis.flops import Flops
    from gptcalc.analysis.memory.cache import KVCache
    from gptcalc.analysis.memory.fit import Fit
    from gptcalc.analysis.memory.result import Memory
    from gptcalc.analysis.params import Params
    from gptcalc.architecture import Architecture
    from gptcalc.sources import Model

__all__ = ["fit", "flops", "kv", "load", "memory", "params"]


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
    """The cache of a batch at a context; the options of `gptcalc.analysis.memory.cache.kv`, such as context=8192."""
    from gptcalc.analysis.memory.cache import kv

    return kv(_architecture(model), **options)


def flops(model: str | Model | Architecture, **options: Any) -> Flops:
    """FLOPs of a prefill, a decode step or a training step; the options of `gptcalc.analysis.flops.flops`."""
    from gptcalc.analysis.flops import flops

    return flops(_architecture(model), **options)


def memory(
    model: str | Model | Architecture, *, tp: int = 1, pp: int = 1, ep: int = 1, dp: int | None = None, **options: Any
) -> Memory:
    """What devices must hold to run a model; the options of `gptcalc.analysis.memory.inference.memory`."""
    from gptcalc.analysis.memory.inference import memory
    from gptcalc.analysis.memory.sharding import layout

    architecture = _architecture(model)
    return memory(architecture, parallel=layout(architecture, tp=tp, pp=pp, ep=ep, dp=dp), **options)


def fit(
    model: str | Model | Architecture, budget: str | int, *, tp: int = 1, pp: int = 1, ep: int = 1,
    dp: int | None = None, **options: Any,
) -> Fit:  # fmt: skip
    """Whether a model fits devices of so many bytes ("24GiB"), and the most that does; options as for `memory`."""
    from gptcalc import units
    from gptcalc.analysis.memory.fit import fit
    from gptcalc.analysis.memory.sharding import layout

    architecture = _architecture(model)
    capacity = units.size(budget) if isinstance(budget, str) else budget
    return fit(architecture, capacity=capacity, parallel=layout(architecture, tp=tp, pp=pp, ep=ep, dp=dp), **options)


def _architecture(model: str | Model | Architecture) -> Architecture:
    from gptcalc.architecture import Architecture

    if isinstance(model, Architecture):
        return model
    return (load(model) if isinstance(model, str) else model).architecture
