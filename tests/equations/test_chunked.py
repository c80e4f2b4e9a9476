"""Recurrent states in chunks: the same numbers as token by token, and FLOPs worked by hand from the papers."""

from __future__ import annotations

import importlib
from typing import Any, get_args

import numpy as np
import pytest

import gptcalc
from gptcalc import InputError
from gptcalc.architecture import Architecture, InChunks, LinearAttention, Recurrent, sublayers
from gptcalc.document import build
from gptcalc.equations.model import remembered
from gptcalc.reference.model import Model
from gptcalc.reference.step import LONG, Scan
from gptcalc.reference.store import MappingStore
from gptcalc.sources import load
from tests.equations.test_lines import TOKENS, held
from tests.mutation import mutate
from tests.reference_cases import DOCUMENTS, architecture

#: three tokens are left of 11 behind whole chunks of 4; chunks of one token are the recurrence; one is never full
CHUNKS = (0, 1, 3, TOKENS + 1)


def has_chunks(small: Architecture) -> bool:
    return any(isinstance(m, get_args(InChunks)) for block, _ in small.groups() for m in sublayers(block))


def has_states(small: Architecture) -> bool:
    return any(isinstance(m, get_args(Recurrent)) for block, _ in small.groups() for m in sublayers(block))


IN_CHUNKS = [name for name in DOCUMENTS if has_chunks(architecture(name))]
WITH_STATES = [name for name in DOCUMENTS if has_states(architecture(name))]


# --- the same numbers -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chunks", CHUNKS)
@pytest.mark.parametrize("name", IN_CHUNKS)
def test_the_lines_are_the_recurrence(name: str, chunks: int) -> None:
    """Evaluated, the lines in chunks give what the witness computes token by token."""
    held(architecture(name), chunks=chunks)


@pytest.mark.parametrize("name", WITH_STATES)
def test_the_witness_in_chunks_is_the_recurrence(name: str) -> None:
    """Logits and states after 11 tokens and after 14, the last three in a second call; and its FLOPs are the lines'."""
    small = architecture(name)
    tokens = np.random.default_rng(3).integers(0, small.v, 14)
    walked = Model(small, dtype=np.float64, scan="recurrent")
    first, second = walked.prefill(tokens[:11]).logits, walked.extend(tokens[11:]).logits
    scans: tuple[Scan, ...] = ("chunked", 1, 3, 20)
    for scan in scans:
        found = Model(small, MappingStore(walked.weights.arrays), dtype=np.float64, scan=scan)
        np.testing.assert_allclose(found.prefill(tokens[:11]).logits, first, rtol=0, atol=1e-11)
        form = "chunked" if scan == "chunked" else f"chunked:{scan}"
        assert found.tally.total == gptcalc.flops(small, context=11, pairs="full", scan=form).total
        np.testing.assert_allclose(found.extend(tokens[11:]).logits, second, rtol=0, atol=1e-11)
        for key, state in walked.cache.arrays.items():
            np.testing.assert_allclose(found.cache.arrays[key], state, rtol=0, atol=1e-11)


def test_strong_decays_in_single_precision() -> None:
    """No exponent is positive: where a chunk's decays reach e^−300, fp32 gives the recurrence, too."""
    small = build({**DOCUMENTS["delta"], "name": "strong"})
    walked = Model(small, dtype=np.float32, scan="recurrent")
    tokens = np.random.default_rng(3).integers(0, small.v, 40)
    walked.prefill(tokens)
    strong = {key: array + 4.0 if key.endswith("A_log") else array for key, array in walked.weights.arrays.items()}
    one, two = (Model(small, MappingStore(strong), dtype=np.float32, scan=scan) for scan in ("recurrent", 40))
    expected = one.prefill(tokens).logits
    assert np.isfinite(expected).all()
    np.testing.assert_allclose(two.prefill(tokens).logits, expected, rtol=0, atol=2e-4)


def test_long_sequences_go_in_chunks_by_themselves() -> None:
    small = architecture("delta")
    for tokens, chunks in ((LONG, set()), (LONG + 1, {m.chunk for b, _ in small.groups() for m in sublayers(b)
                                                      if isinstance(m, LinearAttention)})):  # fmt: skip
        model = Model(build({**DOCUMENTS["delta"], "name": "delta", "c": 2 * LONG}))
        model.prefill(np.zeros(tokens, int))
        assert model.tally.chunks == chunks


