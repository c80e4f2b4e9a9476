"""Grids: exactly what an analysis of each point says, over all kinds of blocks; conditions, fronts, parts, streams."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from importlib.util import module_from_spec, spec_from_file_location
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gptcalc.analysis.flops import flops
from gptcalc.analysis.memory.cache import kv
from gptcalc.analysis.memory.inference import Inference
from gptcalc.analysis.memory.weights import total as stored
from gptcalc.analysis.params import params
from gptcalc.analysis.sweep.bulk import Points
from gptcalc.analysis.sweep.figures import FIGURES
from gptcalc.analysis.sweep.piece import PIECE, Axis
from gptcalc.analysis.sweep.run import Grid, Sweep
from gptcalc.analysis.sweep.space import Space
from gptcalc.analysis.sweep.wanted import front
from gptcalc.architecture import Architecture
from gptcalc.conventions import InferenceRun, SweepRun
from gptcalc.document import build
from gptcalc.document.variant import varied
from gptcalc.errors import InputError
from gptcalc.sources import load
from gptcalc.sources.preset import edited
from gptcalc.where import SIGNS
from tests.conftest import Result
from tests.reference_cases import DOCUMENTS, some

LLAMA = load("llama-3-8b").document


def alone(document: Mapping[str, Any], settings: Mapping[str, Any], context: int, batch: int) -> dict[str, int | None]:
    """One point by the analyses themselves."""
    model = build(edited(document, [f"{key}={value}" for key, value in settings.items()]))
    counts = params(model)
    cache = kv(model, context=context, batch=batch)
    weights = stored(model)
    found: dict[str, int | None] = {
        "total": counts.total, "active": counts.active, "embedding": counts.embedding,
        "non_embedding": counts.non_embedding, "kv_bytes": cache.bytes, "weights_bytes": weights,
        "prefill_flops": flops(model, context=context, batch=batch).total,
    }  # fmt: skip
    if model.canvas is None:
        run = Inference(model, InferenceRun(dtype="bf16"))
        found["activations_bytes"] = run.device(0, batch, context).activations
        found["memory"] = run.needed(batch, context)
    if model.continues:
        found["decode_flops"] = flops(model, context=context, batch=batch, phase="decode").total
    if model.block is None and model.canvas is None:
        found["train_flops"] = flops(model, context=context, batch=batch, phase="train").total
    return found


def told_of(model: Architecture) -> list[str]:
    """The figures of a model."""
    none = {
        "decode_flops": not model.continues,
        "train_flops": model.block is not None or model.canvas is not None,
        "activations_bytes": model.canvas is not None,
        "memory": model.canvas is not None,
    }
    return [name for name in FIGURES if not none.get(name, False)]


def sizes(document: Mapping[str, Any], prefix: str = "") -> list[tuple[str, int]]:
    """Every whole number of a document, sections' too."""
    found: list[tuple[str, int]] = []
    for key, value in document.items():
        if isinstance(value, dict):
            found += sizes(value, f"{prefix}{key}.")
        elif isinstance(value, int) and not isinstance(value, bool):
            found.append((f"{prefix}{key}", value))
    return found


def swept(document: Mapping[str, Any], axes: Mapping[str, Any], **how: Any) -> Sweep:
    return Sweep(Grid(document=dict(document), axes=tuple(Axis(k, tuple(v)) for k, v in axes.items()), **how))


def one(sweep: Sweep) -> Space:
    """The grid of a sweep without words."""
    assert isinstance(sweep.space, Space)
    return sweep.space


@pytest.mark.parametrize("name", some(DOCUMENTS))
def test_every_kind_of_block(name: str) -> None:
    """Each size of each small document doubled, tripled and so on, with others: of points all over the grid, the first
    four that are models are what the analyses say."""
    document = DOCUMENTS[name] | {"name": name}
    chance = random.Random(name)
    keys = sizes(DOCUMENTS[name])
    for _ in range(2):
        some = chance.sample(keys, min(3, len(keys)))
        axes = {key: sorted({size, 2 * size, chance.randint(1, 3 * size + 3)}) for key, size in some}
        model = build(document)
        columns = told_of(model)
        contexts = sorted({7, min(model.c, 33)})
        sweep = swept(document, axes, contexts=tuple(contexts), batches=(1, 3),
                      columns=(*axes, "context", "batch", *columns))  # fmt: skip
        left = 4
        for place in chance.sample(range(len(sweep.space)), len(sweep.space)):
            sweep.range, refused = (place, place + 1), sum(sweep.space.refused.values())
            rows = sweep.rows()
            assert len(rows) + sum(sweep.space.refused.values()) - refused == 1
            for row in rows:
                settings = {key: row[key] for key in axes}
                expected = alone(document, settings, row["context"], row["batch"])
                assert {key: row[key] for key in columns} == expected, settings
            left -= len(rows)
            if not left:
                break


