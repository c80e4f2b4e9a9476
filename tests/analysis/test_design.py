"""Designs: what the search finds is what trying every point finds, by the analyses one by one."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from contextlib import suppress
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

import gptcalc as gptcalc_
from gptcalc.analysis.design.pace import Demand
from gptcalc.analysis.design.run import Brief, Design, designed
from gptcalc.analysis.design.taste import Taste
from gptcalc.analysis.memory.fit import fitted
from gptcalc.analysis.params import params
from gptcalc.analysis.timed import step_seconds
from gptcalc.conventions import FitRun, SweepRun, TimeRun
from gptcalc.document import build
from gptcalc.errors import InputError
from gptcalc.sources import devices, load
from gptcalc.sources.preset import edited
from tests.analysis.test_sweep import alone, sizes
from tests.conftest import Result
from tests.reference_cases import DOCUMENTS, some

GIB = 2**30
FREELY = Taste(ratios={("d_ff", "d"): None, ("d", "n_layers"): None})
LLAMA = load("llama-3-8b")


def asked(document: Mapping[str, Any], free: Mapping[str, Any], goal: str, **more: Any) -> Design:
    return designed(Brief(document=dict(document), architecture=build(dict(document)), free=free, goal=goal, **more))


def unruled(document: Mapping[str, Any]) -> list[tuple[str, int]]:
    """Sizes about which there is no rule of heads."""
    return [(key, size) for key, size in sizes(document) if key not in ("d", "n_heads")]


def tried_out(document: Mapping[str, Any], free: Mapping[str, Any], context: int, batch: int) -> list[dict[str, Any]]:
    """Every point that is a model, by the analyses."""
    found = []
    for values in product(*free.values()):
        settings = dict(zip(free, values, strict=True))
        with suppress(InputError):
            found.append(settings | alone(document, settings, context, batch))
    return found


@pytest.mark.parametrize("name", some(DOCUMENTS))
def test_every_kind_of_block(name: str) -> None:
    """Two keys of each small document, a budget in the middle of what there is, the most and the least of a figure."""
    document = DOCUMENTS[name] | {"name": name}
    if build(document).canvas is not None:
        pytest.skip("no memory that is counted")
    chance = random.Random(f"design {name}")
    some = chance.sample(keys := unruled(DOCUMENTS[name]), min(2, len(keys)))
    free = {key: sorted({size, 2 * size, size + 1, 3 * size, chance.randint(1, 3 * size + 3)}) for key, size in some}
    context, batch = min(build(document).c, 21), chance.choice((1, 3))
    rows = tried_out(document, free, context, batch)
    figure = chance.choice(("total", "active", "kv_bytes", "prefill_flops", "weights_bytes"))
    budget = chance.choice(rows)["memory"]
    within = [row for row in rows if row["memory"] <= budget]
    how = SweepRun(context=context)
    for goal, best in ((f"-{figure}", max), (figure, min)):
        found = asked(document, free, goal, budget=budget, batch=batch, how=how, taste=FREELY, top=3)
        expected = sorted((row[figure] for row in within), reverse=best is max)[:3]
        assert [row[figure] for row in found.designs] == expected
        assert all(row["memory"] <= budget for row in found.designs)


def test_rules_and_conditions_of_llama() -> None:
    """Heads of 64 or 128, ratios, a memory and a number of FLOPs: as trying out 5 · 4 · 6 · 3 points finds."""
    free = {"d": (1024, 1536, 2048, 3072, 4096), "n_layers": (8, 12, 24, 32), "n_kv_heads": (4, 8, 16),
            "d_ff": (3072, 4096, 6144, 8192, 11008, 14336)}  # fmt: skip
    expected = []
    for width in (64, 128):
        for d in free["d"]:
            for row in tried_out({**LLAMA.document, "n_heads": d // width}, {**free, "d": (d,)}, 8192, 4):
                if 2 * d <= row["d_ff"] <= 4 * d and 64 * row["n_layers"] <= d <= 256 * row["n_layers"]:
                    expected.append(row | {"n_heads": d // width})
    expected = [r for r in expected if r["memory"] <= 12 * GIB and r["decode_flops"] < 15 * 10**9]
    expected.sort(key=lambda row: -row["total"])
    found = asked(LLAMA.document, free, "-total", budget=12 * GIB, where=("decode_flops < 15e9",), batch=4, top=5,
                  taste=Taste(d_head=(64, 128)), how=SweepRun(context=8192))  # fmt: skip
    keys = (*free, "n_heads", "total", "memory", "decode_flops")
    assert [row["total"] for row in found.designs] == [row["total"] for row in expected[:5]]
    assert all({k: row[k] for k in keys} in [{k: r[k] for k in keys} for r in expected] for row in found.designs)


def test_the_issues_question() -> None:
    """The largest Llama for 8 GiB at 32K: it fits, and one step further on any key that grows does not."""
    how = SweepRun(context=32768)
    found = asked(LLAMA.document, {"d": None, "n_layers": None, "d_ff": None}, "-total", budget=8 * GIB, how=how)
    (best,) = found.designs
    assert best["d"] == 128 * best["n_heads"]
    assert best["d_ff"] % 128 == 0
    settings = {key: best[key] for key in ("d", "n_layers", "d_ff", "n_heads")}

    def fits(**more: int) -> bool:
        model = build({**LLAMA.document, **settings, **more})
        return fitted(model, 8 * GIB, FitRun(context=32768, dtype="bf16", advice=False)).fits

    assert fits()
    assert not fits(d_ff=best["d_ff"] + 128)
    assert not fits(n_layers=best["n_layers"] + 1)


def test_large_boxes_are_halved() -> None:
    """A layer has 4·64² weights of attention, 3·64·f and two norms of 64, the table 64·v: of 2·10⁹ points the best."""
    n = np.arange(1, 1001, dtype=np.int64)[:, None]
    f = np.arange(1, 20001, 10, dtype=np.int64)[None, :]
    layers = n * (4 * 64 * 64 + 3 * 64 * f + 2 * 64) + 64
    v = np.minimum(1000, (10**9 - layers) // 64)  # for each the most that there is room for
    best = int((layers + 64 * v)[v >= 1].max())
    free = {"n_layers": range(1, 1001), "d_ff": range(1, 20001, 10), "v": range(1, 1001)}
    document = {"d": 64, "n_heads": 1, "n_layers": 2, "v": 10, "c": 64, "d_ff": 64, "tying": True}
    found = asked(document, free, "-total", where=("total <= 1000000000",), taste=FREELY)
    assert found.designs[0]["total"] == best
    assert found.points == 1000 * 2000 * 1000


def test_rules_are_said_and_can_be_dropped() -> None:
    free = {"d": (256, 512), "d_ff": (1024, 2048, 8192)}
    document = {**LLAMA.document, "n_layers": 4, "n_heads": 4, "n_kv_heads": 2, "d": 512, "d_ff": 1024}
    strict = asked(document, free, "-total", where=("total > 0",), how=SweepRun(context=64))
    assert strict.tried == (
        "d 256, 512", "d_ff 1,024, 2,048, 8,192", "n_heads follows d: d/n_heads = 128", "d_ff/d from 2 to 4",
        "d/n_layers from 64 to 256",
    )  # fmt: skip
    assert (strict.designs[0]["d"], strict.designs[0]["d_ff"]) == (512, 2048)
    loose = asked(document, free, "-total", where=("total > 0",), how=SweepRun(context=64), taste=FREELY)
    assert (loose.designs[0]["d"], loose.designs[0]["d_ff"]) == (512, 8192)
    narrow = Taste(ratios={("d_ff", "d"): (Fraction(4), Fraction(4))})
    found = asked(document, free, "total", where=("total > 0",), how=SweepRun(context=64), taste=narrow)
    assert (found.designs[0]["d"], found.designs[0]["d_ff"]) == (256, 1024)


def test_a_width_of_heads_that_is_given_stays() -> None:
    """The small Qwen3's heads are 128 wide whatever d is; nothing follows."""
    document = load("qwen3-0.6b").document
    found = asked(document, {"d": (1024, 1100)}, "-total", where=("total > 0",), how=SweepRun(context=64))
    assert found.designs[0]["d"] == 1100
    assert "n_heads" not in found.designs[0]


