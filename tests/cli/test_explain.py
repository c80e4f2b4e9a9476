"""`explain`: every symbol is named, what stands twice is shown once, a part or a layer alone, what a step reads."""

from __future__ import annotations

import re

import pytest

from gptcalc.analysis.memory.cache import kv
from gptcalc.architecture import Architecture
from gptcalc.conventions import CacheForm, Chunks, Form
from gptcalc.document import build
from gptcalc.equations import Workload, equations
from gptcalc.equations.grammar import Chosen, Name, Reference, nodes
from gptcalc.report.explain import explanation
from gptcalc.report.legend import SIZES, Symbol, legend
from gptcalc.report.values import VALUES
from gptcalc.report.weights import WEIGHTS
from gptcalc.sources import load
from gptcalc.sources.preset import names
from tests.conftest import Command
from tests.reference_cases import DOCUMENTS, ENCODERS, architecture

FORMS: list[tuple[Form, CacheForm, Chunks]] = [
    ("expanded", "latent", None),
    ("absorbed", "latent", None),
    ("expanded", "expanded", None),
    ("expanded", "latent", 4),
]


#: letters that look like variants of each other
VARIANTS = (("φ", "ϕ"), ("κ", "ϰ"), ("ρ", "ϱ"), ("π", "ϖ"), ("σ", "ς"), ("θ", "ϑ"))


def one_meaning(model: str, symbols: tuple[Symbol, ...]) -> None:
    """No letter, with what stands above and below it, is two things: what differs stands behind a comma."""
    meanings: dict[str, set[tuple[str, str]]] = {}
    for symbol in symbols:
        assert symbol.meaning, f"{model}: {symbol.symbol}, {symbol.keys or symbol.kind}, has no name"
        meanings.setdefault(symbol.symbol, set()).add((symbol.kind, re.split("[,:]", symbol.meaning)[0]))
    for name, found in meanings.items():
        assert len(found) == 1, f"{model}: {name} is {sorted(found)}"
    for one, other in VARIANTS:
        assert not {one, other} <= meanings.keys(), f"{model}: {one} and {other} look alike"


def legends(model: Architecture) -> set[Symbol]:
    """What a legend says of a model's lines, in every form they are written in: all symbols, each with one meaning."""
    found: set[Symbol] = set()
    for form, cache, chunks in FORMS:
        made = equations(model, form, cache, chunks)
        lines = [(line, Workload(64)) for stage in made.stages for line in stage.lines]
        listed = legend(lines, made.symbols)
        one_meaning(model.name, listed)
        symbols = {symbol.symbol for symbol in listed}
        for line, _ in lines:
            used = {
                node.name
                for node in nodes(line.text, str(line.condition or ""))
                if isinstance(node, (Reference, Chosen, Name))
            }
            assert used | line.ranges().keys() <= symbols, f"{model.name}: {line.text}"
        found.update(listed)
    return found


def test_every_symbol_has_a_name_in_words_and_one_meaning() -> None:
    found: set[Symbol] = set()
    encoders = (build({"name": name, **document}) for name, document in ENCODERS.items())
    for model in (*map(architecture, DOCUMENTS), *encoders, *(load(name).architecture for name in names())):
        found |= legends(model)
    values = {s.meaning.partition(", of the last")[0] for s in found if s.kind == "value"}
    unused = set(VALUES.values()) - values
    assert not unused, f"{sorted(unused)} are names of nothing"
    weights = " ".join(s.meaning for s in found if s.kind == "weight")
    assert not {name for name in WEIGHTS.values() if name not in weights}
    # no other width is called as the stream's because its symbol begins as that one's
    assert {s.over for s in found if s.kind == "index" and s.meaning == SIZES["d"]} == {"d", "d_enc"}


@pytest.mark.parametrize(("preset", "symbol", "meaning"), [
    ("qwen3.6-27b", "β", "how much of what the state lacks of a value is written into it"),
    ("qwen3.6-27b", "Ā", "decay of the state: what is left of it"),
    ("nemotron-3-super-120b-a12b", "y_L", "what the experts make, of their width"),
    ("xlstm-7b", "G_O", "gate of the output"),
    ("rwkv-7-world-0.1b", "b", "share of the first layer's values"),
    ("bert-base-uncased", "n_O", "what the output matrix reads"),
])  # fmt: skip
def test_a_symbol_means_what_its_sublayer_makes_of_it(preset: str, symbol: str, meaning: str) -> None:
    lines = [(line, Workload(64)) for stage in equations(load(preset).architecture).stages for line in stage.lines]
    assert meaning in {s.meaning for s in legend(lines) if s.symbol == symbol}


def test_what_stands_in_several_stages_is_shown_once(gptcalc: Command) -> None:
    shown = gptcalc("explain", "deepseek-v3").out
    assert shown.count("Σ_i n[t,i]·W_DQ[i,m]") == 1
    assert [line.split("  ")[0] for line in shown.splitlines() if line.startswith(("attn: ", "moe: "))] == [
        "attn: as in mla+mlp",
        "attn: as in mla+mlp",
        "moe: as in mla+moe",
    ]
    # one module: 2·d·d + 3 norms + latent attention + experts; the attention alone, by hand
    d, q, kv, h = 7168, 1536, 512, 128
    attention = d + d * q + q + q * h * 192 + d * (kv + 64) + kv + kv * h * 256 + h * 128 * d
    (first, second) = (line for line in shown.splitlines() if line.startswith("attn: "))
    assert f"{attention:,}" in first
    assert f"{attention:,}" in second


