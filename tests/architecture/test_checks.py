"""What is built is complete and checked, whether a document says it or Python does."""

from __future__ import annotations

import re
from typing import Any

import pytest
from msgspec.structs import replace

from gptcalc.architecture import Attention, Experts, Mixer, Norm, SharedExperts, Sigmoid, sublayers
from gptcalc.document import build
from gptcalc.errors import InputError

SMALL = {"d": 16, "v": 61, "c": 48, "n_heads": 4, "n_layers": 1, "d_ff": 20, "name": "small"}


def attention(**changes: Any) -> Attention:
    kept = {"section": "attn", "norm": Norm(), "n_heads": 4, "n_kv_heads": 2, "d_head": 8, "d_v": 8}
    return Attention(**{**kept, **changes})


def first(document: dict[str, Any]) -> Mixer:
    block, _ = build({**SMALL, **document}).groups()[0]
    return next(sublayers(block))


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"d_head": -5}, "Attention.d_head: expected >= 1"),
        ({"n_heads": 3}, "attn: n_heads = 3 is not a multiple of n_kv_heads = 2"),
        ({"window": 4, "chunk": 4}, "attn: window and chunk exclude each other"),
        ({"k_eq_v": True, "d_v": 6}, "attn.k_eq_v: d_v = 6 differs from d_head = 8"),
        ({"kv_conv": 65}, "Attention.kv_conv: expected >= 2 and <= 64"),
    ],
)
def test_python_is_refused_what_a_document_is(changes: dict[str, Any], problem: str) -> None:
    attention()
    with pytest.raises(InputError, match=re.escape(problem)):
        attention(**changes)
    with pytest.raises(InputError):
        replace(attention(), **changes)


@pytest.mark.parametrize("layers", ["n*attn+mlp", "n*attn|mlp"])
def test_a_bottleneck_is_normed_like_the_model_in_every_layout(layers: str) -> None:
    """In a parallel part the attention has no norm of its own; what it is made of has the model's all the same."""
    mixer = first({"norm": "layernorm", "attn": {"q_rank": 6}, "layers": layers})
    assert isinstance(mixer, Attention)
    assert mixer.bottleneck is not None
    assert mixer.bottleneck.norm == Norm(kind="layernorm")


def test_keys_of_groups_stand_beside_their_owners() -> None:
    moe = {"n_experts": 4, "top_k": 2, "router": "sigmoid", "selection_bias": True, "n_shared": 2, "shared_gate": True}
    mixer = first({"layers": "n*moe", "moe": moe})
    assert isinstance(mixer, Experts)
    assert isinstance(mixer.router, Sigmoid)
    assert mixer.selection_bias
    assert mixer.shared == SharedExperts(n=2, d_ff=40, gate=True)


@pytest.mark.parametrize(
    ("moe", "problem"),
    [
        ({"router": "sparsemixer", "selection_bias": True}, "moe.selection_bias: not a key of router: sparsemixer"),
        ({"choice": "hash", "selection_bias": True}, "moe.selection_bias: not a key of choice: hash"),
        ({"jitter": 0.1}, "moe.jitter: not a key of router: softmax"),
        ({"shared_gate": True}, "moe: n_shared is missing"),
        ({"router": "sigmod"}, "moe.router: unknown value 'sigmod'"),
        ({"route_scale": "much"}, "moe.route_scale: expected `float`"),
    ],
)
def test_what_a_group_has_not_is_refused(moe: dict[str, Any], problem: str) -> None:
    with pytest.raises(InputError) as refused:
        first({"layers": "n*moe", "moe": {"n_experts": 4, "top_k": 2, **moe}})
    assert refused.value.message.startswith(problem.replace("`", ""))
