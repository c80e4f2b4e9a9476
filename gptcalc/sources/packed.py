"""What the tensors of a checkpoint stand for: learned weights, however they are packed, and what lies beside them.

A quantiser stores a matrix as packed numbers with companions (scales, zero points, absmax, the order of its inputs),
which are no parameters. What a header's shapes and types say decides; where they leave the width of a number open, the
config's `quantization_config` does. Where neither says, the count is None, never a guess.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from gptcalc.sources.header import (
    BUFFERS,
    CONSTANTS,
    MEASURED,
    ROTARY_TABLES,
    Header,
    Tensor,
    is_mask,
    is_rotary,
    product,
)

Role: TypeAlias = Literal[
    "scales", "zero_points", "absmax", "g_idx", "masks", "rotary_tables", "bookkeeping", "adapters"
]

#: last words of tensors that only a quantiser writes
COMPANIONS: dict[str, Role] = {
    # AutoGPTQ, AutoAWQ
    "qzeros": "zero_points", "g_idx": "g_idx",
    # compressed-tensors, ModelOpt, fp8 in blocks
    "weight_scale": "scales", "weight_scale_inv": "scales", "weight_scale_2": "scales", "weight_global_scale": "scales",
    "input_scale": "scales", "input_global_scale": "scales", "input_scale_ub": "scales", "output_scale": "scales",
    "weight_zero_point": "zero_points", "input_zero_point": "zero_points", "weight_g_idx": "g_idx",
    "weight_shape": "bookkeeping",
    # bitsandbytes
    "SCB": "scales", "weight_format": "bookkeeping", "absmax": "absmax", "nested_absmax": "absmax",
    "quant_map": "bookkeeping", "nested_quant_map": "bookkeeping",
}  # fmt: skip
QUANT_STATE = "bitsandbytes__"  # begins the last word of a small JSON text that bitsandbytes keeps

#: words that learned tensors have, too: a companion only where a tensor beside it is packed
SHARED: dict[str, tuple[Role, tuple[str, ...]]] = {
    "scales": ("scales", ("qweight", "weight")),
    "scale": ("scales", ("weight",)),
    "biases": ("zero_points", ("weight",)),  # MLX
}
#: the same for weights that have no word of their own: experts.gate_up_proj and experts.gate_up_proj_scale_inv
ENDINGS = ("_scale_inv", "_weight_scale_2", "_weight_scale", "_input_scale", "_scales", "_scale")
#: scales of cached keys and values, one number each
CACHE_SCALES = ("k_scale", "v_scale", "q_scale", "kv_scale", "prob_scale")

NARROW = ("U8", "I8", "U32", "I32", "F4", "F8_E4M3", "F8_E5M2", "F8_E4M3FNUZ", "F8_E5M2FNUZ")
FLOATS = ("F64", "F32", "F16", "BF16")
WORD_BITS = 32  # of the integers that numbers are packed into


class Weight(Struct, frozen=True):
    """A learned weight: its name without the packing's words, and how many parameters it stands for."""

    name: str
    elements: int | None  # None: the header doesn't say
    tensor: Tensor


@dataclass
class Contents:
    """The learned weights of a checkpoint by name, and its other tensors by role."""

    weights: dict[str, Weight] = field(default_factory=dict)
    apart: dict[Role, list[Tensor]] = field(default_factory=dict)

    @property
    def unclear(self) -> list[Weight]:
        """Packed weights whose number the header leaves open."""
        return [weight for weight in self.weights.values() if weight.elements is None]


def contents(header: Header, config: Mapping[str, Any] | None = None) -> Contents:
    """What every tensor of a header is; `config` is the config.json beside it, where there is one."""
    return _Reading({tensor.name: tensor for tensor in header.tensors}, config or {}).contents()


