"""Configs of the flash-linear-attention library count as its classes do.

The totals are unique parameters of models that the library itself (fla-core 0.6.0) makes on the meta device.
"""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from gptcalc.analysis.memory.cache import kv
from gptcalc.analysis.params import params
from gptcalc.equations.model import remembered
from gptcalc.errors import InputError
from gptcalc.sources.huggingface import read
from gptcalc.validate import validate
from tests.mutation import mutate

#: softmax attention in two of the layers
ATTENTION = {"layers": [1, 5], "num_heads": 16, "num_kv_heads": 8, "qkv_bias": True, "window_size": 512}

TOTALS: list[tuple[dict[str, Any], int]] = [
    ({"model_type": "gla"}, 1_365_514_240),
    # flame's mamba2_1B gives no heads: 4096 / 64 of them. In-projection, convolution with its bias, three numbers a
    # head, the inner norm, out-projection and norm, 48 times; two tables and a norm
    (
        {
            "model_type": "mamba2",
            "hidden_size": 2048,
            "head_dim": 64,
            "vocab_size": 32000,
            "n_groups": 1,
            "num_hidden_layers": 48,
        },
        48 * (2048 * (2 * 4096 + 2 * 128 + 64) + 5 * (4096 + 2 * 128) + 3 * 64 + 4096 + 4096 * 2048 + 2048)
        + 2 * 32000 * 2048
        + 2048,
    ),
    ({"model_type": "gla", "use_short_conv": True, "hidden_size": 512, "num_hidden_layers": 3}, 43_045_504),
    ({"model_type": "delta_net"}, 1_365_677_056),
    ({"model_type": "delta_net", "use_gate": True, "use_short_conv": False}, 1_465_750_528),
    ({"model_type": "gated_deltanet"}, 1_387_348_732),
    ({"model_type": "gated_deltanet", "num_v_heads": 12, "use_gate": False}, 1_520_243_704),
    ({"model_type": "rwkv6"}, 1_360_224_256),
    ({"model_type": "rwkv6", "attn": ATTENTION, "expand_v": 0.5, "hidden_size": 1024, "norm_bias": False}, 340_482_048),
    ({"model_type": "rwkv7"}, 1_366_644_736),
    (
        {
            "model_type": "rwkv7",
            "hidden_size": 768,
            "num_hidden_layers": 12,
            "vocab_size": 65536,
            "norm_first": False,
            "gate_low_rank_dim": None,
            "decay_low_rank_dim": None,
            "a_low_rank_dim": None,
            "v_low_rank_dim": None,
        },
        191_033_088,
    ),
    (
        {
            "model_type": "samba",
            "attn": {
                "layers": [1, 3, 5, 7, 9, 11, 13, 15, 17],
                "num_heads": 18,
                "num_kv_heads": 18,
                "window_size": 2048,
            },
        },
        1_403_935_488,
    ),
    ({"model_type": "gla", "attn": ATTENTION}, 1_357_032_448),
    ({"model_type": "gla", "attn": [ATTENTION]}, 1_357_032_448),
    ({"model_type": "gla", "attn": [ATTENTION, {"layers": [2], "num_heads": 8}]}, 1_356_981_760),
    ({"model_type": "hgrn2"}, 1_364_396_032),
    (
        {"model_type": "hgrn2", "use_short_conv": True, "hidden_size": 512, "num_hidden_layers": 3, "expand_ratio": 64},
        43_016_704,
    ),
    ({"model_type": "hgrn2", "use_lower_bound": False}, 1_364_346_880),
    ({"model_type": "hgrn2", "attn": ATTENTION}, 1_356_011_520),
    ({"model_type": "hgrn"}, 1_364_396_032),
    (
        {
            "model_type": "hgrn",
            "use_short_conv": True,
            "hidden_size": 512,
            "num_hidden_layers": 3,
            "expand_ratio": 2,
            "use_lower_bound": False,
        },
        46_168_576,
    ),
    ({"model_type": "gsa"}, 1_376_929_792),
    # as its class writes a config: with what the layer doesn't read
    (
        {
            "model_type": "gsa",
            "use_norm": True,
            "use_output_gate": False,
            "clamp_min": None,
            "clamp_max": None,
            "expand_k": 1,
            "expand_v": 1,
            "elementwise_affine": True,
            "feature_map": "swish",
            "fuse_norm": True,
        },
        1_376_929_792,
    ),
    ({"model_type": "gsa", "use_output_gate": True, "exapnd_k": 0.5, "expand_k": 1}, 1_376_929_792),
    (
        {
            "model_type": "gsa",
            "use_short_conv": True,
            "hidden_size": 512,
            "num_hidden_layers": 3,
            "num_kv_heads": 2,
            "num_slots": None,
        },
        42_615_808,
    ),
    ({"model_type": "gsa", "attn": ATTENTION}, 1_367_496_704),
    ({"model_type": "delta_net", "attn": ATTENTION}, 1_357_181_696),
    ({"model_type": "gated_deltanet", "attn": ATTENTION}, 1_362_091_748),
]


@pytest.mark.parametrize(("config", "total"), TOTALS)
def test_a_config_counts_as_its_class(config: dict[str, Any], total: int) -> None:
    architecture = read(config).architecture
    assert params(architecture).total == total
    assert validate(architecture).ok


