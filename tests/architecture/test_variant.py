"""Switches: each rule's counts derived by hand, lines that stay true, what has no rule refused by name."""

from __future__ import annotations

from typing import Any

import pytest

from gptcalc.analysis.memory.cache import cached
from gptcalc.analysis.params import params
from gptcalc.architecture import Architecture, Attention, sublayers
from gptcalc.conventions import RoomRun
from gptcalc.document import build
from gptcalc.document.variant import SPELLED, shortened, varied
from gptcalc.errors import InputError
from gptcalc.sources import load
from gptcalc.sources.preset import names
from tests.conftest import Command
from tests.equations.test_lines import held, held_in_a_step

SWITCHES = ("rope", "learned", "alibi", "none", "gqa:1", "mha", "mla", "moe:4:2", "dense", "mtp", "window:3", "gdn:1")

#: GPT-2: d = 768, 12 heads of 64, d_ff = 3072, biases everywhere
D, D_FF, LAYERS = 768, 3072, 12
GPT2 = 124_439_808
#: keys and values of 4 heads of 64 in place of 12
GROUPED = GPT2 - LAYERS * 2 * (D + 1) * 8 * 64
MLP = 2 * D * D_FF + D_FF + D
ATTENTION = 4 * (D * D + D)
NORM = 2 * D
#: Llama 3 8B: d = 4096, 32 heads of 128, 8 KV heads
LLAMA, L_D = 8_030_261_248, 4096
L_ATTENTION = 2 * L_D * L_D + 2 * L_D * 8 * 128
#: Mixtral 8x7B: 8 experts of 14336, 2 a token
MIXTRAL, M_D = 46_702_792_704, 4096

#: T5 base and Whisper small: 12 layers in either stack, 12 heads of 64; Whisper's keys have no bias
T5, WHISPER = 222_903_552, 241_734_912

BY_HAND = [
    ("gpt2", "rope", GPT2 - 1024 * D),
    ("gpt2", "alibi", GPT2 - 1024 * D),
    ("gpt2", "none", GPT2 - 1024 * D),
    ("llama-3-8b", "learned", LLAMA + 8192 * L_D),
    ("gpt2", "gqa:4", GROUPED),
    ("llama-3-8b", "mha", LLAMA + 32 * 2 * L_D * 24 * 128),
    # kv_rank 512, d_rope 64, d_nope = d_v = 128: queries, latent and its norm, rotary key, keys and values, output
    (
        "llama-3-8b",
        "mla",
        LLAMA
        + 32 * (L_D * 32 * (128 + 64) + L_D * 512 + 512 + L_D * 64 + 512 * 32 * 256 + 32 * 128 * L_D - L_ATTENTION),
    ),
    # 8 experts of 1536 with biases, a router with one
    ("gpt2", "moe:8:2", GPT2 + LAYERS * (8 * (2 * D * 1536 + 1536 + D) + D * 8 + 8 - MLP)),
    # what a token passes, 2 · 14336, in one layer; no router
    ("mixtral-8x7b", "dense", MIXTRAL - 32 * (6 * 3 * M_D * 14336 + M_D * 8)),
    # experts of 2 · 14336 / 4
    ("mixtral-8x7b", "moe:32:4", MIXTRAL + 32 * (16 * 3 * M_D * 14336 - 8 * 3 * M_D * 14336 + M_D * 24)),
    ("gpt2", "window:100", GPT2),
    # encoder, decoder, and what the one looks at the other by: keys and values of 4 heads of 64 in place of 12
    ("t5-base", "gqa:4", T5 - 3 * 12 * 2 * 768 * 8 * 64),
    ("whisper-small", "gqa:4", WHISPER - 3 * 12 * (2 * 768 + 1) * 8 * 64),
    # a table of 32 distances for 12 heads in either stack
    ("t5-base", "rope", T5 - 2 * 32 * 12),
    ("t5-base", "learned", T5 - 2 * 32 * 12 + 2 * 512 * 768),
    # 1,500 positions of sound and 448 of text
    ("whisper-small", "none", WHISPER - (1500 + 448) * 768),
    # 9 of 12 layers: q, k, v, gate, output of 768; convolutions over 4; step and decay of each head; A, its bias; norm
    ("gpt2", "gdn:3", GPT2 + 9 * (5 * D * D + 3 * 4 * D + 2 * D * 12 + 2 * 12 + 64 - ATTENTION)),
    # latent attention whose values are 128 wide becomes 128 heads of 128 with as many keys and values
    (
        "deepseek-v3",
        "mha",
        671_026_419_200
        - 61 * (7168 * 1536 + 1536 + 1536 * 128 * 192 + 7168 * 576 + 512 + 512 * 128 * 256)
        + 61 * 3 * 7168 * 128 * 128,
    ),
]