# --- FLOPs, worked by hand --------------------------------------------------------------------------------------------

PLAIN: dict[str, Any] = {"name": "hand", "d": 12, "v": 5, "c": 999, "n_heads": 2, "n_layers": 1, "layers": "n*linear"}
H, N, P, C = 3, 4, 5, 8  # heads, channels of a key, of a value, tokens of a chunk
T = 3 * C


def states(document: dict[str, Any], tokens: int = T, **how: Any) -> int:
    """Multiply-adds of states and within chunks."""
    return gptcalc.flops(build({**PLAIN, **document}), context=tokens, scan=f"chunked:{C}", **how).states // 2


def mamba2(groups: int) -> dict[str, Any]:
    return {"layers": "n*mamba2", "mamba2": {"n_heads": H, "d_head": P, "d_state": N, "n_groups": groups, "kernel": 4}}


def linear(**keys: Any) -> dict[str, Any]:
    return {"linear": {"n_heads": H, "d_k": N, "d_v": P, **keys}}


def test_mamba2_as_in_its_paper() -> None:
    """Dao and Gu 2024 (arXiv:2405.21060), §6: of T/Q chunks of Q tokens BMM(T/Q, Q, Q, N) for C·Bᵀ and
    BMM(T/Q, Q, P, Q) times the inputs within, BMM(T/Q, N, P, Q) for the chunk's state, BMM(T/Q, Q, P, N) for what the
    state before gives; with several heads all but the first once a head, the first once a group."""
    q, chunks = C, T // C
    for groups in (1, H):
        square = chunks * (groups * q * q * N + H * (q * P * q + N * P * q + q * P * N))
        assert states(mamba2(groups), pairs="full") == square
        seen = q * (q + 1) // 2
        assert states(mamba2(groups)) == chunks * (groups * seen * N + H * (seen * P + 2 * q * N * P))


@pytest.mark.parametrize("decay", ["head", "channel"])
def test_the_delta_rule_as_in_its_papers(decay: str) -> None:
    """arXiv:2406.06484, §3.2 and arXiv:2412.06464, §3.3, equations of the chunkwise form: K·Kᵀ, the inverse of a
    triangular matrix, U = T·diag(β)·V, W = T·diag(β)·K, Q·Kᵀ; U − W·S, Q·S, (Q·Kᵀ ⊙ M)·(U − W·S), and
    (U − W·S)ᵀ·K for the state. As squares the inverse, row after row, is Q products of a row and a square."""
    document = linear(delta=True, decay=decay, kernel=4)
    q, chunks = C, T // C
    square = q * q * N + q**3 + q * q * P + q * q * N + q * q * N + q * q * P
    assert states(document, pairs="full") == chunks * H * (square + 3 * q * N * P)
    before, seen = q * (q - 1) // 2, q * (q + 1) // 2
    triples = sum(1 for t in range(q) for r in range(t) for s in range(r + 1))
    inside = before * N + triples + seen * (P + N + N + P)
    assert states(document) == chunks * H * (inside + 3 * q * N * P)


def test_gated_linear_attention_as_in_its_paper() -> None:
    """arXiv:2312.06635, §3: Q·Kᵀ and (Q·Kᵀ ⊙ M)·V within a chunk, Kᵀ·V for the state, Q·S."""
    seen = C * (C + 1) // 2
    for keys in ({"decay": {"over": "channel", "form": "sigmoid", "rank": 2}}, {"decay": {"form": "fixed"}}, {}):
        assert states(linear(**keys)) == T // C * H * (seen * (N + P) + 2 * C * N * P)


def matrixmix(**keys: Any) -> dict[str, Any]:
    return {"layers": "n*matrixmix", "matrixmix": {"n_heads": H, "d_k": N, "d_v": P, **keys}}


def test_rwkv_6_reads_the_state_before_it_writes() -> None:
    """As gated linear attention, arXiv:2404.05892, §4; what a token reads of itself goes by the bonus, one product of N
    a token, beside the chunk."""
    seen, own = C * (C - 1) // 2, C * N
    assert states(matrixmix()) == T // C * H * (seen * (N + P) + 2 * C * N * P + own)
    assert states(matrixmix(), pairs="full") == T // C * H * (C * C * (N + P) + 2 * C * N * P + own)


