"""Checkpoints: the header of whatever format lies at a path, and weights handed out under this project's keys.

NumPy is imported only when a weight is read.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from gptcalc.errors import InputError
from gptcalc.sources import pytorch, safetensors, text
from gptcalc.sources.gguf import reader as gguf
from gptcalc.sources.header import SCHEME, Header, Steps, Tensor, product
from gptcalc.sources.huggingface.tensors import Place, TensorNames
from gptcalc.sources.paths import WHOLE
from gptcalc.sources.safetensors import DTYPES

if TYPE_CHECKING:
    import numpy as np

    Array: TypeAlias = np.ndarray[Any, Any]

INDEX, SINGLE = WHOLE[:2]


def header(path: str | Path, steps: Steps = iter) -> Header:
    """The header of a .safetensors, .gguf or torch's .bin file, of an index with its shards, of a folder that holds
    one, or of a repository on the hub, whose shards `steps` hands out."""
    if str(path).startswith(SCHEME):
        from gptcalc.sources import hub

        return hub.header(str(path), steps)
    path = found_at(path)
    if path.name.endswith(".bin.index.json"):
        return safetensors.sharded(path, ".bin", lambda names: safetensors.beside(path, names, pytorch.single))
    if path.name.endswith(".bin"):
        return pytorch.single(path)
    if path.name.endswith(".json"):
        return safetensors.sharded(path)
    if path.name.endswith(".gguf"):
        return gguf.header(path)
    return safetensors.single(path)


#: element types of safetensors, other than the bf16 that is assumed anyway, as --dtype calls them
FORMS = {"F32": "fp32", "F16": "fp16"}


def usual_type(folder: str | Path) -> str | None:
    """The type of most weights in a folder's safetensors, by the header of its first file; None: packed, or no such
    file. What is wrong with the file is said where its tensors are counted."""
    try:
        file = found_at(folder)
        if file.name.endswith(".safetensors.index.json"):
            file = file.parent / min(safetensors.weight_map_of(file, ".safetensors").values())
        if file.suffix != ".safetensors":
            return None
        elements: dict[str, int] = {}
        for tensor in safetensors.single(file).tensors:
            elements[tensor.dtype] = elements.get(tensor.dtype, 0) + tensor.elements
    except (InputError, OSError, ValueError):
        return None
    return FORMS.get(max(elements, key=elements.__getitem__)) if elements else None


def found_at(path: str | Path) -> Path:
    """The file to begin with: the path itself, or what stands for a folder's whole checkpoint."""
    path = Path(path)
    return _in_folder(path) if path.is_dir() else path


def is_absent(path: str | Path) -> bool:
    """Whether none of a checkpoint's files is there: an index alone, or what Git LFS leaves in place of them."""
    if str(path).startswith(SCHEME):
        return False
    file = found_at(path)
    if file.suffix != ".json":
        return text.is_pointer(file)
    suffix = "." + file.name.removesuffix(".index.json").rpartition(".")[2]
    shards = [file.parent / name for name in set(safetensors.weight_map_of(file, suffix).values())]
    return not any(shard.exists() and not text.is_pointer(shard) for shard in shards)


def listing(index: Path) -> tuple[list[str], int | None]:
    """The names of tensors that an index has, and the bytes of all, where it says them."""
    content = text.mapping(text.parse_json(text.read(str(index))))
    about = content.get("metadata")
    size = about.get("total_size") if isinstance(about, dict) else None
    if not isinstance(size, int | float) or size <= 0 or size != int(size):  # some write it as 1.0
        return list(content["weight_map"]), None
    return list(content["weight_map"]), int(size)


def hub_or_path(reference: str) -> str:
    """A reference to tensors: a path that exists stays, an id or a page on the hub is marked as one."""
    from gptcalc.sources import hub

    if os.path.lexists(reference) or hub.repository(reference) is None:
        return reference
    return SCHEME + reference