@pytest.mark.parametrize(
    "name", ["deepseek-v3", "gemma-3-27b", "qwen3-next-80b-a3b", "zamba2-7b", "gpt-oss-20b", "gpt2"]
)
def test_presets(name: str) -> None:
    """Depth, vocabulary and width of full-size models of several layouts of layers."""
    document = load(name).document
    layers = int(document["n_layers"])
    axes = {"n_layers": (layers, layers + 3, 2 * layers), "v": (32000, 50304)}
    figures = ("total", "active", "kv_bytes", "prefill_flops", "decode_flops")
    sweep = swept(document, axes, contexts=(512, 1024), columns=("n_layers", "v", "context", *figures))
    assert {axis.key for axis in one(sweep).free} >= {"v"}
    for row in sweep.rows():
        expected = alone(document, {key: row[key] for key in axes}, row["context"], 1)
        assert {k: v for k, v in row.items() if k in expected} == {k: v for k, v in expected.items() if k in row}


def test_what_must_divide_is_not_free() -> None:
    """Heads and what is split over them are tried one by one; what is a size alone is not."""
    axes = {"n_kv_heads": (1, 3, 8), "d": (4096, 8192), "d_ff": (100, 200), "n_layers": (1, 2), "v": (10, 20)}
    sweep = swept(LLAMA, axes, contexts=(64,))
    assert {axis.key for axis in one(sweep).free} == {"d_ff", "n_layers", "v"}
    rows = sweep.rows()
    assert {row["n_kv_heads"] for row in rows} == {1, 8}
    assert sweep.space.refused == {"attn: n_heads = 32 is not a multiple of n_kv_heads = 3": 16}


def test_rows_of_positions_beside_the_context_are_not_free() -> None:
    """A table of so many rows more than the context has no symbol of its own: 24 channels a row (d = 24)."""
    axes = {"embedding.rows": [42, 43, 300]}
    rows = swept(DOCUMENTS["gpt"], axes, columns=("embedding.rows", "total")).rows()
    assert [row["total"] - rows[0]["total"] for row in rows] == [0, 24, 24 * 258]


def test_a_table_of_positions_that_ends_before_the_context_is_no_point() -> None:
    """Of 3, 20 and 42 rows, 2 of them kept, only the last have 30 positions (d = 24)."""
    sweep = swept(DOCUMENTS["gpt"], {"embedding.rows": [3, 20, 42, 50]}, contexts=(30,), columns=("total",))
    rows = [row["total"] for row in sweep.rows()]
    assert rows == [rows[0], rows[0] + 24 * 8]
    assert sum(sweep.space.refused.values()) == 2


def test_a_window_is_not_free() -> None:
    """It is a condition, no size."""
    document = {"d": 64, "n_heads": 4, "n_layers": 4, "v": 100, "c": 64, "layers": "n*local+mlp",
                "local": {"like": "attn", "window": 8}}  # fmt: skip
    sweep = swept(document, {"local.window": (4, 8, 16), "d_ff": (10, 20)}, contexts=(32,))
    assert [axis.key for axis in one(sweep).free] == ["d_ff"]
    assert {row["kv_bytes"] for row in sweep.rows()} == {4 * w * 2 * 64 * 2 for w in (4, 8, 16)}


def test_two_widths_that_are_equal_at_first() -> None:
    """A section's d_ff that happens to equal the model's must not follow it."""
    document = {"d": 64, "n_heads": 4, "n_layers": 2, "v": 100, "c": 64, "d_ff": 256, "layers": "attn+mlp attn+wide",
                "wide": {"like": "mlp", "d_ff": 256}}  # fmt: skip
    for row in swept(document, {"d_ff": (256, 512, 768)}, columns=("d_ff", "total")).rows():
        assert row["total"] == params(build({**document, "d_ff": row["d_ff"]})).total