def test_rwkv_7_as_its_kernels_have_it() -> None:
    """arXiv:2503.14456, §4, a transition diagonal plus low rank: four products of the chunk's tokens (receptances and
    readings with keys and with what is taken away), the inverse and its product with one of them, each over triples; of
    the inverse W (N wide), of that product U (P wide). Then two products with the state before, two that write it, two
    of a chunk's pairs with values and with readings; and the bonus's own product."""
    document = {"layers": "n*deltamix", "deltamix": {"n_heads": H, "d_k": N, "d_v": P, "decay_rank": 2, "rate_rank": 2,
                                                     "gate_rank": 2}}  # fmt: skip
    before, seen = C * (C - 1) // 2, C * (C + 1) // 2
    triples = sum(1 for t in range(C) for r in range(t) for s in range(r + 1))
    assert triples == sum(1 for t in range(C) for r in range(t + 1) for s in range(r))
    inside = 2 * seen * N + 2 * before * N + 2 * triples + before * P + seen * N + 2 * seen * P
    assert states(document) == T // C * H * (inside + 4 * C * N * P + C * N)
    square = 4 * C * C * N + 2 * C**3 + C * C * P + C * C * N + 2 * C * C * P
    assert states(document, pairs="full") == T // C * H * (square + 4 * C * N * P + C * N)


def test_mlstm_as_its_kernels_have_it() -> None:
    """arXiv:2503.14376, §3: Q·Kᵀ and its product with V within a chunk, Kᵀ·V for the state, Q·S and Q·n, the sum of the
    keys before the chunk."""
    document = {"layers": "n*mlstm", "mlstm": {"n_heads": H, "d_k": N, "d_v": P}}
    seen = C * (C + 1) // 2
    assert states(document) == T // C * H * (seen * (N + P) + 2 * C * N * P + C * N)


def test_slots_as_their_kernels_have_them() -> None:
    """arXiv:2409.07146, two passes of gated linear attention: Q·Kᵀ within a chunk and its product with what slots take
    in, U, Kᵀ·U for the keys of the slots, what queries read of them; the slots' weights with U, that with V, Uᵀ·V for
    the values of the slots, what the weights read of them. Heads of queries that share keys repeat them."""
    m = 6
    for shared in (1, H):
        document = {
            "layers": "n*slots",
            "slots": {"n_heads": H, "n_kv_heads": shared, "d_k": N, "d_v": P, "n_slots": m},
        }
        seen = C * (C + 1) // 2
        assert states(document) == T // C * H * (seen * (N + m) + 2 * C * N * m + seen * (m + P) + 2 * C * m * P)


def test_queries_and_keys_that_states_share_are_multiplied_once() -> None:
    shared = {"linear": {"n_heads": 6, "n_k_heads": 2, "d_k": N, "d_v": P, "decay": "head"}}
    seen = C * (C + 1) // 2
    assert states(shared) == T // C * (2 * seen * N + 6 * (seen * P + 2 * C * N * P))


def test_the_last_chunk_is_shorter() -> None:
    document = linear(delta=True, decay="head")
    assert states(document, T + 3) - states(document, T) == states(document, 3)


def test_a_chunk_of_one_token_costs_what_a_step_does_and_its_pair() -> None:
    """The state is read for the delta rule, written to, read; the token's own pair is four products of one number."""
    model = build({**PLAIN, **linear(delta=True, decay="head")})
    own = T * H * (N + P + N + P)
    one = gptcalc.flops(model, context=T, scan="chunked:1").states // 2
    assert one == gptcalc.flops(model, context=T).states // 2 + own


@pytest.mark.parametrize(
    ("preset", "chunk"), [("qwen3-next-80b-a3b", 64), ("kimi-linear-48b-a3b", 64), ("granite-4.0-h-small", 256)]
)
def test_a_chunk_is_as_long_as_the_published_kernel_has_it(preset: str, chunk: int) -> None:
    """64 in fla's delta nets; Mamba-2's stands in its config."""
    model = load(preset).architecture
    found = gptcalc.flops(model, context=1000, scan="chunked")
    assert found.total == gptcalc.flops(model, context=1000, scan=f"chunked:{chunk}").total
    assert f"in chunks of {chunk} tokens" in found.convention
    assert found.scan == "chunked"


