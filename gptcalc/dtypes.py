"""Data types: how many bytes a row of numbers takes, and a matrix as a quantiser stores it.

Sizes are exact: scales, zero points and rounding up to whole blocks included.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import gcd
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from gptcalc.errors import InputError, did_you_mean, is_count, printable


class DType(Struct, frozen=True):
    """A format that stores `block` numbers in `block_bytes` bytes (scales included)."""

    name: str
    block: int
    block_bytes: int
    scaled: int | None = None  # numbers that share an fp32 scale beside them

    def row_bytes(self, elements: int) -> int:
        """Bytes of one row, rounded up to whole blocks."""
        scales = 0 if self.scaled is None else elements // self.scaled * 4
        return -(-elements // self.block) * self.block_bytes + scales


FP32 = DType("fp32", 1, 4)
BF16 = DType("bf16", 1, 2)
FP16 = DType("fp16", 1, 2)
FP8 = DType("fp8", 1, 1)
INT8 = DType("int8", 1, 1)
INT4 = DType("int4", 2, 1)
#: OCP Microscaling (MX) 1.0: 32 numbers of 4 bits and one shared 8-bit exponent
MXFP4 = DType("mxfp4", 32, 17)
#: 16 numbers of 4 bits and an fp8 scale
NVFP4 = DType("nvfp4", 16, 9)

#: 128 numbers of 8 bits and an fp32 scale: an indexer's keys, and latents in DeepSeek's own layout
FP8_SCALED = DType("fp8 with scales", 1, 1, 128)
#: that layout's name in vLLM: latents so, the rotary key in bf16 beside them (656 bytes of 512 + 64 numbers)
FP8_DS_MLA = DType("fp8_ds_mla", 1, 1, 128)

#: ggml's blocks (ggml/src/ggml-common.h): an fp16 scale (with _1 an fp16 minimum) for 32 numbers; the blocks of 256 of
#: the K-quants, the IQ types (which index tables) and the ternary ones hold quantised scales of sub-blocks as well
GGML = {
    dtype.name: dtype
    for dtype in (
        DType("q8_0", 32, 34), DType("q5_0", 32, 22), DType("q5_1", 32, 24), DType("q4_0", 32, 18),
        DType("q4_1", 32, 20), DType("iq4_nl", 32, 18),
        DType("q2_k", 256, 84), DType("q3_k", 256, 110), DType("q4_k", 256, 144), DType("q5_k", 256, 176),
        DType("q6_k", 256, 210), DType("iq1_s", 256, 50), DType("iq1_m", 256, 56), DType("iq2_xxs", 256, 66),
        DType("iq2_xs", 256, 74), DType("iq2_s", 256, 82), DType("iq3_xxs", 256, 98), DType("iq3_s", 256, 110),
        DType("iq4_xs", 256, 136), DType("tq1_0", 256, 54), DType("tq2_0", 256, 66),
        DType("q1_0", 128, 18), DType("q2_0", 64, 18),
    )
}  # fmt: skip

#: what a cache can be kept in; ggml keeps none in K-quants. Scales of a whole tensor (fp8, int8, int4) are left out
DTYPES = {
    dtype.name: dtype
    for dtype in (
        FP32, BF16, FP16, FP8, FP8_DS_MLA, INT8, INT4, MXFP4, NVFP4,
        *(dtype for dtype in GGML.values() if dtype.block == 32),
    )
}  # fmt: skip

#: other spellings, as engines and checkpoints have them
SPELLINGS = {
    "float32": "fp32",
    "f32": "fp32",
    "bfloat16": "bf16",
    "float16": "fp16",
    "half": "fp16",
    "fp8_e4m3": "fp8",
    "fp8_e5m2": "fp8",
}


def dtype(name: str, also: Sequence[str] = ()) -> DType:
    """The data type of this name; InputError where there is none. also: other words that may stand there."""
    word = name.lower()
    word = SPELLINGS.get(word, "fp16" if word == "f16" else word)
    if word not in DTYPES:
        raise unknown(name, [*also, *DTYPES])
    return DTYPES[word]


def unknown(name: str, known: list[str]) -> InputError:
    hint = did_you_mean(name, known) or "one of " + ", ".join(known)
    return InputError(f"unknown data type {printable(name)!r}", hint, "usage")


# --- matrices as quantisers store them --------------------------------------------------------------------------------


class Packing(Struct, frozen=True):
    """A matrix of inputs × outputs: its numbers, and the scales that groups of them share."""

    element: DType
    scale_bits: int = 0  # a group's scale, and its zero point where there is one
    group: int | None = None  # inputs that share a scale; None: all
    group_outputs: int | None = 1  # outputs that share a scale; None: all
    flat: bool = False  # groups run through the matrix as one row
    nested: int | None = None  # the scales are quantised in groups of so many, each with an fp32 scale
    per_input: int = 0  # bytes an input channel
    per_matrix: int = 0  # bytes a matrix

    def behind(self) -> Packing:
        """The same of outputs that lie behind others in one matrix, which has these bytes once."""
        return replace(self, per_input=0, per_matrix=0)

    def bytes(self, inputs: int, outputs: int) -> int:
        """Everything that is stored for one matrix."""
        if self.flat:
            inputs, outputs = inputs * outputs, 1
        groups = -(-inputs // (self.group or inputs)) * -(-outputs // (self.group_outputs or outputs))
        numbers = outputs * self.element.row_bytes(inputs)
        scales = -(-groups * self.scale_bits // 8)
        if self.nested:
            scales += -(-groups // self.nested) * FP32.block_bytes
        return numbers + scales + (0 if self.flat else inputs * self.per_input) + self.per_matrix


class Format(Struct, frozen=True):
    """How a model's weights are stored: which matrices are packed and how; the rest stays `wide`.

    `linear`: all matrices but the embedding, the output, routers and gates with one output.
    `experts`: the matrices that each expert has of its own. `all`: all matrices and the tables of tokens, but routers
    with a selection bias, which are no linear layers in MLX. `output`: of the output matrix, where it is packed in a
    way of its own.
    `apart`: components whose matrices are stored in another format; mtp is all of multi-token-prediction modules.
    """

    name: str
    packed: Literal["none", "linear", "experts", "all"]
    packing: Packing
    wide: DType = BF16
    output: Packing | None = None
    mean: bool = False  # a mean over matrices: what one takes is an estimate
    alone: bool = False  # no other program reads it than that which made it
    experts: Packing | None = None  # of the experts' matrices, where they are packed in a way of their own
    apart: tuple[tuple[str, Format], ...] = ()

    @property
    def plain(self) -> str:
        """Its name without what is said of components."""
        return self.name.partition(",")[0]

    @property
    def all(self) -> tuple[Format, ...]:
        """Itself and those of components."""
        return (self, *(form for _, form in self.apart))

    @property
    def is_wide(self) -> bool:
        """Whether every weight is a number of its own."""
        return all(form.packed == "none" for form in self.all)

    def at(self, component: str, module: bool = False) -> Format:
        """The format of this component's matrices, in a multi-token-prediction module or elsewhere."""
        given = dict(self.apart)
        return (given.get("mtp") if module else None) or given.get(component, self)

    def of(self, component: str) -> Packing:
        """How a matrix of this component is packed."""
        return self.experts if self.experts is not None and component == "experts" else self.packing


