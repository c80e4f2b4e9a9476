"""What must hold of any transformer, whatever its blocks are, tried on small ones that switch every block on."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np
import pytest

from gptcalc.architecture import (
    Architecture,
    Attention,
    CompressedAttention,
    LatentAttention,
    Norm,
    ResidualGate,
    Temperature,
    sublayers,
)
from gptcalc.document import build
from gptcalc.errors import InputError
from gptcalc.reference.attention import shortened
from gptcalc.reference.mlp import combined
from gptcalc.reference.model import Model, Result
from gptcalc.reference.norms import normed
from gptcalc.reference.shapes import shape_only
from gptcalc.reference.step import Step
from gptcalc.reference.store import MappingStore, RandomStore, ShapeStore
from gptcalc.reference.sublayer import mixed
from tests.reference_cases import DOCUMENTS, architecture

TOKENS = [3, 41, 59, 26, 5, 35, 8, 9, 7, 2, 38, 46]
EVERY = pytest.mark.parametrize("name", DOCUMENTS)


def model(name: str, seed: int = 0, **options: object) -> Model:
    return Model(architecture(name), RandomStore(seed), **{"dtype": np.float64, **options})  # type: ignore[arg-type]


def far(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.abs(a - b).max())


#: dynamic and LongRoPE scaling turn all tokens by the whole length beyond so many, so that a longer prefill is another
ORIGINAL = {"stretched": 8}


def otherwise(name: str) -> bool:
    """Whether steps compute otherwise than a prefill: prompts see themselves whole, or earlier passes of a step look
    back on what the last pass kept."""
    model = architecture(name)
    loops = [block.looped for block in model.blocks() if block.looped is not None]
    return model.whole_prompt or any(loop.caches == "last" for loop in loops)


@EVERY
def test_prefill_equals_token_by_token(name: str) -> None:
    text = TOKENS[: ORIGINAL.get(name)]
    whole = model(name).prefill(text)
    m = model(name)
    steps = [m.prefill(text[:3]), m.extend(text[3:6]), *(m.decode(token) for token in text[6:])]
    apart = far(np.concatenate([step.logits for step in steps], axis=1), whole.logits)
    if otherwise(name):
        assert apart > 1e-6
        return
    assert apart < 1e-9
    tokens = -2 if architecture(name).streams is None else 1  # of parallel streams (B, T, n, d)
    hidden = [np.concatenate(parts, axis=tokens) for parts in zip(*(step.hidden for step in steps), strict=True)]
    assert max(far(a, b) for a, b in zip(hidden, whole.hidden, strict=True)) < 1e-9


@EVERY
def test_a_later_token_changes_no_earlier_logit(name: str) -> None:
    before, after = model(name).prefill(TOKENS), model(name).prefill([*TOKENS[:-1], 60])
    apart = far(before.logits[:, :-1], after.logits[:, :-1])
    assert apart > 1e-6 if architecture(name).whole_prompt else apart < 1e-12
    assert far(before.logits[:, -1], after.logits[:, -1]) > 1e-6


@EVERY
def test_probabilities_sum_to_one(name: str) -> None:
    result = model(name).prefill(TOKENS, attention=True)
    assert result.attention is not None
    mixers = [mixer for block in architecture(name).blocks() for mixer in sublayers(block)]
    attend = (Attention, LatentAttention, CompressedAttention)
    assert bool(result.attention) == any(isinstance(mixer, attend) for mixer in mixers)
    for p in result.attention:
        total = p.sum(axis=-1)
        assert p.shape[-2] == len(TOKENS)
        assert p.min() >= 0
        if not any(isinstance(mixer, CompressedAttention) for mixer in mixers):  # which sees entries behind the tokens
            assert p.shape[-1] == len(TOKENS)
            assert (np.triu(p, 1).max() == 0) != architecture(name).whole_prompt
        if name == "sinks":
            assert 0 < total.min() <= total.max() < 1
        elif name in (
            "gated norms",
            "mixed sums",
            "compressed",
            "messages of a loop",
        ):  # some of their layers have sinks
            assert 0 < total.min() <= total.max() < 1 + 1e-12
        else:
            assert far(total, np.ones_like(total)) < 1e-12


@EVERY
def test_sequences_of_a_batch_do_not_touch(name: str) -> None:
    other = [token + 1 for token in TOKENS]
    m = model(name)
    both = m.prefill(np.array([TOKENS, other])).logits
    step = m.decode(np.array([1, 2])).logits
    for row, tokens in enumerate((TOKENS, other)):
        alone = model(name)
        assert far(alone.prefill(tokens).logits[0], both[row]) < 1e-9
        assert far(alone.decode(row + 1).logits[0], step[row]) < 1e-9


@pytest.mark.parametrize("name", ["latent", "sparse", "nested"])
def test_absorbed_equals_expanded(name: str) -> None:
    forms = [model(name, latent=form) for form in ("absorbed", "expanded", "auto")]
    logits = [np.concatenate([m.prefill(TOKENS).logits, m.decode(4).logits], axis=1) for m in forms]
    assert far(logits[0], logits[1]) < 1e-9
    assert far(logits[0], logits[2]) < 1e-9


#: weights that mathematics makes ineffective: keys all shifted alike change no softmax unless they are rotated after;
#: nor does what one sum alone is weighed by
DEAD = {
    "gpt": (".attn.k.bias",), "alibi": (".attn.k.bias",), "post": (".attn.k.bias",), "latent": (".attn.k_b.bias",),
    "mixed sums as they are": ("layers.0.linear.sums.norm.weight", "layers.0.linear.sums.query"),
}  # fmt: skip


#: some of the tokens as an image's
IMAGES = np.arange(len(TOKENS)) % 3 == 1


def _passed(m: Model) -> Result:
    """A pass over the tokens; where blocks are denoised, the second step of one comes in front of the logits."""
    result = m.prefill(TOKENS, predict=True, images=IMAGES)
    if m.architecture.canvas is None:
        return result
    block = TOKENS[: m.architecture.canvas.length]
    denoised = m.denoise(block, m.denoise(block).logits).logits
    return replace(result, logits=np.concatenate([denoised, result.logits], axis=1))


@pytest.mark.parametrize("name", DOCUMENTS)
def test_noise_on_any_weight_moves_the_logits(name: str) -> None:
    m = model(name)
    first = _passed(m)
    weights = dict(m.weights.arrays)
    random = np.random.default_rng(1)
    for key, array in weights.items():
        noisy = {**weights, key: array + random.standard_normal(array.shape)}
        result = _passed(Model(m.architecture, MappingStore(noisy), dtype=np.float64))
        ahead = zip(result.predicted, first.predicted, strict=True)
        moved = max(far(result.logits, first.logits), *(far(a, b) for a, b in ahead), 0.0)
        assert (moved < 1e-9) == key.endswith(DEAD.get(name, ("nothing",))), f"{key} moves the logits by {moved}"


@EVERY
def test_shapes_alone_take_the_same_way(name: str) -> None:
    real, traced = model(name), Model(architecture(name), ShapeStore(), dtype=np.float64)
    a = [real.prefill(TOKENS, attention=True, predict=True), real.decode(1, last_only=True)]
    b = [
        traced.prefill(shape_only((1, len(TOKENS)), np.int64), attention=True, predict=True),
        traced.decode(shape_only((1,), np.int64), last_only=True),
    ]
    assert real.weights.asked == traced.weights.asked
    assert real.tally.flops == traced.tally.flops
    assert real.cache.by_sublayer() == traced.cache.by_sublayer()
    for x, y in zip(a, b, strict=True):
        assert (x.logits.shape, x.logits.dtype) == (y.logits.shape, y.logits.dtype)
        assert [h.shape for h in x.hidden] == [h.shape for h in y.hidden]
        assert [p.shape for p in x.attention or []] == [p.shape for p in y.attention or []]
        assert [p.shape for p in x.predicted] == [p.shape for p in y.predicted]


@EVERY
def test_float32_stays_float32(name: str) -> None:
    m = model(name, dtype=np.float32)
    single = m.prefill(TOKENS)
    assert {x.dtype for x in (single.logits, single.embedded, *single.hidden)} == {np.dtype(np.float32)}
    assert {x.dtype for x in m.cache.arrays.values()} == {np.dtype(np.float32)}
    assert far(single.logits, model(name).prefill(TOKENS).logits) < 2e-4


def test_the_seed_decides_the_weights() -> None:
    logits = [model("gpt", seed).prefill(TOKENS).logits for seed in (0, 0, 1)]
    assert (logits[0] == logits[1]).all()
    assert far(logits[0], logits[2]) > 0.1


# --- counts, worked out by hand ---------------------------------------------------------------------------------------


def tiny(**more: object) -> Architecture:
    return build(
        {"d": 10, "v": 17, "c": 64, "n_heads": 4, "n_kv_heads": 2, "d_head": 6, "d_ff": 7, "n_layers": 2, **more}
    )


def test_parameters_of_a_grouped_model() -> None:
    m = Model(tiny())
    m.prefill([1, 2, 3])
    layer = 10 * 24 + 2 * 10 * 12 + 24 * 10 + 3 * 10 * 7 + 2 * 10  # q, k and v, out, three of the MLP, two norms
    assert m.weights.count == 17 * 10 + 2 * layer + 10 + 10 * 17


def test_flops_of_a_grouped_model() -> None:
    m = Model(tiny())
    m.prefill([1, 2, 3])
    weights = 2 * (10 * 24 + 2 * 10 * 12 + 24 * 10 + 3 * 10 * 7) + 10 * 17  # multiply-adds a token
    assert m.tally.flops == {
        "weights": 2 * 3 * weights,
        "scores": 2 * 2 * 4 * 9 * 6,
        "values": 2 * 2 * 4 * 9 * 6,
        "state": 0,
    }
    m.tally.clear()
    m.decode(4)  # one query against four keys
    assert m.tally.flops == {
        "weights": 2 * weights,
        "scores": 2 * 2 * 4 * 4 * 6,
        "values": 2 * 2 * 4 * 4 * 6,
        "state": 0,
    }


def test_a_window_evicts() -> None:
    m = Model(tiny(layers="local+mlp attn+mlp", local={"like": "attn", "window": 5}))
    m.prefill(list(range(3)))
    assert m.cache.by_sublayer() == {"layers.0.attn": 2 * 12 * 3, "layers.1.attn": 2 * 12 * 3}
    for token in range(6):
        m.decode(token)
    assert m.cache.by_sublayer() == {"layers.0.attn": 2 * 12 * 5, "layers.1.attn": 2 * 12 * 9}
    m.tally.clear()
    m.decode(0)
    assert m.tally.flops["scores"] == 2 * 4 * 6 * (5 + 10)
    m.prefill(list(range(16)))
    assert m.cache.elements == 2 * 12 * (5 + 16)


def test_a_chunk_begins_anew() -> None:
    m = Model(tiny(attn={"chunk": 5}))
    m.prefill(list(range(5)))
    assert m.cache.elements == 2 * 2 * 12 * 5
    m.decode(1)
    assert m.cache.elements == 2 * 2 * 12 * 1
    m.tally.clear()
    m.decode(1)
    assert m.tally.flops["scores"] == 2 * 2 * 4 * 6 * 2


def test_a_layer_that_reuses_keys_holds_none() -> None:
    m = model("per layer")
    m.prefill(TOKENS)
    heads = 2 * (8 + 8)
    assert m.cache.by_sublayer() == {"layers.0.attn": heads * 12, "layers.1.attn": heads * 3}


def test_latents_are_what_latent_attention_holds() -> None:
    m = model("sparse")
    m.prefill(TOKENS)
    assert m.cache.by_sublayer() == {
        "layers.0.attn": (11 + 4) * 12,
        "layers.0.attn.index": 9 * 12,
        "layers.1.attn": (11 + 4) * 12,
    }
    m = model("sparse", latent="expanded")
    m.prefill(TOKENS)
    assert m.cache.by_sublayer()["layers.1.attn"] == 3 * (5 + 4 + 7) * 12


def test_flops_of_latent_attention_in_both_forms() -> None:
    document = {
        "d": 10, "v": 17, "c": 64, "n_heads": 4, "n_layers": 1, "layers": "mla+mlp", "d_ff": 7,
        "mla": {"kv_rank": 9, "d_nope": 5, "d_rope": 4, "d_v": 3},
    }  # fmt: skip
    around = 10 * 4 * 9 + 10 * 9 + 10 * 4 + 4 * 3 * 10 + 3 * 10 * 7 + 10 * 17  # q, latent, rotary key, out, MLP, head
    unfold = 9 * 4 * 5 + 9 * 4 * 3
    for form, scores, values in (("expanded", 4 * (5 + 4), 4 * 3), ("absorbed", 4 * (9 + 4), 4 * 9)):
        m = Model(build(document), latent=form)  # type: ignore[arg-type]
        m.prefill([1, 2, 3])
        m.tally.clear()
        m.decode(5)
        expected = {"weights": 2 * (around + unfold), "scores": 2 * 4 * scores, "values": 2 * 4 * values, "state": 0}
        assert m.tally.flops == expected


def test_only_chosen_experts_are_computed() -> None:
    moe = {"n_experts": 5, "top_k": 2, "d_ff": 3, "n_shared": 1}
    m = Model(
        build({"d": 10, "v": 17, "c": 64, "n_heads": 2, "d_head": 4, "n_layers": 1, "layers": "attn+moe", "moe": moe})
    )
    m.prefill([1, 2, 3])
    assert m.weights.asked["layers.0.moe.gate"] == (5, 10, 3)
    per_token = 4 * 10 * 8 + 10 * 5 + (2 + 1) * 3 * 10 * 3 + 10 * 17
    assert m.tally.flops["weights"] == 2 * 3 * per_token


@pytest.mark.parametrize("name", ["latent", "nested", "sinks", "chunked"])
def test_experts_in_pieces_are_the_same_experts(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, pieces = model(name), model(name)
    logits = whole.prefill(TOKENS).logits
    monkeypatch.setattr("gptcalc.reference.experts.GATHERED", 2000)
    assert far(pieces.prefill(TOKENS).logits, logits) < 1e-12
    assert pieces.tally.flops == whole.tally.flops


def test_a_clamp_bounds_gate_and_up() -> None:
    gate, up = np.array([5.0, -5.0, 1.0]), np.array([-9.0, 9.0, 1.0])
    w = Model(architecture("sinks")).weights
    expected = [g / (1 + np.exp(-1.702 * g)) * (u + 1) for g, u in ((2, -2), (-5, 2), (1, 1))]
    assert far(combined("swiglu_oai", gate, up, 2.0, w), np.array(expected)) < 1e-12


def test_a_clamp_after_the_gate() -> None:
    gate, up = np.array([5.0, -5.0]), np.array([-9.0, 1.0])
    w = Model(architecture("sinks")).weights
    expected = [2.0 * -2.0, -5 / (1 + np.exp(5.0))]  # silu(5) = 4.97 is cut to 2, silu(−5) = −0.03 is not
    assert far(combined("swiglu", gate, up, 2.0, w, "output"), np.array(expected)) < 1e-12


def test_a_vector_is_no_longer_than_its_limit() -> None:
    """3-4-5: half of what is twice as long as it may be, and all of what is shorter."""
    found = shortened(np.array([[3.0, 4.0], [0.3, 0.4]]), 2.5)
    np.testing.assert_allclose(found, [[1.5, 2.0], [0.3, 0.4]], atol=1e-5)


def test_a_gated_residual_keeps_the_size() -> None:
    """Shares of 0.6 and 0.8 where σ(w/0.5) is 0.6; a share near 1 leaves at least √0.001 of the stream."""
    weights = MappingStore({"attn.residual_gate": np.array([0.5 * np.log(0.6 / 0.4), 50.0])})
    w = Model(architecture("sinks"), weights, dtype=np.float64).weights.at("attn")
    x, y = np.array([[[10.0, 10.0]]]), np.array([[[5.0, 5.0]]])
    expected = np.array([[[0.8 * 10 + 0.6 * 5, 0.001**0.5 * 10 + 5]]])
    assert far(mixed(ResidualGate(temperature=0.5), x, y, w), expected) < 1e-9


def test_queries_grow_beyond_a_length() -> None:
    m = Model(architecture("sinks"), dtype=np.float64)
    step = Step(np.zeros((1, 9), int), m.cache, m.tally, 48, m.weights, "auto")
    assert far(step.log_growth(2).reshape(-1)[[0, 1, 2, 4, 8]], np.array([1, 1, 1, 2, 3.0])) < 1e-12


def test_averaged_residuals_weigh_all_summands_alike() -> None:
    m = Model(architecture("sinks"), dtype=np.float64)
    step = Step(np.zeros((1, 1), int), m.cache, m.tally, 48, m.weights, "auto")
    step.sums = 1
    x = np.array([1.0, 0.0, 0.0])
    for k in (1, 2):
        x = step.joined(x, np.eye(3)[k])
    assert far(x, np.full(3, 3**-0.5)) < 1e-12


def test_queries_that_grow_by_a_power() -> None:
    m = Model(architecture("sinks"), dtype=np.float64)
    step = Step(np.zeros((1, 8), int), m.cache, m.tally, 48, m.weights, "auto")
    found = step.temperature(Temperature(floor=4, scale=0.5, form="power")).reshape(-1)
    assert far(found[[3, 7]], np.array([2, 3]) ** 0.5) < 1e-12


def test_a_norm_whose_weight_multiplies_its_input() -> None:
    """(1, 2)·(4, 1) = (4, 2), whose mean square is 10."""
    w = Model(architecture("sinks"), MappingStore({"n.weight": np.array([4.0, 1.0])}), dtype=np.float64).weights.at("n")
    found = normed(np.array([1.0, 2.0]), Norm(weight_at="input", eps=1e-12), w)
    assert far(found, np.array([4.0, 2.0]) / 10**0.5) < 1e-9


# --- refusals ---------------------------------------------------------------------------------------------------------


def test_tokens_outside_the_vocabulary_are_refused() -> None:
    for tokens in ([1, 61], [-1], [[1.5]], []):
        with pytest.raises(InputError, match="tokens"):
            model("gpt").prefill(np.array(tokens))


def test_positions_beyond_the_table_are_refused() -> None:
    with pytest.raises(InputError, match="table of positions"):
        model("gpt").prefill([1] * 41)


def test_a_missing_or_misshapen_weight_is_named() -> None:
    m = model("gpt")
    m.prefill(TOKENS)
    weights = dict(m.weights.arrays)
    key = "layers.1.attn.q"
    with pytest.raises(InputError, match=r"layers\.1\.attn\.q"):
        Model(m.architecture, MappingStore({**weights, key: weights[key][:, 1:]})).prefill(TOKENS)
    del weights[key]
    with pytest.raises(InputError, match=r"layers\.1\.attn\.q"):
        Model(m.architecture, MappingStore(weights)).prefill(TOKENS)


def test_every_weight_is_asked_for_with_one_shape() -> None:
    m = model("latent")
    m.prefill(TOKENS, predict=True)
    assert m.weights.count == sum(prod(array.shape) for array in m.weights.arrays.values())
