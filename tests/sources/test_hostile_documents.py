"""Documents with one thing wrong, and documents made of anything: refused in one line or counted, never a traceback."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple, cast

import msgspec
import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from gptcalc.architecture import ACTIVATIONS, Attention, Experts, LatentAttention, Mlp
from gptcalc.document import ABOUT, CORE, KINDS
from gptcalc.document.fields import declared, keys_of
from gptcalc.sources import preset
from gptcalc.sources.huggingface.classes import every_class
from gptcalc.sources.huggingface.families import READERS
from gptcalc.sources.huggingface.unsupported import UNSUPPORTED
from tests.cli.test_cli_hostile import refused_well
from tests.conftest import Command
from tests.oracle import ENTRIES
from tests.strategies import Document, documents

#: the fixtures here keep nothing from one example to the next
REUSED: dict[str, Any] = {
    "suppress_health_check": [HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    "deadline": None,
}

SECTIONS = (Attention, LatentAttention, Mlp, Experts)
KNOWN = CORE | ABOUT | KINDS.keys() | {"like"} | {
    key for kind in SECTIONS for key in keys_of(kind)
}  # fmt: skip


def may_be_zero(declared_type: Any) -> bool:
    """Whether a number is a count, or a size that says with 0 that its group is not there."""
    metas = [meta for meta in getattr(declared_type, "__metadata__", ()) if isinstance(meta, msgspec.Meta)]
    return any(meta.ge == 0 or "zero" in (meta.extra or {}) for meta in metas)


#: counts of what may be absent, in a section or in a group whose keys stand beside the section's, and the first of
#: what is numbered
MAY_BE_ZERO = {
    "mtp",
    "offset",
    "active",
    "first",  # layer of a loop
    "end",  # a token
    *(
        field.encode_name
        for kind in SECTIONS
        for struct in (kind, *(option for group in declared(kind) if group.flat for option in group.structs))
        for field in msgspec.structs.fields(struct)
        if may_be_zero(field.type)
    ),
}

NO_SIZE = [-1, 2.5, True, False, "eight", "4096", [], [1], {"a": 1}, math.nan, math.inf, 10**12, 10**30, "n", ""]


class Place(NamedTuple):
    """A key somewhere in a document, and the mapping that has it."""

    mapping: Document
    key: str

    @property
    def value(self) -> Any:
        return self.mapping[self.key]

    def set(self, value: Any) -> None:
        self.mapping[self.key] = deepcopy(value)  # what strategies share between examples must not change


def places(mapping: Document) -> Iterator[Place]:
    for key, value in mapping.items():
        yield Place(mapping, key)
        if isinstance(value, dict):
            yield from places(value)


def sections(document: Document) -> dict[str, Document]:
    return {k: v for k, v in document.items() if isinstance(v, dict) and (k in KINDS or "like" in v)}


# --- one thing wrong --------------------------------------------------------------------------------------------------

Breaker = Callable[[st.DrawFn, Document], None]


def no_size(draw: st.DrawFn, document: Document) -> None:
    sized = [p for p in places(document) if isinstance(p.value, int) and not isinstance(p.value, bool)]
    draw(st.sampled_from(sized)).set(draw(st.sampled_from(NO_SIZE)))


def zero(draw: st.DrawFn, document: Document) -> None:
    sized = [p for p in places(document) if type(p.value) is int and p.key not in MAY_BE_ZERO]
    draw(st.sampled_from(sized)).set(0)


def no_flag(draw: st.DrawFn, document: Document) -> None:
    flags = [p for p in places(document) if isinstance(p.value, bool)]
    draw(st.sampled_from(flags)).set(draw(st.sampled_from(["yes", "true", "", 2, 0.5, [], {"a": 1}, math.nan])))


def no_word(draw: st.DrawFn, document: Document) -> None:
    worded = [p for p in places(document) if isinstance(p.value, str) and p.key not in ABOUT and p.key != "layers"]
    draw(st.sampled_from(worded)).set(draw(st.sampled_from(["nosuch", "", "ropes", "None", " ", [], [[]], {"a": 1}])))


def missing(draw: st.DrawFn, document: Document) -> None:
    needed = {"attn": ["n_heads"], "mla": ["kv_rank", "d_nope", "d_rope", "d_v"], "moe": ["n_experts", "top_k", "d_ff"]}
    options = [(document, key) for key in ("d", "v", "c", "n_layers")]
    options += [(document[kind], key) for kind, keys in needed.items() if kind in document for key in keys]
    if "mlp" in document and ACTIVATIONS[document["mlp"]["activation"]].gated:
        options.append((document["mlp"], "d_ff"))
    mapping, key = draw(st.sampled_from(options))
    del mapping[key]


def misspelt(draw: st.DrawFn, document: Document) -> None:
    place = draw(st.sampled_from(list(places(document))))
    at = draw(st.integers(0, len(place.key) - 1))
    key = draw(st.sampled_from([place.key[:at] + place.key[at:][1:], place.key[:at] + place.key[at] + place.key[at:]]))
    assume(key not in KNOWN)
    place.mapping[key] = place.mapping.pop(place.key)


def unknown_key(draw: st.DrawFn, document: Document) -> None:
    mapping = draw(st.sampled_from([document, *sections(document).values()]))
    key = draw(st.text(min_size=1, max_size=200))
    assume(key not in KNOWN and key not in mapping)
    mapping[key] = draw(st.sampled_from([1, None, "x", [], {}, {"like": "attn"}]))


def no_mapping(draw: st.DrawFn, document: Document) -> None:
    mappings = [p for p in places(document) if isinstance(p.value, dict) and p.key not in ("mlp", "rope", "norm")]
    draw(st.sampled_from(mappings)).set(draw(st.sampled_from([7, "nosuch", [], [{}], math.nan])))


def circle(draw: st.DrawFn, document: Document) -> None:
    chain = [f"s{k}" for k in range(draw(st.integers(1, 4)))]
    document |= {name: {"like": chain[(k + 1) % len(chain)]} for k, name in enumerate(chain)}
    document["layers"] += f" {chain[0]}"
    document["n_layers"] += 1


def unknown_sublayer(draw: st.DrawFn, document: Document) -> None:
    word = draw(st.sampled_from(["nosuch", "Attn", "attention", "n_", "mlp2", "x" * 300]))
    document["layers"] += draw(st.sampled_from([" ", "+", "|"])) + word
    document["n_layers"] += draw(st.integers(0, 1))


def bad_expression(draw: st.DrawFn, document: Document) -> None:
    written = document["layers"]
    at = draw(st.integers(0, len(written)))
    wrong = [
        written[:at] + draw(st.sampled_from(list("&?,;:!#%'\"/\\{}<>=§\x00()[]*"))) + written[at:],
        written + draw(st.sampled_from(["+", "|", "*", " 0*attn", " 3*", " n*[]", "+()", " n*attn n*attn", "(("])),
        draw(st.sampled_from(["+", "|", "*", "0*", "99999999*", "-1*", "2.5*", "n*2*", "m*"])) + written,
        draw(st.sampled_from(["", " ", "*", "n*", "[", "]", "()", "n*n*attn", "(" * 99 + "attn" + ")" * 99, "𝐧*attn"])),
        "[" * 2000 + written + "]" * 2000,
    ]
    document["layers"] = draw(st.sampled_from(wrong))


def other_depth(draw: st.DrawFn, document: Document) -> None:
    document["layers"] = document["layers"].removeprefix("n*[").removesuffix("]")
    document["n_layers"] = len(document["layers"].split(" ")) + draw(st.sampled_from([-20, -1, 1, 2, 10**6]))


def heads_that_do_not_divide(draw: st.DrawFn, document: Document) -> None:
    attention = [s for s in sections(document).values() if "n_kv_heads" in s]
    assume(attention)
    section = draw(st.sampled_from(attention))
    section["n_kv_heads"] = section["n_heads"] + draw(st.integers(1, 3))


def too_many_chosen(draw: st.DrawFn, document: Document) -> None:
    assume("moe" in document)
    document["moe"]["top_k"] = document["moe"]["n_experts"] + draw(st.integers(1, 3))


def contradiction(draw: st.DrawFn, document: Document) -> None:
    """Two keys that exclude each other, or one that nothing would read."""
    learned, rotary = (document["position"] == word for word in ("learned", "rope"))
    options: list[tuple[str, Any]] = [("extra", {"like": draw(st.sampled_from(list(sections(document))))})]
    if not rotary:
        options.append(("rope", {"theta": 5.0}))
    if not learned:
        options.append(("embedding", {**document["embedding"], "rows": 77}))
    if not {"attn"} & document.keys():
        options.append(("d_head", 8))
    if "attn" in document:
        options.append(("attn", {**document["attn"], "window": 3, "chunk": 3}))
        options.append(("attn", {**document["attn"], "bias": ["q", "kv"]}))
        options.append(("attn", {**document["attn"], "kv": {"from": "mlp"}}))
        options.append(("attn", {**document["attn"], "rope": {"channels": 3}}))
    key, value = draw(st.sampled_from(options))
    document[key] = value


BREAKERS: list[Breaker] = [
    no_size, zero, no_flag, no_word, missing, misspelt, unknown_key, no_mapping, circle, unknown_sublayer,
    bad_expression, other_depth, heads_that_do_not_divide, too_many_chosen, contradiction,
]  # fmt: skip


def written(document: Any, folder: Path, yaml: bool) -> Path:
    """A document's file, in JSON or in YAML (which has no words for what is not finite)."""
    path = folder / ("document.yaml" if yaml else "document.json")
    path.write_text(preset.dump(document) if yaml else json.dumps(document), encoding="utf-8")
    return path


