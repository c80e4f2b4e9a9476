"""A model's costs as one document, for a lock file: an edit of the model becomes a reviewable change of its cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from gptcalc.analysis.flops import counted
from gptcalc.analysis.memory.account import held_by
from gptcalc.analysis.memory.cache import cached
from gptcalc.analysis.memory.forms import published
from gptcalc.analysis.memory.result import PARTS
from gptcalc.analysis.params import params
from gptcalc.architecture import Architecture
from gptcalc.conventions import CacheRun, FlopsRun, InferenceRun, LockRun
from gptcalc.errors import InputError, did_you_mean, printable
from gptcalc.options import check, declared

Document = dict[str, Any]

#: what the costs were computed at
SETTINGS = LockRun.__struct_fields__
SECTIONS = ("settings", "params", "components", "tensors", "kv", "flops", "memory")
CACHE = ("bytes", "bytes_per_token", "state_bytes", "full_bytes", "formula")


def costs(architecture: Architecture, how: LockRun) -> Document:
    """Section by section: parameters to the tensor, cache, FLOPs, memory."""
    how = replace(how, context=how.length(architecture), dtype=how.dtype or published(architecture))
    parameters = params(architecture)
    cache = cached(architecture, how.to(CacheRun))
    prefill = counted(architecture, how.to(FlopsRun))
    decode = counted(architecture, how.to(FlopsRun, phase="decode"))
    held = held_by(architecture, how.to(InferenceRun)).per_device
    tensors = {}
    for group in parameters.groups:
        times = f" × {group.layers}" if group.layers > 1 else ""
        for tensor in group.tensors:
            tensors[f"{group.name}{times} {tensor.name}"] = " × ".join(map(str, tensor.shape))
    return {
        "settings": {key: getattr(how, key) for key in SETTINGS},
        "params": {key: getattr(parameters, key) for key in ("total", "active", "embedding", "mtp", "formula")},
        "components": {name: n for name, n in parameters.components.items() if n},
        "tensors": tensors,
        "kv": {key: getattr(cache, key) for key in CACHE},
        "flops": {"prefill": prefill.total, "prefill_attention": prefill.attention, "decode": decode.total},
        "memory": {part: size for part in (*PARTS, "total") if (size := getattr(held, part))},
    }


def settings_of(document: Mapping[str, Any]) -> LockRun:
    """The settings in a lock file; InputError where the file isn't one."""
    for key, section in document.items():
        if key == "model":
            continue
        if key not in SECTIONS:
            raise InputError(f"no section {printable(str(key))!r} in a lock file", did_you_mean(str(key), SECTIONS))
        if not isinstance(section, Mapping):
            raise InputError(f"{key}: expected keys and values, found {printable(repr(section))}")
    settings = dict(document.get("settings", {}))
    for key, value in settings.items():
        if key not in SETTINGS:
            raise InputError(f"settings: unknown key {printable(str(key))!r}", did_you_mean(str(key), SETTINGS))
        check(f"settings.{key}", declared(LockRun)[key], value)
    return LockRun(**settings)


def differences(expected: Mapping[str, Any], found: Mapping[str, Any]) -> Iterator[Document]:
    """Every figure of either document: what was expected, what is found, whether they are equal."""
    for section in SECTIONS[1:]:
        here, there = expected.get(section, {}), found.get(section, {})
        for key in dict.fromkeys([*here, *there]):
            a, b = here.get(key), there.get(key)
            yield {"name": f"{section}.{key}", "expected": a, "found": b, "ok": a == b}