@pytest.mark.parametrize("dtype", ["bf16", *(pytest.param(d, marks=pytest.mark.heavy) for d in ("q4_k_m", "mlx4"))])
@pytest.mark.parametrize("name", some(DOCUMENTS))
def test_how_fast_every_kind_of_block_decodes(name: str, dtype: str) -> None:
    """With a rate in the middle of those that there are: as timing every point finds."""
    document = DOCUMENTS[name] | {"name": name}
    model = build(document)
    if model.sees_all or any((model.target, model.head.borrowed, model.block, model.canvas)):
        pytest.skip("no decode step that is timed")
    chance = random.Random(f"pace {name}")
    some = chance.sample(keys := unruled(DOCUMENTS[name]), min(2, len(keys)))
    free = {key: sorted({size, 2 * size, 3 * size}) for key, size in some}
    how, batch = SweepRun(context=min(model.c, 21), dtype=dtype), chance.choice((1, 5))
    device = devices.device("rtx-4090")
    rows = []
    for values in product(*free.values()):
        settings = dict(zip(free, values, strict=True))
        with suppress(InputError):
            own = build(edited(document, [f"{key}={value}" for key, value in settings.items()]))
            rows.append((batch / step_seconds(own, device, how.to(TimeRun, batch=batch)), params(own).total))
    rate = chance.choice(rows)[0]
    found = asked(document, free, "-total", demand=Demand(device, rate, batch), batch=batch, how=how, taste=FREELY)
    assert found.designs[0]["total"] == max(total for speed, total in rows if speed >= rate)
    assert found.designs[0]["tokens_per_second"] >= rate


