"""GGUF metadata by key, checked: numbers for all layers or a list with one for each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

from gptcalc.errors import InputError, printable
from gptcalc.sources.gguf.reader import Length, Metadata
from gptcalc.sources.header import Tensor

LARGEST = 1_000_000_000
MOST_LAYERS = 10_000


class Facts:
    """What a GGUF file says of its model: metadata of its architecture, and the shapes of its tensors."""

    def __init__(self, metadata: Metadata, tensors: Mapping[str, Tensor]) -> None:
        self.metadata = metadata
        self.tensors = tensors
        name = metadata.get("general.architecture")
        if not isinstance(name, str) or not name:
            raise InputError(
                "metadata has no general.architecture: the tensors alone don't say what model it is", kind="unsupported"
            )
        self.architecture = name
        self.blocks = self.size("block_count", most=MOST_LAYERS)
        self.modules = self.size("nextn_predict_layers", 0, least=0)  # counted among the blocks
        self.n_layers = self.blocks - self.modules
        if self.n_layers < 1:
            self.wrong("nextn_predict_layers", f"fewer than the {self.blocks} blocks", self.modules)

    # metadata

    def value(self, key: str) -> object:
        found = self.metadata.get(f"{self.architecture}.{key}")
        return None if isinstance(found, Length) else found

    def wrong(self, key: str, expected: str, found: object) -> NoReturn:
        raise InputError(f"{self.architecture}.{key}: expected {expected}, found {printable(repr(found), 60)}")

    def size(self, key: str, default: int | None = None, least: int = 1, most: int = LARGEST) -> int:
        found = self.optional(key, least, most)
        if found is None and default is None:
            raise InputError(f"{self.architecture}.{key} is missing")
        return found if found is not None else default or 0

    def optional(self, key: str, least: int = 1, most: int = LARGEST) -> int | None:
        value = self.value(key)
        if value is None:
            return None
        if isinstance(value, list) and value and all(entry == value[0] for entry in value):
            value = value[0]
        return self.checked(key, value, least, most)

    def checked(self, key: str, value: object, least: int = 1, most: int = LARGEST) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            self.wrong(key, f"an integer from {least} to {most}", value)
        return value

    def number(self, key: str, default: float | None = None) -> float | None:
        value = self.value(key)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < float("inf"):
            self.wrong(key, "a number", value)
        return short(value)

    def flag(self, key: str, default: bool = False) -> bool:
        value = self.value(key)
        if value is not None and not isinstance(value, bool):
            self.wrong(key, "true or false", value)
        return default if value is None else value

    def each(self, key: str, default: int | None = None) -> list[int]:
        """A size for each layer; the metadata have one for all, or a list."""
        value = self.value(key)
        if value is None and default is not None:
            return [default] * self.n_layers
        if not isinstance(value, list):
            return [self.size(key, least=0)] * self.n_layers
        if len(value) not in (self.n_layers, self.blocks):
            self.wrong(key, f"{self.n_layers} entries", f"{len(value)} of them")
        return [self.checked(key, entry, least=0) for entry in value[: self.n_layers]]

    # tensors

    def shape(self, layer: int, stem: str, ending: str = "weight") -> tuple[int, ...] | None:
        """The shape of a layer's tensor, as torch has it; None where there is none."""
        return self.whole(f"blk.{layer}.{stem}", ending)

    def whole(self, stem: str, ending: str = "weight") -> tuple[int, ...] | None:
        tensor = self.tensors.get(f"{stem}.{ending}")
        return None if tensor is None else tensor.shape

    def has(self, layer: int, stem: str, ending: str = "weight") -> bool:
        name = f"blk.{layer}.{stem}"
        return f"{name}.{ending}" in self.tensors or (ending == "weight" and name in self.tensors)

    def unweighted(self) -> bool:
        """Whether norms are without weights: they leave no tensors (OLMo)."""
        norms = ("attn_norm", "attn_output_norm", "post_attention_norm")
        last = self.whole("output_norm") is not None or any(self.has(0, stem) for stem in norms)
        return not last and self.value("attention.layer_norm_epsilon") is not None

    def width(self, layer: int, stem: str, axis: int) -> int:
        """A size that only a tensor's shape says."""
        shape = self.shape(layer, stem)
        if shape is None or len(shape) < -axis:
            raise InputError(f"tensor blk.{layer}.{stem}.weight is missing or too flat")
        return shape[axis]


def short(value: float) -> float:
    """A float32 of a file as the number that was meant: 1e-6, not 9.999999974752427e-07; 500000, not 500000.0."""
    meant = float(f"{value:.7g}")
    return int(meant) if meant.is_integer() and abs(meant) >= 2 else meant
