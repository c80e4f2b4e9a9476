"""Presets: a name is a file. Reading them, finding one by its hub id, and writing a document as a preset file."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from gptcalc.document import ABOUT, ABOUT_ORDER, KINDS, Document
from gptcalc.errors import InputError, did_you_mean, file_name, printable
from gptcalc.sources import text

SUFFIX = ".yaml"

#: the order in which a preset file says things; keys not named here (further sections) come behind
CORE = [key for key in Document.__struct_fields__ if key not in ABOUT]
BEFORE_SECTIONS = CORE.index("layers") + 1
#: the order of a file's keys: what is known about the model, its sizes and switches, its sections, what comes on top
ORDER = (*ABOUT_ORDER, *CORE[:BEFORE_SECTIONS], *(kind for kind in KINDS if kind not in CORE))
LAST = tuple(CORE[BEFORE_SECTIONS:])
WIDTH = 120


def folder() -> str:
    """Where the presets are: in the package when installed from a wheel, beside it in a checkout."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    packed = os.path.join(package, "presets")
    return packed if os.path.isdir(packed) else os.path.join(os.path.dirname(package), "presets")


#: folders of one's own presets, as PATH has folders; an empty one: none
VARIABLE = "GPTCALC_PRESETS"


def own_folders() -> list[str]:
    """Where one's own presets are: as GPTCALC_PRESETS says, else in the platform's folder for a user's data."""
    said = os.environ.get(VARIABLE)
    if said is not None:
        return [os.path.expanduser(place) for place in said.split(os.pathsep) if place]
    home = os.path.expanduser("~")
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or os.path.join(home, "AppData", "Local")
    elif sys.platform == "darwin":
        base = os.path.join(home, "Library", "Application Support")
    else:  # the XDG base directory specification
        base = os.environ.get("XDG_DATA_HOME") or os.path.join(home, ".local", "share")
    return [os.path.join(base, "gptcalc", "presets")]


def names(directory: str | None = None) -> list[str]:
    """Every preset's name, one's own among them, sorted; or those of one folder."""
    if directory is not None:
        return sorted(_listed(directory))
    mine = {name for place in own_folders() for name in _listed(place) if is_name(name) and own(name) is not None}
    return sorted(mine.union(_listed(folder())))


def _listed(place: str) -> list[str]:
    return [file.removesuffix(SUFFIX) for file in _files(place) if file.endswith(SUFFIX)]


def is_name(word: str) -> bool:
    """Whether a preset may be called so: letters, digits, dots and dashes, no dot in front."""
    return word[:1] not in ("", ".") and all(ch.isalnum() or ch in "._-" for ch in word)


def _files(place: str) -> list[str]:
    try:
        return os.listdir(place)
    except OSError:
        return []


def path(name: str) -> str | None:
    """The file of a preset; one's own never takes the place of one that comes with the program. No other file is looked
    at, so a start costs the same with any number of presets."""
    if not is_name(name):
        return None
    file = os.path.join(folder(), name + SUFFIX)
    return file if os.path.isfile(file) else own(name)


def own(name: str) -> str | None:
    """The file of a preset of one's own."""
    files = (os.path.join(place, name + SUFFIX) for place in own_folders())
    return next((file for file in files if os.path.isfile(file)), None)


def read(file: str) -> dict[str, Any]:
    """The document in a preset file."""
    return parse(text.read(file), file)


def parse(content: str, origin: str) -> dict[str, Any]:
    """The document in a preset file's text."""
    try:
        return text.mapping(text.parse_yaml(content))
    except InputError as error:
        raise error.within(file_name(origin)) from None


def named(name: str) -> dict[str, Any]:
    """The document of the preset of this name."""
    file = path(name) or path(name.lower()) or _by_repository(name)
    if file is None:
        raise unknown(name)
    return read(file)


def _by_repository(name: str) -> str | None:
    """The file of the one preset that lists a hub id ending in this name, as people call models: bert-base-uncased."""
    end = f"/{name.lower()}"
    files = [file for one in names() if (file := path(one)) and end in text.read(file).lower()]
    found = [file for file in files if any(alias.lower().endswith(end) for alias in aliases(read(file)))]
    return found[0] if len(found) == 1 else None


def unknown(name: str) -> InputError:
    hint = same_model(name.lower()) or "gptcalc presets lists them"
    if os.path.exists(name):
        hint = f"for the file or folder of that name write ./{printable(name)}"
    return InputError(f"no preset {printable(name)!r}", hint, "unknown")


def same_model(name: str) -> str | None:
    """A hint naming presets whose names go on where this one ends, or one with the same numbers and a slip of the pen.

    Another size or another generation would be another model: better none than that.
    """
    known = names()
    longer = [other for other in known if other.startswith(f"{name}-")]
    if longer:
        return "did you mean " + " or ".join(longer[:3]) + "?"
    numbers = re.findall(NUMBERS, name)
    return did_you_mean(name, [one for one in known if one[0] == name[:1] and re.findall(NUMBERS, one) == numbers])


#: a model's generation and sizes
NUMBERS = r"[0-9]+(?:\.[0-9]+)?"


def by_alias(alias: str) -> str | None:
    """The name of the preset that lists this hub id, in whatever case, or None.

    Most are named as their hub id ends; only where that fails is every file searched, as text.
    """
    likely = alias.rsplit("/", 1)[-1].lower()
    for name in (likely, *(name for name in names() if name != likely)):
        file = path(name)
        if file is None or alias.lower() not in text.read(file).lower():
            continue
        if alias.lower() in (listed.lower() for listed in aliases(read(file))):
            return name
    return None