def test_the_largest_that_is_fast_enough(gptcalc: Callable[..., Result]) -> None:
    """A step of one sequence reads all weights but the table, and the cache: at 100 a second at most 1008 GB / 100."""
    found = gptcalc("design", "--like", "llama-3-8b", "--free", "n_layers=8..64:1,d_ff=4K..16K:128", "--context", "8K",
                    "--device", "rtx-4090", "--fits", "24GiB", "--tokens-per-second", "100", "--json").json  # fmt: skip
    row = found["designs"][0]
    layer = 2 * (4096 * 4096 * 2 + 2 * 4096 * 1024 + 3 * 4096 * row["d_ff"] + 2 * 4096)
    read = row["n_layers"] * (layer + 8192 * 2 * 1024 * 2) + 2 * 4096 * (128256 + 1 + 1)
    assert row["tokens_per_second"] == pytest.approx(1008e9 / read, rel=1e-12)
    assert 100 <= row["tokens_per_second"] < 101
    said = gptcalc("design", "--like", "llama-3-8b", "--free", "d_ff", "--fits", "24GiB", "--tokens-per-second", "10")
    assert "on which device" in said.err


@pytest.mark.parametrize("words", [(), ("--fits", "24GiB", "--tokens-per-second", "10")])
def test_several_devices_are_never_taken_for_one(gptcalc: Callable[..., Result], words: tuple[str, ...]) -> None:
    found = gptcalc("design", "--like", "llama-3-8b", "--free", "d_ff", "--device", "4xrtx-4090", *words)
    assert (found.status, found.out) == (2, "")
    assert "name one" in found.err


def test_the_largest_in_four_bits(gptcalc: Callable[..., Result]) -> None:
    """AWQ's matrices take 4 bits and 20 for each 128 inputs, the output, norms and the table 16: a step reads those."""
    words = ("--free", "n_layers=8..64:1,d_ff=4K..16K:128", "--context", "8K", "--device", "rtx-4090")
    found = gptcalc("design", "--like", "llama-3-8b", *words, "--dtype", "awq", "--tokens-per-second", "100", "--json")
    row = found.json["designs"][0]
    matrices = 4096 * 4096 * 2 + 2 * 4096 * 1024 + 3 * 4096 * row["d_ff"]
    layer = matrices // 2 + matrices // 128 * 20 // 8 + 2 * 2 * 4096
    kept = row["n_layers"] * layer + 2 * 4096 * (128256 + 1)
    read = kept + row["n_layers"] * 8192 * 2 * 1024 * 2 + 2 * 4096
    assert row["tokens_per_second"] == pytest.approx(1008e9 / read, rel=1e-12)
    assert 100 <= row["tokens_per_second"] < 101


