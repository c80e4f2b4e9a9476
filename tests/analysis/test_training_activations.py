"""Activations of training against the published closed form, by hand for other blocks, and split over devices."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gptcalc.analysis.flops import flops
from gptcalc.analysis.memory.saved import Work, saved_bytes
from gptcalc.analysis.memory.sharding import Layout
from gptcalc.analysis.memory.training import training
from gptcalc.architecture import Architecture
from gptcalc.document import build
from gptcalc.equations import equations
from gptcalc.errors import InputError
from gptcalc.sources import load
from gptcalc.sources.huggingface import read

DATA = Path(__file__).parents[1] / "data"

S, B, H, A, V = 2048, 3, 1024, 16, 50304


def gpt(n_layers: int, **changes: Any) -> Architecture:
    """The paper's model: GPT with dropout."""
    return build({
        "d": H, "v": V, "c": S, "n_heads": A, "n_layers": n_layers, "position": "learned", "norm": "layernorm",
        "mlp": "gelu", "bias": "all", "dropout": True, **changes,
    })  # fmt: skip


def a_layer(make: Any = gpt, context: int = S, micro_batch: int = B, **how: Any) -> int:
    """What one layer more keeps."""
    two, three = (
        training(make(n), context=context, micro_batch=micro_batch, **how).per_device.activations for n in (2, 3)
    )
    return three - two


# --- Korthikanti et al. 2022 (arXiv:2205.05198), table 2 --------------------------------------------------------------


@pytest.mark.parametrize("t", [1, 2, 8])
def test_published_closed_form(t: int) -> None:
    def found(recompute: str, sequence_parallel: bool = False) -> int:
        return a_layer(attention="eager", recompute=recompute, sequence_parallel=sequence_parallel,
                       tp=t)  # fmt: skip

    sbh = S * B * H
    if t == 1:
        assert found("none") == sbh * 34 + 5 * A * S * S * B
    assert found("none") == sbh * 10 + (sbh * 24 + 5 * A * S * S * B) // t
    assert found("none", sequence_parallel=True) == (sbh * 34 + 5 * A * S * S * B) // t
    assert found("selective") == sbh * 10 + sbh * 24 // t
    assert found("selective", sequence_parallel=True) == sbh * 34 // t
    assert found("full") == 2 * sbh


@given(st.integers(1, 40), st.integers(1, 5), st.integers(1, 9), st.integers(1, 5), st.sampled_from(["gelu", "relu"]))
def test_closed_form_of_any_size(s: int, b: int, heads: int, pairs: int, activation: str) -> None:
    h = heads * 2 * pairs

    def make(n_layers: int) -> Architecture:
        return gpt(n_layers, d=h, n_heads=heads, mlp=activation, c=64)

    assert a_layer(make, s, b, attention="eager") == s * b * (34 * h + 5 * heads * s)


@pytest.mark.parametrize(("h", "a", "saved"), [(12288, 96, 0.70), (20480, 128, 0.65)])
def test_selective_recomputation_saves_what_the_paper_says(h: int, a: int, saved: float) -> None:
    """§5: 70% of GPT-3's activations, 65% of MT-NLG's."""

    def make(n_layers: int) -> Architecture:
        return gpt(n_layers, d=h, n_heads=a)

    none, selective = (a_layer(make, 2048, 1, attention="eager", recompute=way) for way in ("none", "selective"))
    assert round(1 - selective / none, 2) == saved


def test_parts_of_a_layer() -> None:
    """§4.1: norms 4sbh, attention 11sbh + 5as²b, MLP 19sbh."""
    (layer,) = equations(gpt(1)).layers
    token = Work(sequences=1, context=1, attention="eager")
    kept = [(line.statement.left.name, saved_bytes(line, token)) for line in layer.lines if line.saved]
    middle = 1 + [name for name, _ in kept].index("x")
    attention, mlp = dict(kept[:middle]), dict(kept[middle:])
    assert attention.pop("x") + mlp.pop("x") == 4 * H  # what two norms read
    scores = sum(size for name, size in kept if name in ("α", "μ"))
    assert scores == 5 * A  # of one pair: the softmax, the mask, the dropped
    assert sum(size for name, size in attention.items() if name not in ("α", "μ")) == 11 * H
    assert sum(mlp.values()) == 19 * H