class _Reading:
    def __init__(self, found: dict[str, Tensor], config: Mapping[str, Any]) -> None:
        self.found = found
        self.bits = _Bits(config)

    def contents(self) -> Contents:
        result = Contents()
        for tensor in self.found.values():
            role = self.role(tensor)
            if role is not None:
                result.apart.setdefault(role, []).append(tensor)
                continue
            weight = self.weight(tensor)
            result.weights[weight.name] = weight
        return result

    # what a tensor is

    def role(self, tensor: Tensor) -> Role | None:
        """What a tensor is, unless it is a learned weight."""
        name = tensor.name
        stem, _, last = name.rpartition(".")
        if last == "weight" and tensor.dtype in FLOATS and "lora_" not in stem and not name.startswith(ROTARY_TABLES):
            return None  # most tensors
        if "lora_" in name or last in ("lora_a", "lora_b"):
            return "adapters"
        if is_rotary(tensor):
            return "rotary_tables"
        if is_mask(tensor):
            return "masks"
        if last in COMPANIONS:
            return COMPANIONS[last]
        if last.startswith(QUANT_STATE) or last in BUFFERS or name.endswith((*MEASURED, *CONSTANTS)):
            return "bookkeeping"
        if last in CACHE_SCALES and tensor.elements == 1:
            return "scales"
        if last in SHARED:
            shared, siblings = SHARED[last]
            return shared if any(self.is_narrow(f"{stem}.{word}") for word in siblings) else None
        for ending in ENDINGS:
            if name.endswith(ending):
                base = name.removesuffix(ending)
                return "scales" if self.is_narrow(base) or self.is_narrow(f"{base}_blocks") else None
        if tensor.dtype in ("I64", "I16", "BOOL", "U64", "U16"):
            return "bookkeeping"  # numbers of positions, counters
        return None

    def is_narrow(self, name: str) -> bool:
        tensor = self.found.get(name)
        return tensor is not None and tensor.dtype in NARROW

    # how many weights it packs

    def weight(self, tensor: Tensor) -> Weight:
        stem, dot, last = tensor.name.rpartition(".")
        if tensor.dtype not in NARROW:
            return Weight(unwrapped(tensor.name), tensor.elements, tensor)
        if last == "qweight":
            return Weight(unwrapped(f"{stem}{dot}weight"), self.grouped(tensor, stem), tensor)
        if last == "weight_packed":
            return Weight(unwrapped(f"{stem}{dot}weight"), self.compressed(tensor, stem), tensor)
        if tensor.name.endswith("_blocks") and tensor.dtype == "U8":
            return Weight(unwrapped(tensor.name.removesuffix("_blocks")), 2 * tensor.elements, tensor)
        return Weight(unwrapped(tensor.name), self.plain(tensor, stem), tensor)

    def grouped(self, tensor: Tensor, stem: str) -> int | None:
        """GPTQ packs the inputs of (inputs, outputs) into words, AWQ its outputs; scales are (groups, outputs).

        AWQ's layout for matrix-vector products is (outputs, inputs), always of 4 bits.
        """
        scales, zeros = self.found.get(f"{stem}.scales"), self.found.get(f"{stem}.qzeros")
        order = self.found.get(f"{stem}.g_idx")
        if scales is None or len(scales.shape) < 2 or len(tensor.shape) < 2:
            return None
        outputs = scales.shape[-1]
        if tensor.shape[-1] != outputs:
            by_outputs = zeros is not None and zeros.shape[-1:] == tensor.shape[-1:]
            return product(tensor.shape[:-1]) * outputs if by_outputs else tensor.elements * WORD_BITS // 4
        if order is not None and order.elements:
            return product(tensor.shape[:-2]) * order.shape[-1] * outputs
        if zeros is not None and zeros.shape[-1:] and zeros.shape[-1]:
            return _exact(tensor.elements * outputs, zeros.shape[-1])
        return self.bits.unpacked(tensor, stem)

    def compressed(self, tensor: Tensor, stem: str) -> int | None:
        """compressed-tensors: two 4-bit floats a byte, or integers in words along the inputs."""
        if tensor.dtype == "U8":
            return 2 * tensor.elements
        known = self.bits.unpacked(tensor, stem)
        zeros, scale = self.found.get(f"{stem}.weight_zero_point"), self.found.get(f"{stem}.weight_scale")
        if known is None and zeros is not None and scale is not None and zeros.dtype == "I32" and zeros.elements:
            known = _exact(tensor.elements * scale.elements, zeros.elements)
        shape = self.found.get(f"{stem}.weight_shape")
        return _said(shape) if known is None and shape is not None else known

    def plain(self, tensor: Tensor, stem: str) -> int | None:
        """Packed numbers under the weight's own name: what its scales look like says how."""
        name = tensor.name
        if tensor.dtype.startswith("F"):
            return tensor.elements
        if f"{name}.absmax" in self.found:
            return 2 * tensor.elements  # bitsandbytes: nf4, fp4
        scale = self.scale(name, stem)
        if tensor.dtype in ("U32", "I32"):
            return self.words(tensor, stem, scale)
        if scale is not None and scale.elements > 1:
            numbers = tensor.elements / scale.elements  # bytes that share a scale
            if (scale.dtype == "F8_E4M3" and numbers == 8) or (scale.dtype in ("F8_E8M0", "U8") and numbers == 16):
                return 2 * tensor.elements  # NVFP4: 16 numbers a scale; MXFP4: 32
        elif scale is not None and tensor.dtype == "U8":
            return 4 * tensor.elements  # BitNet: -1, 0 and 1 in two bits
        return tensor.elements if tensor.dtype == "I8" else None

    def scale(self, name: str, stem: str) -> Tensor | None:
        places = (f"{name}_scale", f"{stem}.scale", f"{name}_scale_inv", f"{stem}.scales", f"{name}_weight_scale")
        return next((self.found[place] for place in places if place in self.found), None)

    def words(self, tensor: Tensor, stem: str, scale: Tensor | None) -> int | None:
        """MLX: numbers in 32-bit words. Its microscaling formats have one-byte scales of 32 or 16 numbers."""
        if scale is not None and scale.dtype == "U8" and tensor.elements % max(1, scale.elements) == 0:
            per_scale = tensor.elements // scale.elements
            if f"{stem}.biases" not in self.found and per_scale in (2, 4, 8):
                return scale.elements * (16 if per_scale == 2 else 32)  # nvfp4, mxfp4, mxfp8
        return self.bits.unpacked(tensor, stem)