@pytest.mark.parametrize(("model", "switch", "total"), BY_HAND)
def test_parameters_of_a_variant(model: str, switch: str, total: int) -> None:
    assert params(load(model, switches=[switch]).architecture).total == total


def test_a_module_is_added_beside_the_total() -> None:
    """Three norms, a projection 2·d → d, a block."""
    found = params(load("gpt2", switches=["mtp"]).architecture)
    assert found.total == GPT2
    assert found.mtp == 3 * NORM + 2 * D * D + ATTENTION + MLP + 2 * NORM


def cache(model: str, switch: str, context: int) -> int | None:
    return cached(load(model, switches=[switch]).architecture, RoomRun(context=context)).bytes


def test_caches_of_variants() -> None:
    """Bytes of bf16 by hand; a state of 64 × 64 a head is fp32, and three earlier inputs of the convolutions bf16."""
    assert cache("llama-3-8b", "mla", 1000) == 32 * 1000 * (512 + 64) * 2
    assert cache("llama-3-8b", "gqa:2", 1000) == 32 * 1000 * 2 * 2 * 128 * 2
    assert cache("llama-3-8b", "window:128", 1000) == 32 * 128 * 2 * 8 * 128 * 2
    assert cache("gpt2", "gdn:3", 1000) == 3 * 1000 * 2 * D * 2 + 9 * (12 * 64 * 64 * 4 + 3 * 3 * D * 2)


SMALL: dict[str, dict[str, Any]] = {
    "dense": {"d": 24, "v": 37, "c": 40, "n_heads": 6, "n_kv_heads": 2, "d_head": 8, "d_ff": 18, "n_layers": 2},
    "learned": {
        "d": 24, "v": 37, "c": 40, "n_heads": 3, "n_layers": 2, "position": "learned", "norm": "layernorm",
        "mlp": "gelu_tanh", "bias": "all",
    },
    "latent": {
        "d": 20, "v": 37, "c": 40, "n_heads": 3, "n_layers": 2, "layers": "mla+mlp mla+moe", "d_ff": 14,
        "mla": {"kv_rank": 9, "d_nope": 6, "d_rope": 4, "d_v": 8},
        "moe": {"n_experts": 5, "top_k": 2, "d_ff": 6, "n_shared": 1},
    },
    "windows": {
        "d": 24, "v": 37, "c": 40, "n_heads": 4, "n_kv_heads": 2, "d_head": 8, "d_ff": 18, "n_layers": 4,
        "layers": "n*[local+mlp attn+mlp]", "local": {"like": "attn", "window": 4},
    },
}  # fmt: skip


def variant(name: str, *switches: str) -> Architecture:
    return build(varied({"name": name, **SMALL[name]}, switches))


@pytest.mark.parametrize("switch", SWITCHES)
@pytest.mark.parametrize("name", SMALL)
def test_the_lines_of_variants_are_true(name: str, switch: str) -> None:
    try:
        made = variant(name, switch)
    except InputError as error:
        assert str(error.message).startswith(f"--with {switch}: ")  # noqa: PT017
        return
    held(made)
    held_in_a_step(made)


def test_switches_follow_each_other() -> None:
    made = variant("dense", "mla", "moe:4:2", "mtp")
    held(made)
    assert made.name == "dense with mla with moe:4:2 with mtp"
    assert made.mtp is not None
    assert made.groups()[0][0].name == "mla+moe"


@pytest.mark.parametrize("share", range(6))
def test_any_preset_has_a_variant_or_is_refused(share: int) -> None:
    """No preset breaks a rule: what comes out is built and counted, or the switch is named."""
    made = 0
    for name in names()[share::18]:
        for switch in SWITCHES:
            try:
                made += params(load(name, switches=[switch]).architecture).total > 0
            except InputError as error:
                assert f"--with {switch}: " in error.message, error.message  # noqa: PT017
    assert made > 100


@pytest.mark.parametrize(
    ("blocks", "expression"),
    [
        (["a"] * 4, "n*[a]"),
        (["a", "a", "b"] * 2, "n*[2*a b]"),
        (["a", "b", "a"], "n*[a b]"),
        (["c", "a", "a"], "c 2*a"),
        (["a"], "a"),
    ],
)
def test_what_repeats_is_written_once(blocks: list[str], expression: str) -> None:
    assert shortened(blocks) == expression