def test_layernorm_of_llm_analysis_18() -> None:
    """TM05: s 2048, b 1, h 4096: one norm keeps 16,777,216 bytes, a layer's two 33,554,432."""

    def layer(*sections: str) -> Any:
        """Without a norm the x that enters a sublayer is what its products read."""
        own = {"attn": {}, "mlp": {"activation": "gelu", "d_ff": 4 * 4096}}
        return lambda n: gpt(n, d=4096, n_heads=32, **own | {name: {**own[name], "norm": "none"} for name in sections})

    two, one, none = (a_layer(layer(*without), 2048, 1) for without in ((), ("attn",), ("attn", "mlp")))
    assert two - one == 16_777_216
    assert two - none == 33_554_432


def test_outside_the_layers() -> None:
    """§4.3: dropout's mask sbh, the last norm's input 2sbh, the output's 2sbh, logits in fp32 4sbv."""
    found = training(gpt(2), micro_batch=B, attention="eager")
    layers = 2 * S * B * (34 * H + 5 * A * S)
    assert found.per_device.activations == layers + S * B * (H + 2 * H + 2 * H + 4 * V)
    assert found.pieces["activations.embedding"] == S * B * H
    assert found.pieces["activations.output"] == S * B * (4 * H + 4 * V)


def test_outside_the_layers_split() -> None:
    """4sbh/t · (1 + v/h) and the mask's sbh/t, with sequence parallelism."""
    found = training(gpt(2), micro_batch=B, attention="eager", tp=8, sequence_parallel=True)
    layers = 2 * S * B * (34 * H + 5 * A * S)
    assert found.per_device.activations == (layers + S * B * (H + 4 * H + 4 * V)) // 8


# --- recomputation and flash attention --------------------------------------------------------------------------------


def test_flash_attention_keeps_a_number_a_row_instead_of_scores() -> None:
    """Its log-sum-exp in fp32 (arXiv:2307.08691); no mask, which is made again from its seed."""
    assert a_layer() == S * B * (34 * H + 4 * A)
    assert a_layer(recompute="selective") == S * B * 34 * H


def test_what_is_made_again_is_there_once() -> None:
    """One layer's at a time: its scores, or all but the x that entered it."""
    eager = {"micro_batch": B, "attention": "eager"}
    none, selective, full = (training(gpt(4), recompute=way, **eager) for way in ("none", "selective", "full"))  # type: ignore[arg-type]
    assert "activations.made again" not in none.pieces
    assert selective.pieces["activations.made again"] == 5 * A * S * S * B
    assert full.pieces["activations.made again"] == S * B * (32 * H + 5 * A * S)
    assert full.pieces["activations.layers"] == 4 * 2 * S * B * H


def test_a_single_layer_gains_nothing_from_recomputation() -> None:
    sizes = {training(gpt(1), recompute=way, attention="eager").per_device.activations
             for way in ("none", "selective", "full")}  # fmt: skip
    assert len(sizes) == 1


def test_without_dropout() -> None:
    """No masks: 32 and 2as/h of the softmax."""
    assert a_layer(lambda n: gpt(n, dropout=False), attention="eager") == S * B * (32 * H + 2 * A * S)


def test_fp32_activations_are_twice_as_wide_and_masks_are_not() -> None:
    """34 = 2 · 16 + 2 masks, 5 = 2 · 2 + 1 mask; logits are fp32 as before."""
    assert a_layer(attention="eager", dtype="fp32") == S * B * ((4 * 16 + 2) * H + (4 * 2 + 1) * A * S)


# --- other blocks, by hand --------------------------------------------------------------------------------------------


