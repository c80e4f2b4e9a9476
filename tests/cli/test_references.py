"""References are read off the declarations: every key, every column, every type, each with what it means."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import fields

from gptcalc.architecture import Modules
from gptcalc.cli import names
from gptcalc.cli.results import result
from gptcalc.document import build
from gptcalc.document.fields import declared, keys_of
from gptcalc.document.keys import KINDS, Document, EncoderKeys
from gptcalc.document.meanings import meanings, summary
from gptcalc.document.schema import UNWRITTEN, schema
from gptcalc.dtypes import dtype, weight_format
from gptcalc.errors import InputError
from gptcalc.report.figures import FIGURES
from gptcalc.sources import preset
from gptcalc.sources.huggingface.families import READERS
from tests.conftest import Command
from tests.schemas import problems

SCHEMA = schema()


def structs() -> Iterator[type[Struct]]:
    """Every struct that a preset file's keys stand for."""
    seen: set[type[Struct]] = set()
    left: list[type[Struct]] = [Document, EncoderKeys, *KINDS.values()]
    while left:
        struct = left.pop()
        if struct not in seen:
            seen.add(struct)
            left += [option for field in declared(struct) for option in field.structs]
            yield struct


# --- the schema of preset files ---------------------------------------------------------------------------------------


def test_every_preset_is_as_the_schema_says() -> None:
    wrong = {name: found for name in preset.names() if (found := list(problems(preset.named(name), SCHEMA, SCHEMA)))}
    assert not wrong


LLAMA: dict[str, Any] = {"d": 64, "v": 100, "c": 128, "n_heads": 4, "n_layers": 2, "d_ff": 96}


@pytest.mark.parametrize(
    "wrong",
    [
        {"n_head": 4},
        {"d": "64"},
        {"d": 0},
        {"norm": "batchnorm"},
        {"attn": {"windw": 8}},
        {"attn": {"window": 1.5}},
        {"layers": "n*attn+moe", "moe": {"n_experts": 4, "top_k": 2, "d_ff": 8, "router": "hard"}, "d_ff": None},
        {"layers": "n*attn+moe", "moe": {"n_experts": 4, "top_k": 2, "d_ff": 8, "choice": "worst"}, "d_ff": None},
        {"rope": {"theta": -1.0}},
        {"rope": {"scaling": {"kind": "bent", "factor": 2.0}}},
        {"mine": {"window": 4}},
        {"released": [2024]},
        {"aliases": "a/b"},
        {"embedding": {"types": True}},
    ],
)
def test_what_the_schema_refuses_is_refused(wrong: dict[str, Any]) -> None:
    """What an editor underlines is what reading refuses; the same document without the slip is fine for both."""
    assert not list(problems(LLAMA, SCHEMA, SCHEMA))
    build({"name": "small", **LLAMA})
    document = {**deepcopy(LLAMA), **wrong}
    assert list(problems(document, SCHEMA, SCHEMA))
    with pytest.raises(InputError):
        build({"name": "small", **document})


@pytest.mark.parametrize(
    "fine",
    [
        {"attn": {"qk_norm": "head"}},
        {"attn": {"qk_norm": True, "bias": "qkv"}},
        {"norm": {"kind": "layernorm", "eps": 1e-6}, "mlp": "gelu", "d_ff": None},
        {"layers": "attn+mlp local+mlp", "local": {"like": "attn", "window": 8}},
        {"mlp": {"activation": "gelu", "d_ff": 32}, "d_ff": None},
        {"layers": "n*linear+mlp", "linear": {"n_heads": 2, "d_k": 8, "d_v": 8, "decay": "head", "gate": "silu"},
         "n_heads": None},
    ],
)  # fmt: skip
def test_short_forms_are_in_the_schema(fine: dict[str, Any]) -> None:
    document = {**LLAMA, **fine}
    build({"name": "small", **document})
    assert not list(problems(document, SCHEMA, SCHEMA))


def test_the_schema_is_printed(gptcalc: Command) -> None:
    assert gptcalc("presets", "--schema").json == json.loads(json.dumps(SCHEMA))
    assert gptcalc("presets", "--schema", "--json").out == gptcalc("presets", "--schema").out


# --- keys -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("struct", list(structs()), ids=lambda struct: struct.__name__)
def test_every_key_has_a_meaning(struct: type[Struct]) -> None:
    """A comment beside the field, a sentence of the docstring, or a group whose docstring says what it is."""
    groups = {field.key: field for field in declared(struct)}
    for field in fields(struct):
        if field.name in UNWRITTEN or struct is Modules:
            continue
        group = groups.get(field.encode_name)
        assert meanings(struct).get(field.name) or (group and all(map(summary, group.structs))), field.name


@pytest.mark.parametrize("kind", KINDS)
def test_keys_of_a_section_are_all_there(kind: str, gptcalc: Command) -> None:
    rows = gptcalc("keys", kind, "--json").json
    assert {row["key"] for row in rows} - {"like"} == set(keys_of(KINDS[kind])) - set(UNWRITTEN)


