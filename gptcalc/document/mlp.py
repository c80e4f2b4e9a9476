"""A section of a dense layer, every default filled in."""

from __future__ import annotations

from typing import Any

from gptcalc.architecture import ACTIVATIONS, Mlp
from gptcalc.document.around import Around, sites
from gptcalc.errors import InputError, did_you_mean, printable


def mlp(of: Around, name: str, keys: dict[str, Any]) -> Mlp:
    keys = of.common(name, keys, Mlp)
    gated = gated_by(name, keys["activation"])
    if keys.get("d_ff") is None:
        if gated:
            raise InputError(f"{name}: d_ff is missing (no default where the activation has a gate)")
        keys["d_ff"] = 4 * of.doc.d
    default = ("gate", "up", "down") if "mlp" in of.biases() else ()
    keys["bias"] = mlp_sites(keys.get("bias", default), gated, ())
    return of.typed(keys, Mlp, name)


def gated_by(name: str, activation: Any) -> bool:
    if not isinstance(activation, str) or activation not in ACTIVATIONS:
        hint = did_you_mean(str(activation), ACTIVATIONS)
        raise InputError(f"{name}.activation: unknown activation {printable(str(activation))!r}", hint, "unknown")
    return ACTIVATIONS[activation].gated


def mlp_sites(chosen: Any, gated: bool, more: tuple[str, ...]) -> Any:
    found = sites(chosen, ("gate", "up", "down", *more), {"mlp": ("gate", "up", "down")})
    return tuple(s for s in found if gated or s != "gate") if isinstance(found, (list, tuple)) else found