def test_grouped_queries_and_a_gate() -> None:
    """Llama 3 8B: x, n, x, n; q and o of 32 heads; k and v of 8; g, u and φ(g)·u; 32 log-sum-exps."""

    def llama(n_layers: int) -> Architecture:
        return build({"d": 4096, "v": 128256, "c": 8192, "n_heads": 32, "n_kv_heads": 8, "n_layers": n_layers,
                      "d_ff": 14336})  # fmt: skip

    token = 2 * 4 * 4096 + 2 * 2 * 4096 + 2 * 2 * 1024 + 2 * 3 * 14336 + 4 * 32
    assert a_layer(llama, 8192, 1) == 8192 * token
    # on 16 devices: replicated x and n; a sixteenth of the rest, but each KV head on two
    split = 2 * 4 * 4096 + (2 * 2 * 4096 + 2 * 3 * 14336 + 4 * 32) // 16 + 2 * 2 * 128
    assert a_layer(llama, 8192, 1, tp=16) == 8192 * split


def test_latent_attention() -> None:
    """DeepSeek-V2-Lite's sizes: x, n; q; the latent before and after its norm; k_R; k_N, v and o of 16 heads."""

    def mla(n_layers: int) -> Architecture:
        return build({
            "d": 2048, "v": 1000, "c": 64, "n_heads": 16, "n_layers": n_layers, "d_ff": 512, "layers": "n*mla+mlp",
            "mla": {"kv_rank": 512, "d_nope": 128, "d_rope": 64, "d_v": 128},
        })  # fmt: skip

    attention = 2 * (2 * 2048 + 16 * 192 + 2 * 512 + 64 + 16 * (128 + 128 + 128)) + 4 * 16
    assert a_layer(mla, 64, 1) == 64 * (attention + 2 * (2 * 2048 + 3 * 512))


MIXTURE: dict[str, Any] = {"n_experts": 16, "top_k": 4, "d_ff": 96, "n_shared": 1, "d_shared": 160}


def mixture(n_layers: int, **changes: Any) -> Architecture:
    return build({
        "d": 64, "v": 100, "c": 64, "n_heads": 4, "n_layers": n_layers, "layers": "n*attn+moe",
        "moe": {**MIXTURE, **changes},
    })  # fmt: skip


def test_experts_activations_are_of_those_chosen() -> None:
    """TM07 (NVIDIA/Megatron-LM#1784): top_k · expert width + shared; a copy of the token for each of its experts."""

    def dense(n_layers: int) -> Architecture:
        return build({"d": 64, "v": 100, "c": 64, "n_heads": 4, "n_layers": n_layers, "d_ff": 4 * 96 + 160})

    router, copies = 2 * 16, 2 * 4 * 64
    assert a_layer(mixture, 64, 2) == a_layer(dense, 64, 2) + 64 * 2 * (router + copies)
    wider = a_layer(lambda n: mixture(n, d_ff=97), 64, 2) - a_layer(mixture, 64, 2)
    assert wider == 64 * 2 * 4 * 3 * 2
    more = a_layer(lambda n: mixture(n, n_experts=32), 64, 2) - a_layer(mixture, 64, 2)
    assert more == 64 * 2 * 2 * 16  # the router's numbers alone


@pytest.mark.parametrize(
    "ways", [{"tp": 2}, {"tp": 2, "ep": 4, "dp": 4}, {"tp": 2, "ep": 2}, {"tp": 2, "ep": 8, "dp": 4}]
)
def test_experts_work_is_spread_over_tensor_parallel_ranks(ways: dict[str, int]) -> None:
    """However the experts lie, a device has top_k / tp experts' worth of its replica's tokens."""
    token = 2 * (2 * 64) + 2 * (4 * 64) // 2 + 4 * 4 // 2 + 2 * (2 * 64) + 2 * 16 + 2 * 3 * 160 // 2
    experts = 2 * 4 * 3 * 96 // 2
    copies = 2 * 4 * 64 * Layout(**ways).expert_tp // 2
    assert a_layer(mixture, 64, 2, **ways) == 64 * 2 * (token + experts + copies)


