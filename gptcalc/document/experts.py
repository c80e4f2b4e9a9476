"""A section of experts, every default filled in."""

from __future__ import annotations

from typing import Any

from gptcalc.architecture import Experts
from gptcalc.document.around import Around
from gptcalc.document.mlp import gated_by, mlp_sites


def experts(of: Around, name: str, keys: dict[str, Any]) -> Experts:
    top, keys = of.biases(), of.common(name, keys, Experts)
    gated = gated_by(name, keys["activation"])
    default = (("gate", "up", "down") if "experts" in top else ()) + (("router",) if "router" in top else ())
    keys["bias"] = mlp_sites(keys.get("bias", default), gated, ("router", "shared"))
    n_shared, d_shared = keys.get("n_shared"), keys.get("d_shared")
    if d_shared and _is_none(n_shared):
        keys["n_shared"] = 1
    elif n_shared and _is_none(d_shared) and isinstance(n_shared, int) and isinstance(keys.get("d_ff"), int):
        keys["d_shared"] = n_shared * keys["d_ff"]
    return of.typed(keys, Experts, name)


def _is_none(count: Any) -> bool:
    """Not said, or 0; false and 0.0 are no counts, which the types refuse."""
    return count is None or (type(count) is int and count == 0)