def kind_at(path: str | Path) -> str | None:
    """The format that decides how tensors are called, whatever model they are of: gguf, or none."""
    return "gguf" if not str(path).startswith(SCHEME) and found_at(path).suffix == ".gguf" else None


def tensors(path: str | Path) -> list[tuple[str, tuple[int, ...], str]]:
    """Name, shape and element type of every tensor."""
    return [(t.name, t.shape, t.dtype) for t in header(path).tensors]


def config_beside(path: str | Path) -> Mapping[str, Any] | None:
    """The config.json in a checkpoint's folder, which says how wide packed weights are."""
    if str(path).startswith(SCHEME):
        from gptcalc.sources import hub

        path = hub.config_of(str(path))
    folder = Path(path) if Path(path).is_dir() else Path(path).parent
    file = folder / "config.json"
    if not file.is_file():
        return None
    try:
        return text.mapping(text.parse_json(text.read(str(file))))
    except InputError as error:
        raise error if str(file) in error.message else error.within(str(file)) from None


def _in_folder(folder: Path) -> Path:
    for name in WHOLE:
        if (folder / name).is_file():
            return folder / name
    for pattern in ("*.safetensors.index.json", "*.safetensors", "*.gguf"):
        found = sorted(folder.glob(pattern))
        if len(found) == 1 or _one_in_parts(found):
            return found[0]
        if found:
            raise InputError(f"{folder}: {len(found)} files {pattern} and no {INDEX}; name one", kind="checkpoint")
    raise InputError(f"{folder}: no {SINGLE}, no {INDEX} and no .gguf file", kind="checkpoint")


def _one_in_parts(files: list[Path]) -> bool:
    """Whether GGUF files are the parts of one model."""
    parts = [match for file in files if (match := gguf.SPLIT.fullmatch(file.name))]
    return 0 < len(parts) == len(files) and len({(part[1], part[3]) for part in parts}) == 1


# --- weights ----------------------------------------------------------------------------------------------------------

#: words in front of a text model's names, where it stands alone or inside a larger model
PREFIXES = (
    "model.", "transformer.", "", "language_model.model.", "model.language_model.", "language_model.", "bert.",
    "roberta.", "distilbert.", "electra.", "albert.", "mpnet.", "deberta.", "nomic_bert.", "new.", "gte.",
    "llm.model.", "llm.", "vlm.lang_model.model.", "vlm.lang_model.",
)  # fmt: skip


def in_tensorflow(name: str) -> str:
    """What TensorFlow called a layer norm's weight and bias; BERT's checkpoints do."""
    return name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")


Found = TypeVar("Found")


def located(name: str, found: Mapping[str, Found]) -> str | None:
    """The name that a tensor has in a checkpoint, with other words in front of it if need be."""
    if name in found:
        return name
    bare = next((name.removeprefix(prefix) for prefix in PREFIXES if prefix and name.startswith(prefix)), name)
    names = (prefix + bare for prefix in PREFIXES)
    return next((name for at in names for name in (at, in_tensorflow(at)) if name in found), None)


