"""Deliberate errors in the equations of recurrent mixers: counts worked by hand notice them, or the witness's numbers.

Each figure is what a token costs, or what is kept: of a matrix one product, of a state one to write and one to read.
Totals, and active parameters that a cost begins with, are those of data/preset_totals.json, which says whose they are.
"""

from __future__ import annotations

import importlib

import pytest

from gptcalc.analysis import flops, params
from gptcalc.analysis.memory import cache
from gptcalc.equations.model import remembered
from gptcalc.sources import load
from tests.equations.test_lines import held
from tests.mutation import mutate
from tests.reference_cases import architecture

#: a preset, what is asked of it, and the answer
FIGURES: dict[str, int] = {
    # all but norms, biases, A_log and D is multiplied once; the head is the embedding
    "mamba-130m decode": 2 * (129_135_360 - 25 * 768 - 24 * 1536 * (16 + 3)) + 24 * 2 * 2 * 1536 * 16,
    "mamba-130m cache": 24 * 1536 * (16 * 4 + 3 * 2),
    "mamba-130m total": 129_135_360,
    # biases: the convolution's, the time step's; A_log, D; the inner norm
    "mamba2-130m decode": (
        2 * (128_989_632 - 25 * 768 - 24 * (1536 + 2 * 128 + 3 * 24 + 1536)) + 24 * 2 * 2 * 1536 * 128
    ),
    "mamba2-130m cache": 24 * (1536 * 128 * 4 + 3 * (1536 + 2 * 128) * 2),
    "mamba2-130m total": 128_989_632,
    # no bias; norms of 16 sublayers twice and one behind, of queries and keys of 64 in 6 layers
    "lfm2-350m decode": 2 * (354_483_968 - 33 * 1024 - 6 * 2 * 64) + 6 * 2 * 2 * 1024 * 257,
    "lfm2-350m cache": 10 * 2 * 1024 * 2 + 6 * 1024 * 2 * 512 * 2,
    "lfm2-350m total": 354_483_968,
    # states of 32 heads of 128 by 128 in 36 layers; keys of 16 heads; attention of 2 heads of 256 in 12
    "qwen3-next-80b-a3b cache": 36 * (32 * 128 * 128 * 4 + 3 * 8192 * 2) + 12 * 1024 * 2 * 2 * 256 * 2,
    # read for the delta rule, written to, read; the queries of 16 heads of 256 in 12 layers; 257 tokens
    "qwen3-next-80b-a3b decode": 2 * (
        3_874_929_408 - 151_936 * 2048 - 97 * 2048 - 36 * (128 + 2 * 32) - 12 * 2 * 256
    ) + 36 * 3 * 2 * 32 * 128 * 128 + 12 * 2 * 2 * 16 * 256 * 257,
    "qwen3-next-80b-a3b total": 79_674_391_296,
    "kimi-linear-48b-a3b total": 49_122_681_728,
    # as its files have it (tests/data/preset_totals.json)
    "kimi-k3 total": 2_779_484_476_000,
    # every active matrix once; 3 products with each state; latents of 576 and 512 channels, absorbed; sums are compared
    # and mixed: in layer n ⌈n/12⌉ + 1 at the first sublayer, but none in the first layer, ⌊n/12⌋ + 2 at the second, 9
    # at the end
    "kimi-k3 decode": (
        2 * 69 * (5 * 7168 * 12288 + 7168 * 128 + 128 * 12288 + 7168 * 96 + 3 * 12288 * 4 + 3 * 96 * 128**2)
        + 2 * 24 * (7168 * (1536 + 576 + 2 * 12288) + 1536 * 96 * 192 + 96 * 512 * 256 + 96 * 257 * (576 + 512))
        + 2 * (3 * 7168 * 33792 + 92 * (7168 * (896 + 2 * 3584 + 3 * 6144) + 16 * 3 * 3584 * 3072) + 7168 * 163_840)
        + 2 * 2 * 7168 * (sum(-(-n // 12) + 1 + n // 12 + 2 for n in range(93)) - 1 + 9)
    ),
    "kimi-k3 cache": 69 * (96 * 128 * 128 * 4 + 3 * 3 * 12288 * 2) + 24 * 1024 * 576 * 2,
    "kimi-linear-48b-a3b cache": 20 * (32 * 128 * 128 * 4 + 3 * 3 * 4096 * 2) + 7 * 1024 * 576 * 2,
    "minimax-text-01 cache": 70 * 64 * 128 * 128 * 4 + 10 * 1024 * 2 * 8 * 128 * 2,
    "xlstm-7b cache": 32 * 8 * (256 * 512 + 256 + 1) * 4,
    "xlstm-7b total": 6_865_424_896,
    # of each channel a sum, its weights and their exponent, and what both mixers read of the last token
    "rwkv-4-169m cache": 12 * 768 * (3 * 4 + 2 * 2),
    # matrices: four of d × d in time mixing; d × 4d, 4d × d and d × d in channel mixing; the head
    "rwkv-4-169m decode": 2 * (12 * (4 + 4 + 4 + 1) * 768**2 + 50277 * 768),
    "rwkv-4-169m total": 169_342_464,
    # a matrix for each head of 64 by 64, and what both mixers read of the last token
    "rwkv-5-world-1b5 cache": 24 * (32 * 64 * 64 * 4 + 2 * 2048 * 2),
    "rwkv-5-world-1b5 total": 1_577_754_624,
    # matrices: five of d × d in time mixing; d × 7168, 7168 × d and d × d in channel mixing; the head. Of a head's
    # state one to read and one to write, and 64 channels of what a token reads of itself
    "rwkv-5-world-1b5 decode": (
        2 * (24 * (5 * 2048**2 + 2 * 2048 * 7168 + 2048**2) + 65536 * 2048) + 24 * 2 * 32 * (2 * 64 * 64 + 64)
    ),
    "rwkv-6-world-1b6 total": 1_599_873_024,
    # five bottlenecks of 32 for the shares, one of 64 for the decay
    "rwkv-6-world-1b6 decode": (
        2 * (24 * (5 * 2048**2 + 2 * 2048 * (5 * 32 + 64) + 2 * 2048 * 7168 + 2048**2) + 65536 * 2048)
        + 24 * 2 * 32 * (2 * 64 * 64 + 64)
    ),
    # README of RWKV-LM: parameters, and L·(2·D + 64·D) of state
    "rwkv-7-world-0.4b total": 450_767_872,
    "rwkv-7-world-0.4b cache": 24 * (2 * 1024 * 2 + 64 * 1024 * 4),
    # matrices: four of d × d; bottlenecks of 64, 64, 128, and of 32 but for the first layer; 4·d wide; the head. A
    # state is read for the delta rule, written to twice, read
    "rwkv-7-world-0.4b decode": (
        2 * (24 * (4 * 1024**2 + 2 * 1024 * (64 + 64 + 128) + 8 * 1024**2) + 23 * 2 * 1024 * 32 + 65536 * 1024)
        + 24 * 2 * 16 * (4 * 64 * 64 + 64)
    ),
    "recurrentgemma-2b cache": 18 * 2560 * (4 + 3 * 2) + 8 * 1024 * 2 * 256 * 2,
    "recurrentgemma-2b total": 2_682_862_080,
    "jamba-v0.1 total": 51_570_323_328,
    "nemotron-3-super-120b-a12b total": 120_668_707_840,
}  # fmt: skip


def figure(name: str) -> int:
    """One figure by its name in the table."""
    remembered.cache_clear()
    preset, what = name.rsplit(" ", 1)
    model = load(preset).architecture
    if what == "total":
        return params.params(model).total
    if what == "cache":
        return cache.kv(model, context=1024).bytes
    return flops.flops(model, context=257, phase="decode").total


#: the error, the module, what is written, what the mutant writes, and a figure that must notice
COUNTED: list[tuple[str, str, str, str, str]] = [
    ("what is written to a state not counted", "linear", 'lines.sum(f"{state} += {key}·{value}")',
     'lines.pointwise(f"{state} = {state} + {key}·{value}")', "qwen3-next-80b-a3b decode"),
    ("the delta rule's product not counted", "linear", 'lines.sum(f"{held} =', 'lines.pointwise(f"{held} =',
     "qwen3-next-80b-a3b decode"),
    ("a state of linear attention not kept", "linear", 'lines.keep("M")', "pass", "kimi-linear-48b-a3b cache"),
    ("queries and keys of every state", "chunked", 'return ("ḣ", "") if shared == 1 else ("ġ,ṙ", "ġ")',
     'return ("ḣ", "") if shared == 1 else ("ġ,ṙ", "ġ,ṙ")', "qwen3-next-80b-a3b total"),
    ("a decay without its bottleneck", "linear", "if decay.rank is None:", "if True:", "kimi-linear-48b-a3b total"),
    ("a gate without its bottleneck", "linear", "if a.gate.rank is None:", "if True:", "kimi-linear-48b-a3b total"),
    ("a gate with a bottleneck", "linear", "if a.gate.rank is None:", "if False:", "kimi-k3 total"),
    ("no norm behind the experts of a latent space", "experts", "if m.latent.out_norm is not None:", "if False:",
     "kimi-k3 total"),
    ("the first sublayer without a query", "parts", "if part.sums:", "if part.sums > 1:", "kimi-k3 total"),
    ("one sum compared and mixed", "residuals", "if sums == 1:", "if False:", "kimi-k3 decode"),
    ("sums that are mixed for nothing", "residuals", "lines.sum(mixture", "lines.pointwise(mixture", "kimi-k3 decode"),
    ("a decay for each head where each channel has one", "linear", 'ix(states, "ȧ" if decay.over == "channel" else "")',
     "ix(states)", "kimi-linear-48b-a3b total"),
    ("the rate not counted", "linear", '{"b_F": "dt_bias", "A_log": "A_log"}', '{"b_F": "dt_bias"}',
     "kimi-linear-48b-a3b total"),
    ("convolutions over K kept", "convolution", "kernel - 1", "kernel", "mamba-130m cache"),
    ("no state kept per channel", "mamba", "M[{ix(channels, 'ȧ')}]", "M[{channels}]", "mamba-130m cache"),
    ("Mamba's skip not counted", "mamba", 'D[{channels}]·x_R[t,{channels}]", saved=2, D="D")',
     'D[{channels}]·x_R[t,{channels}]", saved=2)', "mamba-130m total"),
    ("B and C of every head", "mamba", "heads(m.n_groups, m.n_heads)", "heads(m.n_heads, m.n_heads)",
     "mamba2-130m cache"),
    ("the time step of every channel", "mamba", '("τ", states)', '("τ", channels)', "mamba2-130m total"),
    ("a skip for every channel", "mamba", "D[{states}]", "D[{channels}]", "mamba2-130m total"),
    ("inner norms left out", "mamba", "if m.inner_norm is not None:", "if False:", "jamba-v0.1 total"),
    ("the gate's projection left out", "recurrent", '("B", "B"), ("C", "C"), ("x_R", "x")', '("B", "B"), ("x_R", "x")',
     "lfm2-350m total"),
    ("gates over all channels", "recurrent", "W_G{gate}[ḣ,č,ẇ]", "W_G{gate}[ḣ,i,ẇ]", "recurrentgemma-2b total"),
    ("the normalizer not kept", "recurrent", '"M", "N", "μ"', '"M", "μ"', "xlstm-7b cache"),
    ("gates of a cell without bias", "recurrent", "W_{name}[i,ḣ] + b_{name}[ḣ]", "W_{name}[i,ḣ]", "xlstm-7b total"),
    ("RWKV's exponent not kept", "rwkv", '"M", "N", "μ"', '"M", "N"', "rwkv-4-169m cache"),
    ("the token before not kept", "rwkv", 'lines.store(f"R_n[ķ,{i}] = n[S − 1 + ķ,{i}]", "last token", Constant())',
     "pass", "rwkv-4-169m cache"),
    ("no gate of channel mixing", "rwkv", '(("r", "receptance", "i"), ("U", "up", "f"))', '(("U", "up", "f"),)',
     "rwkv-4-169m decode"),
    ("the bonus not counted", "rwkv", ', w_U="bonus")', ")", "rwkv-4-169m total"),
    ("shares not counted", "rwkv", ', **{f"m_{name}": f"{key}_mix"})', ")", "rwkv-4-169m total"),
    ("a gate where RWKV-7 has none", "rwkv", "[not m.gated :]", "[0:]", "rwkv-7-world-0.4b decode"),
    ("a matrix state for each channel", "rwkv_matrix", 'lines.keep("M")',
     'lines.store("M_0[ḣ,ẇ] = M[ḣ,ȧ,ẇ]", "state", None)', "rwkv-5-world-1b5 cache"),
    ("what is written to a matrix not counted", "rwkv_matrix", 'lines.sum("M[ḣ,ȧ,ẇ] += k[t,ḣ,ȧ]·v[t,ḣ,ẇ]")', "pass",
     "rwkv-5-world-1b5 decode"),
    ("what a token reads of itself not counted", "rwkv_matrix", 'lines.sum("u_U[t,ḣ] = Σ_ȧ',
     'lines.pointwise("u_U[t,ḣ] = Σ_ȧ', "rwkv-5-world-1b5 decode"),
    ("a decay that needs no bottleneck", "rwkv_matrix", "if m.decay_rank is None:", "if True:",
     "rwkv-6-world-1b6 total"),
    ("one bottleneck for all shares", "rwkv_matrix", "A_M[ṗ,i,ṡ]", "A_M[i,ṡ]", "rwkv-6-world-1b6 total"),
    ("shares that are given", "rwkv_matrix", 'lines.sum(text, saved=2, B_M="shift_b", b_M="shift_b.bias")', "pass",
     "rwkv-6-world-1b6 decode"),
    ("the delta rule's product of RWKV-7 not counted", "rwkv_matrix", 'lines.sum("h[t,ḣ,ẇ] =',
     'lines.pointwise("h[t,ḣ,ẇ] =', "rwkv-7-world-0.4b decode"),
    ("values mixed in the first layer, too", "rwkv_matrix", "if m.value_rank is None:", "if False:",
     "rwkv-7-world-0.4b total"),
    ("no bias behind a bottleneck", "rwkv_matrix", 'if bias else ""', 'if False else ""', "rwkv-7-world-0.4b total"),
]  # fmt: skip


@pytest.mark.parametrize("name", FIGURES)
def test_clean_code_gives_the_figure(name: str) -> None:
    assert figure(name) == FIGURES[name]


@pytest.mark.parametrize(("error", "module", "old", "new", "name"), COUNTED, ids=[mutant[0] for mutant in COUNTED])
def test_a_mutant_is_counted(error: str, module: str, old: str, new: str, name: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        mutate(importlib.import_module(f"gptcalc.equations.{module}"), old, new, patch)
        try:
            found = figure(name)
        except Exception:
            return  # what doesn't fit together any more is noticed at once
        assert found != FIGURES[name], f"{error}: {name} does not notice"


#: the error, the module, what is written, what the mutant writes, and a document whose lines must then be untrue
UNTRUE: list[tuple[str, str, str, str, str]] = [
    ("nothing decays", "linear", "= Ā[t,{left}]·{state}", "= {state}", "delta"),
    ("the delta rule without its memory", "linear", "({value} − {held})", "{value}", "delta"),
    ("β up to 1", "linear", 'scale = lines.factor("scale_β", a.beta_scale)', 'scale = ""', "delta"),
    ("read before it is written to", "linear", 'lines.sum(f"{state} += {key}·{value}")', "pass", "delta"),
    ("vectors of any length", "linear", 'a.qk_norm == "l2" and', "False and", "delta"),
    ("queries not scaled", "linear", 'if name == "q" and a.scale != 1.0', "if False", "delta"),
    ("a decay of no bound", "linear", "'least_decay', decay.floor", "'least_decay', -1.0", "delta"),
    ("sums mixed as they are compared", "residuals", "α_Z[{here}ẓ]·{mixed}", "α_Z[{here}ẓ]·n_Z[t,ẓ,i]",
     "mixed sums as they are"),
    ("scores of sums by the root of the width", "residuals", "if residuals.scale is None:", "if True:",
     "mixed sums as they are"),
    ("latent experts without the norm behind", "experts", "if m.latent.out_norm is not None:", "if False:",
     "mixed sums as they are"),
    ("the other half without a bound", "mlp", "if up_cap:", "if False:", "mixed sums as they are"),
    ("slopes from the first power", "linear", "({head} + 1)", "{head}", "linear"),
    ("one decay for all layers", "linear", "layer/(n_layers", "0/(n_layers", "linear"),
    ("σ for SiLU", "linear", 'function = "silu" if', 'function = "silu" if not', "delta"),
    ("steps of any size", "mamba", '''f"min({step}, {lines.number('dt_max', m.dt_max)})"''', "step", "state spaces"),
    ("no smallest step", "mamba", "if m.dt_min > 0", "if False", "state spaces"),
    ("the gate behind the norm", "mamba", "if m.out_norm is None or m.gate_first", "if m.out_norm is None",
     "state spaces"),
    ("multipliers left out", "mamba", "if scales[name] != 1.0", "if False", "state spaces"),
    ("Mamba's values without their step", "mamba", "v[t,{channels}] = {step}·x_R", "v[t,{channels}] = x_R",
     "state spaces"),
    ("the gate in front left out", "recurrent", "x_R[t,ċ] = B[t,ċ]·x_R[t,ċ]", "x_R[t,ċ] = x_R[t,ċ]", "recurrences"),
    ("the first token like others", "recurrent", "{0 if t = 0; exp(−8·G_R[t,ḣ,ẇ]·softplus(Λ[ḣ,ẇ])) otherwise}",
     "exp(−8·G_R[t,ḣ,ẇ]·softplus(Λ[ḣ,ẇ]))", "recurrences"),
    ("what enters not weighed by what is kept", "recurrent", "√(1 − Ā[t,ḣ,ẇ]²)·G_I", "G_I", "recurrences"),
    ("cells not normalised", "recurrent", "max(abs(ν[t,ḣ]), exp(−μ[ḣ]))", "exp(−μ[ḣ])", "recurrences"),
    ("the largest gate left out", "recurrent", "max(F[t,ḣ], ι[t,ḣ])", "F[t,ḣ]", "recurrences"),
    ("nothing decays in HGRN", "hierarchical", "M[ẇ] = Ā[t,ẇ]·M[ẇ]", "M[ẇ] = M[ẇ]", "hierarchical"),
    ("HGRN takes in all", "hierarchical", "(1 − Ā[t,ẇ])·silu", "silu", "hierarchical"),
    ("HGRN without bounds", "hierarchical", "if m.bounds:\n        at_least", "if False:\n        at_least",
     "hierarchical"),
    ("HGRN's gate a sigmoid", "hierarchical", "silu(G_O[t,ẇ])", "σ(G_O[t,ẇ])", "hierarchical"),
    ("slots' keys don't decay", "slots", "{keys} = Ā[t,{slot}]·{keys}", "{keys} = {keys}", "slots"),
    ("slots' values don't decay", "slots", "{values} = Ā[t,{slot}]·{values}", "{values} = {values}", "slots"),
    ("slots take in what they keep", "slots", "= 1 − Ā[t,{slot}]", "= Ā[t,{slot}]", "slots"),
    ("one activation behind a convolution", "slots", """    lines.pointwise(f"{here} = silu({here})", saved=2)
""", "", "slots"),
    ("no activation in front of the norm", "slots", "{out} = silu({out})", "{out} = {out}", "slots"),
    ("no bonus for the newest", "rwkv", "k[t,ẇ] + w_U[ẇ]", "k[t,ẇ] + 0·w_U[ẇ]", "token shift"),
    ("the token itself instead of the one before", "rwkv", "{{n[t − 1,{i}] if t > 0; 0 otherwise}}", "n[t,{i}]",
     "token shift"),
    ("nothing decays in RWKV", "rwkv", "μ[ẇ] − exp(w_D[ẇ])", "μ[ẇ] − 0·w_D[ẇ]", "token shift"),
    ("nothing decays in a matrix", "rwkv_matrix", "M[ḣ,ȧ,ẇ] = Ā[t,ḣ,ȧ]·M[ḣ,ȧ,ẇ]", "M[ḣ,ȧ,ẇ] = M[ḣ,ȧ,ẇ]",
     "matrix states"),
    ("shares of the other token", "rwkv", '("n_P", "n") if share == "input"', '("n_P", "n") if True', "matrix states"),
    ("the same share for all", "rwkv_matrix", "m_M[t,{place},i]", "m_M[t,0,i]", "matrix states"),
    ("shares of no bottleneck's activation", "rwkv_matrix", "= tanh(l_M[t,ṗ,ṡ])", "= l_M[t,ṗ,ṡ]", "matrix states"),
    ("a token that doesn't read itself", "rwkv_matrix", "+ u_U[t,ḣ]·v[t,ḣ,ẇ]", "+ 0·u_U[t,ḣ]·v[t,ḣ,ẇ]",
     "matrix states"),
    ("one rate for all channels", "rwkv_matrix", "−a[t,ḣ,ȧ]·k̂[t,ḣ,ȧ]", "−k̂[t,ḣ,ȧ]", "matrix states"),
    ("the delta rule behind the decay", "rwkv_matrix", "Σ_ȧ k̂[t,ḣ,ȧ]·M", "Σ_ȧ Ā[t,ḣ,ȧ]·k̂[t,ḣ,ȧ]·M", "matrix states"),
    ("keys of any length", "rwkv_matrix", "k̂[t,ḣ,ȧ]/√(Σ_ȧ k̂[t,ḣ,ȧ]² + ε)", "k̂[t,ḣ,ȧ]", "matrix states"),
    ("the layer's own values", "rwkv_matrix", "σ(b[t,ḣ,ẇ])·(v_0", "0·σ(b[t,ḣ,ẇ])·(v_0", "matrix states"),
    ("the stream in the embedding's place", "sublayer", "x_0[t,ϊ − {d}]", "x[t,ϊ − {d}]", "shared block"),
    ("the next reads it without the stream", "sublayer", '{NEXT} = x[t,i] + y[t,i]"', '{NEXT} = y[t,i]"',
     "shared block"),
    ("the stream in the next one's place", "parts", 'self.source = NEXT if mixer.goal != "stream" else "x[t,i]"',
     'self.source = "x[t,i]"', "shared block"),
    ("one adapter for all layers", "norms", 'Mark(f"{key}.left", own=True)', 'Mark(f"{key}.left")', "shared block"),
    ("no adapter of the values", "attention", '_adapt(lines, a, "v", v)', "pass", "shared block"),
]  # fmt: skip


@pytest.mark.parametrize(("error", "module", "old", "new", "name"), UNTRUE, ids=[mutant[0] for mutant in UNTRUE])
def test_a_mutant_is_untrue(error: str, module: str, old: str, new: str, name: str) -> None:
    remembered.cache_clear()
    held(architecture(name))
    with pytest.MonkeyPatch.context() as patch:
        remembered.cache_clear()
        mutate(importlib.import_module(f"gptcalc.equations.{module}"), old, new, patch)
        try:
            held(architecture(name))
        except Exception:
            return
        finally:
            remembered.cache_clear()
    pytest.fail(f"{error}: {name} does not notice")


def test_what_states_cost_is_named() -> None:
    """In 24 layers of Mamba-2 a token writes a state of 1536 by 128 and reads it; the rest is products with weights."""
    found = flops.flops(load("mamba2-130m").architecture, context=7)
    assert found.states == 7 * 24 * 2 * 2 * 1536 * 128
    assert found.total == found.weights + found.states
    assert "token by token" in found.convention
    assert not flops.flops(load("gpt2").architecture, context=7).states
