"""Devices by name, from gptcalc/devices.yaml: memory as the driver reports it, bandwidth, peak rates."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from fractions import Fraction
from itertools import takewhile
from typing import Any

from msgspec import Struct

from gptcalc import units
from gptcalc.errors import InputError, printable
from gptcalc.sources import text


class DeviceModel(Struct, frozen=True):
    """One kind of device."""

    name: str
    title: str
    memory: int  # bytes
    bandwidth: int  # bytes a second
    peak: dict[str, int]  # FLOP/s by the type of the operands, dense
    source: str
    memory_source: str
    smi: str | None = None  # the name that the driver's tool prints
    unverified: str | None = None
    link: int | None = None  # bytes a second to its peers, both directions together
    link_source: str | None = None  # where that isn't the source
    visible: int = 0  # what of the memory a program sees, where that was measured; else all of it


class Asked(Struct, frozen=True):
    """Devices as they are asked for: 4xa100-80gb is four of a kind. number None: not said."""

    model: DeviceModel
    number: int | None


def path() -> str:
    return os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "devices.yaml")


def _read(only: str = "") -> dict[str, Mapping[str, Any]]:
    """Every device's entry by its full name; one with several sizes of memory stands there once for each.

    `only`: no more than the entry that is called so, where the file has one.
    """
    content = text.read(path())
    start = content.find(f"\n{only}:\n") + 1 if only else 0
    if start:
        first, *behind = content[start:].split("\n")
        content = "\n".join([first, *takewhile(lambda line: not line[:1].strip(), behind)])
    found: dict[str, Mapping[str, Any]] = {}
    for name, entry in text.mapping(text.parse_yaml(content)).items():
        sizes = entry.get("sizes")
        if sizes is None:
            found[name] = entry
            continue
        for size, memory in sizes.items():
            title = f"{entry['title']} {size.removesuffix('gb')} GB (unified memory)"
            found[f"{name}-{size}"] = {**entry, "memory": memory, "title": title}
    return found


def names() -> list[str]:
    """Every device's name."""
    return list(_read())


def models() -> list[DeviceModel]:
    """Every device, as the file lists them."""
    return [_model(name, entry) for name, entry in _read().items()]


COUNTED = r"([0-9]{1,6})\s*[x×*]\s*(.+)"


def asked(word: str) -> Asked:
    """What --device says: a name, how the driver's tool prints it, or so many of them (4xa100-80gb)."""
    word = word.strip()
    counted = re.fullmatch(COUNTED, word.lower()) if word[:1].isdecimal() else None
    if counted is None:
        return Asked(device(word), None)
    if int(counted[1]) < 1:
        raise InputError(f"--device: {printable(word)!r} is no device at all", "write 4xa100-80gb", "usage")
    return Asked(device(counted[2]), int(counted[1]))


def device(name: str) -> DeviceModel:
    """The device of this name, in any case; InputError where there is none, or where it names several."""
    word = _plain(name)
    known = _read(word)
    if word in known:
        return _model(word, known[word])
    spelled = [key for key, entry in known.items() if any(_spells(word, smi) for smi in _printed(entry))]
    spelled = spelled or [key for key in known if key.replace("-", "") == word.replace("-", "")]  # rtx4090
    if len(spelled) == 1:
        return _model(spelled[0], known[spelled[0]])
    raise _no_device(name, spelled or [key for key in known if _names(word, key)], known)


def _spells(word: str, smi: str) -> bool:
    """Whether a word is what the driver's tool prints, with the maker and the line or without."""
    return _bare(word) == _bare(_plain(smi))


def _names(word: str, key: str) -> bool:
    """Whether a word is a device's name but for its beginning, its form or its size: h100, m4-max, 4090, mi300."""
    begins, _, behind = f"-{key}".partition(f"-{word}")
    return len(word) > 2 and begins + behind != f"-{key}" and not behind[:1].isdigit()


def _no_device(name: str, kinds: list[str], known: Iterable[str]) -> InputError:
    """Which one is meant is asked, never guessed: another generation would be another answer."""
    if len(kinds) == 1:
        return InputError(f"--device: no device {printable(name)!r}", f"did you mean {kinds[0]}?", "usage")
    if kinds:
        return InputError(
            f"--device: {printable(name)!r} is sold in several forms", "say which: " + ", ".join(kinds), "usage"
        )
    word = _plain(name)
    swapped = [key for key in known if sorted(key) == sorted(word)]  # two characters the wrong way round
    begins = re.match(r"\d+", word)
    if begins and word[begins.end() :] in known:  # so many of them
        swapped = [f"{begins[0]}x{word[begins.end() :]}"]
    longer = [key for key in known if word.startswith(f"{key}-")]  # h200-sxm: there is one form of it
    if swapped or longer:
        near = (swapped or longer)[0]
        return InputError(f"--device: no device {printable(name)!r}", f"did you mean {near}?", "usage")
    same = _family(word, known)
    hint = "there are " + ", ".join(same) if same else "gptcalc devices lists them all"
    return InputError(f"--device: no device {printable(name)!r}", hint, "usage")


def _family(word: str, known: Iterable[str]) -> list[str]:
    """Names that begin with the same word where that isn't a model number: rtx-4099 is of the rtx cards."""
    first = word.split("-")[0]
    return [key for key in known if key.split("-")[0] == first] if first.isalpha() and len(first) > 1 else []


def _plain(name: str) -> str:
    """Lower case, words joined by hyphens."""
    return "-".join(name.lower().replace("_", " ").replace("-", " ").split())


def _printed(entry: Mapping[str, Any]) -> list[str]:
    """The names that the driver's tool prints: one, or several for the same device."""
    smi = entry.get("smi")
    return smi if isinstance(smi, list) else [] if smi is None else [smi]


def _bare(smi: str) -> str:
    """A driver's name without the maker and the line."""
    return re.sub(r"^((nvidia|amd|geforce|instinct|tesla)-)+", "", smi)


def _model(name: str, entry: Mapping[str, Any]) -> DeviceModel:
    memory = units.size(entry["memory"])
    return DeviceModel(
        name=name,
        title=entry["title"],
        memory=memory,
        visible=units.size(entry["visible"]) if "visible" in entry else memory,
        bandwidth=units.size(entry["bandwidth"]),
        link=units.size(entry["link"]) if "link" in entry else None,
        link_source=entry.get("link_source"),
        peak={kind: int(Fraction(str(rate)) * 10**12) for kind, rate in entry["peak"].items()},
        source=entry["source"],
        memory_source=entry["memory_source"],
        smi=next(iter(_printed(entry)), None),
        unverified=entry.get("unverified"),
    )
