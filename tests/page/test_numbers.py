"""A page's numbers are the program's: hundreds of settings, its data evaluated in Python and by its own script."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from contextlib import suppress
from importlib import import_module
from importlib.resources import files
from typing import Any, NamedTuple

import msgspec
import pytest

from gptcalc.analysis.explorer.lengths import pieces, value
from gptcalc.analysis.explorer.switches import variants
from gptcalc.analysis.flops import counted
from gptcalc.analysis.memory.account import held_by
from gptcalc.analysis.memory.cache import cached
from gptcalc.analysis.params import params
from gptcalc.conventions import FlopsRun, InferenceRun, RoomRun
from gptcalc.equations import Chosen, Pairs, Workload
from gptcalc.equations.conditions import Completed, Entries, Near
from gptcalc.errors import InputError
from gptcalc.report.page.data import Shown, data
from gptcalc.sources import Reference, load
from tests.page.evaluated import At, Data, Evaluated, NoModel
from tests.reference_cases import DOCUMENTS, some

#: learned positions and RoPE, MHA, GQA and MLA, experts, windows in a pattern, recurrent layers, chunks, an encoder
#: alone and some beside a decoder; layers that run several times, whose passes keep a cache each or the last alone
MODELS = (
    "deepseek-v3", "gpt2", "qwen3-next-80b-a3b", "gemma-3-27b", "t5-small", "llama-4-scout", "whisper-tiny",
    "bert-base", "mamba2-130m", "bart-base", "loop", "two speeds", "loop that begins with both",
)  # fmt: skip
#: by what keys are multiplied; not all are models
RATIOS = ((1, 1), (1, 2), (2, 1), (3, 1), (3, 2), (1, 4), (5, 4))
NODE = shutil.which("node")
#: settings of each model, two of each variant that is drawn: to write one costs more than to try it
MANY, EACH = 90, 2


def reference(name: str) -> Reference:
    """A preset by its name, or one of the tests' documents."""
    return {"name": name, **DOCUMENTS[name]} if name in DOCUMENTS else name


class Page(NamedTuple):
    """The data of a page with one model, and settings of it: the variant's name, its data, and what --set says."""

    name: str
    data: Data
    settings: list[tuple[str, Data, At, list[str]]]


