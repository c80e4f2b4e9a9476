"""A checkpoint's index without its files: the names of tensors and their bytes, held against a model's.

So a repository is cloned without its large files, or an index downloaded alone: nothing says shapes, but every name and
the sum of all bytes (metadata.total_size).
"""

from __future__ import annotations

from collections.abc import Collection

from msgspec import Struct

from gptcalc.analysis.stored import expected_tensors
from gptcalc.sources import Model, tensor_names
from gptcalc.sources.checkpoint import found_at, listing, located
from gptcalc.sources.packed import COMPANIONS

#: what stands in place of a packed matrix
PACKED = ("qweight", "weight_packed")


class Listed(Struct, frozen=True):
    """Names that the index lacks; modules that only the index has; the bytes of all."""

    missing: tuple[str, ...]
    further: tuple[str, ...]
    size: int | None
    tensors: int


def listed(model: Model, path: str) -> Listed:
    """What an index names of a model, and what else. InputError where the type's tensors have no known names."""
    names = tensor_names(model)
    found, size = listing(found_at(path))
    plain = {unpacked(name): name for name in found}
    missing, met = [], set()
    for key, _ in expected_tensors(model.architecture):
        places = names.places(key)
        texts = [text for place in places for text in (place.expert(0), in_mlx(place.name, key))]
        at = next((at for text in texts if (at := located(text, plain)) is not None), None)
        if at is None:
            missing.append(places[0].name)
        else:
            met.add(alike(at))
            met |= {alike(name) for place in places for name in place.behind}
    own = {beginning(name) for name in met}
    further = dict.fromkeys(part(name, own) for name in plain if alike(name) not in met)
    return Listed(tuple(missing), tuple(further), size, len(found))


def in_mlx(name: str, key: str) -> str:
    """What MLX calls the matrices of all experts, and those of a latent, which it has absorbed."""
    absorbed = {"k_b": "embed_q", "v_b": "unembed_out"}.get(key.rpartition(".")[2])
    return name.replace("kv_b_proj", absorbed) if absorbed else name.replace("experts.{e}", "switch_mlp")


def unpacked(name: str) -> str:
    """A tensor's name as if its matrix were not packed, for what lies beside it, too."""
    stem, dot, last = name.rpartition(".")
    if stem.rpartition(".")[2] == "weight" and (last in COMPANIONS or last.startswith("quant_state")):
        return stem
    return f"{stem}{dot}weight" if last in PACKED or last in COMPANIONS or last in ("scales", "biases") else name


def alike(name: str) -> str:
    """The same for all experts."""
    words = name.split(".")
    return ".".join("0" if words[i - 1] == "experts" else word for i, word in enumerate(words))


def beginning(name: str) -> str:
    return ".".join(name.split(".")[:2])


def part(name: str, own: Collection[str]) -> str:
    """What a tensor is of: the first words of its name, or the last where the model's own begin so."""
    return beginning(name) if beginning(name) not in own else "… " + ".".join(name.split(".")[-2:])