@pytest.mark.parametrize(
    ("section", "more"),
    [
        ({"qk_norm": "head"}, 2 * 2 * 64),  # q and k before their norm
        ({"v_norm": {"weight": False}}, 2 * 64),
        ({"clip": 8.0}, 2 * 3 * 64),  # q, k and v before
        ({"gate": "full"}, 2 * 2 * 64),  # the gate, and o after it
        ({"gate": "head"}, 2 * (4 + 64)),
        ({"out_norm": {}}, 2 * 64),
        ({"softcap": 30.0}, 0),  # of pairs only
        ({"temperature": {"floor": 4.0, "scale": 0.1}}, 0),
        ({"value_scale": 0.5}, 0),
        ({"sinks": True}, 0),
        ({"k_eq_v": True}, 0),  # k turned, v not: two still
        ({"k_eq_v": True, "position": "none"}, -2 * 64),  # one for both
        ({"k_eq_v": True, "qk_norm": "head"}, 2 * 2 * 64 - 2 * 64),  # k before its norm is v
        ({"q_rank": 24}, 2 * 2 * 24),
    ],
)
def test_features_of_attention(section: dict[str, Any], more: int) -> None:
    """What a token keeps beyond plain attention of 4 heads of 16."""

    def make(**attn: Any) -> Any:
        return lambda n: build({"d": 64, "v": 100, "c": 64, "n_heads": 4, "n_layers": n, "d_ff": 96, "attn": attn})

    assert a_layer(make(**section), 64, 1) - a_layer(make(), 64, 1) == 64 * more


@pytest.mark.parametrize(
    ("section", "more"),
    [
        ({"activation": "gelu"}, -2 * 96),  # u and its activation: no gate
        ({"activation": "xielu"}, -2 * 96),
        ({"mid_norm": {}}, 2 * 96),
        ({"bias": ["up", "down"]}, 0),
    ],
)
def test_features_of_mlps(section: dict[str, Any], more: int) -> None:
    def make(**mlp: Any) -> Any:
        return lambda n: build({"d": 64, "v": 100, "c": 64, "n_heads": 4, "n_layers": n, "mlp": {"d_ff": 96, **mlp}})

    assert a_layer(make(**section), 64, 1) - a_layer(make(), 64, 1) == 64 * more


@pytest.mark.parametrize(
    ("section", "more"),
    [
        ({"weight_at": "input"}, 0),  # the weighted copies of the token in place of the plain ones
        ({"d_latent": 40}, 2 * (40 + 40) + 2 * 4 * (40 - 64)),  # the latent before and after; its copies are narrower
        ({"shared_gate": True}, 2 * (1 + 64)),  # the gate's number and what it multiplies
        ({"router_scale": True}, 2 * 64),  # what the router reads is not what the experts read
        ({"out_bias": True}, 0),
        ({"selection_bias": True, "router": "sigmoid"}, 0),
        ({"n_identity": 3}, 2 * 3),
    ],
)
def test_features_of_experts(section: dict[str, Any], more: int) -> None:
    assert a_layer(lambda n: mixture(n, **section), 64, 1) - a_layer(mixture, 64, 1) == 64 * more