@pytest.mark.parametrize("words", [
    ("q4_k_m", "d_ff", (8192, 12032)), ("q4_k_m,ffn_down=q6_k", "d_ff", (8192, 8448)),
    ("mlx4", "v", (64000, 128256)),
])  # fmt: skip
def test_the_largest_in_a_file_format(words: tuple[str, str, tuple[int, ...]]) -> None:
    """Where types go by layers and widths, or tables are packed, too: as weighing every point by itself finds."""
    dtype, key, values = words
    depths = (20, 33)
    document, how, budget = LLAMA.document, SweepRun(context=4096, dtype=dtype), 4 * GIB
    found = asked(document, {"n_layers": depths, key: values}, "-total", budget=budget, how=how, taste=FREELY)
    fitting = []
    for n_layers, value in product(depths, values):
        model = build(edited(document, [f"n_layers={n_layers}", f"{key}={value}"]))
        if fitted(model, budget, FitRun(context=4096, dtype=dtype, advice=False)).fits:
            fitting.append(params(model).total)
    assert 0 < len(fitting) < len(depths) * len(values)
    assert found.designs[0]["total"] == max(fitting)


def test_a_device_without_a_rate_is_bound_by_what_it_reads(gptcalc: Callable[..., Result]) -> None:
    """Apple gives no rate: as `time`, what is computed is left out. MLX packs the table's rows, too: a row of 4096 in
    4 bits with a scale and a shift of 16 bits for 64; 819.2 GB/s."""
    words = ("--free", "n_layers=8..64:1,d_ff=4K..16K:128", "--context", "8K", "--device", "apple-m2-ultra-192gb")
    found = gptcalc("design", "--like", "llama-3-8b", *words, "--dtype", "mlx4", "--tokens-per-second", "100", "--json")
    row = found.json["designs"][0]
    matrices = row["n_layers"] * (4096 * 4096 * 2 + 2 * 4096 * 1024 + 3 * 4096 * row["d_ff"]) + 4096 * (128256 + 1)
    read = matrices * 36 // 64 + (2 * row["n_layers"] + 1) * 4096 * 2 + row["n_layers"] * 8192 * 2 * 1024 * 2
    assert row["tokens_per_second"] == pytest.approx(819.2e9 / read, rel=1e-12)
    assert found.json["notes"] == [
        "compute is left out: no bf16 rate of Apple M2 Ultra 192 GB (unified memory) is known"
    ]


# --- the command ------------------------------------------------------------------------------------------------------


def test_the_command(gptcalc: Callable[..., Result]) -> None:
    words = ("design", "--like", "llama-3-8b", "--free", "d,n_layers=16..64:16,d_ff=4K..16K:1K", "--fits", "16GiB",
             "--context", "8K", "--top", "3")  # fmt: skip
    found = gptcalc(*words, "--json")
    assert found.status == 0
    rows = found.json["designs"]
    assert len(rows) == 3
    for row in rows:
        settings = [f"--set={key}={row[key]}" for key in ("d", "n_layers", "d_ff", "n_heads")]
        assert gptcalc("params", "llama-3-8b", *settings, "--get", "total").out.strip() == str(row["total"])
        fit = gptcalc(
            "fit", "llama-3-8b", *settings, "--context", "8K", "--budget", "16GiB", "--dtype", "bf16", "--json"
        )
        assert (fit.status, fit.json["needed"]) == (0, row["memory"])
    assert json.loads(gptcalc(*words, "--format", "jsonl").out.splitlines()[0])
    assert gptcalc(*words, "--format", "csv").out.startswith("d,n_layers,d_ff,n_heads,total,memory,decode_flops\n")


