"""A model's costs as one document, for a lock file: an edit of the model becomes a reviewable change of its cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gptcalc.analysis.flops import flops
from gptcalc.analysis.memory.cache import kv
from gptcalc.analysis.memory.inference import memory
from gptcalc.analysis.memory.result import PARTS
from gptcalc.analysis.params import params
from gptcalc.architecture import Architecture
from gptcalc.errors import InputError, did_you_mean, printable

Document = dict[str, Any]

#: what the costs were computed at, and the defaults
SETTINGS: Document = {"batch": 1, "context": None, "dtype": "bf16", "kv_dtype": "bf16", "mla_cache": "latent"}
SECTIONS = ("settings", "params", "components", "tensors", "kv", "flops", "memory")
CACHE = ("bytes", "bytes_per_token", "state_bytes", "full_bytes", "formula")


def costs(architecture: Architecture, settings: Mapping[str, Any]) -> Document:
    """Section by section: parameters to the tensor, cache, FLOPs, memory."""
    how = {**SETTINGS, **settings}
    how["context"] = how["context"] or architecture.c
    length = {"batch": how["batch"], "context": how["context"]}
    counted = params(architecture)
    cache = kv(architecture, **length, kv_dtype=how["kv_dtype"], mla_cache=how["mla_cache"])
    prefill, decode = flops(architecture, **length), flops(architecture, **length, phase="decode")
    held = memory(
        architecture, **length, dtype=how["dtype"], kv_dtype=how["kv_dtype"], mla_cache=how["mla_cache"]
    ).per_device
    tensors = {}
    for group in counted.groups:
        times = f" × {group.layers}" if group.layers > 1 else ""
        for tensor in group.tensors:
            tensors[f"{group.name}{times} {tensor.name}"] = " × ".join(map(str, tensor.shape))
    return {
        "settings": how,
        "params": {key: getattr(counted, key) for key in ("total", "active", "embedding", "mtp", "formula")},
        "components": {name: n for name, n in counted.components.items() if n},
        "tensors": tensors,
        "kv": {key: getattr(cache, key) for key in CACHE},
        "flops": {"prefill": prefill.total, "prefill_attention": prefill.attention, "decode": decode.total},
        "memory": {part: size for part in (*PARTS, "total") if (size := getattr(held, part))},
    }


def settings_of(document: Mapping[str, Any]) -> Document:
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
        number = key in ("batch", "context")
        if number != (isinstance(value, int) and not isinstance(value, bool)) or (number and value < 1):
            raise InputError(f"settings.{key}: found {printable(repr(value))}")
    return settings


def differences(expected: Mapping[str, Any], found: Mapping[str, Any]) -> Iterator[Document]:
    """Every figure of either document: what was expected, what is found, whether they are equal."""
    for section in SECTIONS[1:]:
        here, there = expected.get(section, {}), found.get(section, {})
        for key in dict.fromkeys([*here, *there]):
            a, b = here.get(key), there.get(key)
            yield {"name": f"{section}.{key}", "expected": a, "found": b, "ok": a == b}