@pytest.mark.parametrize(
    ("change", "more"),
    [
        ({"position": "learned"}, 0),  # only the sum is needed
        ({"position": "sinusoidal"}, 0),
        ({"embedding": {"norm": True}}, 2 * 64),  # what its norm reads
        ({"embedding": {"width": 16}}, 2 * 16 + 2 * 16),  # the narrow row; the narrow input of the output
        ({"embedding": {"scale": "sqrt(d)"}}, 0),
        ({"softcap": 30.0, "logit_scale": 0.5}, 0),
        ({"final_norm": False}, -2 * 64),
        ({"layer_scalar": True}, 2 * 2 * 64),  # x before its factor, in both layers
        # a table of 2 · 3 channels: the projection before its norm, and the sum; in both layers the gate's 3 before and
        # after its activation, the output's 64 before its norm, and x once more
        ({"per_layer_embedding": {"v": 100, "d": 3}}, 2 * 2 * 6 + 2 * 2 * (2 * 3 + 2 * 64)),
        # embedding: two projections before they are scaled; it goes on as a stream of three. Both layers: three streams
        # enter, not one; the predicted active one, what the block makes of it, the change; twice what the router's norm
        # gives and its 3 numbers before and after the tanh; 9 coefficients and 3. Output: three streams enter, not one;
        # two projections before they are scaled; x
        ({"altup": {"n": 3}}, 2 * 2 * 64 + 2 * 2 * (5 * 64 + 2 * (64 + 6) + 12) + 2 * 5 * 64),
        # what the bottleneck gives, and what the norm behind it reads
        ({"attn": {"laurel": {"rank": 5}}}, 2 * 2 * (5 + 64)),
        # keys and values before their convolutions
        ({"attn": {"kv_conv": 3}}, 2 * 2 * 2 * 64),
        # the outputs before theirs
        ({"attn": {"out_conv": 3}}, 2 * 2 * 64),
        # the states that mix the profiles
        ({"attn": {"relative": {"d": 5, "extent": 9}}}, 2 * 2 * 4 * 5),
        ({"mlp": {"out_scale": True}}, 2 * 2 * 64),
        # in both layers the index queries of 4 heads and the index keys, before their norms and after them
        ({"attn": {"index": {"d": 20, "block": 8, "top_k": 4}}}, 2 * 2 * 2 * (4 * 20 + 20)),
        ({"mtp": 1}, 0),
    ],
)
def test_features_of_the_whole_model(change: dict[str, Any], more: int) -> None:
    def kept(**change: Any) -> int:
        model = build({"d": 64, "v": 100, "c": 64, "n_heads": 4, "n_layers": 2, "d_ff": 96, **change})
        return training(model, micro_batch=1).per_device.activations

    assert kept(**change) - kept() == 64 * more


def test_an_encoder_beside_the_decoder() -> None:
    """T5-base, S tokens read: of each of 12 layers two norms' results, two x, queries, keys, values and their result,
    twice d_ff, 4 bytes a head and query; the embedding's x, and the last norm's result, read by the decoder."""
    d, d_ff, heads, s = 768, 3072, 12, 100
    model = load("t5-base").architecture
    found = training(model, context=30, source=s).pieces["activations.encoder"]
    assert found == s * (12 * (2 * (4 * d + 4 * d + 2 * d_ff) + 4 * heads) + 2 * 2 * d)


def test_softcapped_scores_are_kept_beside_the_softmax() -> None:
    def make(**attn: Any) -> Any:
        return lambda n: build({"d": 64, "v": 100, "c": 64, "n_heads": 4, "n_layers": n, "d_ff": 96, "attn": attn})

    capped, plain = (a_layer(make(**attn), 64, 1, attention="eager") for attn in ({"softcap": 30.0}, {}))
    assert capped - plain == 2 * 4 * 64 * 64


@pytest.mark.parametrize(
    ("change", "more"),
    [
        ({"norm_at": "sandwich"}, 2 * 2 * 64),  # each sublayer's output, which a norm reads
        ({"norm_at": "output"}, 0),  # x is read itself; the output in place of n
        ({"norm_at": "post"}, 0),  # x + f(x) before the norm, x behind it
        ({"layers": "n*attn|mlp"}, -2 * 2 * 64),  # one x, one n
        ({"residual_scale": 0.5}, 0),
    ],
)
def test_where_norms_stand(change: dict[str, Any], more: int) -> None:
    def make(**change: Any) -> Any:
        return lambda n: build({"d": 64, "v": 100, "c": 64, "n_heads": 4, "n_layers": n, "d_ff": 96, **change})

    assert a_layer(make(**change), 64, 1) - a_layer(make(), 64, 1) == 64 * more


# --- pipelines --------------------------------------------------------------------------------------------------------