def finite(value: Any) -> bool:
    return "NaN" not in json.dumps(value) and "Infinity" not in json.dumps(value)


@pytest.mark.parametrize("breaker", BREAKERS, ids=lambda breaker: breaker.__name__)
@given(data=st.data())
@settings(max_examples=25, **REUSED)
def test_one_thing_wrong(breaker: Breaker, data: st.DataObject, tmp_path: Path, gptcalc: Command) -> None:
    document = deepcopy(data.draw(documents()))
    breaker(cast(st.DrawFn, data.draw), document)
    path = written(document, tmp_path, yaml=finite(document) and data.draw(st.booleans()))
    refused_well(gptcalc("params", path))
    result = gptcalc("params", path, "--json")
    assert (result.status, result.out, len(result.lines)) == (2, "", 1)
    error = json.loads(result.err)["error"]
    assert error.keys() == {"kind", "message", "hint"}
    assert all(isinstance(error[key], str) and error[key] for key in ("kind", "message"))
    assert str(path) in error["message"]


PLAIN = {"d": 8, "v": 9, "c": 9, "n_heads": 2, "n_layers": 1, "d_ff": 4}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"d": None}, "d: expected int, got null"),
        ({"n_layers": 0}, "n_layers: expected int >= 1, found 0"),
        ({"n_heads": 3}, "attn: d = 8 is not a multiple of n_heads = 3; give d_head"),
        ({"position": "rotary"}, "position: unknown value 'rotary'; known are rope, learned, alibi, sinusoidal, none"),
        ({"norm": "layer_norm"}, "norm: unknown value 'layer_norm'; did you mean layernorm?"),
        ({"mlp": "swiglo"}, "mlp: unknown value 'swiglo'; did you mean swiglu?"),
        ({"bias": ["qk"]}, "bias[0]: unknown value 'qk'; did you mean qkv?"),
        ({"rope": {"scaling": {"kind": "yarm"}}}, "rope.scaling.kind: unknown value 'yarm'; did you mean yarn?"),
        ({"rope": {"scaling": {"kind": "yarn"}}}, "rope.scaling: factor is missing"),
        (
            {"d_head": 5, "rope": {"channels": 4, "scaling": {"kind": "proportional"}}},
            "attn.rope.scaling: proportional pairs all channels, 5 are odd",
        ),
        ({"rope": {"axes": 2}}, "attn.rope.axes: 2 are the prompt's and that behind it, which need whole_prompt"),
        (
            {"d_head": 6, "rope": {"axes": 2}, "whole_prompt": True},
            "attn.rope.axes: 6 rotated channels are not halves of pairs",
        ),
        (
            {"rope": {"axes": 2, "scaling": {"kind": "linear", "factor": 2}}, "whole_prompt": True},
            "attn.rope.axes: 2 are not defined together with a scaling",
        ),
        ({"attn": 7}, "attn: expected a section with keys of its own, found 7"),
        ({"attn": {"qk_norm": "heads"}}, "attn.qk_norm.over: unknown value 'heads'; did you mean head?"),
        ({"moe": {}, "layers": "attn+moe"}, "moe: n_experts is missing"),
        ({"altup": {"n": 1}}, "altup.n: expected int >= 2, found 1"),
        ({"altup": {"n": 2, "active": 2}}, "altup.active: there is no stream 2 among 2; they are numbered from 0"),
        ({"altup": {"n": 2}, "mtp": 1}, "mtp: not defined for the streams of altup"),
        ({"attn": {"laurel": {"rank": 2}}, "layers": "n*attn|mlp"}, "attn: laurel needs a residual of its own, not a"),
        ({"attn": {"laurel": {"rank": 2}, "residual_gate": {}}}, "attn.laurel: a residual is gated or has a learned"),
        ({"layers": "attn+mpl"}, "layers: unknown sublayer 'mpl'; did you mean mlp?"),
        ({"layers": "3*attn+mlp"}, "layers: '3*attn+mlp' has 3 blocks, n_layers is 1"),
    ],
)
def test_what_is_said(changes: dict[str, Any], message: str, tmp_path: Path, gptcalc: Command) -> None:
    path = written({**PLAIN, **changes}, tmp_path, yaml=False)
    assert gptcalc("params", path).err.startswith(f"gptcalc: {path}: {message}")


