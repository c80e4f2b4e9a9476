"""Every preset: it loads, it says where it comes from, and its counts are those of an independent source."""

from __future__ import annotations

import json
import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from gptcalc.analysis.params import Params, params
from gptcalc.document import ABOUT, build
from gptcalc.sources import preset
from tests import TESTS

NAMES = preset.names()
DATA = TESTS / "data"

#: name -> total, active, and who counted (`from`)
TOTALS: dict[str, dict[str, Any]] = json.loads((DATA / "preset_totals.json").read_text(encoding="utf-8"))

HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")


@cache
def document(name: str) -> dict[str, Any]:
    return preset.named(name)


@cache
def counted(name: str) -> Params:
    return params(build(document(name)))


def test_there_are_presets() -> None:
    assert len(NAMES) >= 220


@pytest.mark.parametrize("name", NAMES)
def test_a_preset_says_what_it_is(name: str) -> None:
    about = document(name)
    assert about["name"] == name == name.lower()
    assert about["family"]
    assert about["source"]
    assert re.fullmatch(r"(19|20)\d\d-(0[1-9]|1[0-2])", about["released"])
    assert all(HUB_ID.fullmatch(alias) for alias in about.get("aliases", []))
    for key in ABOUT & set(about) - {"aliases", "published"}:
        assert isinstance(about[key], str)
    assert set(about.get("published", {})) in (set(), {"total", "source"})
    assert counted(name).total > 0


def test_no_two_presets_share_an_alias() -> None:
    aliases = Counter(alias for name in NAMES for alias in document(name).get("aliases", []))
    assert [alias for alias, times in aliases.items() if times > 1] == []


@pytest.mark.parametrize("name", [name for name in NAMES if "published" in document(name)])
def test_a_published_total_is_met_to_the_unit(name: str) -> None:
    published = document(name)["published"]
    assert published["source"]
    assert counted(name).total == published["total"]


@pytest.mark.parametrize("name", sorted(TOTALS))
def test_counts_equal_an_independent_count(name: str) -> None:
    truth = TOTALS[name]
    assert truth["from"]
    assert counted(name).total == truth["total"]
    if "active" in truth:
        assert counted(name).active == truth["active"]


def test_every_preset_has_an_independent_count() -> None:
    assert sorted(TOTALS) == NAMES


def test_presets_are_written_plainly() -> None:
    """A file in the style of the others: no tabs, no line too long to read, one newline at the end."""
    for name in NAMES:
        text = (Path(preset.folder()) / f"{name}.yaml").read_text(encoding="utf-8")
        assert "\t" not in text
        assert max(map(len, text.splitlines())) <= 120
        assert text.endswith("\n")
        assert not text.endswith("\n\n")