def test_a_table_that_happens_to_be_as_wide_as_the_stream() -> None:
    """It has no projections, which others have up and down (2·24·12 here, d = 24), but rows as narrow, those of the
    output too."""
    sweep = swept(DOCUMENTS["post"], {"embedding.width": (12, 24), "v": (61, 122)}, columns=("v", "total"))
    rows = {(row["v"], at // 2): row["total"] for at, row in enumerate(sweep.rows())}
    assert [rows[v, 1] - rows[v, 0] for v in (61, 122)] == [2 * v * 12 - 2 * 24 * 12 for v in (61, 122)]
    wide = swept(DOCUMENTS["post"], {"embedding.width": (12, 23), "d": (24, 12), "n_heads": (1,)}, columns=("total",))
    for row, (width, d) in zip(wide.rows(), [(w, d) for w in (12, 23) for d in (24, 12)], strict=True):
        changed = {**DOCUMENTS["post"], "embedding": {"width": width}, "d": d, "n_heads": 1}
        assert row["total"] == params(build(changed)).total


def test_kv_heads_of_llama() -> None:
    """K and V of a head of 128 in 32 layers: 2·128·2 bytes a token each; W_K and W_V of it 2·4096·128."""
    for row in swept(LLAMA, {"n_kv_heads": (1, 2, 4, 8)}, contexts=(8192,)).rows():
        heads = row["n_kv_heads"]
        assert row["kv_bytes"] == 32 * heads * 2 * 128 * 2 * 8192
        assert row["total"] == 8_030_261_248 - 32 * (8 - heads) * 2 * 4096 * 128


@pytest.mark.parametrize(
    ("words", "number"),
    [
        ({"with": ("as-is", "mla", "gqa:4", "moe:8:2", "gqa:5")}, 4),  # 5 doesn't divide 32 heads
        ({"layers": ("n*attn+mlp", "n*attn|mlp", "1*attn+mlp n*attn|mlp", "n*attn+moe")}, 3),  # no experts are there
        ({"with": ("as-is", "gqa:4"), "mlp": ("gelu", "swiglu")}, 4),
    ],
)
def test_structures_are_swept_as_variants_are_made(words: dict[str, tuple[str, ...]], number: int) -> None:
    """Each switch and each expression of layers with sizes beside it; what no rule makes is left out and told."""
    axes = {**words, "v": (1000, 2000), "n_layers": (16, 32)}
    figures = ("total", "active", "kv_bytes", "memory", "decode_flops")
    sweep = swept(LLAMA, axes, contexts=(64,), columns=(*axes, *figures))
    rows = sweep.rows()
    assert len(rows) == 4 * number
    assert sum(sweep.space.refused.values()) == len(sweep.space) - len(rows)
    for row in rows:
        own = LLAMA if row.get("with", "as-is") == "as-is" else varied(LLAMA, [row["with"]])
        expected = alone(own, {key: row[key] for key in axes if key != "with"}, 64, 1)
        assert {key: row[key] for key in figures} == {key: expected[key] for key in figures}, row


def test_a_key_that_is_another_size_in_another_structure() -> None:
    """d_ff of the model is that of the experts where there are some, unless they have one of their own."""
    document = {"d": 64, "n_heads": 4, "n_layers": 2, "v": 100, "c": 64, "d_ff": 256, "layers": "n*attn+mlp"}
    axes = {"layers": ("n*attn+mlp", "attn+mlp attn+moe"), "d_ff": (128, 256, 512)}
    moe = {"moe": {"n_experts": 4, "top_k": 2, "d_ff": 128}}
    for row in swept({**document, **moe}, axes, columns=(*axes, "total")).rows():
        own = {"layers": row["layers"], "d_ff": row["d_ff"]}
        with_experts = moe if "moe" in row["layers"] else {}
        assert row["total"] == params(build({**document, **with_experts, **own})).total


@pytest.mark.parametrize(
    "dtype",
    ["int4", "gptq", "nf4-double", "fp8", "fp8-block", "mlx4", "nvfp4,attention=bf16", "mxfp4", "exl3:4.5", "q4_k_m"],
)
@pytest.mark.parametrize("name", ["gpt", "sinks"])
def test_weights_of_formats(name: str, dtype: str) -> None:
    """Widths that their blocks divide at all points, at some and at none; a single output stays wide."""
    document = {**DOCUMENTS[name], "name": name}
    own = "moe.d_ff" if "moe" in document else "d_ff"
    for widths in ((128, 256, 1280), (128, 160, 1), (17, 33)):
        axes = {own: widths, "v": (61, 128)} | ({"n_layers": (2, 4)} if name == "gpt" else {})
        for row in swept(document, axes, columns=(*axes, "weights_bytes"), how=SweepRun(dtype=dtype)).rows()[::2]:
            model = build(edited(document, [f"{key}={row[key]}" for key in axes]))
            assert row["weights_bytes"] == stored(model, dtype), row


@pytest.mark.parametrize("name", DOCUMENTS)
def test_weights_of_a_mix_in_every_kind_of_block(name: str) -> None:
    """Those that layers share once, those of a file's header not at all."""
    document = DOCUMENTS[name] | {"name": name}
    v, how = DOCUMENTS[name]["v"], SweepRun(dtype="q4_k_m")
    for row in swept(document, {"v": (v, 3 * v)}, columns=("v", "weights_bytes"), how=how).rows():
        assert row["weights_bytes"] == stored(build(edited(document, [f"v={row['v']}"])), "q4_k_m")


@pytest.mark.parametrize("dtype", ["q4_k_m", "iq3_xs", "q3_k_m", "iq1_s", "q5_0:imatrix", "mxfp4_moe"])
@pytest.mark.parametrize("name", ["llama-3.1-8b", "mixtral-8x7b"])
def test_types_of_mixes_go_by_the_depth(name: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """How many layers have which type is looked up, not computed point by point: a million points are a second's."""
    monkeypatch.setattr("gptcalc.analysis.sweep.space.OneByOne", None)
    document = load(name).document
    axes = {"n_layers": (1, 5, 16, 31, 80), "d_ff": (768, 14336), "v": (512, 32000)}
    found = swept(document, axes, columns=(*axes, "weights_bytes"), how=SweepRun(dtype=dtype)).rows()
    for row in found[:: 1 if dtype == "q4_k_m" else 3]:
        assert row["weights_bytes"] == stored(build(edited(document, [f"{key}={row[key]}" for key in axes])), dtype)


# --- arithmetic -------------------------------------------------------------------------------------------------------

COEFFICIENTS = st.integers(-(2**40), 2**70)


@given(
    st.dictionaries(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 3)), max_size=3, unique_by=lambda p: p[0])
                    .map(lambda pairs: tuple(sorted(pairs))), COEFFICIENTS, min_size=1, max_size=6),
    st.lists(st.tuples(*[st.integers(0, 2**20)] * 3), min_size=1, max_size=5),
)  # fmt: skip
def test_bulk_is_exact(terms: dict[Any, int], points: list[tuple[int, int, int]]) -> None:
    columns = dict(zip("abc", np.array(points, dtype=np.int64).T, strict=True))
    largest = {name: int(column.max()) for name, column in columns.items()}
    found = Points(columns, largest, len(points)).evaluate(terms)
    expected = []
    for point in points:
        sizes_ = dict(zip("abc", point, strict=True))
        expected.append(sum(n * int(np.prod([sizes_[s] ** e for s, e in m], dtype=object)) for m, n in terms.items()))
    assert found.ints() == expected
    for word, compare in SIGNS.items():
        for limit in {Fraction(expected[0]), Fraction(expected[0]) + Fraction(1, 2), Fraction(2**64), Fraction(0)}:
            assert found.compare(word, limit).tolist() == [compare(n, limit) for n in expected]