# --- anything ---------------------------------------------------------------------------------------------------------

WORDS = [
    *sorted(KNOWN | ACTIVATIONS.keys()),
    "n*attn+mlp", "n*[attn+mlp]", "2*attn|mlp", "rope", "learned", "layernorm", "rmsnorm", "l2", "post", "sandwich",
    "output", "all", "qkv", "q", "k", "head", "full", "each", "sqrt(d)", "yarn", "linear", "longrope", "from", "weight",
    "kind", "theta", "scaling", "channels", "width", "rows", "n", "block", "none", "0", "1e4", "~", "\x1b[31m", "🦙",
]  # fmt: skip
leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 20),
    st.integers(),
    st.floats(),
    st.sampled_from(WORDS),
    st.text(max_size=9),
)
garbage = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.one_of(st.sampled_from(WORDS), st.text(max_size=9)), inner, max_size=5),
    ),
    max_leaves=20,
)
COMMANDS = st.sampled_from(["params", "kv", "flops", "memory", "show", "explain", "params"])


def answered_or_refused(gptcalc: Command, command: str, path: Path) -> int:
    result = gptcalc(command, path)
    if result.status == 0:
        assert result.out
    else:
        refused_well(result)
    return result.status


@given(document=garbage, command=COMMANDS)
@example(document={"d": 8, "v": 9, "c": 9, "n_layers": 1, "attn": {"n_heads": {}}}, command="params")
@settings(max_examples=150, **REUSED)
def test_any_value_as_a_document(document: Any, command: str, tmp_path: Path, gptcalc: Command) -> None:
    answered_or_refused(gptcalc, command, written(document, tmp_path, yaml=False))
    if isinstance(document, dict) and finite(document):
        answered_or_refused(gptcalc, command, written(document, tmp_path, yaml=True))