#: bitsandbytes' QuantState: the table of nf4's 16 values; of the 256 values of a nested scale, and its offset
NF4_TABLE = 16 * FP32.block_bytes
NESTED_TABLE = (256 + 1) * FP32.block_bytes


def grouped_int(
    name: str, group: int | None = 128, symmetric: bool = False, order: bool = False, bits: int = 4
) -> Format:
    """Integers with an fp16 scale, and unless symmetric a zero point of as many bits, for each group of inputs, or for
    a channel of outputs.

    As AutoAWQ stores it; AutoGPTQ adds the activation order, an int32 an input channel (g_idx).
    """
    element = INT4 if bits == 4 else DType(f"int{bits}", 8, bits)
    packing = Packing(element, 16 if symmetric else 16 + bits, group, per_input=4 if order else 0)
    return Format(name, "linear", packing)


#: the widths of AutoGPTQ beside 4 bits
GPTQ = {"gptq2": 2, "gptq3": 3, "gptq8": 8}


def compressed(name: str, bits: int, group: int | None, options: Collection[str] = ()) -> Format:
    """compressed-tensors' pack-quantized: a 16-bit scale for a group of inputs (without one, a channel of outputs), the
    matrix' shape as two int64 (weight_shape). `asym`: a zero point beside each scale; `order`: the activation order, an
    int32 an input (weight_g_idx); `experts`: as Kimi K2 Thinking ships, nothing but the experts, shapes in int32."""
    experts, element = "experts" in options, INT4 if bits == 4 else INT8
    zero = bits if "asym" in options else 0
    packing = Packing(element, 16 + zero, group, per_input=4 * ("order" in options), per_matrix=8 if experts else 16)
    return Format(name, "experts" if experts else "linear", packing)