@pytest.mark.parametrize("power", [62, 63, 64, 100, 108, 113, 130, 200])
def test_around_each_width(power: int) -> None:
    """Just below, at and above a power of two."""
    ones = {"a": np.array([1, 2, 3], dtype=np.int64)}
    for n in (2**power - 1, 2**power, 2**power + 1, -(2**power) + 1):
        assert Points(ones, {"a": 3}, 3).evaluate({(("a", 1),): n}).ints() == [n, 2 * n, 3 * n]


def test_a_large_coefficient_of_what_is_zero() -> None:
    zero = Points({"a": np.array([0, 0])}, {"a": 0}, 2)
    assert zero.evaluate({(("a", 1),): 2**70, (): 5}).ints() == [5, 5]


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=30))
def test_a_front(points: list[tuple[int, int, int]]) -> None:
    found = {points[place] for place in front([np.array(column) for column in zip(*points, strict=True)])}
    beaten = {
        p for p in points if any(q != p and all(a <= b for a, b in zip(q, p, strict=True)) for q in points)
    }  # fmt: skip
    assert found == set(points) - beaten


# --- what is wanted ---------------------------------------------------------------------------------------------------

AXES: dict[str, Any] = {"n_layers": tuple(range(1, 41)), "d_ff": tuple(range(1000, 3000, 100)), "v": (100, 200, 300)}