def aliases(document: Mapping[str, Any]) -> list[str]:
    """The hub ids that a document lists."""
    listed = document.get("aliases", [])
    return [alias for alias in listed if isinstance(alias, str)] if isinstance(listed, list) else []


# --- writing ----------------------------------------------------------------------------------------------------------


def dump(document: Mapping[str, Any]) -> str:
    """A document as a preset file: one key a line in a fixed order, a section on one line where it fits."""
    rank = {key: position for position, key in enumerate(ORDER)}
    rank |= {key: len(ORDER) + 1 + position for position, key in enumerate(LAST)}
    keys = sorted(document, key=lambda key: rank.get(key, len(ORDER)))
    return "".join(_entry(key, document[key]) for key in keys)


def _entry(key: str, value: Any) -> str:
    line = f"{_scalar(key)}: {_flow(value) if isinstance(value, (Mapping, list, tuple)) else _scalar(value)}"
    if len(line) <= WIDTH or not value:
        return line + "\n"
    if isinstance(value, Mapping):
        return f"{_scalar(key)}:\n" + "".join(f"  {_scalar(k)}: {_flow(v)}\n" for k, v in value.items())
    if isinstance(value, (list, tuple)):
        return f"{_scalar(key)}:\n" + "".join(f"  - {_flow(item)}\n" for item in value)
    return line + "\n"


def _flow(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_scalar(k, inner=True)}: {_flow(v)}" for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_flow, value)) + "]"
    return _scalar(value, inner=True)


def _scalar(value: Any, inner: bool = False) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, float) and value.is_integer() and abs(value) >= 1e6:
        return f"{value:.0f}.0" if abs(value) < 1e16 else repr(value)
    if not isinstance(value, str):
        return repr(value).replace("e-0", "e-")
    return value if _plain(value, inner) else _quoted(value)


def _plain(value: str, inner: bool) -> bool:
    """Whether YAML reads the bare text back as this text."""
    try:
        if text.scalar(value) != value:
            return False
    except InputError:
        return False
    special = ",[]{}" if inner else ""
    return (
        value.isprintable()
        and value == value.strip()
        and (value[0].isalnum() or value[0] in "(_/.")
        and not any(mark in value for mark in (": ", " #", *special))
        and not value.endswith(":")
    )


def _quoted(value: str) -> str:
    """Double-quoted, with YAML's escapes for what is not printable."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(ch if ch.isprintable() else _escape(ch) for ch in escaped) + '"'


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


# --- editing ----------------------------------------------------------------------------------------------------------


def edited(document: Mapping[str, Any], settings: Iterable[str]) -> dict[str, Any]:
    """A copy of the document with each KEY=VALUE laid over it; KEY may be dotted, VALUE is YAML."""
    result: dict[str, Any] = _copy(document)
    for setting in settings:
        key, equals, value = setting.partition("=")
        words = key.strip().split(".")
        if not equals or not all(words):
            raise InputError(f"--set {printable(setting)!r} is not KEY=VALUE", "write --set n_kv_heads=8", "usage")
        if len(words) > text.MAX_DEPTH:
            raise InputError(f"--set {printable(key)}: nested deeper than {text.MAX_DEPTH}", kind="usage")
        try:
            _put(result, _own(words), _value(value.strip()))
        except InputError as error:
            raise error.within(f"--set {printable(key)}") from None
    return result


#: what a config.json calls the keys of a preset (README, Letters and conventions)
ELSEWHERE = {
    "hidden_size": "d", "n_embd": "d", "d_model": "d", "dim": "d",
    "vocab_size": "v",
    "max_position_embeddings": "c", "n_positions": "c", "n_ctx": "c", "max_model_len": "c",
    "num_attention_heads": "n_heads", "num_key_value_heads": "n_kv_heads", "head_dim": "d_head", "v_head_dim": "d_v",
    "num_hidden_layers": "n_layers", "n_layer": "n_layers", "num_layers": "n_layers",
    "intermediate_size": "d_ff", "n_inner": "d_ff", "ffn_dim": "d_ff",
    "rms_norm_eps": "norm.eps", "tie_word_embeddings": "tying",
    "num_experts": "moe.n_experts", "num_local_experts": "moe.n_experts", "n_routed_experts": "moe.n_experts",
    "num_experts_per_tok": "moe.top_k", "moe_intermediate_size": "moe.d_ff",
    "q_lora_rank": "mla.q_rank", "kv_lora_rank": "mla.kv_rank",
    "sliding_window": "attn.window", "rope_theta": "rope.theta",
}  # fmt: skip


def _own(words: list[str]) -> list[str]:
    """A key as a preset spells it."""
    return ELSEWHERE[words[0]].split(".") if len(words) == 1 and words[0] in ELSEWHERE else words


#: 128K, as --context takes it
COUNTED = NUMBERS + "[kKmM]"


def _value(written: str) -> Any:
    if written[:1] in ("[", "{", '"', "'"):
        return text.parse_yaml(written)
    if re.fullmatch(COUNTED, written):
        from gptcalc import units

        return units.count(written)
    return text.scalar(written)


def _copy(value: Any) -> Any:
    return {key: _copy(item) for key, item in value.items()} if isinstance(value, Mapping) else value


def _put(target: dict[str, Any], words: list[str], value: Any) -> None:
    *sections, last = words
    for word in sections:
        inner = target.setdefault(word, {})
        if not isinstance(inner, dict):
            raise InputError(f"{printable(word)} is {printable(repr(inner))}, not a section with keys of its own")
        target = inner
    target[last] = value