def affine(bits: int, group: int = 64, name: str = "") -> Format:
    """MLX's affine quantisation (mlx.core.quantize): a 16-bit scale and bias a group, tables and output too."""
    return Format(name or f"mlx{bits}", "all", Packing(DType(f"int{bits}", 8, bits), 16 + 16, group), alone=True)


#: the widths that MLX packs numbers in
AFFINE = (2, 3, 4, 5, 6, 8)
MLX_GROUPS = (32, 64, 128)

#: ExLlama's output matrix has 6 bits a weight unless told otherwise (convert.py, --head_bits)
HEAD_BITS = 6


def bits_per_weight(name: str, bits: str) -> Format:
    """EXL2 and EXL3 choose each matrix' width so that the layers have so many bits a weight in the mean."""
    whole, _, part = bits.partition(".")
    if not (is_count(whole) and is_count(part or "0", 5) and 1 <= float(bits) <= 8):
        raise InputError(f"{printable(name)!r}: no bits per weight from 1 to 8", "write exl3:4.0 or exl2:4.65", "usage")
    numbers, size = 8 * 10 ** len(part), int(whole + part)
    common = gcd(numbers, size)
    mean = DType("exl", numbers // common, size // common)
    head = Packing(DType("exl", 8, HEAD_BITS), flat=True)
    return Format(name.lower(), "linear", Packing(mean, flat=True), FP16, head, mean=True, alone=True)


FORMATS = {
    format.name: format
    for format in (
        Format("fp32", "none", Packing(FP32), FP32),
        Format("bf16", "none", Packing(BF16), BF16),
        Format("fp16", "none", Packing(FP16), FP16),
        # one fp32 scale a matrix (compressed-tensors, strategy tensor)
        Format("fp8", "linear", Packing(FP8, 32, None, None)),
        # one fp32 scale for 128 × 128 (DeepSeek-V3's weight_scale_inv)
        Format("fp8-block", "linear", Packing(FP8, 32, 128, 128)),
        # one 16-bit scale an output channel (compressed-tensors, strategy channel)
        Format("fp8-channel", "linear", Packing(FP8, 16)),
        Format("int8", "linear", Packing(INT8, 16)),
        grouped_int("int4"),
        grouped_int("awq"),
        grouped_int("gptq", order=True),
        *(grouped_int(name, order=True, bits=bits) for name, bits in GPTQ.items()),
        compressed("w4a16", 4, 128),
        compressed("w8a16", 8, None),
        # QLoRA (arXiv:2305.14314, §3): blocks of 64 with an fp32 absmax; doubly quantised to 8 bits in blocks of 256
        Format("nf4", "linear", Packing(INT4, 32, 64, flat=True, per_matrix=NF4_TABLE)),
        Format(
            "nf4-double", "linear", Packing(INT4, 8, 64, flat=True, nested=256, per_matrix=NF4_TABLE + NESTED_TABLE)
        ),
        # as gpt-oss ships: experts only
        Format("mxfp4", "experts", Packing(MXFP4)),
        # as DeepSeek-V4 ships: experts so, the others in fp8 with a shared 8-bit exponent for 128 × 128
        Format("fp8-mxfp4", "linear", Packing(FP8, 8, 128, 128), experts=Packing(MXFP4)),
        # ModelOpt: beside the blocks' scales an fp32 scale of the weight and one of the input
        Format("nvfp4", "linear", Packing(NVFP4, per_matrix=2 * FP32.block_bytes)),
        *(affine(bits) for bits in AFFINE),
        # MLX's other modes: a scale of 8 bits a group, none of the matrix
        Format("mlx-mxfp4", "all", Packing(MXFP4), alone=True),
        Format("mlx-nvfp4", "all", Packing(NVFP4), alone=True),
        Format("mlx-mxfp8", "all", Packing(INT8, 8, 32), alone=True),
        # torchao: int4 with a 16-bit scale and zero point a group (Int4WeightOnlyConfig), int8 with a 16-bit scale a
        # channel (Int8WeightOnlyConfig), fp8 with an fp32 scale a channel (Float8DynamicActivationFloat8WeightConfig)
        Format("torchao-int4", "linear", Packing(INT4, 16 + 16, 128)),
        Format("torchao-int8", "linear", Packing(INT8, 16)),
        Format("torchao-fp8", "linear", Packing(FP8, 32)),
    )
}

MAX_GROUP = 2**20
#: in place of a group's size: one for all inputs, a scale an output channel (AutoGPTQ's group_size -1)
CHANNEL = "channel"

#: what may stand behind the group of those that take one
GROUP_OPTIONS = {
    "int4": ("sym",),
    **dict.fromkeys(("gptq", *GPTQ), ("sym",)),
    "awq": ("sym",),
    "int8": (),
    "w4a16": ("asym", "order", "experts"),
    "w8a16": ("asym", "order", "experts"),
}


#: components that quantisers leave wide, or store in another format
APART = ("attention", "recurrent", "mlp", "experts", "shared_experts", "router", "embedding", "output", "mtp")


def weight_format(name: str) -> Format | None:
    """The format of this name; some with a group: int4:32, gptq:64:sym, gptq3:channel, w4a16:32:asym, mlx4:32;
    exl3:4.0; with others for some components: nvfp4,attention=bf16. None: not one of these."""
    first, *apart = name.lower().split(",")
    form = _one_format(first)
    if form is None or not apart:
        return form
    found = tuple(_apart(text) for text in apart)
    return replace(form, name=",".join([form.name, *(f"{part}={own.name}" for part, own in found)]), apart=found)


def _apart(text: str) -> tuple[str, Format]:
    component, equals, name = text.partition("=")
    form = _one_format(name) if equals else None
    if form is None or component not in APART:
        raise InputError(
            f"--dtype: {printable(text)!r} is no format of a component",
            f"write attention=bf16; {', '.join(APART)}",
            "usage",
        )
    return component, form


def _one_format(name: str) -> Format | None:
    word, *options = name.lower().split(":")
    word = SPELLINGS.get(word, word)
    if word in ("exl2", "exl3"):
        return bits_per_weight(name, ":".join(options))
    if not options:
        return FORMATS.get(word)
    group, *more = options
    widths = {f"mlx{bits}": bits for bits in AFFINE}
    if word in widths and group in map(str, MLX_GROUPS) and not more:
        return affine(widths[word], int(group), name.lower())
    if word not in GROUP_OPTIONS:
        raise InputError(
            f"{printable(name)!r}: only {', '.join(GROUP_OPTIONS)} and mlx take a group, mlx of 32 to 128", kind="usage"
        )
    known = GROUP_OPTIONS[word]
    by_channel = group == CHANNEL and word != "int8"  # which is so by itself
    sized = is_count(group) and 1 <= int(group) <= MAX_GROUP
    if not (sized or by_channel) or not set(more) <= set(known):
        example = "".join(f" or {word}:128:{option}" for option in known[:1])
        whole = "" if word == "int8" else f", {word}:{CHANNEL}"
        raise InputError(f"{printable(name)!r} is not a grouped type", f"write {word}:128{example}{whole}", "usage")
    return _grouped(word, name.lower(), None if by_channel else int(group), more)


def _grouped(word: str, name: str, group: int | None, options: Collection[str]) -> Format:
    match word:
        case "w4a16" | "w8a16":
            return compressed(name, int(word[1]), group, options)
        case "int8":
            return Format(name, "linear", Packing(INT8, 16, group))
    return grouped_int(name, group, "sym" in options, word.startswith("gptq"), GPTQ.get(word, 4))