@given(document=documents(), command=COMMANDS, data=st.data())
@settings(max_examples=250, **REUSED)
def test_anything_in_a_document(
    document: Document, command: str, data: st.DataObject, tmp_path: Path, gptcalc: Command
) -> None:
    """Values of any kind in a document that is right otherwise: wherever something stands, and under new keys."""
    document = deepcopy(document)
    for _ in range(data.draw(st.integers(1, 3))):
        where = list(places(document)) + [
            Place(s, data.draw(st.sampled_from(WORDS))) for s in sections(document).values()
        ]
        data.draw(st.sampled_from([*where, Place(document, data.draw(st.sampled_from(WORDS)))])).set(data.draw(garbage))
    answered_or_refused(gptcalc, command, written(document, tmp_path, yaml=False))


# --- config.json files ------------------------------------------------------------------------------------------------

CONFIGS = [entry["config"] for entry in ENTRIES.values()]
FIELDS = sorted(
    {key for config in CONFIGS for key in config} | {key for known in every_class().values() for key in known.reads}
    | {"quantization_config", "text_config", "rope_scaling", "layer_types", "is_encoder_decoder", "mlp_only_layers"}
)  # fmt: skip
nested = st.dictionaries(
    st.sampled_from([*FIELDS, "type", "rope_type", "factor", "alpha", "full_attention", "short_factor"]),
    leaves,
    max_size=4,
)
field_values = st.one_of(
    st.integers(1, 8), st.sampled_from([0, 16, 64, 128, 1e-5, 10000.0, "silu", "gelu", "full_attention"]),
    st.lists(st.sampled_from([0, 1, 2, "full_attention", "sliding_attention", None, [], "dense", 1.5]), max_size=4),
    nested, garbage,
)  # fmt: skip


@given(
    model_type=st.sampled_from(sorted([*READERS, *UNSUPPORTED])),
    fields=st.dictionaries(st.sampled_from(FIELDS), field_values, max_size=12),
    command=COMMANDS,
)
@settings(max_examples=200, **REUSED)
def test_any_fields_in_a_config(
    model_type: str, fields: dict[str, Any], command: str, tmp_path: Path, gptcalc: Command
) -> None:
    config = {**fields, "model_type": model_type}
    answered_or_refused(gptcalc, command, written(config, tmp_path, yaml=False))


@given(config=st.sampled_from(CONFIGS), data=st.data(), command=COMMANDS)
@settings(max_examples=150, **REUSED)
def test_anything_in_a_config(
    config: dict[str, Any], data: st.DataObject, command: str, tmp_path: Path, gptcalc: Command
) -> None:
    """Values of any kind in a config that is right otherwise."""
    fields = data.draw(st.lists(st.one_of(st.sampled_from(sorted(config)), st.sampled_from(FIELDS)), max_size=3))
    changed = {**config, **{field: data.draw(field_values) for field in fields}}
    answered_or_refused(gptcalc, command, written(changed, tmp_path, yaml=False))


def test_a_type_that_is_no_name_is_refused(tmp_path: Path, gptcalc: Command) -> None:
    config = {"model_type": "gemma3", "text_config": {"model_type": {}, "hidden_size": 64}}
    found = gptcalc("params", written(config, tmp_path, yaml=False))
    refused_well(found)
    assert "text_config.model_type: expected a name, found {}" in found.err
