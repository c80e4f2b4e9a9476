"""GGUF files: the binary format, and the architectures that llama.cpp's metadata describe."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gptcalc.errors import InputError, file_name, printable
from gptcalc.sources.gguf.metadata import Facts
from gptcalc.sources.gguf.model import document, refuse
from gptcalc.sources.gguf.reader import read


def described(path: Path, name: str) -> dict[str, Any]:
    """The document of the model in a GGUF file. InputError where its architecture is not known (kind unsupported)."""
    files = read(path)
    metadata = files[0].metadata
    try:
        if metadata.get("general.type") == "adapter":
            base = metadata.get("general.base_model.0.name")
            hint = f"its base model is {printable(base)}" if isinstance(base, str) else "name its base model"
            raise InputError("this is a LoRA adapter, without an architecture of its own", hint, "unsupported")
        refuse(metadata.get("general.architecture"))
        if not any(file.tensors for file in files):
            raise InputError("it holds a vocabulary alone: no weights")
        return document(Facts(metadata, {tensor.name: tensor for file in files for tensor in file.tensors}), name)
    except InputError as error:
        raise error.within(file_name(path)) from None