@pytest.mark.parametrize(
    ("config", "cache"),
    [
        # a state of d_k × d_v in fp32 for each head; the last three tokens' queries, keys and values in two bytes
        ({"model_type": "gla"}, 24 * 4 * 256 * 512 * 4),
        ({"model_type": "hgrn2"}, 24 * 16 * 128 * 128 * 4),
        # a number a channel
        ({"model_type": "hgrn"}, 24 * 2048 * 4),
        ({"model_type": "hgrn", "use_short_conv": True}, 24 * (2048 * 4 + 2 * 3 * 2048 * 2)),
        # keys of 512 channels of 64 slots, and values of as many; the layer repeats what heads share before it's kept
        ({"model_type": "gsa"}, 24 * 4 * (512 * 64 + 64 * 512) * 4),
        ({"model_type": "gsa", "num_kv_heads": 2, "num_slots": 32}, 24 * 4 * (512 * 32 + 32 * 512) * 4),
        ({"model_type": "gsa", "exapnd_k": 0.5}, 24 * 4 * (256 * 64 + 64 * 512) * 4),
        ({"model_type": "gsa", "expand_k": 0.5}, 24 * 4 * (256 * 64 + 64 * 512) * 4),
        ({"model_type": "delta_net"}, 24 * (16 * 128 * 128 * 4 + 3 * 3 * 2048 * 2)),
        # and of RWKV what both mixers read last
        ({"model_type": "rwkv6"}, 24 * (4 * 256 * 512 * 4 + 2 * 2048 * 2)),
        ({"model_type": "rwkv7"}, 24 * (32 * 64 * 64 * 4 + 2 * 2048 * 2)),
        ({"model_type": "gated_deltanet"}, 21 * (6 * 256 * 512 * 4 + 3 * (2 * 1536 + 3072) * 2)),
    ],
)
def test_states_do_not_grow(config: dict[str, Any], cache: int) -> None:
    architecture = read(config).architecture
    assert kv(architecture, context=1).bytes == kv(architecture, context=2048).bytes == cache


@pytest.mark.parametrize(
    ("model_type", "change"),
    [
        ("gla", {"feature_map": "relu"}),
        ("gla", {"num_kv_heads": 2}),
        ("gla", {"clamp_min": -1.0}),
        ("delta_net", {"qk_norm": "sum"}),
        ("delta_net", {"qk_activation": "elu"}),
        ("delta_net", {"use_beta": False}),
        ("delta_net", {"expand_k": 0.3}),
        ("gated_deltanet", {"attn": {"layers": [1], "num_heads": 7}}),
        ("gated_deltanet", {"attn": [{"layers": [1], "num_heads": 4}, 5]}),
        ("gated_deltanet", {"attn": [{"layers": [1], "num_heads": 4}, {"layers": [1], "num_heads": 4}]}),
        ("hgrn2", {"expand_ratio": 300}),
        ("hgrn2", {"attnres_block_size": 2}),
        ("hgrn", {"expand_ratio": 2}),
        ("gsa", {"feature_map": "relu"}),
        ("gsa", {"exapnd_v": 2}),
        ("gsa", {"num_kv_heads": 3}),
        ("rwkv7", {"attn": {"layers": [0], "num_heads": 4}}),
        ("rwkv7", {"value_dim": [2048] * 23 + [4096]}),
        ("rwkv6", {"hidden_act": "silu"}),
        ("samba", {"attnres_block_size": 4, "attn": {"layers": [1], "num_heads": 4}}),
    ],
)
def test_what_is_computed_otherwise_is_refused(model_type: str, change: dict[str, Any]) -> None:
    with pytest.raises(InputError) as caught:
        read({"model_type": model_type, **change})
    assert next(iter(change)) in caught.value.message


@pytest.mark.parametrize(
    ("model_type", "missing"),
    [("samba", "attn.layers")],
)
def test_what_is_not_read_names_what_is_missing(model_type: str, missing: str) -> None:
    with pytest.raises(InputError) as caught:
        read({"model_type": model_type})
    assert missing in caught.value.message


#: the error, the module, what is written, what the mutant writes, and what notices it of HGRN2
MUTANTS = [
    ("bounds that nobody learns", "equations.linear", ', A_Ā="decay.bounds"', "", "total"),
    ("a projection to keys", "equations.linear", 'if name != "k" or not a.k_from_decay', "if True", "total"),
    ("a bias of decays", "equations.linear", "if decay.bias else f", "if True else f", "total"),
    ("decays without a convolution", "equations.linear", "if a.k_from_decay and a.kernel is not None", "if False",
     "states"),
]  # fmt: skip


def of_hgrn2() -> dict[str, int]:
    remembered.cache_clear()
    model = read({"model_type": "hgrn2", "use_short_conv": True}).architecture
    return {"total": params(model).total, "states": kv(model, context=64).state_bytes}


@pytest.mark.parametrize(("error", "module", "old", "new", "name"), MUTANTS, ids=[mutant[0] for mutant in MUTANTS])
def test_a_mutant_is_noticed(error: str, module: str, old: str, new: str, name: str) -> None:
    """Of convolutions over four tokens the last three of queries, decays and values."""
    right = {"total": 1_364_396_032 + 24 * 3 * 4 * 2048, "states": 24 * (16 * 128 * 128 * 4 + 3 * 3 * 2048 * 2)}
    assert of_hgrn2() == right
    with pytest.MonkeyPatch.context() as patch:
        mutate(importlib.import_module(f"gptcalc.{module}"), old, new, patch)
        assert of_hgrn2()[name] != right[name], error
    remembered.cache_clear()