def test_none_is_a_no(gptcalc: Callable[..., Result]) -> None:
    found = gptcalc("design", "--like", "llama-3-8b", "--free", "d_ff", "--fits", "1GiB")
    assert found.status == 1
    assert "no design meets it" in found.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--free", "d_ff", "--fits", "8GiB"), "like which model"),
        (("--like", "llama-3-8b", "--fits", "8GiB"), "nothing is free"),
        (("--like", "llama-3-8b", "--free", "d_ff"), "no budget"),
        (("--like", "llama-3-8b", "--free", "dff", "--fits", "8GiB"), "says no number"),
        (("--like", "llama-3-8b", "--free", "dff=1,2", "--fits", "8GiB"), "unknown key"),
        (("--like", "llama-3-8b", "--free", "d_ff,d_ff", "--fits", "8GiB"), "given twice"),
        (("--like", "llama-3-8b", "--free", "d_ff,", "--fits", "8GiB"), "'d_ff,' is no key"),
        (("--like", "llama-3-8b", "--free", "d_ff=8..4", "--fits", "8GiB"), "--free d_ff: range '8..4' runs downwards"),
        (("--like", "llama-3-8b", "--free", "d_ff=", "--fits", "8GiB"), "--free 'd_ff=' is not KEY=VALUES"),
        (("--like", "llama-3-8b", "--free", "d_ff", "--fits", "8GiB", "--ratio", "d_ff/dd=2..4"),
         "no number for dd"),
        (("--like", "llama-3-8b", "--free", "d_ff", "--fits", "8GiB", "--ratio", "d/n_layers=2..4"),
         "neither is free"),
        (("--like", "llama-3-8b", "--free", "d_ff", "--fits", "8"), "has no unit"),
        (("--like", "llama-3-8b", "--free", "d_ff", "--fits", "8GiB", "--maximize", "size"), "no column 'size'"),
        (("--like", "llama-3-8b", "--free", "d_ff", "--fits", "8GiB", "--ratio", "d_ff=2..4"), "is no ratio"),
        (("--like", "llama-3-8b", "--free", "d_ff", "--fits", "8GiB", "--ratio", "d_ff/d=4..2"), "downwards"),
        (("--like", "llama-3-8b", "--free", "d_ff", "--fits", "8GiB", "--minimize", "total", "--maximize", "total"),
         "leave one of them out"),
        (("--like", "llama-3-8b", "--free", "d=1K..8K:1,n_kv_heads=1..64:1,n_heads=1..64:1", "--fits", "8GiB"),
         "give narrower ranges"),
    ],
)  # fmt: skip
def test_bad_words(gptcalc: Callable[..., Result], words: tuple[str, ...], said: str) -> None:
    found = gptcalc("design", *words)
    assert (found.status, found.out) == (2, "")
    assert len(found.lines) == 1
    assert said in found.err


def test_a_ratio_with_a_number_of_the_models_own() -> None:
    """Heads are 128 wide, so widths of 1,024, 2,048 and 4,096 have 8, 16 and 32; of keys and values the model has 8."""
    free = {"d": [1024, 2048, 4096], "n_heads": [8, 16, 32]}
    limits = {("d_ff", "d"): None, ("d", "n_layers"): None, ("n_heads", "n_kv_heads"): (Fraction(2), Fraction(3))}
    found = gptcalc_.design("llama-3-8b", free, "80GiB", taste=Taste(d_head=(128,), ratios=limits), top=9)
    assert [(row["d"], row["n_heads"]) for row in found.designs] == [(2048, 16)]


def test_in_python() -> None:
    """The same as the command finds."""
    free = {"d_ff": [8192, 12288], "n_layers": [16, 32]}
    found = gptcalc_.design("llama-3-8b", free, "8GiB", context=8192)
    assert found.designs == asked(LLAMA.document, free, "-total", budget=8 * GIB, how=SweepRun(context=8192)).designs
    assert gptcalc_.design(LLAMA, free, where="total < 4e9", minimize="total").designs[0]["n_layers"] == 16
