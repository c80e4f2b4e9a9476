"""The witness is independent, and nothing multiplies and sums behind the tally's back: read off its source."""

from __future__ import annotations

import ast
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gptcalc.reference
from gptcalc.architecture import Attention, Block, Experts, LatentAttention, Mlp, sublayers
from gptcalc.document import build
from gptcalc.reference.model import Model
from gptcalc.reference.shapes import ShapeArray, shape_only
from gptcalc.reference.shrink import shrink
from gptcalc.reference.store import ShapeStore
from gptcalc.reference.tally import Tally
from tests.reference_cases import DOCUMENTS, architecture

SOURCES = sorted(Path(gptcalc.reference.__file__).parent.glob("*.py"))
FORBIDDEN = {
    "matmul", "einsum", "einsum_path", "dot", "tensordot", "inner", "outer", "vdot", "vecdot", "matvec", "vecmat",
    "multi_dot", "kron", "convolve", "correlate", "cross", "linalg",
}  # fmt: skip


def products(tree: ast.AST) -> list[str]:
    """Every product with a sum in a tree; `step.dot` and `tally.dot` are the ones allowed."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, (ast.BinOp, ast.AugAssign)) and isinstance(node.op, ast.MatMult):
            found.append("@")
        elif isinstance(node, ast.Attribute) and node.attr in FORBIDDEN:
            owner = ast.unparse(node.value).rpartition(".")[2]
            if not (node.attr == "dot" and owner in ("self", "step", "tally", "part")):
                found.append(ast.unparse(node))
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            found += [alias.name for alias in node.names if alias.name in FORBIDDEN]
    return found


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_only_dot_multiplies_and_sums(path: Path) -> None:
    tree = ast.parse(path.read_text())
    allowed = {"tally.py": ["np.matmul"], "shapes.py": ["np.matmul"]}  # shapes.py only compares with it
    assert products(tree) == allowed.get(path.name, [])


def test_the_search_for_products_finds_them() -> None:
    for line in (
        "y = a @ b",
        "a @= b",
        "np.einsum('ij,jk', a, b)",
        "a.dot(b)",
        "np.linalg.norm(a)",
        "from numpy import vdot",
    ):
        assert products(ast.parse(line)), line


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_the_witness_imports_only_the_architecture_and_numpy(path: Path) -> None:
    standard = {"__future__", "collections", "dataclasses", "functools", "math", "statistics", "typing", "zlib"}
    for node in ast.walk(ast.parse(path.read_text())):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0
            names = [node.module or ""]
        for name in names:
            if name.startswith("gptcalc"):
                assert name in ("gptcalc.architecture", "gptcalc.errors") or name.startswith("gptcalc.reference.")
            else:
                assert name.partition(".")[0] in standard | {"numpy", "msgspec"}


# --- shape-only arrays ------------------------------------------------------------------------------------------------


def test_unknown_operations_raise() -> None:
    x = shape_only((3, 4))
    for operation in (
        lambda: np.cumsum(x),
        lambda: np.linalg.svd(x),
        lambda: np.einsum("ij->ji", x),
        lambda: np.arctan(x),
        lambda: np.add.reduce(x),
        lambda: np.add(x, x, where=True),
        lambda: bool(x),
        lambda: x[np.array([True, False, True])],
        lambda: x[0, np.array([1])],
        lambda: np.take(x, np.array([1]), axis=1),
    ):
        with pytest.raises(TypeError):
            operation()


def test_what_does_not_fit_raises() -> None:
    x, y = shape_only((3, 4)), shape_only((3, 5))
    for operation in (
        lambda: x + y,
        lambda: np.matmul(x, y),
        lambda: np.concatenate([x, y], axis=0),
        lambda: x.reshape(5, 2),
        lambda: np.broadcast_to(x, (3, 5)),
        lambda: np.exp(x, out=y),
        lambda: x.transpose(0, 0),
    ):
        with pytest.raises(ValueError):
            operation()
    with pytest.raises(IndexError):
        x[3, 4]


def same(operation: object, *arrays: np.ndarray) -> None:
    real = operation(*arrays)  # type: ignore[operator]
    traced = operation(*(shape_only(a.shape, a.dtype) for a in arrays))  # type: ignore[operator]
    assert isinstance(traced, ShapeArray)
    assert (traced.shape, traced.dtype) == (real.shape, real.dtype)


def test_shapes_and_types_are_those_of_numpy() -> None:
    x = np.ones((2, 3, 4), np.float32)
    i = np.ones((2, 5), np.int64)
    for operation in (
        lambda a: a * 0.5, lambda a: 1.0 - a, lambda a: a > 0, lambda a: a[:, None, ..., 1:], lambda a: a[..., ::2, 1],
        lambda a: a[1], lambda a: a[-1, :, None], lambda a: a.mean(axis=-1, keepdims=True), lambda a: a.sum(axis=1),
        lambda a: a.swapaxes(0, -1), lambda a: a.transpose(2, 0, 1), lambda a: a.reshape(-1, 4),
        lambda a: a.argmax(axis=1),
        lambda a: np.where(a > 0, a, 0.0), lambda a: np.where(a > 0, 0.0, 1.0), lambda a: np.argsort(a * -1.0, axis=-1),
        lambda a: np.matmul(a, a.swapaxes(-1, -2)), lambda a: np.concatenate([a, a], axis=-2), lambda a: a // 2,
        lambda a: np.logaddexp(a, 0.0), lambda a: a.astype(np.float64) + a, lambda a: np.arange(2, 7, like=a),
    ):  # fmt: skip
        same(operation, x)
    same(lambda a: a * 0.5, i)
    same(lambda a: a // 3 == a, i)
    same(lambda a, j: np.take(a, j, axis=0), x, i)
    same(lambda a, j: np.take_along_axis(a, j[:, None], axis=-1), x, i)
    same(lambda a, j: a[:, :1, :1] + j[..., None], x, i)


def test_products_are_counted_by_their_shapes() -> None:
    tally = Tally()
    tally.dot(shape_only((5, 1, 2, 3)), shape_only((4, 3, 7)), "scores")
    assert tally.flops == {"weights": 0, "scores": 2 * 5 * 4 * 2 * 3 * 7, "values": 0, "state": 0}
    tally.dot(np.ones((5, 2, 3)), np.ones((3, 7)))
    assert tally.total == 2 * 5 * 4 * 2 * 3 * 7 + 2 * 5 * 2 * 3 * 7


# --- the small copy ---------------------------------------------------------------------------------------------------

LARGE = {
    "d": 4096, "v": 128256, "c": 131072, "n_heads": 32, "n_kv_heads": 8, "d_ff": 14336, "n_layers": 48,
    "layers": "3*mla+mlp n*[2*local+moe attn+mlp|moe]", "rope": {"fraction": 0.5}, "mtp": 1,
    "mla": {"q_rank": 1536, "kv_rank": 512, "d_nope": 128, "d_rope": 64, "d_v": 128},
    "local": {"like": "attn", "window": 4096},
    "moe": {"n_experts": 256, "top_k": 8, "d_ff": 2048, "n_shared": 1, "groups": {"n": 8, "top_k": 4}},
}  # fmt: skip


def sizes(block: Block) -> list[int]:
    fields = (
        "n_kv_heads", "d_head", "d_v", "q_rank", "kv_rank", "d_nope", "d_rope", "d_ff", "shared.d_ff", "n_experts",
        "latent.d", "bottleneck.rank",
    )  # fmt: skip
    parts: list[tuple[Any, str]] = [(mixer, name) for mixer in sublayers(block) for name in fields]
    found = (reduce(lambda part, key: getattr(part, key, None), name.split("."), part) for part, name in parts)
    return [size for size in found if size]


def test_the_small_copy_of_a_large_model() -> None:
    large = build(LARGE)
    small = shrink(large)
    assert small.n_layers == len(large.groups()) == len(list(small.blocks())) == 3
    distinct = {small.d, small.v, *(n for block in small.blocks() for n in sizes(block))}
    assert len(distinct) == 2 + 3 + 5 + 1 + 3  # d and v; attention; latent attention; the MLP; the experts
    assert max(distinct) < 150
    for block in small.blocks():
        for mixer in sublayers(block):
            match mixer:
                case Attention():
                    assert mixer.n_heads > mixer.n_kv_heads > 1
                    assert mixer.window in (None, 3)
                case LatentAttention():
                    assert mixer.q_rank
                case Experts():
                    assert mixer.n_experts > mixer.top_k == 2
                    assert mixer.groups is not None
                    assert mixer.groups.n > mixer.groups.top_k > 1
                case Mlp():
                    assert mixer.d_ff != small.d


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_small_copy_runs_and_keeps_every_weight(name: str) -> None:
    whole, small = Model(architecture(name), ShapeStore()), Model(shrink(architecture(name)))
    whole.prefill(shape_only((1, 12), np.int64), predict=True)
    result = small.prefill(list(range(12)), predict=True)
    assert np.isfinite(result.logits).all()

    def stems(model: Model) -> set[str]:
        return {key.split(".", 2)[2] if key.startswith(("layers.", "mtp.")) else key for key in model.weights.asked}

    assert stems(whole) == stems(small)
