"""The analyses read roles: no letter of an index, no symbol, no key of a weight stands in them."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import get_args

import pytest

import gptcalc
from gptcalc.analysis.memory.cache import kind_of
from gptcalc.document import build
from gptcalc.equations import Constant, Index, OfSource, Workload, equations
from gptcalc.equations.conditions import Once
from gptcalc.equations.lines import Lines
from gptcalc.equations.roles import Kind, Role, Stored, Use
from gptcalc.equations.symbols import Symbols
from gptcalc.sources import load
from gptcalc.sources.huggingface.tensors import MATRICES
from gptcalc.sources.preset import names as preset_names

PACKAGE = Path(gptcalc.__file__).parent
ANALYSES = sorted([*(PACKAGE / "analysis").rglob("*.py"), PACKAGE / "validate.py", PACKAGE / "report" / "explain.py"])

#: models that together have every kind of block, and lines of every kind
MODELS = (
    "gpt2", "deepseek-v3", "deepseek-v4-pro", "gpt-oss-20b", "gemma-3n-e2b", "inkling-975b-a41b", "minimax-m3",
    "jetmoe-8b", "muse-spark-open-816b-a42b",
)  # fmt: skip


def names() -> tuple[set[str], set[str]]:
    """The letters and symbols that lines use, and the keys of their weights."""
    symbols, keys = set(), set()
    for name in MODELS:
        for stage in equations(load(name).architecture).stages:
            for line in stage.lines:
                for reference in line.statement.references:
                    symbols |= {reference.name, *reference.indices}
                keys |= {weight.key for weight in line.weights.values()}
    return symbols, keys


SYMBOLS, KEYS = names()


def literals(path: Path) -> list[tuple[int, str]]:
    """The texts that a module compares, looks up or matches; docstrings, messages and annotations are none of them."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        read: list[ast.expr | ast.pattern] = []
        if isinstance(node, ast.Compare):
            read = [node.left, *node.comparators]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in ("startswith", "endswith", "partition", "rpartition", "removesuffix", "get"):
                read = list(node.args)
        elif isinstance(node, ast.Subscript):
            read = [node.slice]
        elif isinstance(node, ast.MatchValue):
            read = [node.value]
        for expression in read:
            parts = expression.elts if isinstance(expression, (ast.Tuple, ast.List, ast.Set)) else [expression]
            found += [(p.lineno, p.value) for p in parts if isinstance(p, ast.Constant) and isinstance(p.value, str)]
    return found


@pytest.mark.parametrize("path", ANALYSES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_analysis_reads_a_letter_or_a_key(path: Path) -> None:
    words = {word for kind in (Role, Use, Stored, Kind) for word in get_args(kind)}
    read = (SYMBOLS - words) | {key for key in KEYS if "." in key}
    found = [(line, text) for line, text in literals(path) if text != "."]  # which parts any name, and reads none
    assert not [(line, text) for line, text in found if text in read or text[:1] == "." or "[" in text]


def test_every_store_line_says_what_and_how_long() -> None:
    for name in MODELS:
        for stage in equations(load(name).architecture).stages:
            for line in stage.lines:
                assert (line.stored is not None) == (line.kept is not None), line.text
                assert (line.kind == "store") == (line.stored not in (None, "state")), line.text


def test_the_kinds_of_weights() -> None:
    kinds: dict[str, str] = {}
    for name in MODELS:
        for stage in equations(load(name).architecture).stages:
            for line in stage.lines:
                kinds |= {t.weight.key: t.kind for t in line.tensors() if not t.weight.tied}
    assert {key for key, kind in kinds.items() if kind == "table"} == {
        "embedding.token", "embedding.position", "ple.token"
    }  # fmt: skip
    assert {key for key, kind in kinds.items() if kind == "kernel"} == {
        "attn.k_conv", "attn.v_conv", "attn.conv", "moe.conv"
    }  # fmt: skip
    assert {key for key, kind in kinds.items() if kind == "bias"} >= {"attn.q.bias", "moe.down.bias"}
    assert kinds["attn.q"] == kinds["moe.router"] == kinds["altup.projection"] == "matrix"
    assert kinds["attn.norm.weight"] == kinds["attn.sinks"] == kinds["moe.selection_bias"] == "vector"


HEADS = {
    "t": Index("T", 0, "new"), "σ": Index("source", 0, "source"), "i": Index("d", 10, "channels"),
    "h": Index("n_heads", 2, "heads"), "a": Index("d_k", 3, "channels"), "w": Index("d_v", 5, "channels"),
}  # fmt: skip


def test_a_recurrent_mixer() -> None:
    """A state of 2·3·5 numbers, read and written once a token however long the past is."""
    lines = Lines("lin", "recurrent", HEADS, Symbols())
    lines.sum("M[h,a,w] += k[t,h,a]·v[t,h,w]")
    lines.sum("o[t,h,w] = Σ_a q[t,h,a]·M[h,a,w]")
    lines.store("M[h,a,w] = S of the newest token", "state", Constant())
    write, read, state = lines.lines
    for line in (write, read):
        assert line.flops(Workload(7)) == 2 * 7 * 30
        assert line.flops(Workload(1000, "decode")) == 2 * 30
        assert not line.attends()
    assert [index.size for index in state.stored_indices()] == [2, 3, 5]


def test_cross_attention() -> None:
    """Keys of every source token, made once; scores of every new token against all of them."""
    lines = Lines("cross", "attention", HEADS, Symbols())
    lines.sum("k[σ,h,a] = Σ_i c[σ,i]·W_K[i,h,a]", Once(), W_K="k")
    lines.store("K[σ,h,a] = k[σ,h,a]", "keys", OfSource())
    lines.sum("z[t,σ,h] = Σ_a q[t,h,a]·K[σ,h,a]")
    made, stored, scores = lines.lines
    prompt, step = Workload(4, source=9), Workload(4, "decode", source=9)
    assert made.flops(prompt) == 2 * 9 * 10 * 6
    assert made.flops(step) == 0
    assert scores.flops(prompt) == 2 * 4 * 9 * 6
    assert scores.flops(step) == 2 * 9 * 6
    assert scores.attends()
    assert kind_of(stored) == ("cross", None)
    assert [index.size for index in stored.stored_indices()] == [2, 3]
    assert prompt.encoder.new_tokens == 9
    assert step.encoder.new_tokens == 0


def test_what_lies_transposed_in_a_checkpoint_is_what_is_multiplied() -> None:
    """The readers' list of matrices, by the last word of their stem, against the equations of every preset."""
    for name in preset_names():
        for stage in equations(load(name).architecture).stages:
            for line in stage.lines:
                for tensor in line.tensors():
                    stem = tensor.weight.plain.removesuffix(".weight")
                    if tensor.kind != "bias" and not tensor.weight.tied and not stem.endswith(".bias"):
                        assert (tensor.kind in ("matrix", "kernel")) == (stem.rpartition(".")[2] in MATRICES), stem


def test_a_bias_belongs_to_the_matrix_of_its_sum() -> None:
    model = build({"d": 8, "v": 9, "c": 99, "n_heads": 2, "n_layers": 1, "d_ff": 5, "bias": "all"})
    layers = {t.weight.key: t.layer for line in equations(model).layers[0].lines for t in line.tensors()}
    assert layers["attn.q.bias"] == layers["attn.q"] == "attn.q"
    assert layers["mlp.down.bias"] == "mlp.down"
    assert layers["attn.norm.weight"] == "attn.norm.weight"