def test_where_sort_top_and_front_are_those_of_all_rows() -> None:
    every = swept(LLAMA, AXES, contexts=(64, 128)).rows()
    assert len(every) == 40 * 20 * 3 * 2
    few = swept(LLAMA, AXES, contexts=(64, 128), where=("total < 3e9 and v >= 200 or n_layers = 40",)).rows()
    assert few == [r for r in every if (r["total"] < 3 * 10**9 and r["v"] >= 200) or r["n_layers"] == 40]
    top = swept(LLAMA, AXES, contexts=(64, 128), sort="-total", top=7).rows()
    assert top == sorted(every, key=lambda row: row["total"], reverse=True)[:7]
    best = swept(LLAMA, AXES, contexts=(64, 128), pareto=("kv_bytes", "-total")).rows()
    assert best == [
        r for r in every
        if not any(o["kv_bytes"] <= r["kv_bytes"] and o["total"] >= r["total"]
                   and (o["kv_bytes"], o["total"]) != (r["kv_bytes"], r["total"]) for o in every)
    ]  # fmt: skip


def test_parts_are_the_whole() -> None:
    whole = swept(LLAMA, AXES).rows()
    parts = [swept(LLAMA, AXES, part=(n, 7)).rows() for n in range(1, 8)]
    assert [row for rows in parts for row in rows] == whole


def test_processes_find_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gptcalc.analysis.sweep.run.TASK", 1000)
    axes = {**AXES, "n_kv_heads": (3, 8)}
    one, two = (swept(LLAMA, axes, sort="total", top=5, jobs=jobs) for jobs in (1, 2))
    assert one.rows() == two.rows()
    assert one.space.refused == two.space.refused


def test_pieces_are_small() -> None:
    """However many points there are, so many at a time are held."""
    sweep = swept(LLAMA, {"n_layers": range(1, 1001), "d_ff": range(64, 64064, 64), "v": range(1000, 101000, 100)})
    assert len(sweep.space) == 10**9
    pieces = sweep.space.pieces(0, len(sweep.space))
    assert max(next(pieces).number for _ in range(5)) <= PIECE


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"where": ("total <",)}, "is no condition"),
        ({"where": ("totl < 3",)}, "no column 'totl'"),
        ({"where": ("total < 3x",)}, "is not a number of parameters"),
        ({"columns": ("totl",)}, "no column 'totl'"),
        ({"sort": "mlp"}, "no column 'mlp'"),
        ({"pareto": ("total",)}, "one column alone"),
        ({"pareto": ("total", "memory"), "top": 3}, "both --top and --pareto"),
        ({"columns": ("memory",), "how": SweepRun(dtype="q4_k_n")}, "unknown data type 'q4_k_n'"),
    ],
)
def test_what_is_refused(how: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said) as caught:
        swept(LLAMA, {"v": (10, 20)}, **how).rows()
    assert caught.value.kind


# --- the command ------------------------------------------------------------------------------------------------------


def test_every_format_has_the_same_rows(gptcalc: Callable[..., Result], tmp_path: Path) -> None:
    words = ("sweep", "llama-3-8b", "--set", "n_layers=16..64:16", "--set", "n_kv_heads=4,8", "--context", "8K,32K")
    rows = gptcalc(*words, "--json").json
    assert len(rows) == 4 * 2 * 2
    assert [json.loads(line) for line in gptcalc(*words, "--format", "jsonl").out.splitlines()] == rows
    head, *lines = gptcalc(*words, "--format", "csv").out.splitlines()
    assert [dict(zip(head.split(","), map(int, line.split(",")), strict=True)) for line in lines] == rows
    assert gptcalc(*words, "-o", str(tmp_path / "rows.csv")).out == ""
    assert (tmp_path / "rows.csv").read_text().splitlines() == [head, *lines]
    assert gptcalc(*words, "--get", "0.total").out.strip() == str(rows[0]["total"])
    assert gptcalc(*words).out.count("\n") == 17


def test_words_are_values_too(gptcalc: Callable[..., Result]) -> None:
    """GPT-2's activation has two matrices, a gated one three."""
    rows = gptcalc(
        "sweep", "gpt2", "--set", "mlp=gelu,swiglu", "--set", "d_ff=3072", "--columns", "mlp,total", "--json"
    ).json
    assert rows[1]["total"] - rows[0]["total"] == 12 * (768 * 3072 + 3072)


