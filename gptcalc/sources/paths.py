"""How models are referred to, and what the files of a checkpoint are called."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, TypeAlias

from gptcalc.errors import InputError, file_name, printable

#: what names a model: a text, a path, or its document
Reference: TypeAlias = "str | os.PathLike[str] | Mapping[str, Any]"

YAML_SUFFIXES = (".yaml", ".yml")
CHECKPOINT_SUFFIXES = (".safetensors", ".safetensors.index.json", ".gguf", ".bin", ".bin.index.json")
#: a bare word that ends so is a file; any other bare word is a preset (llama-3.1-8b has a dot too)
FILE_SUFFIXES = (*YAML_SUFFIXES, ".json", *CHECKPOINT_SUFFIXES)
#: what the whole checkpoint of a folder is called
WHOLE = (
    "model.safetensors.index.json",
    "model.safetensors",
    "pytorch_model.bin.index.json",
    "pytorch_model.bin",
)
CONFIG = "config.json"


def is_path(reference: str) -> bool:
    """Whether a reference is written as a path (or a hub id) and not as a preset's name."""
    return "/" in reference or os.sep in reference or reference in (".", "..") or reference.endswith(FILE_SUFFIXES)


def is_checkpoint(path: str) -> bool:
    """Whether a reference is the path of tensors without a config.json that would describe the model."""
    if not is_path(path):
        return False
    if os.path.isdir(path):
        files = files_in(path)
        return CONFIG not in files and any(file.endswith(CHECKPOINT_SUFFIXES) for file in files)
    return path.endswith(".gguf") or (path.endswith(CHECKPOINT_SUFFIXES) and config_beside(path) is None)


def files_in(folder: str) -> list[str]:
    """The names of what is in a folder. InputError where it can't be read."""
    try:
        return os.listdir(folder)
    except OSError as error:
        raise InputError(f"{file_name(folder)}: {(error.strerror or str(error)).lower()}", kind="file") from None


def config_beside(path: str) -> str | None:
    """The config.json beside a file that is the whole checkpoint of its folder; a shard alone has none."""
    if os.path.basename(path) not in WHOLE:
        return None
    config = os.path.join(os.path.dirname(path), CONFIG)
    return config if os.path.isfile(config) else None


def name_of(origin: str) -> str:
    """A name for a model whose file gives none: its folder's for a config.json, else the file's."""
    stem = os.path.basename(origin)
    if stem == CONFIG:
        stem = os.path.basename(os.path.dirname(os.path.abspath(origin)))
    for suffix in FILE_SUFFIXES:
        stem = stem.removesuffix(suffix)
    return printable(stem, 200) or "model"
