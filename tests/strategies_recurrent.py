"""Random sections of recurrent mixers, for tests.strategies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

Section = dict[str, Any]

HEAD_NORMS = st.fixed_dictionaries(
    {"kind": st.sampled_from(["rmsnorm", "layernorm"]), "eps": st.sampled_from([1e-5, 1e-2])}
)


def sites(*names: str) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(names), unique=True)


def with_some(draw: st.DrawFn, section: Section, options: dict[str, st.SearchStrategy[Any]]) -> Section:
    """The section with each of these keys or without it."""
    return section | {key: draw(values) for key, values in options.items() if draw(st.booleans())}


DECAYS = st.one_of(
    st.sampled_from([{"form": "fixed"}, {"form": "fixed"}]),
    st.fixed_dictionaries(
        {"over": st.sampled_from(["head", "channel"]), "form": st.sampled_from(["softplus", "bounded", "sigmoid"])},
        optional={"rank": st.integers(2, 4), "floor": st.sampled_from([-5.0, -1.0]), "divisor": st.just(3.0)},
    ),
)


@st.composite
def linear(draw: st.DrawFn) -> Section:
    shared = draw(st.integers(1, 3))
    section: Section = {
        "n_heads": shared * draw(st.integers(1, 3)), "n_k_heads": shared,
        "d_k": draw(st.integers(2, 5)), "d_v": draw(st.integers(2, 5)), "delta": draw(st.booleans()),
        "qk_norm": draw(st.sampled_from(["l2", "none"])), "activation": draw(st.sampled_from(["silu", "none"])),
    }  # fmt: skip
    if section["delta"]:  # keys of any length would make the states explode
        section["qk_norm"] = "l2"
    return with_some(draw, section, {
        "beta_scale": st.just(2.0), "decay": DECAYS, "kernel": st.integers(2, 4), "scale": st.sampled_from([1.0, 0.4]),
        "gate": st.fixed_dictionaries(
            {"function": st.sampled_from(["silu", "sigmoid"]), "bias": st.booleans()},
            optional={"rank": st.integers(2, 4)},
        ),
        "out_norm": st.fixed_dictionaries({"over": st.sampled_from(["head", "full"])}),
        "bias": sites("q", "k", "v", "out"),
    })  # fmt: skip


@st.composite
def slots(draw: st.DrawFn) -> Section:
    shared = draw(st.integers(1, 3))
    section = {"n_heads": shared * draw(st.integers(1, 3)), "n_kv_heads": shared, "d_k": draw(st.integers(2, 5)),
               "d_v": draw(st.integers(2, 5)), "n_slots": draw(st.integers(2, 5))}  # fmt: skip
    return with_some(draw, section, {"kernel": st.integers(2, 4), "divisor": st.just(2.0), "out_norm": st.just({})})


@st.composite
def mamba(draw: st.DrawFn) -> Section:
    heads = draw(st.integers(1, 3))
    section = {"d_inner": heads * draw(st.integers(2, 5)), "n_heads": heads, "d_state": draw(st.integers(2, 5)),
               "dt_rank": draw(st.integers(2, 4)), "kernel": draw(st.integers(2, 4))}  # fmt: skip
    norm = st.fixed_dictionaries({"weight": st.booleans()})
    return with_some(draw, section, {"inner_norm": norm, "bias": sites("in", "conv", "out")})


@st.composite
def mamba2(draw: st.DrawFn) -> Section:
    groups = draw(st.integers(1, 3))
    section = {"n_heads": groups * draw(st.integers(1, 3)), "n_groups": groups, "d_head": draw(st.integers(2, 5)),
               "d_state": draw(st.integers(2, 5)), "kernel": draw(st.integers(2, 4)),
               "gate_first": draw(st.booleans())}  # fmt: skip
    return with_some(draw, section, {
        "out_norm": st.just({}), "bias": sites("in", "conv", "out"), "dt_min": st.just(0.5), "dt_max": st.just(0.8),
        "scales": st.just([0.9, 1.1, 0.8, 1.2, 0.7]),
    })  # fmt: skip


@st.composite
def delta_mixing(draw: st.DrawFn) -> Section:
    return {"n_heads": draw(st.integers(1, 3)), "d_k": draw(st.integers(2, 5)), "d_v": draw(st.integers(2, 5)),
            "decay_rank": draw(st.integers(2, 4)), "rate_rank": draw(st.integers(2, 4)),
            "gate_rank": draw(st.integers(2, 4)),
            "out_norm": {**draw(HEAD_NORMS), "weight": True, "bias": True}}  # fmt: skip


@st.composite
def matrix_mixing(draw: st.DrawFn) -> Section:
    section = {"n_heads": draw(st.integers(1, 3)), "d_k": draw(st.integers(2, 5)), "d_v": draw(st.integers(2, 5)),
               "out_norm": draw(HEAD_NORMS)}  # fmt: skip
    return with_some(draw, section, {"shift_rank": st.integers(2, 4), "decay_rank": st.integers(2, 4)})


@st.composite
def gated_recurrence(draw: st.DrawFn) -> Section:
    heads = draw(st.integers(1, 3))
    return {"d_rnn": heads * draw(st.integers(2, 5)), "n_heads": heads, "kernel": draw(st.integers(2, 4))}


SECTIONS: dict[str, Callable[[], st.SearchStrategy[Section]]] = {
    "linear": linear,
    "slots": slots,
    "mamba": mamba,
    "mamba2": mamba2,
    "conv": lambda: st.fixed_dictionaries({"kernel": st.integers(2, 4), "bias": st.booleans()}),
    "rglru": gated_recurrence,
    "hgru": lambda: st.fixed_dictionaries(
        {"d_rnn": st.integers(4, 9)},
        optional={"kernel": st.integers(2, 4), "out_norm": st.just({})},
    ),
    "mlstm": lambda: st.fixed_dictionaries(
        {"n_heads": st.integers(1, 3), "d_k": st.integers(2, 5), "d_v": st.integers(2, 5)},
        optional={"gate_softcap": st.just(2.0)},
    ),
    "timemix": lambda: st.fixed_dictionaries({"d_inner": st.integers(4, 9)}),
    "matrixmix": matrix_mixing,
    "deltamix": delta_mixing,
}

#: what a feed-forward part may be where others have an MLP
CHANNEL_MIXING = st.fixed_dictionaries(
    {"d_ff": st.integers(4, 9), "gated": st.booleans(), "share": st.sampled_from(["input", "before"])}
)
