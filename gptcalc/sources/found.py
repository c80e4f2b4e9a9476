"""What a reference leads to: the document of a preset, a file, a folder, a hub id or standard input."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, TextIO

from msgspec import Struct
from msgspec.structs import replace

from gptcalc.architecture import Architecture
from gptcalc.document import ABOUT, build
from gptcalc.errors import InputError, file_name, printable
from gptcalc.sources.paths import (
    CHECKPOINT_SUFFIXES,
    CONFIG,
    FILE_SUFFIXES,
    WHOLE,
    YAML_SUFFIXES,
    Reference,
    config_beside,
    files_in,
    is_checkpoint,
    is_path,
    name_of,
)

if TYPE_CHECKING:
    from pathlib import Path

    from gptcalc.sources.hub import Repository

#: what older checkpoints say of their packing in a file beside the config -> the method, where that file doesn't say it
QUANTIZATION: dict[str, str] = {"hf_quant_config.json": "", "quantize_config.json": "gptq", "quant_config.json": "awq"}

#: the model_type of a model whose tensors are named as llama.cpp names them
GGUF = "gguf"


class Model(Struct, frozen=True):
    """An architecture, the document that describes it, and where that came from."""

    architecture: Architecture
    written: dict[str, Any]
    origin: str  # a preset's name, or a path
    notes: tuple[str, ...] = ()  # what a person should know: ignored fields, a text model inside a multimodal one
    model_type: str | None = None  # Hugging Face's, which decides the names of tensors
    tensors: str | None = None  # the checkpoint beside the config
    whole: bool = False  # whether what is written spells out defaults, as what is read off a config.json does

    def __repr__(self) -> str:
        a = self.architecture
        return f"Model({a.name!r}, d={a.d}, v={a.v}, c={a.c}, n_layers={a.n_layers}, …)"

    @property
    def document(self) -> dict[str, Any]:
        """What a preset file would say. Of a config, this is worked out anew: ask once, and only to show it."""
        return short(self.written, self.whole)


class Source(Struct, frozen=True):
    """A document and where it came from; built already, where that was needed to read it."""

    written: dict[str, Any]
    origin: str
    notes: tuple[str, ...] = ()
    model_type: str | None = None
    tensors: str | None = None
    whole: bool = False
    built: Architecture | None = None
    unsaid: bool = False  # in which form its weights are published

    def model(self, architecture: Architecture, written: dict[str, Any], whole: bool | None = None) -> Model:
        """What was found, built; of a document that was edited, what is written is that and no default."""
        whole = self.whole if whole is None else whole
        return Model(architecture, written, self.origin, self.notes, self.model_type, self.tensors, whole)


def short(document: dict[str, Any], whole: bool) -> dict[str, Any]:
    """The shortest document that says the same as a `whole` one, which spells out defaults; another as it is."""
    if not whole:
        return document
    from gptcalc.sources.huggingface.minimal import minimal

    about = {key: value for key, value in document.items() if key in ABOUT}
    return {**about, **minimal({key: value for key, value in document.items() if key not in ABOUT})}


def built_from(document: dict[str, Any], origin: str) -> Architecture:
    """What a document describes. InputError within the file that it came from."""
    try:
        return build(document)
    except InputError as error:
        raise error.within(file_name(origin)) from None


def find(reference: Reference) -> Source:
    """The document that a reference names."""
    if isinstance(reference, Mapping):
        return _from_document(dict(reference), "model")
    if not isinstance(reference, str):
        return _from_path(os.fspath(reference))
    if reference == "-":
        return _standard_input()
    if is_path(reference):
        if os.path.lexists(reference):
            return _from_path(reference)
        return _from_alias(reference)
    return _preset(reference)


def _preset(name: str) -> Source:
    from gptcalc.sources import preset

    return Source({"name": name, **preset.named(name)}, name)


UNFOUND = ("unknown", "hub")  # kinds of errors about ids that may be mistyped


#: a page names the branch that an id alone means
DEFAULT_BRANCH = (None, "main")


def _from_alias(reference: str) -> Source:
    """The preset that lists a hub id; else the hub itself."""
    from gptcalc.sources import hub, preset

    gguf = hub.gguf_file(reference)
    if gguf is not None and not reference.startswith((".", "/", "~")):
        return _from_gguf(hub.gguf_header(gguf), reference)
    repo = hub.repository(reference)
    if repo is not None and repo.revision in DEFAULT_BRANCH and (name := preset.by_alias(repo.id)) is not None:
        return _preset(name)
    shown = printable(reference, 200)
    named = reference.endswith(FILE_SUFFIXES) and "://" not in reference
    if repo is None or named or reference.startswith((".", "/", "~")):
        raise InputError(f"{shown}: {_why_not_there(reference)}", kind="file")
    try:
        return _from_hub(repo)
    except InputError as error:
        near = preset.same_model(repo.id.rsplit("/", 1)[1].lower()) if error.kind in UNFOUND else None
        raise InputError(error.message, "; ".join(filter(None, (near, error.hint))), error.kind) from None


def _why_not_there(path: str) -> str:
    """That a file is missing, or that its folder may not be looked into."""
    try:
        os.lstat(path)
    except PermissionError as error:
        return (error.strerror or str(error)).lower()
    except (OSError, ValueError):
        pass
    return "no such file or folder"


def _from_hub(repo: Repository) -> Source:
    from gptcalc.sources import hub

    try:
        config = hub.config(repo)
    except hub.WithoutConfig as error:
        if error.only is None:
            raise
        return _from_gguf(hub.gguf_header(error.only), f"{repo.name}/{error.only.name}")
    origin = f"{repo.name}/{CONFIG}"
    found = _from_config_file(config.path, origin, lambda: hub.beside(config, QUANTIZATION))
    name = repo.id.rsplit("/", 1)[1]
    built = None if found.built is None else replace(found.built, name=name)
    written = {**found.written, "name": name}
    return replace(found, written=written, built=built, origin=repo.name, tensors=hub.tensors(config))


def _from_path(path: str) -> Source:
    if os.path.isdir(path):
        return _from_folder(path)
    if path.endswith(CHECKPOINT_SUFFIXES):
        return _from_checkpoint(path)
    folder, name = os.path.split(path)
    if name == CONFIG and os.path.isfile(path):
        return _from_config_of(folder, files_in(folder or "."))
    return _from_text_file(path)


def _from_folder(path: str) -> Source:
    files = files_in(path)
    if CONFIG in files:
        found = _from_config_of(path, files)
        if not any(name in files for name in WHOLE):
            return found
        return _as_stored(replace(found, tensors=path), path)
    if "adapter_config.json" in files:
        adapter = os.path.join(path, "adapter_config.json")
        _from_text_file(adapter)  # says whose adapter it is
        raise _adapter(adapter, {})
    if is_checkpoint(path):
        return _from_checkpoint(path)
    raise InputError(f"no config.json, *.safetensors or *.gguf in {file_name(path)}", kind="file")


def _from_config_of(folder: str, files: Collection[str]) -> Source:
    """A folder's config.json."""
    config = os.path.join(folder, CONFIG)
    beside = next((name for name in QUANTIZATION if name in files), None)
    return _from_config_file(config, config, lambda: os.path.join(folder, beside) if beside is not None else None)