@pytest.mark.parametrize(("preset", "section"), [
    ("mamba-130m", "mamba"), ("recurrentgemma-2b", "rglru"), ("rwkv-4-169m", "timemix"), ("jamba-v0.1", "mamba"),
])  # fmt: skip
def test_what_kernels_scan_is_walked_and_says_so(preset: str, section: str) -> None:
    found = gptcalc.flops(load(preset).architecture, context=100, scan="chunked")
    assert found.total == gptcalc.flops(load(preset).architecture, context=100).total
    assert f"token by token: of {section}, whose published kernels scan and have no form in chunks" in found.convention
    assert found.scan == "recurrent"


def test_of_both_kinds_each_is_named() -> None:
    found = gptcalc.flops(architecture("recurrences"), context=100, scan="chunked")
    assert "in chunks of 64 tokens" in found.convention
    assert "token by token those of rglru, whose published kernels scan" in found.convention


def test_what_has_no_states_says_nothing_of_them() -> None:
    assert gptcalc.flops(load("gpt2").architecture, context=100, scan="chunked").scan is None


@pytest.mark.parametrize(("scan", "problem"), [
    ("chunks", "not one of"), ("chunked:0", "not one of"), ("chunked:", "not one of"),
    ("chunked:1e3", "not one of"), ("recurrent:4", "not one of"), ("chunked:²", "not one of"),
])  # fmt: skip
def test_a_form_that_is_none(scan: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        gptcalc.flops(load("gpt2").architecture, scan=scan)


def test_a_decode_step_has_no_chunk() -> None:
    with pytest.raises(InputError, match="one token"):
        gptcalc.flops(load("gpt2").architecture, scan="chunked", phase="decode")


# --- deliberate errors ------------------------------------------------------------------------------------------------

#: what is written in the lines, and what the mutant writes: some document's numbers notice
UNTRUE = [
    ("a chunk's decay from the end on", '"Γ[t,{where}] = Σ_s ln(Ā[s,', '"Γ[t,{where}] = Σ_s ln(Ā[t,'),
    ("the state after the chunk read", "{query}[t,{few}]·{before}", "{query}[t,{few}]·{state}"),
    ("nothing decays from chunk to chunk", "{{{left}·{state} if", "{{{state} if"),
    ("what is written doesn't decay", "{_decayed(of, 'Γ_C[t,{0}] − Γ[t,{0}]')}{key}", "{key}"),
    ("products don't decay", "{so_far} − Γ[s,{{0}}]", "0·Γ[t,{{0}}]"),
    ("no inverse", "{one} − Σ_š A", "{one} − 0·Σ_š A"),
    ("the inverse of 1 − A", "{one} − Σ_š A", "{one} + Σ_š A"),
    ("keys without β", "{inverse}·β[s,{states}]·{text}", "{inverse}·{text}"),
    ("the state not subtracted", "= v_I[t,{value}] − Σ_ȧ", "= v_I[t,{value}] − 0·Σ_ȧ"),
    ("the token itself not seen", "allowed, few = Within(chunk, strict)", "allowed, few = Within(chunk, True)"),
]  # fmt: skip

#: the same of RWKV's states and of mLSTM's
UNTRUE_OTHERS = [
    ("chunked", "the token's own decay at what was left before it", "matrix states",
     "Σ_s ln(Ā[s,{where}])\", Within(chunk, strict=True)", "Σ_s ln(Ā[s,{where}])\", Within(chunk)"),
    ("chunked", "the token's own decay at what it reads", "matrix states",
     '"Γ_P[t,{0}]" if earlier', '"Γ[t,{0}]" if earlier'),
    ("chunked", "the inverse of 1 + A", "matrix states", "{one} + Σ_š A_R", "{one} − Σ_š A_R"),
    ("chunked", "readings of the state before the chunk left out", "matrix states", "+ Σ_ȧ k_I", "+ 0·Σ_ȧ k_I"),
    ("chunked", "nothing taken away within", "matrix states", "Σ_s z_R[t,s,{states}]", "Σ_s 0·z_R[t,s,{states}]"),
    ("slots", "the slots' keys after the chunk read", "slots", "{of.query}·K_B[{keys}]", "{of.query}·M_K[{keys}]"),
    ("slots", "what is written keeps all to the chunk's end", "slots",
     "exp(Γ_C[t,{slot}] − Γ[t,{slot}])", "exp(0·Γ[t,{slot}])"),
    ("slots", "within a chunk all is kept", "slots", "exp(Γ[t,{slot}] − Γ[s,{slot}])", "exp(0·Γ[t,{slot}])"),
    ("recurrent", "exponents from the end on", "recurrences",
     "largest_s(Γ[t,ḣ] − Γ[s,ḣ]", "largest_s(Γ[s,ḣ] − Γ[s,ḣ]"),
    ("recurrent", "keys' sum without the chunk's", "recurrences",
     "ν[t,ḣ] + Σ_s z_S[t,s,ḣ]", "ν[t,ḣ] + 0·Σ_s z_S[t,s,ḣ]"),
    ("recurrent", "the state before in other units", "recurrences",
     "exp(Γ[t,ḣ] + μ_B[ḣ] − m[t,ḣ])", "exp(Γ[t,ḣ] − m[t,ḣ])"),
]  # fmt: skip

#: the same of the counts: the figures worked by hand notice
COUNTED = [
    ("chunked", "products within a chunk not counted", 'lines.sum(f"o[t,{value}] += Σ_s',
     'lines.pointwise(f"o[t,{value}] = Σ_s'),
    ("chunked", "pairs where there are triples", "Within(chunk, through=True)", "Within(chunk)"),
    ("chunked", "the token itself among those before", "Within(chunk, strict), ix", "Within(chunk), ix"),
    ("conditions", "one chunk only", "whole * self._in_one(self.chunk, work.pairs)",
     "self._in_one(self.chunk, work.pairs)"),
    ("conditions", "all triples", "(n - 1) * n * (n + 1) // 6", "n**3"),
]  # fmt: skip


@pytest.mark.parametrize(("error", "old", "new"), UNTRUE, ids=[mutant[0] for mutant in UNTRUE])
def test_a_mutant_is_untrue(error: str, old: str, new: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        remembered.cache_clear()
        mutate(importlib.import_module("gptcalc.equations.chunked"), old, new, patch)
        try:
            held(architecture("delta"), chunks=3)
        except Exception:
            return
        finally:
            remembered.cache_clear()
    pytest.fail(f"{error}: no number notices")


@pytest.mark.parametrize(("module", "error", "name", "old", "new"), UNTRUE_OTHERS, ids=[m[1] for m in UNTRUE_OTHERS])
def test_a_mutant_of_the_others_is_untrue(module: str, error: str, name: str, old: str, new: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        remembered.cache_clear()
        mutate(importlib.import_module(f"gptcalc.equations.{module}"), old, new, patch)
        try:
            held(architecture(name), chunks=3)
        except Exception:
            return
        finally:
            remembered.cache_clear()
    pytest.fail(f"{error}: no number notices")


@pytest.mark.parametrize(("module", "error", "old", "new"), COUNTED, ids=[mutant[1] for mutant in COUNTED])
def test_a_mutant_is_counted(module: str, error: str, old: str, new: str) -> None:  # noqa: ARG001 (its name)
    with pytest.MonkeyPatch.context() as patch:
        remembered.cache_clear()
        mutate(importlib.import_module(f"gptcalc.equations.{module}"), old, new, patch)
        try:
            with pytest.raises(AssertionError):
                test_the_delta_rule_as_in_its_papers("head")
        finally:
            remembered.cache_clear()


@pytest.mark.parametrize(("old", "new"), [
    ('lines.sum(f"{of.out} += Σ_s', 'lines.pointwise(f"{of.out} = Σ_s'),
    ('lines.sum(f"ζ_S[t,{score}] += Σ_s', 'lines.pointwise(f"ζ_S[t,{score}] = Σ_s'),
], ids=["values within a chunk", "what slots take in within a chunk"])  # fmt: skip
def test_a_mutant_of_slots_is_counted(old: str, new: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        remembered.cache_clear()
        mutate(importlib.import_module("gptcalc.equations.slots"), old, new, patch)
        try:
            with pytest.raises(AssertionError):
                test_slots_as_their_kernels_have_them()
        finally:
            remembered.cache_clear()