def test_first_stage_has_as_many_micro_batches_in_flight_as_there_are_stages() -> None:
    """1F1B: stage 0 of 4 holds 4 micro-batches of its 2 layers: as much as one device of all 8; the mask for each."""
    found = training(gpt(8, v=8), micro_batch=1, attention="eager", pp=4)
    assert found.in_flight == 4
    assert found.per_device.activations == 8 * S * (34 * H + 5 * A * S) + 4 * S * H


@pytest.mark.parametrize(("batch", "flying"), [(None, 4), (1, 1), (3, 3), (4, 4), (64, 4)])
def test_micro_batches_of_a_step_bound_those_in_flight(batch: int | None, flying: int) -> None:
    found = training(gpt(8, v=8), batch=batch, micro_batch=1, pp=4)
    assert found.in_flight == flying
    assert found.pieces["activations.layers"] == flying * 2 * S * (34 * H + 4 * A)


def test_a_rank_takes_its_share_of_the_batch() -> None:
    """12 sequences on 4: 3 each, in one pass unless the micro-batch is smaller."""
    found = training(gpt(2), batch=12, dp=4)
    assert found.micro_batch == 3
    assert found.per_device.activations == training(gpt(2), micro_batch=3).per_device.activations
    assert training(gpt(2), batch=12, micro_batch=1, dp=4).micro_batch == 1


def test_uneven_shares_are_rounded_up() -> None:
    """3 sequences of 5 tokens of 64 numbers on 7 with sequence parallelism: ⌈960 / 7⌉ = 138 of each n and x."""
    model = build({"d": 64, "v": 70, "c": 8, "n_heads": 7, "d_head": 2, "n_layers": 1, "d_ff": 14, "position": "none"})
    found = training(model, context=5, micro_batch=3, tp=7, sequence_parallel=True)
    heads = 15 * (2 * 4 * 2 + 4 + 2 * 3 * 2)  # one head's q, k, v, o and its log-sum-exp; two of d_ff's channels
    assert found.pieces["activations.layers"] == 2 * 4 * 138 + heads


def test_what_does_not_divide_is_refused() -> None:
    with pytest.raises(InputError, match="--tp 3: does not divide"):
        training(gpt(2), tp=3)


# --- transformers' own kernels ----------------------------------------------------------------------------------------

MEASURED = [json.loads(line) for line in (DATA / "saved_tensors.jsonl").read_text().splitlines()]


def missed(kind: str, attention: str, dtype: str) -> int:
    """Bytes of a layer that transformers' classes save and no equation has, less those that they save not, by the
    list of what a layer saves: 96 tokens of 64 channels, 4 heads of 16, 2 of keys; 4 experts, of which 2 are chosen."""
    n, d, heads, keys, width = 96, 64, 4, 2, 16
    flash, half = attention == "flash", dtype == "bf16"
    size = 2 if half else 4
    match kind:
        case "gemma":  # each norm's 1 + weight, in fp32
            return 2 * 4 * d
        case "gemma2":
            return 4 * 4 * d
        case "gemma3_text":  # of queries and keys, too
            return 4 * 4 * d + 2 * 4 * width
        case "phi3" if flash:  # the attention's output is copied when heads are joined
            return n * d * size
        case "phi3":  # values copied for the query heads let the fused projection's queries and keys go
            return -n * (heads + keys) * width * size
        case "olmo2" if half:  # norms multiply their weight in fp32: of both sublayers, of queries and of keys
            return (4 - 2) * n * (2 * d + (heads + keys) * width)
        case "gpt2" | "gpt_neox":
            statistics = -(4 - 2) * n * 2 * 2 if half else 0  # two norms' means and deviations are in 16 bits on a CPU
            softmax = -4 * heads * n * n if kind == "gpt2" and half and not flash else 0  # in 16 bits, once
            joined = n * d * size if kind == "gpt_neox" and flash else 0  # copied as phi3's
            return statistics + softmax + joined
        case "mixtral" | "qwen3_moe":
            indices = 4 * 8 * 2 * n + 4 * 4  # of chosen experts, the order of their tokens and back; where each begins
            chosen = 4 * 2 * n + (4 if kind == "mixtral" else size) * 2 * n  # weights over their sum, and in the order
            return indices + chosen + 4 * n + (4 - size) * 4 * n  # and that sum; the router's softmax is in fp32
    return 0


