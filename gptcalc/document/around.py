"""What every section takes from the document around it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from gptcalc.architecture import Norm, Rope, Sublayer
from gptcalc.document.decoding import typed
from gptcalc.document.fields import complete, inherited
from gptcalc.document.keys import ALL_BIASES, Document
from gptcalc.errors import InputError

Kind = TypeVar("Kind", bound=Sublayer)


class Around:
    """The document's own keys, the model's norm, and the sections as they are written."""

    def __init__(self, doc: Document, norm: Norm, sections: Mapping[str, Mapping[str, Any]]) -> None:
        self.doc = doc
        self.norm = norm
        self.sections = sections

    def biases(self) -> tuple[str, ...]:
        chosen = self.doc.bias
        if isinstance(chosen, str):
            return {"none": (), "all": ALL_BIASES, "qkv": ("qkv",)}[chosen]
        return tuple(chosen)

    @property
    def rope(self) -> Rope:
        """How what turns does."""
        return self.doc.rope or Rope()

    def common(self, name: str, keys: dict[str, Any], kind: type[Sublayer]) -> dict[str, Any]:
        """A section's keys, those that are the document's where it doesn't say them, and its norm written out."""
        norm = keys.pop("norm", None)
        said = {key: getattr(self.doc, top) for key, top in inherited(kind).items()}
        out = {"section": name, "norm": self.norm} | {key: value for key, value in said.items() if value is not None}
        if norm is not None:
            out["norm"] = None if norm == "none" else typed(norm, Norm, f"{name}.norm")
        return out | keys

    def typed(self, keys: dict[str, Any], kind: type[Kind], name: str) -> Kind:
        mixer: Kind = typed(complete(keys, kind, self.norm, name), kind, name)
        return mixer

    def positions(self, name: str, keys: dict[str, Any], known: tuple[str, ...]) -> None:
        """How a sublayer sees positions: as the model does, where it can; a rotation only where it is used."""
        default = self.doc.position if self.doc.position in known else "none"
        if keys.setdefault("position", default) == "rope":
            keys.setdefault("rope", self.rope)
            return
        if self.sections.get(name, {}).get("rope") is not None:
            raise InputError(f"{name}.rope: position is {keys['position']!r}, so rope would be ignored")
        keys.pop("rope", None)  # that of the section it is like

    def equal_share(self, name: str, n_heads: Any) -> int:
        if not isinstance(n_heads, int) or n_heads < 1 or self.doc.d % n_heads:
            raise InputError(f"{name}: d = {self.doc.d} is not a multiple of n_heads = {n_heads}", "give d_head")
        return self.doc.d // n_heads


def sites(chosen: Any, all_sites: tuple[str, ...], groups: Mapping[str, tuple[str, ...]]) -> Any:
    """Bias sites in a fixed order, shorthands (none, all, qkv) written out; anything else is left to the type check."""
    if chosen == "none":
        return ()
    if chosen == "all":
        return all_sites
    if isinstance(chosen, str):
        return groups.get(chosen, (chosen,))
    if not isinstance(chosen, (list, tuple)):
        return chosen
    flat = [site for word in chosen for site in (groups.get(word, (word,)) if isinstance(word, str) else (word,))]
    known = [site for site in all_sites if site in flat]
    return (*known, *(site for site in flat if site not in all_sites))
