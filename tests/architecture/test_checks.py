"""What is built is complete and checked, whether a document says it or Python does."""

from __future__ import annotations

import re
from typing import Any

import pytest
from msgspec.structs import replace

from gptcalc.architecture import (
    Attention,
    Experts,
    KeyValueConvolution,
    Mixer,
    Norm,
    QKNorm,
    Scores,
    SharedExperts,
    Sigmoid,
    sublayers,
)
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
        ({"qk_limit": 0}, "Attention.qk_limit: expected > 0"),
        ({"qk_limit": 2.0, "qk_norm": QKNorm()}, "attn.qk_limit: not defined together with qk_norm"),
        ({"own_inputs": True, "norm": None}, "attn.own_inputs: needs a norm in front"),
        ({"scores": Scores(sinks=True, token_sinks=True)}, "attn.token_sinks: a head has one sink, of its own or of"),
    ],
)
def test_python_is_refused_what_a_document_is(changes: dict[str, Any], problem: str) -> None:
    attention()
    with pytest.raises(InputError, match=re.escape(problem)):
        attention(**changes)
    with pytest.raises(InputError):
        replace(attention(), **changes)


def test_python_is_refused_a_group_that_a_document_is() -> None:
    with pytest.raises(InputError, match=re.escape("KeyValueConvolution.kernel: expected >= 2 and <= 64")):
        KeyValueConvolution(kernel=65)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"layers": "n*attn|mlp"}, "attention_residuals: 'attn|mlp' has parallel sublayers"),
        ({"mtp": 1}, "attention_residuals: not defined together with mtp"),
        ({"norm_at": "post"}, "attention_residuals: attn has a residual of another form"),
        ({"n_layers": 2000}, "attention_residuals: n_layers = 2000; at most 1,024 layers are read"),
    ],
)
def test_what_does_not_go_with_attention_residuals(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(InputError, match=re.escape(problem)):
        build({**SMALL, "attention_residuals": {"every": 2}, **changes})


def test_layers_know_how_many_sums_they_mix() -> None:
    """Every second layer sets the stream aside: the embedding first, then 2 layers' sum; each later sublayer mixes
    these and the stream."""
    model = build({**SMALL, "n_layers": 4, "attention_residuals": {"every": 2}})
    found = [(part.sums, part.begins) for block in model.blocks() for part in block.parts]
    assert found == [
        (0, True), (2, False), (2, False), (2, False), (2, True), (3, False), (3, False), (3, False),
    ]  # fmt: skip
    assert model.sums == 3


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


LONG = {"kind": "longrope", "short": [1.0, 2.0], "long": [2.0, 3.0], "original": 8}


@pytest.mark.parametrize(
    ("rope", "problem"),
    [
        ({"scaling": {**LONG, "original": 1}}, "attn.rope.scaling.original: scores grow with 1 / ln(original)"),
        ({"scaling": {**LONG, "long": [2.0, 0.0]}}, "attn.rope.scaling.long: every divisor of a frequency"),
        (
            {"theta": 1, "scaling": {"kind": "yarn", "factor": 4, "original": 8}},
            "attn.rope.theta: 1 gives all channels",
        ),
        ({"scaling": {"kind": "yarn", "factor": 4, "original": 8, "beta_slow": 0}}, "beta_slow: expected float > 0"),
    ],
)
def test_a_rotation_divides_by_no_zero(rope: dict[str, Any], problem: str) -> None:
    with pytest.raises(InputError, match=re.escape(problem)):
        build({**SMALL, "rope": rope})