def _from_config_file(path: str, origin: str, find: Callable[[], str | None]) -> Source:
    """A config.json; how weights are packed, older checkpoints of ModelOpt, AutoGPTQ and AutoAWQ say in a file beside
    it, which is found where it is needed."""
    from gptcalc.sources import text
    from gptcalc.sources.huggingface.quantization import is_quantized

    def read(path: str, name: str) -> dict[str, Any]:
        content = text.read(path)
        try:
            return text.mapping(text.parse_json(content))
        except InputError as error:
            raise error.within(file_name(name)) from None

    document = read(path, origin)
    if "model_type" in document and not is_quantized(document):
        beside = find()
        if beside is not None:
            file = os.path.basename(beside)
            said = read(beside, os.path.join(os.path.dirname(origin), file))
            method = {"quant_method": QUANTIZATION[file]} if QUANTIZATION[file] else {}
            document["quantization_config"] = {**method, **said}
    return _from_document(document, origin)


def _as_stored(found: Source, folder: str) -> Source:
    """With the type that a checkpoint's header gives the weights, where the config beside it says none."""
    if not found.unsaid or found.built is None:
        return found
    from gptcalc.sources.checkpoint import usual_type

    form = usual_type(folder)
    if form is None:
        return found
    own = {"weights": form}
    built = replace(found.built, storage=replace(found.built.storage, **own))
    written = {**found.written, "storage": {**found.written.get("storage", {}), **own}}
    note = f"weights are {form}, as the checkpoint's header says; the config says nothing of it"
    return replace(found, built=built, written=written, notes=(*found.notes, note))


