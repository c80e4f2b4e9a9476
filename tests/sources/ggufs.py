"""GGUF files for tests, written by llama.cpp's own library: metadata and tensors over data that are one hole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

Shapes = Mapping[str, tuple[int, ...]]


def written(path: Path, architecture: str, metadata: Mapping[str, Any], tensors: Shapes, dtype: str = "BF16") -> Path:
    """A GGUF file of these tensors (shapes as torch has them); vectors are F32, as converters store them."""
    writer = gguf.GGUFWriter(path, architecture)
    for key, value in metadata.items():
        full = key if key.startswith(("general.", "split.", "tokenizer.")) else f"{architecture}.{key}"
        match value:
            case bool():
                writer.add_bool(full, value)
            case int():
                writer.add_uint32(full, value)
            case float():
                writer.add_float32(full, value)
            case str():
                writer.add_string(full, value)
            case _:
                writer.add_array(full, value)
    size = 0
    for name, shape in tensors.items():
        kind = GGMLQuantizationType[dtype if len(shape) > 1 and shape[-1] % 32 == 0 else "F32"]
        block, width = GGML_QUANT_SIZES[kind]
        count = prod(shape) // block * width
        if kind.name == "F32":
            writer.add_tensor_info(name, shape, np.dtype(np.float32), count)
        else:  # the library takes a shape in bytes
            writer.add_tensor_info(name, (*shape[:-1], shape[-1] // block * width), np.dtype(np.uint8), count, kind)
        size += -(-count // 32) * 32
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    writer.close()
    with path.open("r+b") as file:
        file.seek(0, 2)
        file.truncate(-(-file.tell() // 32) * 32 + size)
    return path


def blocks(n: int, tensors: Shapes) -> Iterator[tuple[str, tuple[int, ...]]]:
    for layer in range(n):
        yield from ((f"blk.{layer}.{name}", shape) for name, shape in tensors.items())
