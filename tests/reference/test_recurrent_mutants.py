"""Deliberate errors in the witness of recurrent mixers: each is noticed by a golden model."""

from __future__ import annotations

import importlib

import pytest

from tests.mutation import mutate
from tests.reference.test_reference_mutants import worst

#: heads that several others share, next to each other, and one after the other
IN_TURN = (
    "reshape(*before, shared, 1, *behind)\n    return np.broadcast_to(alone, (*before, shared, n_heads // shared, ",
    "reshape(*before, 1, shared, *behind)\n    return np.broadcast_to(alone, (*before, n_heads // shared, shared, ",
)

#: the error, the module, what is written, what the mutant writes, the golden model that must notice
MUTANTS: list[tuple[str, str, str, str, str]] = [
    # the recurrence of linear attention and Mamba-2
    ("nothing decays", "recurrence", "np.exp(x.g)", "np.exp(x.g * 0.0)", "qwen3_next_hybrid"),
    ("nothing decays in Mamba-2", "recurrence", "np.exp(x.g)", "np.exp(x.g * 0.0)", "mamba2"),
    ("read before it is written to", "recurrence", "before if earlier else s", "before", "qwen3_next_hybrid"),
    ("the delta rule without its memory", "recurrence", "(u - step.dot(key.swapaxes(-1, -2), s, \"state\"))", "(u)",
     "qwen3_next_hybrid"),
    ("β left out", "recurrence", "* x.beta[:, t, :, :, None]", "* 1.0", "kimi_linear"),
    ("decay behind the delta rule", "recurrence", "            s = s * kept[:, t, :, :, None]",
     "            s = s * 1.0", "kimi_linear"),
    ("a state forgotten between steps", "recurrence", "        step.cache.put(place, \"state\", s)\n".strip(),
     "pass", "qwen3_next_hybrid"),
    ("heads dealt in turn", "recurrence", *IN_TURN, "qwen3_next_hybrid"),
    ("groups of heads dealt in turn", "recurrence", *IN_TURN, "nemotron_h"),
    # linear attention
    ("vectors of any length", "linear", 'if a.qk_norm == "l2"', "if False", "qwen3_next_hybrid"),
    ("queries not scaled", "linear", "else 1 / math.sqrt(a.d_k)", "else 1.0", "kimi_linear"),
    ("queries scaled where they are not", "linear", "(a.scale if a.scale is not None else 1 / math.sqrt(a.d_k))",
     "1 / math.sqrt(a.d_k)", "minimax"),
    ("β up to 1", "linear", "[..., None] * a.beta_scale", "[..., None]", "olmo_hybrid"),
    ("keys of what is left", "linear", "1.0 - np.exp(g)", "np.exp(g)", "hgrn2"),
    ("a bound of one layer alone", "linear", "[:, 1 : step.layer + 1]", "[:, step.layer : step.layer + 1]", "hgrn2"),
    ("a bound in the first layer", "linear", "[:, 1 : step.layer + 1]", "[:, 0 : step.layer + 1]", "hgrn2"),
    ("a bound that is added", "linear", "np.exp(g) * (1.0 - least) + least", "np.exp(g) + least", "hgrn2"),
    ("values through an activation", "linear", 'a.activation == "queries" and name == "q"', 'a.activation == "queries"',
     "hgrn2"),
    ("decays that are not convolved", "linear", "a.k_from_decay and a.kernel is not None", "False", "hgrn2"),
    ("HGRN's values without an activation", "hierarchical", "taken = v * sigmoid(v) *", "taken = v *", "hgrn"),
    ("HGRN takes in all", "hierarchical", " * (1.0 - kept)\n", "\n", "hgrn"),
    ("HGRN without bounds", "hierarchical", "if m.bounds:", "if False:", "hgrn"),
    ("HGRN without the norm in front of the gate", "hierarchical", "o = normed(o, m.out_norm, w.at(\"out_norm\"))",
     "pass", "hgrn"),
    ("HGRN's gate a sigmoid", "hierarchical", "o * gate * sigmoid(gate)", "o * sigmoid(gate)", "hgrn"),
    ("slots of keys that take in all", "slots", "step.dot(k[:, t, :, :, None], taken[:, t, :, None], \"state\")",
     "step.dot(k[:, t, :, :, None], taken[:, t, :, None] * 0.0 + 1.0, \"state\")", "gsa"),
    ("slots take in what they keep", "slots", "taken, place = 1.0 - np.exp(g)", "taken, place = np.exp(g)", "gsa"),
    ("slots of keys that keep all", "slots", "s * kept[:, t, :, None]", "s", "gsa"),
    ("slots of values that keep all", "slots", "v, g, None)", "v, None, None)", "gsa"),
    ("slots without a softmax", "slots", "weights = softmax(", "weights = (", "gsa"),
    ("decays of slots as GLA's", "slots", "-1 / a.divisor", "-1 / 16", "gsa"),
    ("one activation behind a convolution", "slots", "        y = y * sigmoid(y)\n", "", "gsa"),
    ("what slots give without an activation", "slots", "    o = o * sigmoid(o)\n", "", "gsa"),
    ("no activation", "linear", 'if a.activation == "silu"', "if False", "qwen3_next_hybrid"),
    ("the time bias left out", "linear", 'f + w("dt_bias", a.n_heads * width)', "f", "kimi_linear"),
    ("the rate left out", "linear", "softplus(f) * rate * -1.0", "softplus(f) * -1.0", "kimi_linear"),
    ("a decay of no bound", "linear", "sigmoid(f * rate) * decay.floor", "softplus(f) * rate * -1.0",
     "bailing_hybrid"),
    ("one decay for all layers", "linear", "slopes * (1 - step.layer / (step.n_layers - 1 + 1e-5) + 1e-5)", "slopes",
     "minimax"),
    ("slopes from the first power", "linear", "np.arange(1, a.n_heads + 1)", "np.arange(a.n_heads)", "minimax"),
    ("the gate left out", "linear", "return o if a.gate is None", "return o if True", "kimi_linear"),
    ("σ for SiLU", "linear", "return z * sigmoid(z) if", "return sigmoid(z) if", "qwen3_next_hybrid"),
    ("SiLU for σ", "linear", 'if gate.function == "silu" else sigmoid(z)', "if True else z", "kimi_linear"),
    ("heads not normed", "linear", 'a.out_norm.over == "head"', "False", "qwen3_next_hybrid"),
    ("a norm head by head", "linear", 'a.out_norm.over == "full"', "False", "minimax"),
    # Mamba-2
    ("the skip left out", "mamba", 'y + u * w("D", m.n_heads).reshape(m.n_heads, 1)', "y", "mamba2"),
    ("values without their step", "mamba", "Inputs(c, b, u * dt,", "Inputs(c, b, u,", "bamba"),
    ("B and C exchanged", "mamba", "Inputs(c, b, u * dt,", "Inputs(b, c, u * dt,", "granitemoehybrid"),
    ("the gate behind the norm", "mamba", "    if m.gate_first:\n        y = y * gate\n", "", "mamba2"),
    ("normed over all groups", "mamba", "groups = (m.n_groups, m.d_inner // m.n_groups)",
     "groups = (1, m.d_inner)", "nemotron_h"),
    ("the gate without SiLU", "mamba", "_gated(m, y, z * sigmoid(z), w)", "_gated(m, y, z, w)", "falcon_h1"),
    ("the convolution's bias left out", "mamba", '"conv" in m.bias)\n    return', "False)\n    return", "bamba"),
    ("multipliers left out", "mamba", "return x if factor == 1.0 else x * factor", "return x", "falcon_h1"),
    # Mamba
    ("Mamba's skip left out", "mamba", '+ u * w("D", m.d_inner)', "+ 0.0", "mamba"),
    ("Mamba's step without its bias", "mamba", 'softplus(dt + w("dt_b.bias", m.d_inner))', "softplus(dt)", "mamba"),
    ("Mamba's state forgotten", "mamba", 'step.cache.put(place, "state", h)', "pass", "mamba"),
    ("Δ, B and C not normed", "mamba", "return x if m.inner_norm is None", "return x if True", "jamba"),
    ("Mamba's values without their step", "mamba", "step.dot(delta * value,", "step.dot(value,", "jamba"),
    # the others
    ("a convolution over one token less", "convolution", "for k in taps_of]",
     "for k in (apart, *taps_of[1:])]", "lfm2"),
    ("taps in the wrong order", "convolution", "for k in taps_of]", "for k in reversed(taps_of)]", "lfm2"),
    ("the gate in front left out", "recurrent", "convolution(b * u,", "convolution(u,", "lfm2"),
    ("gates of the short convolution exchanged", "recurrent", "(\"B\", \"C\", \"x\")", "(\"C\", \"B\", \"x\")", "lfm2"),
    ("what enters not weighed by what is kept", "recurrent",
     "np.where(first, 1.0, np.sqrt(np.maximum(1.0 - np.exp(log_a * 2.0), 0.0)))", "np.ones_like(log_a)",
     "recurrent_gemma"),
    ("the first token like others", "recurrent", "first = (step.positions == 0)[:, None]",
     "first = (step.positions < 0)[:, None]", "recurrent_gemma"),
    ("Griffin's constant", "recurrent", "* -DECAY", "* -1.0", "recurrent_gemma"),
    ("the other branch left out", "recurrent", "np.concatenate(out, axis=1) * y, w", "np.concatenate(out, axis=1), w",
     "recurrent_gemma"),
    ("no least size of cells", "recurrent", "np.exp(top * -1.0)) + FLOOR", "0.0) + FLOOR", "xlstm"),
    ("gates without their cap", "recurrent", "softcapped(step.linear(x, w, name, m.n_heads, True), m.gate_softcap)",
     "step.linear(x, w, name, m.n_heads, True)", "xlstm"),
    ("the largest gate forgotten", "recurrent", "zip(Memory._fields, memory, strict=True):",
     "zip(Memory._fields[:2], memory):", "xlstm"),
    # RWKV
    ("the token itself instead of the one before", "rwkv", 'x, 1)[:, : x.shape[1]]', 'x, 1)[:, 1:]', "rwkv"),
    ("shares exchanged", "rwkv", "x * share + before * (1.0 - share)", "before * share + x * (1.0 - share)", "rwkv"),
    ("no bonus for the newest", "rwkv", "+ 1.0, key + bonus)", "+ 1.0, key)", "rwkv"),
    ("nothing decays in RWKV", "rwkv", "mean.top - decay * size", "mean.top", "rwkv"),
    ("a decay that isn't exponential", "rwkv", "np.exp(decay), size", "decay, size", "rwkv"),
    ("the bonus kept", "rwkv", "_before_each(mean, key, value,", "_before_each(mean, key + bonus, value,", "rwkv"),
    ("RWKV's weights forgotten between steps", "rwkv", "zip(MEANS, mean, strict=True):",
     'zip(("state", "", "top"), mean):', "rwkv"),
    ("RWKV's exponent forgotten between steps", "rwkv", "zip(MEANS, mean, strict=True):",
     'zip(("state", "norm", ""), mean):', "rwkv"),
    ("time mixing not gated", "rwkv", "sigmoid(r) * wkv", "wkv", "rwkv"),
    ("channel mixing not gated", "rwkv", "y if gate is None else gate * y", "y", "rwkv"),
    ("a ReLU that isn't squared", "rwkv", '"relu2"', '"relu"', "rwkv"),
    # RWKV-5, 6 and 7
    ("nothing decays in a matrix", "rwkv", "Inputs(r, k, v, np.exp(f) * -1.0,", "Inputs(r, k, v, f * 0.0,", "rwkv5"),
    ("a matrix read after it is written to", "rwkv", "m.chunk, earlier=True", "m.chunk", "rwkv6_fla"),
    ("no bonus in a matrix", "rwkv", '_own(r * w("bonus", *keys), k, step) * v\n    o = normed', "0.0\n    o = normed",
     "rwkv5"),
    ("heads not normed", "rwkv", 'o = normed(o, m.out_norm, w.at("out_norm"), *values).reshape(*z.shape)',
     "o = o.reshape(*z.shape)", "rwkv6_fla"),
    ("σ for SiLU in RWKV", "rwkv", "z * sigmoid(z) * o", "sigmoid(z) * o", "rwkv5"),
    ("shares without their bottleneck's activation", "rwkv", "np.tanh(step.dot(read,", "(step.dot(read,", "rwkv6_fla"),
    ("decays without their bottleneck's activation", "rwkv", "low = np.tanh(low)", "pass", "rwkv6_fla"),
    ("shares of the input", "rwkv", "return x * share + before * (1.0 - share) if share_of == \"input\" else",
     "return x * share + before * (1.0 - share) if True else", "rwkv7_fla"),
    ("the same share for all", "rwkv", "shares[:, number]", "shares[:, 0]", "rwkv6_fla"),
    ("the delta rule behind the decay", "generalised", "held = step.dot(x.unit[:, t, :, None], s,",
     "held = step.dot(x.unit[:, t, :, None], s * kept[:, t, :, :, None],", "rwkv7_fla"),
    ("one rate for all channels", "rwkv", "f, unit, a * unit)", "f, unit, unit)", "rwkv7_fla"),
    ("keys of any length in RWKV", "rwkv", "unit / np.sqrt(np.square(unit).sum(axis=-1, keepdims=True) + EPS)", "unit",
     "rwkv7_fla"),
    ("keys that the rate doesn't change", "rwkv", "k + k * (a - 1.0) * w(\"key_rate\", n_keys)",
     "k + 0.0 * w(\"key_rate\", n_keys)", "rwkv7_fla"),
    ("the layer's own values", "rwkv", "v = v + (step.values - v)", "v = v + 0.0 * (step.values - v)", "rwkv7_fla"),
    ("the last layer's values", "rwkv", "        assert step.values is not None\n",
     "        step.values, v = v, v\n", "rwkv7_fla"),
    ("no bonus behind the norm", "rwkv", "o = o + _own(r * w(\"bonus\", *keys), k, step) * v\n    return",
     "return", "rwkv7_fla"),
    # the frame
    ("the stream not scaled", "block", "* mixer.stream_scale if", "* 1.0 if", "minimax"),
    # a shared block
    ("the stream in the embedding's place", "block", "[read, self.step.embedded]", "[read, read]", "zamba"),
    ("the embedding in front", "block", "[read, self.step.embedded]", "[self.step.embedded, read]", "zamba2"),
    ("a residual inside the shared block", "block", 'y if mixer.goal == "next" else x + y', "x + y", "zamba"),
    ("the next reads it without the stream", "block", 'y if mixer.goal == "next" else x + y', "y", "zamba2"),
    ("no projection behind the shared block", "block", "if mixer.projected", "if False", "zamba"),
    ("no adapters of queries, keys and values", "attention", "if a.adapter is None", "if True", "zamba2_adapters"),
    ("no adapter of the gate", "mlp", 'gate = gate + step.linear(narrow, own, "gate", m.d_ff)', "pass", "zamba2"),
    ("one adapter for all layers", "step", 'self.weights.root.at(self.place.rstrip("."))',
     'self.weights.root.at("layers.1." + self.place.rstrip(".").rpartition(".")[2])', "zamba2"),
]  # fmt: skip


@pytest.mark.parametrize(("error", "module", "old", "new", "name"), MUTANTS, ids=[mutant[0] for mutant in MUTANTS])
def test_a_mutant_is_noticed(error: str, module: str, old: str, new: str, name: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        mutate(importlib.import_module(f"gptcalc.reference.{module}"), old, new, patch)
        assert not worst(name) < 1e-4, f"{error}: {name} does not notice"
    assert worst(name) < 1e-4
