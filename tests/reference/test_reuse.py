"""Sections that reuse what an earlier layer made: what fits agrees with the witness, what doesn't is refused."""

from __future__ import annotations

from typing import Any

import pytest

from gptcalc.analysis.memory.cache import kv
from gptcalc.document import build
from gptcalc.errors import InputError
from tests.test_validate import agrees

PLAIN = {"d": 8, "v": 9, "c": 16, "n_heads": 4, "n_kv_heads": 2, "n_layers": 2, "d_ff": 5}
LATENT = {"kv_rank": 5, "d_nope": 3, "d_rope": 2, "d_v": 4}
INDEX = {"n_heads": 2, "d": 6, "top_k": 3}
ATTN: dict[str, Any] = {"layers": "attn+mlp reuse+mlp"}
LOCAL: dict[str, Any] = {"layers": "local+mlp reuse+mlp"}
MLA: dict[str, Any] = {"layers": "mla+mlp reuse+mlp", "n_kv_heads": None, "mla": LATENT}


def document(base: dict[str, Any], reuse: dict[str, Any], **sections: Any) -> dict[str, Any]:
    return {**PLAIN, **base, **sections, "reuse": reuse}


@pytest.mark.parametrize(
    "whole",
    [
        document(ATTN, {"like": "attn", "kv": {"from": "attn"}, "n_heads": 8, "d_head": 2, "qk_norm": "head"}),
        document(ATTN, {"like": "attn", "kv": {"from": "attn"}, "window": 3}),
        document(LOCAL, {"like": "attn", "kv": {"from": "local"}, "window": 2}, local={"like": "attn", "window": 4}),
        document(LOCAL, {"like": "attn", "kv": {"from": "local"}, "chunk": 3}, local={"like": "attn", "window": 4}),
        document(LOCAL, {"like": "attn", "kv": {"from": "local"}, "chunk": 2}, local={"like": "attn", "chunk": 4}),
        document(MLA, {"like": "mla", "kv": {"from": "mla"}}),
        document(MLA, {"like": "mla", "kv": {"from": "mla"}, "d_nope": 4, "d_v": 3, "n_heads": 2, "q_rank": 6}),
        document(MLA, {"like": "mla", "kv": {"from": "mla"}, "q_rank": 6, "index": INDEX}),
    ],
)
def test_what_fits_agrees_with_the_witness(whole: dict[str, Any]) -> None:
    agrees(whole)


def test_reuse_by_way_of_another() -> None:
    """What the middle layer sees of the first one's keys does not limit the last one."""
    middle = {"like": "attn", "kv": {"from": "attn"}, "window": 2}
    last = {"like": "attn", "kv": {"from": "middle"}}
    agrees({**PLAIN, "n_layers": 3, "layers": "attn+mlp middle+mlp last+mlp", "middle": middle, "last": last})


def test_shared_latents_are_unfolded_by_each_layer() -> None:
    # one layer keeps 5 + 2 numbers a token; expanded, both keep 4 heads of K (3 + 2) and V (4)
    model = build(document(MLA, {"like": "mla", "kv": {"from": "mla"}}))
    assert kv(model).elements_per_token == 5 + 2
    assert kv(model, mla_cache="expanded").elements_per_token == 2 * 4 * (3 + 2 + 4)


@pytest.mark.parametrize(
    ("whole", "message"),
    [
        (document(ATTN, {"like": "attn", "kv": {"from": "mlp"}}), "section 'mlp' has no keys and values of this kind"),
        (
            document({**MLA, "n_kv_heads": 2}, {"like": "attn", "kv": {"from": "mla"}}),
            "reuse.kv.from: section 'mla' has no keys and values of this kind",
        ),
        (document(ATTN, {"like": "attn", "kv": {"from": "nosuch"}}), "no earlier layer uses section 'nosuch'"),
        (document(ATTN, {"like": "attn", "kv": {"from": "reuse"}}), "no earlier layer uses section 'reuse'"),
        (
            document(ATTN, {"like": "attn", "kv": {"from": "attn"}, "n_kv_heads": 4}),
            "reuse.kv: n_kv_heads = 4 here, 2 in section 'attn'",
        ),
        (document(ATTN, {"like": "attn", "kv": {"from": "attn"}, "d_head": 6}), "d_head = 6 here, 2 in section 'attn'"),
        (document(ATTN, {"like": "attn", "kv": {"from": "attn"}, "d_v": 6}), "d_v = 6 here, 2 in section 'attn'"),
        (document(MLA, {"like": "mla", "kv": {"from": "mla"}, "kv_rank": 6}), "kv_rank = 6 here, 5 in section 'mla'"),
        (document(MLA, {"like": "mla", "kv": {"from": "mla"}, "d_rope": 4}), "d_rope = 4 here, 2 in section 'mla'"),
        *(
            (
                document(LOCAL, {"like": "attn", "kv": {"from": "local"}, **sees}, local={"like": "attn", **kept}),
                "reuse.kv: section 'local' does not keep all that is seen here",
            )
            for kept, sees in [
                ({"window": 4}, {}),
                ({"window": 4}, {"window": 5}),
                ({"window": 4}, {"chunk": 5}),
                ({"chunk": 4}, {}),
                ({"chunk": 4}, {"chunk": 3}),
                ({"chunk": 4}, {"window": 2}),
            ]
        ),
        (
            {**PLAIN, "n_kv_heads": None, "layers": "n*mla+mlp",
             "mla": {**LATENT, "q_rank": 6, "index": {**INDEX, "shared": True}}},
            "mla.index.shared: no earlier layer has an indexer of its own",
        ),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(whole: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        build(whole)
    assert message in caught.value.message


def test_a_convolution_over_the_token_alone() -> None:
    """Jamba's mamba_d_conv may be 1: one factor a channel, and no earlier token to keep."""
    document = {
        "d": 12, "v": 61, "c": 32, "n_heads": 2, "n_layers": 1, "d_ff": 20, "position": "none",
        "layers": "n*mamba+mlp", "mamba": {"d_inner": 24, "d_state": 4, "dt_rank": 3, "kernel": 1},
    }  # fmt: skip
    agrees(document)