def test_points_left_out_are_told(gptcalc: Callable[..., Result]) -> None:
    found = gptcalc("sweep", "llama-3-8b", "--set", "n_kv_heads=3,8", "--format", "csv")
    assert found.status == 0
    assert "1 point left out: attn: n_heads = 32 is not a multiple of n_kv_heads = 3" in found.err


@pytest.mark.parametrize(
    "words",
    [(), ("--set", "n_layers"), ("--set", "n_layers=8..1"), ("--set", "nlayers=1,2"),
     ("--part", "5/3", "--set", "v=1,2"), ("--set", "v=1,2", "--set", "v=3"), ("--set", "n_kv_heads=3,5"),
     ("--set", "v=1..30000:1")],
)  # fmt: skip
def test_bad_words(gptcalc: Callable[..., Result], words: tuple[str, ...]) -> None:
    found = gptcalc("sweep", "llama-3-8b", *words)
    assert (found.status, found.out) == (2, "")
    assert len(found.lines) == 1


# --- files and pictures -----------------------------------------------------------------------------------------------

SOME = ("sweep", "llama-3-8b", "--set", "n_layers=16..64:16", "--set", "n_kv_heads=3,4,8", "--context", "8K,32K",
        "--set", "mlp=gelu,swiglu")  # fmt: skip


def test_parquet_parts_are_the_rows(gptcalc: Callable[..., Result], tmp_path: Path) -> None:
    """Parts of a grid as files of one data set have its rows, FLOPs beyond 64 bits among them."""
    parquet = pytest.importorskip("pyarrow.parquet")
    columns = ("--columns", "mlp,n_layers,n_kv_heads,context,batch,total,memory,prefill_flops", "--batch", "1,100000")
    rows = gptcalc(*SOME, *columns, "--json").json
    assert max(row["prefill_flops"] for row in rows) > 2**63
    found = []
    for number in range(1, 4):
        file = tmp_path / f"{number}.parquet"
        assert gptcalc(*SOME, *columns, "--part", f"{number}/3", "-o", str(file)).out == ""
        found += parquet.read_table(file).to_pylist()
    assert [
        {key: value if isinstance(value, str) else int(value) for key, value in row.items()} for row in found
    ] == rows
    assert sorted(tmp_path.glob("*")) == [tmp_path / f"{number}.parquet" for number in range(1, 4)]


def test_parquet_is_refused_where_it_can_not_be(gptcalc: Callable[..., Result], tmp_path: Path) -> None:
    for words, said in (
        ((*SOME, "--format", "parquet"), "-o FILE.parquet"),
        (("params", "gpt2", "-o", str(tmp_path / "a.parquet")), "not drawn so"),
    ):
        found = gptcalc(*words)
        assert (found.status, found.out) == (2, "")
        assert said in found.err
    assert not list(tmp_path.glob("*"))


def test_rows_of_none_are_a_file_too(gptcalc: Callable[..., Result], tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    assert gptcalc(*SOME, "--where", "total < 1", "-o", str(tmp_path / "none.parquet")).status == 0
    assert parquet.read_table(tmp_path / "none.parquet").num_rows == 0


def test_a_picture(gptcalc: Callable[..., Result], tmp_path: Path) -> None:
    """A point a row, which says it; as many colours as the third column has values."""
    rows = gptcalc(*SOME, "--json").json
    assert gptcalc(*SOME, "-o", str(tmp_path / "grid.svg"), "--plot", "kv_bytes,total,mlp").out == ""
    image = ElementTree.fromstring((tmp_path / "grid.svg").read_text())
    points = [shape for shape in image.iter("{http://www.w3.org/2000/svg}circle") if shape.get("r") == "3.5"]
    assert len(points) == len(rows)
    assert len({point.get("fill") for point in points}) == 2
    for point, row in zip(points, rows, strict=True):
        assert f"total {row['total']:,} =" in (point[0].text or "")
    across = [(row["kv_bytes"], float(point.get("cx", "nan"))) for point, row in zip(points, rows, strict=True)]
    slopes = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in pairwise(across) if a[0] != b[0]]
    assert max(slopes) == pytest.approx(min(slopes), rel=1e-2)  # places are rounded to a tenth
    default = gptcalc(*SOME, "--format", "svg").out
    assert default.count("<circle") == len(rows) + 2  # n_layers across, told apart by the heads
    for words, said in ((("--plot", "total"), "two columns"), (("--plot", "total,mpl"), "did you mean mlp?"),
                        (("--plot", "mlp,total"), "is a word"), (("--where", "total < 1"), "0 points")):  # fmt: skip
        assert said in gptcalc(*SOME, *words, "--format", "svg").err