def _from_text_file(path: str) -> Source:
    from gptcalc.sources import text

    return _from_text(text.read(path), path)


def _from_checkpoint(path: str) -> Source:
    if os.path.isdir(path) or path.endswith(".gguf"):
        from gptcalc.sources.checkpoint import found_at

        file = found_at(path)
        if file.suffix == ".gguf":
            return _from_gguf(file, path)
    config = config_beside(path)
    if config is not None:
        return replace(_from_text_file(config), tensors=path)
    raise InputError(
        f"{file_name(path)}: a checkpoint's header holds tensors, not an architecture",
        "put its config.json beside it and name the folder",
        "unsupported",
    )


def _read_stdin(stream: TextIO | None, limit: int) -> bytes:
    if stream is None:
        raise InputError("it is closed", kind="file")
    try:
        return stream.buffer.read(limit)
    except OSError as error:
        raise InputError((error.strerror or str(error)).lower(), kind="file") from None


def _from_gguf(file: Path, reference: str) -> Source:
    """The model in a GGUF file, found by this reference."""
    from gptcalc.sources.gguf import described

    return Source(described(file, name_of(reference)), reference, (), GGUF, str(file), whole=True)


def _standard_input() -> Source:
    import sys

    from gptcalc.sources import text

    try:
        data = _read_stdin(sys.stdin, text.MAX_BYTES + 1)
        if len(data) > text.MAX_BYTES:
            raise InputError(f"more than {text.MAX_BYTES:,} bytes", kind="format")
        content = text.decode(data)
    except InputError as error:
        raise error.within("standard input") from None
    return _from_text(content, "standard input")


def _from_text(content: str, origin: str) -> Source:
    """A preset in YAML or JSON, or a config.json; which of them, its keys say."""
    from gptcalc.sources import text

    yaml = origin.endswith(YAML_SUFFIXES)
    if not yaml and not origin.endswith(".json"):
        yaml = not content.lstrip().startswith(("{", "["))
    try:
        document = text.mapping(text.parse_yaml(content) if yaml else text.parse_json(content))
    except InputError as error:
        raise error.within(file_name(origin)) from None
    return _from_document(document, origin, yaml)


def _from_document(document: dict[str, Any], origin: str, yaml: bool = False) -> Source:
    if "model_type" not in document and ("d" in document or yaml):
        document.setdefault("name", name_of(origin))
        return Source(document, origin)
    if "peft_type" in document and "model_type" not in document:  # which merged models keep beside their own fields
        raise _adapter(origin, document)
    return _from_config(document, origin)


def _from_config(config: dict[str, Any], origin: str) -> Source:
    from gptcalc.sources import huggingface
    from gptcalc.sources.huggingface.quantization import by_name, stored, with_exceptions

    try:
        reading = huggingface.read(config)
    except InputError as error:
        raise error.within(file_name(origin)) from None
    name = name_of(origin)
    said = stored(config)
    form = by_name(said.among(reading.architecture), name)
    own = {
        "weights": form.weights,
        "mixed": form.mixed,
        "mixed_mtp": form.mixed_mtp,
        "fp8_cache": form.fp8_cache,
        "nvfp4_cache": form.nvfp4_cache,
    }
    built = reading.architecture
    built = replace(built, name=name, storage=replace(built.storage, **own))
    if form.mixed and said.weights is not None and reading.model_type is not None:
        try:
            built = with_exceptions(built, config, said, reading.model_type)
        except InputError as error:
            raise error.within(file_name(origin)) from None
    whole = {**reading.whole, "storage": {**reading.whole.get("storage", {}), **own}}
    notes = (*reading.notes, *([form.note] if form.note else []))
    return Source({"name": name, **whole}, origin, notes, reading.model_type, None, True, built, not form.said)


def _adapter(path: str, config: dict[str, Any]) -> InputError:
    base = config.get("base_model_name_or_path")
    hint = f"its base model is {printable(base)}" if isinstance(base, str) else "name its base model"
    problem = "this is a LoRA adapter, without an architecture of its own"
    return InputError(f"{file_name(path)}: {problem}", hint, "unsupported")