@pytest.fixture(scope="module", params=some(MODELS, 2))
def page(request: pytest.FixtureRequest) -> Page:
    """Settings of a model at random, the same every time, and the variants that these are of."""
    name: str = request.param
    chance = random.Random(f"{name} {MANY}")
    model = load(reference(name))
    found, refused = variants(model.document, model.architecture)
    chosen = [chance.choice(sorted(found)) for _ in range(MANY // EACH)] * EACH
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            import_module("gptcalc.report.page.data"),
            "variants",
            lambda *_: ({key: found[key] for key in chosen}, refused),
        )
        written = json.loads(msgspec.json.encode(data([Shown(model.architecture, model.document)])))
    return Page(name, written, settings(written, chosen, chance))


def settings(written: Data, chosen: list[str], chance: random.Random) -> list[tuple[str, Data, At, list[str]]]:
    (model,) = written["models"]
    made = []
    for variant in chosen:
        structure = model["structures"][model["variants"][variant]]
        keys, said = {}, []
        for key, (path, base) in structure["keys"].items():
            above, below = chance.choice(RATIOS)
            keys[key] = max(base * above // below, 1) if key != "n_layers" else base
            if key == "n_layers" and structure["deeper"]:
                keys[key] += structure["deeper"] * chance.randrange(4)
            said.append(f"{path}={keys[key]}")
        step = structure["step"]
        longest = structure["longest"] or 1 << 20
        length = chance.choice([model["c"], step * chance.randint(1, longest // step), step])
        phase = chance.choice(sorted(structure["stages"]))
        at = At(keys, length, chance.choice([1, 3, 8]), phase, chance.choice(structure["dtypes"][:3]),
                chance.choice(written["caches"]), variant.endswith("|on"))  # fmt: skip
        made.append((variant, structure, at, said))
    return made


def said(name: str, words: list[str], sets: list[str], at: At) -> dict[str, int]:
    """What the program says. InputError where there is no such model."""
    architecture = load(reference(name), sets, switches=words).architecture
    run: dict[str, Any] = {"batch": at.batch, "context": at.length, "mtp": at.modules}
    total = params(architecture)
    flops = counted(architecture, FlopsRun(phase=at.phase, **run))  # type: ignore[arg-type]
    memory = held_by(
        architecture,
        InferenceRun(phase=at.phase, dtype=at.dtype, kv_dtype=at.cache, **run),  # type: ignore[arg-type]
    ).per_device
    assert cached(architecture, RoomRun(kv_dtype=at.cache, **run)).bytes == memory.kv
    return {
        "total": total.total, "active": total.active, "mtp": total.mtp if at.modules else 0, "flops": flops.total,
        "attention": flops.attention, "cache": memory.kv, "weights": memory.weights, "activations": memory.activations,
    }  # fmt: skip


def test_a_page_says_what_the_program_says(page: Page) -> None:
    """At the model's own sizes and at others, of every kind of variant, in both phases; what is no model to the one is
    none to the other."""
    checked = 0
    for variant, structure, at, sets in page.settings:
        wanted = found = None
        with suppress(InputError):
            wanted = said(page.name, structure["words"], sets, at)
        with suppress(NoModel):
            found = Evaluated(page.data, structure, at).totals()
        assert found == wanted, (variant, sets, at)
        checked += found is not None
    assert checked >= len(page.settings) // 2


SCRIPT = """
const { Numbers, NoModel } = require(process.argv[1]);
const { data, cases } = JSON.parse(require("fs").readFileSync(0));
const whole = (all) => Object.fromEntries(Object.entries(all).map(([key, value]) => [key, BigInt(value)]));
console.log(JSON.stringify(cases.map(([structure, at]) => {
  const setting = { ...at, keys: whole(at.keys), length: BigInt(at.length), batch: BigInt(at.batch) };
  try {
    const numbers = new Numbers(data, structure, setting).check();
    const params = numbers.params(), work = numbers.work(), memory = numbers.memory();
    const { total, active, mtp } = params, { weights, cache, activations } = memory;
    const found = { total, active, mtp, flops: work.total, attention: work.attention, cache, weights, activations };
    return Object.fromEntries(Object.entries(found).map(([key, value]) => [key, String(value)]));
  } catch (error) {
    if (error instanceof NoModel) return null;
    throw error;
  }
})));
"""


@pytest.mark.skipif(NODE is None, reason="node is not installed")
def test_its_script_evaluates_the_same(page: Page) -> None:
    """The page's own script, on the same settings as above: what is no model is none, all else is equal."""
    cases = [(structure, at) for _, structure, at, _ in page.settings]
    script = str(files("gptcalc.report.page") / "numbers.js")
    given = json.dumps({"data": page.data, "cases": [(structure, at._asdict()) for structure, at in cases]})
    done = subprocess.run(
        [str(NODE), "-e", SCRIPT, script], input=given, capture_output=True, text=True, check=False, encoding="utf-8"
    )
    assert done.returncode == 0, done.stderr
    for (structure, at), found in zip(cases, json.loads(done.stdout), strict=True):
        wanted = None
        with suppress(NoModel):
            wanted = {key: str(value) for key, value in Evaluated(page.data, structure, at).totals().items()}
        assert found == wanted, at


LENGTHS = [
    *((Pairs(), 1), (Pairs(window=4096), 1), (Pairs(top_k=2048), 1), (Pairs(both=True), 1), (Near(128), 1)),
    *((Pairs(both=True, window=128), 1), (Pairs(chunk=8192), 8192), (Pairs(top_k=16, block=128), 128)),
    *((Entries(4, top_k=512), 4), (Entries(4), 4), (Completed(4), 4), (Chosen(8, 256), 1)),
]


@pytest.mark.parametrize(("condition", "step"), LENGTHS, ids=str)
@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_counts_are_their_pieces(condition: Any, step: int, phase: Any) -> None:
    """What a condition counts, at lengths that the pieces were not found at; so many around their ends."""

    def count(length: int) -> int:
        found: int = condition.count(Workload(length, phase))
        return found

    found = pieces(count, step)
    chance = random.Random(str(condition))
    ends = [start + apart * step for start, _, _ in found for apart in range(-3, 4)]
    for length in [n for n in ends if n >= step] + [step * chance.randint(1, (1 << 24) // step) for _ in range(300)]:
        assert value(found, length) == count(length), length


def test_a_count_that_is_no_polynomial_is_refused() -> None:
    with pytest.raises(InputError, match="no polynomial"):
        pieces(lambda n: n**3)