class Checkpoint:
    """The weights of a checkpoint, under this project's keys and in its layout, [inputs..., outputs...]."""

    def __init__(self, path: str | Path, names: TensorNames) -> None:
        self.header = header(path)
        self.names = names
        self.found = {tensor.name: tensor for tensor in self.header.tensors}
        self.read: set[str] = set()

    def get(self, key: str, shape: tuple[int, ...]) -> Array:
        """The weight `key`, which must have this shape."""
        import numpy as np

        places = self.names.places(key)
        for place in places:
            if self.locate(place.expert(0)) is None:
                continue
            if place.parted:
                return self.joined(key, place, shape)
            if place.stacked:
                return self.cut(key, place, place.name, shape)
            return np.stack([self.cut(key, place, place.expert(e), shape[1:]) for e in range(shape[0])])
        raise InputError(f"the checkpoint has no {places[0].name} (for {key})", kind="checkpoint")

    def buffer(self, key: str) -> Array | None:
        """A table that is not learned, as it lies in the checkpoint; None where the checkpoint has none."""
        found = (self.locate(place.name) for place in self.names.places(key))
        tensor = next((tensor for tensor in found if tensor is not None), None)
        return None if tensor is None else self.array(tensor)

    def locate(self, name: str) -> Tensor | None:
        """The tensor of this name."""
        at = located(name, self.found)
        return None if at is None else self.found[at]

    def array(self, tensor: Tensor) -> Array:
        """A tensor's numbers, mapped from the file; bfloat16 widened to float32."""
        import numpy as np

        if tensor.file.suffix != ".safetensors":
            raise InputError(f"{tensor.file}: numbers are read from .safetensors files only", kind="checkpoint")
        kind = DTYPES[tensor.dtype][1]
        if kind is None:
            raise InputError(f"{tensor.file}: {tensor.name} is {tensor.dtype}; no arithmetic for it", kind="checkpoint")
        self.read.add(tensor.name)
        if tensor.elements == 0:
            return np.zeros(tensor.shape, kind)
        raw = np.memmap(tensor.file, dtype=kind, mode="r", offset=tensor.start, shape=tensor.shape)
        if tensor.dtype == "BF16":
            return (raw.astype("<u4") << 16).view("<f4")
        return raw

    def joined(self, key: str, place: Place, shape: tuple[int, ...]) -> Array:
        """A weight that lies in parts, one behind the other along its first axis."""
        import numpy as np

        parts: list[Array] = []
        while (tensor := self.locate(place.expert(len(parts)))) is not None:
            parts.append(self.array(tensor))
        return _shaped(key, np.concatenate(parts), shape)

    def cut(self, key: str, place: Place, name: str, shape: tuple[int, ...]) -> Array:
        """A weight's part of a tensor, turned to [inputs..., outputs...]."""
        import numpy as np

        whole: list[Array] = []
        for each in (name, *place.behind):
            tensor = self.locate(each)
            if tensor is None:
                raise InputError(f"the checkpoint has no {each} (for {key})", kind="checkpoint")
            whole.append(self.array(tensor))
        array = whole[0] if len(whole) == 1 else np.concatenate(whole)
        if place.matrix:
            inputs = product(shape[:-1])
            outputs = array.size // max(1, inputs)
            if place.stored == "out,in":
                array = _shaped(key, array, (*shape[:-2], outputs, shape[-2])).swapaxes(-1, -2)
            elif place.stored == "each out,in":
                array = _shaped(key, array.swapaxes(-1, -2), shape)
            else:
                array = _shaped(key, array, (*shape[:-1], outputs))
        if place.shares:
            array = _part(key, array, place)
        if array.size == place.padded:
            array = array.reshape(-1)[: product(shape)]
        return _shaped(key, array, shape)


def _part(key: str, array: Array, place: Place) -> Array:
    """One of the parts that lie side by side, within each group, along the last axis."""
    total, shares = array.shape[-1], sum(place.shares)
    unit = total // shares
    if total % shares or total % place.groups or unit * place.shares[place.index] % place.groups:
        raise InputError(f"{key}: {total} outputs of {place.name} do not divide into its parts", kind="checkpoint")
    grouped = array.reshape(*array.shape[:-1], place.groups, total // place.groups)
    start = unit * sum(place.shares[: place.index]) // place.groups
    width = unit * place.shares[place.index] // place.groups
    return grouped[..., start : start + width].reshape(*array.shape[:-1], place.groups * width)


def _shaped(key: str, array: Array, shape: tuple[int, ...]) -> Array:
    if array.size != product(shape):
        raise InputError(f"{key}: the checkpoint has {array.shape}, the architecture {shape}", kind="checkpoint")
    return array.reshape(shape)