def test_two_stacks_change_each_by_itself(gptcalc: Command) -> None:
    """Switch (arXiv:2101.03961) is T5 with experts: of top-1 experts as wide as T5's layers, T5 is left. BART's twelve
    layers with biases; of Whisper's decoder alone the four self-attentions become latent, without biases."""

    def total(model: str, *switches: str) -> int:
        words = [word for switch in switches for word in ("--with", switch)]
        found: int = gptcalc("params", model, *words, "--json").json["total"]
        return found

    assert total("switch-base-8", "dense") == total("t5-base") == 222_903_552
    experts, layer = 8 * (2 * 768 * 1536 + 1536 + 768) + 8 * (768 + 1), 2 * 768 * 3072 + 3072 + 768
    assert total("bart-base", "moe:8:2") == total("bart-base") + 12 * (experts - layer)
    heads = 4 * 384**2 + 3 * 384
    latents = 384 * 6 * 96 + 384 * (256 + 32) + 2 * 256 + 256 * 6 * (64 + 64) + 6 * 64 * 384
    assert total("whisper-tiny", "mla") == total("whisper-tiny") + 4 * (latents - heads)
    assert total("t5-small", "window:64") == total("t5-small")


@pytest.mark.parametrize("stack", ["encoder", "decoder"])
def test_windows_are_of_both_stacks(stack: str) -> None:
    """A window of W tokens on either side in the encoder, on the one side in the decoder."""
    model = load("bart-base", switches=["window:64"]).architecture
    encoder = model.encoder
    assert encoder is not None
    blocks = [block for block, _ in (encoder if stack == "encoder" else model).groups()]
    assert {m.window for block in blocks for m in sublayers(block) if isinstance(m, Attention) and not m.source} == {64}


@pytest.mark.parametrize(
    ("model", "switch", "problem"),
    [
        ("gpt2", "mls", "no such switch; did you mean mla?"),
        ("gpt2", "gqa", "expected gqa:N"),
        ("gpt2", "gqa:0", "expected gqa:N"),
        ("gpt2", "moe:8", "expected moe:E:K"),
        ("gpt2", "gqa:5", "--with gqa:5: "),
        ("t5-base", "alibi", "no rule for an encoder beside a decoder; there are rope, learned, none, gqa:N, mha, mla"),
        ("t5-base", "mla", "attn.buckets has no counterpart in mla"),
        ("t5-base", "dense", "encoder: there is no layer of experts"),
        ("bloom-560m", "mla", "latent attention has no biases by distance"),
        ("gemma-2-9b", "mla", "softcap has no counterpart in mla"),
        ("deepseek-v3.2", "mha", "mla.index has no counterpart in attn"),
        ("mamba-130m", "gqa:2", "there is no attention with heads"),
        ("qwen3-next-80b-a3b", "gdn:3", "there are recurrent layers already"),
    ],
)
def test_what_has_no_rule_is_refused(model: str, switch: str, problem: str, gptcalc: Command) -> None:
    found = gptcalc("params", model, "--with", switch)
    assert (found.status, found.out) == (2, "")
    assert problem in found.err
    assert len(found.lines) == 1


def test_every_command_takes_switches(gptcalc: Command) -> None:
    assert gptcalc("params", "gpt2", "--with", "gqa:4", "--get", "total").out == f"{GROUPED}\n"
    assert gptcalc("kv", "gpt2", "--with", "gqa:4", "--get", "bytes").out == f"{1024 * 12 * 2 * 4 * 64 * 2}\n"
    rows = gptcalc("compare", "gpt2", "gpt2-medium", "--with", "mha", "--json").json
    assert [row["model"] for row in rows] == ["gpt2 with mha", "gpt2-medium with mha"]
    assert "gqa:N" in gptcalc("memory", "--help").out


def test_settings_are_laid_over_a_variant(gptcalc: Command) -> None:
    found = gptcalc("params", "gpt2", "--with", "mla", "--set", "mla.kv_rank=64", "--get", "total")
    assert found.status == 0
    assert int(found.out) < params(load("gpt2", switches=["mla"]).architecture).total


def test_a_difference_shows_what_changed(gptcalc: Command) -> None:
    found = gptcalc("diff", "gpt2", "gpt2", "--with", "gqa:4", "--json").json
    assert found["b"] == "gpt2 with gqa:4"
    assert {"field": "attn.n_kv_heads", "a": 12, "b": 4} in found["fields"]
    figures = {figure["figure"]: (figure["a"], figure["b"]) for figure in found["figures"]}
    assert figures["total"] == (GPT2, GROUPED)
    assert "K[s,g,a] = k[s,g,a]" in found["equations"]["b"]


def test_every_rule_is_tried() -> None:
    assert {switch.partition(":")[0] for switch in SWITCHES} == {spelled.partition(":")[0] for spelled in SPELLED}