def test_what_differs_a_little_is_shown_by_its_differences(gptcalc: Command) -> None:
    lines = gptcalc("explain", "gemma-2-9b").out.splitlines()
    assert "attn: as in local+mlp, but for" in [line.split("  ")[0] for line in lines]
    assert sum("W_Q[i,g,r,a]" in line for line in lines) == 1


def test_a_part_alone(gptcalc: Command) -> None:
    found = gptcalc("explain", "deepseek-v3", "--part", "attention", "--json").json
    assert {line["part"] for stage in found["stages"] for line in stage["lines"]} == {"attn"}
    assert [stage["name"] for stage in found["stages"]] == ["mla+mlp", "mla+moe", "mtp"]
    assert gptcalc("explain", "deepseek-v3", "--part", "mla", "--json").json == found  # as the model's file calls it
    routers = gptcalc("explain", "mixtral-8x7b", "--part", "router", "--json").json
    assert routers["params"] == 32 * 4096 * 8


def test_one_layer_alone(gptcalc: Command) -> None:
    first, last = (gptcalc("explain", "deepseek-v3", "--layer", n, "--json").json for n in ("2", "60"))
    assert [stage["name"] for stage in (*first["stages"], *last["stages"])] == ["mla+mlp", "mla+moe"]
    per_layer = {row["name"]: row for row in gptcalc("explain", "deepseek-v3", "--json").json["stages"]}
    assert first["params"] * 3 == per_layer["mla+mlp"]["params"]
    assert last["flops"] * 58 == per_layer["mla+moe"]["flops"]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--layer", "12"], "gptcalc: --layer 12: there are layers 0 to 11"),
        (["--part", "atention"], "did you mean attention?"),
        (["--symbols", "--numbers"], "one of them"),
    ],
)
def test_what_is_not_there_is_refused(arguments: list[str], problem: str, gptcalc: Command) -> None:
    found = gptcalc("explain", "gpt2", *arguments)
    assert (found.status, found.out) == (2, "")
    assert problem in found.err


def test_letters_only_and_numbers_too(gptcalc: Command) -> None:
    letters, numbers = (gptcalc("explain", "llama-3-8b", option).out for option in ("--symbols", "--numbers"))
    assert "d × n_kv_heads × (n_heads/n_kv_heads) × (d/n_heads)" in letters
    assert "4096" not in letters.partition("indices")[0]
    assert "t=8192 g=8 r=4 a=128 i=4096" in numbers


def test_what_a_step_reads_and_writes() -> None:
    """By hand: keys and values of what it sees, in windows of so many."""
    made = load("gemma-2-9b").architecture  # windows of 4096, 8 KV heads of 256
    found = explanation("gemma-2-9b", equations(made), Workload(6000, "decode"))
    local, full = found.stages[1:3]
    assert sum(line.reads for line in local.lines) == 2 * 4096 * 8 * 256
    assert sum(line.reads for line in full.lines) == 2 * 6000 * 8 * 256
    assert sum(line.writes for line in local.lines) == 2 * 8 * 256
    prompt = explanation("gemma-2-9b", equations(made), Workload(6000))
    assert sum(line.reads + line.writes for stage in prompt.stages for line in stage.lines) == 0


def test_a_step_reads_a_whole_state() -> None:
    made = load("mamba2-130m").architecture
    found = explanation("mamba2-130m", equations(made), Workload(100, "decode"))
    writes = {line.equation.partition("[")[0]: line.writes for line in found.stages[1].lines if line.writes}
    assert writes["M"] == 1536 * 128  # d_inner × d_state


@pytest.mark.parametrize("preset", [
    "qwen3.6-27b", "kimi-linear-48b-a3b", "nemotron-3-nano-30b-a3b", "falcon-h1-0.5b", "jamba-v0.1", "lfm2-350m",
    "recurrentgemma-2b", "rwkv-4-169m", "rwkv-6-world-1b6", "rwkv-7-world-0.1b", "xlstm-7b", "minimax-text-01",
])  # fmt: skip
def test_a_step_reads_and_replaces_each_state_once(preset: str) -> None:
    """Of a step what does not grow with the length is what the cache holds of states and last tokens."""
    made = load(preset).architecture
    groups = kv(made, context=100).groups
    held = sum(group.state_elements for group in groups)
    read = []
    for context in (100, 101):
        stages = explanation(preset, equations(made), Workload(context, "decode")).stages
        lines = [(stage.times, line) for stage in stages if stage.name != "mtp" for line in stage.lines]
        assert sum(n * line.writes for n, line in lines) == held + sum(group.elements_per_token for group in groups)
        read.append(sum(n * line.reads for n, line in lines))
    assert read[0] - 100 * (read[1] - read[0]) == held


def test_the_other_sequence_is_in_the_heading(gptcalc: Command) -> None:
    out = gptcalc("explain", "t5-small", "--context", 64, "--source", 12).out
    assert out.startswith("t5-small: the forward pass of a prefill of T = 64 tokens; the source has N = 12 tokens\n")
    assert gptcalc("explain", "gpt2", "--context", 64).out.startswith(
        "gpt2: the forward pass of a prefill of T = 64 tokens\n"
    )