def unwrapped(name: str) -> str:
    """The name that a weight has without the adapter around it."""
    return name.replace(".base_layer.", ".").removeprefix("base_model.model.")


def _exact(numerator: int, denominator: int) -> int | None:
    return numerator // denominator if numerator % denominator == 0 else None


def _said(shape: Tensor) -> int | None:
    """The product of the sizes that compressed-tensors stores beside a packed matrix: 16 bytes of data."""
    width = {"I64": 8, "I32": 4}.get(shape.dtype)
    if width is None or not 1 <= shape.elements <= 4 or not shape.file.is_file():
        return None
    with shape.file.open("rb") as file:
        file.seek(shape.start)
        data = file.read(shape.elements * width)
    sizes = [int.from_bytes(data[at : at + width], "little", signed=True) for at in range(0, len(data), width)]
    return product(tuple(sizes)) if len(sizes) == shape.elements and min(sizes) >= 0 else None


class _Bits:
    """The width of packed integers, as a config says it: for all matrices, or for a module by name."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        text = config.get("text_config")
        inner = text if isinstance(text, Mapping) else {}
        own = (c.get(key) for c in (config, inner) for key in ("quantization", "quantization_config"))
        self.said = next((found for found in own if isinstance(found, Mapping)), {})
        widths = set(self.widths())
        self.everywhere = widths.pop() if len(widths) == 1 else None

    def widths(self) -> Iterator[int]:
        groups = self.said.get("config_groups")
        places: list[Any] = [self.said]
        if isinstance(groups, Mapping):
            places += [group.get("weights") for group in groups.values() if isinstance(group, Mapping)]
        for place in places:
            for key in ("bits", "num_bits", "w_bit"):
                if isinstance(place, Mapping) and _is_width(place.get(key)):
                    yield place[key]

    def unpacked(self, tensor: Tensor, stem: str) -> int | None:
        """How many numbers the words of a tensor hold."""
        own = self.said.get(stem)
        bits = own.get("bits") if isinstance(own, Mapping) else None
        bits = bits if _is_width(bits) else self.everywhere
        return None if bits is None else _exact(tensor.elements * WORD_BITS, bits)


def _is_width(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 16