@pytest.mark.heavy
def test_the_example_with_dask(gptcalc: Callable[..., Result], tmp_path: Path) -> None:
    """Its files together are the grid."""
    pytest.importorskip("dask")
    parquet = pytest.importorskip("pyarrow.parquet")
    spec = spec_from_file_location("example", Path(__file__).parents[2] / "docs" / "examples" / "sweep_with_dask.py")
    assert spec is not None
    assert spec.loader is not None
    example = module_from_spec(spec)
    spec.loader.exec_module(example)
    subprocess.run([sys.executable, str(spec.origin), str(tmp_path)], check=True)
    rows = gptcalc(*example.GRID, "--json").json
    found = [row for file in sorted(tmp_path.glob("*.parquet")) for row in parquet.read_table(file).to_pylist()]
    assert [{key: int(value) for key, value in row.items()} for row in found] == rows


def test_points_of_which_no_polynomial_holds_for_all() -> None:
    """Which operand is the larger hangs on the width at some numbers of experts: each point is computed for itself."""
    axes = {"c": [10, 127], "moe.n_experts": [5, 22], "n_heads": [3, 5], "d": [15, 27, 85]}
    document = DOCUMENTS["nested"] | {"name": "nested"}
    columns = (*axes, "context", "batch", "activations_bytes", "memory")
    rows = swept(document, axes, contexts=(5,), batches=(1, 22256), columns=columns).rows()
    assert len(rows) == 48
    for row in rows[::7]:
        figures = alone(document, {key: row[key] for key in axes}, row["context"], row["batch"])
        assert all(row[key] == figures[key] for key in ("activations_bytes", "memory"))


# --- points of a file -------------------------------------------------------------------------------------------------

POINTS = (
    "n_layers,d_ff,n_kv_heads,context,total\n16,8192,8,8192,1\n24,8192,4,32768,1\n16,9000,8,8192,5\n32,14336,5,8192,5\n"
)
ASKED = ("--columns", "n_layers,d_ff,n_kv_heads,context,total,kv_bytes")


def test_points_that_a_file_lists(gptcalc: Callable[..., Result], tmp_path: Path) -> None:
    """Each as the analyses say of it alone; what is no model is left out; figures in the file are not read."""
    file = tmp_path / "points.csv"
    file.write_text(POINTS)
    answer = gptcalc("sweep", "llama-3-8b", "--points", str(file), *ASKED, "--json")
    found = {
        (r["n_layers"], r["d_ff"], r["n_kv_heads"], r["context"]): (r["total"], r["kv_bytes"]) for r in answer.json
    }
    assert set(found) == {(16, 8192, 8, 8192), (24, 8192, 4, 32768), (16, 9000, 8, 8192)}
    assert "1 point left out" in answer.err
    for (n_layers, d_ff, n_kv_heads, context), figures in found.items():
        model = load("llama-3-8b", [f"n_layers={n_layers}", f"d_ff={d_ff}", f"n_kv_heads={n_kv_heads}"]).architecture
        assert figures == (params(model).total, kv(model, context=context).bytes)


def test_parts_of_the_points_of_a_file_are_all_of_them(gptcalc: Callable[..., Result], tmp_path: Path) -> None:
    file = tmp_path / "points.csv"
    file.write_text(POINTS)
    parts = [
        gptcalc("sweep", "llama-3-8b", "--points", str(file), "--part", f"{n}/3", *ASKED, "--json") for n in (1, 2, 3)
    ]
    whole = gptcalc("sweep", "llama-3-8b", "--points", str(file), *ASKED, "--json").json
    assert sorted(map(str, whole)) == sorted(str(row) for part in parts for row in part.json)