@pytest.mark.parametrize(
    "case", MEASURED, ids=lambda case: f"{case['config']['model_type']}-{case['attention']}-{case['dtype']}"
)
def test_what_a_layer_of_transformers_saves(case: dict[str, Any]) -> None:
    """tests/data/README.md says how it was measured."""

    def make(n_layers: int) -> Architecture:
        config = {**case["config"], "n_layer": n_layers, "num_hidden_layers": n_layers}
        if "layer_types" in config:
            config["layer_types"] = config["layer_types"][:n_layers]
        del config["n_layer" if config["model_type"] != "gpt2" else "num_hidden_layers"]
        return build(read(config).document)

    found = a_layer(make, 96, 1, engine="transformers", attention=case["attention"], dtype=case["dtype"])
    assert found + missed(case["config"]["model_type"], case["attention"], case["dtype"]) == case["bytes"]


@pytest.mark.parametrize("model_type", ["llama", "mistral", "qwen2", "qwen3"])
def test_llamas_are_met_to_the_byte(model_type: str) -> None:
    for case in MEASURED:
        if (case["config"]["model_type"], case["attention"]) == (model_type, "flash"):
            config = case["config"]
            two, three = (build(read({**config, "num_hidden_layers": n}).document) for n in (2, 3))
            kept = [
                training(model, context=96, micro_batch=1, engine="transformers", dtype=case["dtype"])
                for model in (two, three)
            ]
            assert kept[1].per_device.activations - kept[0].per_device.activations == case["bytes"]


@pytest.mark.parametrize("engine", ["vllm", "llama.cpp"])
def test_engines_that_do_not_train(engine: Any) -> None:
    with pytest.raises(InputError, match="doesn't train"):
        training(gpt(2), engine=engine)


# --- torchtitan's recomputation by operators --------------------------------------------------------------------------


def test_recomputation_by_operators() -> None:
    """A Llama layer's products in order: queries, keys, values, output, gate, up, down. x, every other product's result
    and attention's are kept, with a log-sum-exp in fp32 for each head."""
    d, heads, kv, width, d_ff = 512, 8, 2, 64, 1024

    def llama(n_layers: int) -> Architecture:
        return build(
            {"d": d, "v": 100, "c": 4096, "n_heads": heads, "n_kv_heads": kv, "n_layers": n_layers, "d_ff": d_ff}
        )

    kept = d + heads * width + kv * width + heads * width + d_ff + d  # x, q, v, o, gate, down
    assert a_layer(llama, 64, 1, recompute="operators") == 64 * (2 * kept + 4 * heads)
    model, none, again = (
        llama(1),
        *(flops(llama(1), context=64, phase="train", recompute=r) for r in ("none", "operators")),
    )
    once = 2 * 64 * (d * kv * width + heads * width * d + d * d_ff)  # keys, output, up
    assert again.total - none.total == once
    assert model.n_layers == 1


# --- multi-token prediction -------------------------------------------------------------------------------------------


def test_modules_that_are_trained() -> None:
    """DeepSeek-V3's module: weights of 2, gradients of 4 and Adam's 12 bytes each, and activations of its layer and of
    logits once more."""
    model = load("deepseek-v3").architecture
    plain, more = (training(model, context=64, micro_batch=1, mtp=mtp) for mtp in (False, True))
    assert more.trainable - plain.trainable == 11_610_068_224
    assert more.params - plain.params == 11_610_068_224
    logits = 64 * 4 * model.v
    added = more.per_device.activations - plain.per_device.activations
    assert added > logits
    assert "multi-token-prediction modules are left out (--mtp)" in plain.notes
    assert not any("left out" in note for note in more.notes)
    with pytest.raises(InputError, match="no multi-token-prediction modules"):
        training(gpt(2), mtp=True)