def test_keys_by_name(gptcalc: Command) -> None:
    top = {row["key"]: row for row in gptcalc("keys", "--json").json}
    assert set(top) >= set(Document.__struct_encode_fields__)
    assert top["d"]["default"] == "must be said"
    assert top["norm_at"] | {"meaning": ""} == {
        "place": "preset", "key": "norm_at", "default": "pre",
        "type": "output | post | pre | sandwich | stream | stream_sandwich",
        "meaning": "",
    }  # fmt: skip
    assert {row["place"] for row in gptcalc("keys", "window", "--json").json} == {"attn", "mla", "csa"}
    assert len(gptcalc("keys", "--all", "--json").json) > 300
    result = gptcalc("keys", "windwo")
    assert (result.status, result.out) == (2, "")
    assert "did you mean window?" in result.err


ANSWERS = {
    "params": ("gpt2",), "kv": ("gpt2",), "flops": ("gpt2",), "memory": ("gpt2",), "fit": ("gpt2", "--budget", "1GiB"),
    "serve": ("gpt2", "--budget", "4GiB"), "compare": ("gpt2", "--columns", ",".join(FIGURES)),
    "diff": ("gpt2", "gpt2-medium"), "presets": ("gpt2", "--columns", ",".join(FIGURES)), "devices": ("h100",),
    "keys": (), "columns": (), "dtypes": (), "types": (), "show": ("gpt2",), "explain": ("gpt2",), "trace": ("gpt2",),
    "validate": ("gpt2",), "time": ("gpt2", "--device", "h100-sxm"),
    "train": ("gpt2", "--device", "h100-sxm", "--tokens", "1B"),
    "design": ("--like", "gpt2", "--free", "n_layers", "--fits", "1GiB"), "check": ("gpt2", "--expect", "total=1"),
}  # fmt: skip


@pytest.mark.parametrize("name", [name for name in names() if name != "sweep"])  # rows of what is swept
def test_keys_of_every_commands_json(name: str, gptcalc: Command) -> None:
    answer = gptcalc(name, *ANSWERS.get(name, ("gpt2",)), "--json").json
    told = [row["key"] for row in gptcalc("keys", name, "--json").json]
    found = set(answer[0] if isinstance(answer, list) else answer)
    top = {key for key in told if "." not in key}
    about = {"family", "source", "aliases", "released", "published"} if name == "show" else set()
    assert found - about <= top
    struct = result(name)
    if name != "show":  # a document has what its model has
        assert top - found <= left_out(struct)
    assert struct is None or len(told) == len(set(told))


def left_out(struct: type[Struct] | None) -> set[str]:
    """Keys of a command's JSON that are only there where there is something to say."""
    if struct is None or not struct.__struct_config__.omit_defaults:
        return set()
    return {field.encode_name for field in fields(struct) if not field.required}


def test_keys_of_what_is_swept_are_those_that_are_asked_for(gptcalc: Command) -> None:
    asked = ("n_layers", "total", "kv_bytes")
    rows = gptcalc("sweep", "gpt2", "--set", "n_layers=12,24", "--columns", ",".join(asked), "--json").json
    assert [tuple(row) for row in rows] == [asked, asked]
    told = {row["key"] for row in gptcalc("keys", "sweep", "--json").json}
    assert {"KEY", *asked[1:]} <= told


def test_keys_inside_answers(gptcalc: Command) -> None:
    told = {row["key"]: row for row in gptcalc("keys", "params", "--json").json}
    assert told["groups.N.tensors.N.shape"]["type"] == "[whole number, …]"
    assert told["components"]["type"] == "{NAME: whole number}"
    assert told["active_mean"]["type"] == "whole number | none"


# --- columns, data types, model types ---------------------------------------------------------------------------------


def test_columns_are_those_of_compare(gptcalc: Command) -> None:
    rows = gptcalc("columns", "--json").json
    assert [row["key"] for row in rows] == list(FIGURES)
    assert all(row["meaning"] for row in rows)


def test_dtypes_are_what_options_take(gptcalc: Command) -> None:
    rows = {row["name"]: row for row in gptcalc("dtypes", "--json").json}
    for name, row in rows.items():
        if row["cache_bits"] is not None:
            assert dtype(name).name == name
        if row["packs"] not in ("", "mix"):
            assert weight_format(name) is not None
        for word in row["also"]:
            assert gptcalc("memory", "gpt2", "--dtype", word).status == 0, word
    # OCP MX 1.0: 32 numbers of 4 bits and 8 of a shared exponent; ggml's block_q4_K: 144 bytes for 256 weights;
    # QLoRA (arXiv:2305.14314): 4 bits and 32 for 64
    assert rows["mxfp4"]["weight_bits"] == 4 + 8 / 32
    assert rows["q4_k_m"]["weight_bits"] == 144 * 8 / 256
    assert rows["nf4"]["weight_bits"] == pytest.approx(4 + 32 / 64, abs=1e-4)
    assert rows["q8_0"]["cache_bits"] == 34 * 8 / 32


def test_types_are_those_that_are_read(gptcalc: Command) -> None:
    rows = gptcalc("types", "--json").json
    assert {row["type"] for row in rows if row["read"]} == set(READERS)
    assert all(row["why_not"] for row in rows if not row["read"])
    assert gptcalc("types", "gemma3", "--get", "0.read").out == "true\n"
    assert gptcalc("types", "nonesuch").status == 2
