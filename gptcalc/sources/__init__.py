"""Where an architecture comes from: a preset's name, a file, a folder, a hub id, standard input."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from gptcalc.document import build
from gptcalc.errors import InputError, printable
from gptcalc.sources.found import GGUF, Model, Source, built_from, find, short
from gptcalc.sources.paths import Reference, is_checkpoint, is_path

if TYPE_CHECKING:
    from gptcalc.sources.huggingface.tensors import TensorNames

__all__ = [
    "GGUF",
    "SWITCHES",
    "Model",
    "Reference",
    "is_checkpoint",
    "is_path",
    "load",
    "load_all",
    "load_each",
    "tensor_names",
    "tolerating",
    "varying",
]

#: switches of the command line, for all models that it reads
SWITCHES: ContextVar[tuple[str, ...]] = ContextVar("switches", default=())


def load(
    reference: Reference,
    overrides: Sequence[str] = (),
    *,
    strict: bool = False,
    ignore: Collection[str] = (),
    switches: Sequence[str] = (),
) -> Model:
    """The model that a reference names: its variant by switches such as "gqa:4" (gptcalc.document.variant), with
    KEY=VALUE edits laid over the document.

    Of a config.json, fields that the class of its type doesn't read are ignored, and noted; `strict` refuses them,
    `ignore` names fields that are to be ignored whatever they might change.

    A bare name is always a preset; with a `/` or a file's suffix it is an existing path, else a hub id that a preset
    lists; `-` is standard input. A Path is a path, whatever it looks like; a mapping is the keys of a preset or of a
    config.json. Raises InputError naming the file, the key and the mend.
    """
    with tolerating(strict, ignore):
        source = find(reference)
    if switches or SWITCHES.get():
        source = _varied(source, (*SWITCHES.get(), *switches))
    if not overrides:
        return source.model(source.built or built_from(source.written, source.origin), source.written)
    from gptcalc.sources.preset import edited

    document = edited(short(source.written, source.whole), overrides)
    try:
        architecture = build(document)
    except InputError as error:
        built_from(source.written, source.origin)  # where the file itself is at fault, this says so
        raise error.within("with --set " + " --set ".join(printable(setting) for setting in overrides)) from None
    return source.model(architecture, document, whole=False)


def _varied(source: Source, switches: Sequence[str]) -> Source:
    """The variant of what was found; no checkpoint has its tensors."""
    from gptcalc.document.variant import varied

    document = short(source.written, source.whole)
    built_from(document, source.origin)  # where the file itself is at fault, this says so
    return Source(varied(document, switches), source.origin, source.notes)


def load_all(references: Sequence[str], overrides: Sequence[str] = ()) -> list[Model]:
    """Several models. InputError that names all whose names are unknown at once."""
    return load_each((reference, overrides, ()) for reference in references)


def load_each(asked: Iterable[tuple[str, Sequence[str], Sequence[str]]]) -> list[Model]:
    """Several models, each with changes and switches of its own; errors as those of load_all."""
    found, unknown = [], []
    for reference, overrides, switches in asked:
        try:
            found.append(load(reference, overrides, switches=switches))
        except InputError as error:
            there = os.path.lexists(reference) if is_path(reference) else error.kind != "unknown"
            if there or error.kind not in ("unknown", "file") or _is_known(reference):
                raise
            unknown.append(error)
    if len(unknown) > 1:
        told = "; ".join(" – ".join(filter(None, (error.message, error.hint))) for error in unknown)
        raise InputError(told, None, "unknown")
    if unknown:
        raise unknown[0]
    return found


def _is_known(name: str) -> bool:
    """Whether there is such a preset, so that what is unknown is something else, such as a key of --set."""
    try:
        find(name)
    except InputError:
        return False
    return True


def tensor_names(model: Model, kind: str | None = None) -> TensorNames:
    """How checkpoints name and lay out a model's weights, or those of `kind` gguf. InputError where none are known."""
    from gptcalc.sources.huggingface.tensors import TensorNames

    if GGUF in (model.model_type, kind):
        from gptcalc.sources.gguf.names import NAMES

        return TensorNames(NAMES, model.architecture)
    from gptcalc.sources.huggingface import tensor_names

    return tensor_names(model.model_type or "", model.architecture)


@contextmanager
def varying(switches: Sequence[str]) -> Iterator[None]:
    """All models that are read inside are variants."""
    token = SWITCHES.set((*SWITCHES.get(), *switches))
    try:
        yield
    finally:
        SWITCHES.reset(token)


@contextmanager
def tolerating(strict: bool, ignore: Collection[str]) -> Iterator[None]:
    """How unread fields of config.json files are taken, for all that are read inside."""
    if not strict and not ignore:
        yield
        return
    from gptcalc.sources.huggingface.unread import TOLERANCE, Tolerance

    token = TOLERANCE.set(Tolerance(strict, frozenset(ignore)))
    try:
        yield
    finally:
        TOLERANCE.reset(token)