def test_points_of_a_file_of_which_no_polynomial_holds(gptcalc: Callable[..., Result], tmp_path: Path) -> None:
    """Blocks divide one width and not the other: each point is computed for itself, one that is no model is told."""
    file = tmp_path / "points.csv"
    file.write_text("n_layers,d_ff,n_kv_heads\n16,8192,8\n16,9200,8\n32,14336,5\n24,8192,4\n")
    words = ("--dtype", "q4_k_m", "--columns", "n_layers,d_ff,n_kv_heads,weights_bytes", "--json")
    answer = gptcalc("sweep", "llama-3-8b", "--points", str(file), *words)
    assert "1 point left out" in answer.err
    found = {(row["n_layers"], row["d_ff"], row["n_kv_heads"]): row["weights_bytes"] for row in answer.json}
    assert set(found) == {(16, 8192, 8), (16, 9200, 8), (24, 8192, 4)}
    for (n_layers, d_ff, n_kv_heads), size in found.items():
        settings = [f"n_layers={n_layers}", f"d_ff={d_ff}", f"n_kv_heads={n_kv_heads}"]
        assert size == stored(load("llama-3-8b", settings).architecture, "q4_k_m")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("n_layers\n", "no points in it"),
        ("n_layers\n1.5\n", "n_layers of point 1: '1.5' is no whole number"),
        ("n_layers,n_layers\n1,2\n", "a column is there twice"),
        ("d_fff\n4\n", "did you mean d_ff"),
        ("n_layers,batch\n4,0\n", "less than 1"),
    ],
)
def test_points_that_are_none(gptcalc: Callable[..., Result], tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "points.csv"
    file.write_text(text)
    answer = gptcalc("sweep", "llama-3-8b", "--points", str(file))
    assert (answer.status, answer.out) == (2, "")
    assert problem in answer.err


def test_points_of_a_grid_in_parquet(gptcalc: Callable[..., Result], tmp_path: Path) -> None:
    """What a sweep wrote is read again, part by part."""
    pytest.importorskip("pyarrow")
    grid = tmp_path / "grid.parquet"
    axes = ("--set", "n_layers=1..8:1", "--set", "d_ff=1K..8K:1K", "--set", "n_kv_heads=1,2", "--context", "1K,2K")
    columns = ("--columns", "n_layers,d_ff,n_kv_heads,context,total,decode_flops")
    gptcalc("sweep", "llama-3-8b", *axes, *columns, "-o", str(grid))
    whole = gptcalc("sweep", "llama-3-8b", *axes, *columns, "--json").json
    parts = [
        gptcalc("sweep", "llama-3-8b", "--points", str(grid), "--part", f"{n}/3", *columns, "--json").json
        for n in (1, 2, 3)
    ]
    assert sorted(map(str, whole)) == sorted(str(row) for part in parts for row in part)


# --- by the thousand --------------------------------------------------------------------------------------------------


def drawn_points(number: int, seed: str) -> Iterator[tuple[dict[str, Any], dict[str, int], int, int, dict[str, int]]]:
    """Points of random grids over all kinds of blocks: the document, its settings, context, batch and figures."""
    chance = random.Random(seed)
    names = list(DOCUMENTS)
    left = number
    while left > 0:
        name = chance.choice(names)
        document = DOCUMENTS[name] | {"name": name}
        keys = sizes(DOCUMENTS[name])
        some = chance.sample(keys, min(chance.randint(1, 4), len(keys)))
        axes = {key: sorted({size, *(chance.randint(1, 4 * size + 3) for _ in range(4))}) for key, size in some}
        model = build(document)
        columns = told_of(model)
        contexts, batches = sorted({chance.randint(1, model.c) for _ in range(2)}), (1, chance.randint(2, 50_000))
        rows = swept(document, axes, contexts=contexts, batches=batches,
                     columns=(*axes, "context", "batch", *columns)).rows()  # fmt: skip
        for row in chance.sample(rows, min(10, len(rows), left)):
            left -= 1
            figures = {key: row[key] for key in columns}
            yield document, {key: row[key] for key in axes}, row["context"], row["batch"], figures


@pytest.mark.parametrize("number", [60, pytest.param(10_000, marks=pytest.mark.heavy)])
def test_random_points_one_by_one(number: int) -> None:
    """What a grid says of a point is what the analyses of that point say, to the unit."""
    for document, settings, context, batch, figures in drawn_points(number, f"points {number}"):
        assert figures == alone(document, settings, context, batch), (document["name"], settings, context, batch)


def test_an_unknown_column_of_a_file_is_said_with_the_file(gptcalc: Callable[..., Result], tmp_path: Path) -> None:
    file = tmp_path / "points.csv"
    file.write_text("n_kv_headz\n1\n", encoding="utf-8")
    found = gptcalc("sweep", "llama-3-8b", "--points", str(file))
    assert (found.status, found.out, len(found.lines)) == (2, "", 1)
    assert f"{file}: unknown key 'n_kv_headz'; did you mean n_kv_heads?" in found.err
