"""Tests must be seen to fail: deliberate errors in the witness, each noticed by a golden model or a count.

A mutant replaces a piece of a module's source; the golden model named beside it must then be missed by more than the
golden test allows.
"""

from __future__ import annotations

import importlib

import numpy as np
import pytest

from tests.golden_models import distances
from tests.mutation import mutate

#: the error, the module, what is written, what the mutant writes, the golden model that must notice
MUTANTS: list[tuple[str, str, str, str, str]] = [
    ("rotary pairs mixed up", "rope", 'if pairing == "half"', 'if pairing != "half"', "llama_gqa"),
    ("rotation by the wrong sense", "rope", "turned = [a * cos - b * sin, b * cos + a * sin]",
     "turned = [a * cos + b * sin, a * sin - b * cos]", "llama_gqa"),
    ("a rotation that should turn backwards", "rope", "if rope.backward", "if False", "nanochat"),
    ("a difference without its first share", "differential", "np.exp(two) + start)", "np.exp(two))", "diffllama"),
    ("a difference as large as it comes", "differential", " * (1.0 - start)", "", "diffllama"),
    ("a dynamic mask that hides nothing", "differential", "if keys > mask.top_k", "if False", "doge_masked"),
    ("values that say nothing of their keys", "differential", "np.exp(grown)", "np.exp(grown * 0.0)", "doge"),
    ("the stream's factors left out", "sublayer", "if f.stream", "if False", "doge"),
    ("queries of the normed bottleneck twice", "latent", "np.concatenate([x, raw], axis=-1)",
     "np.concatenate([x, x], axis=-1)", "axk2"),
    ("norms without their gates", "block", 'n * sigmoid(self.step.linear(inner, w, "norm.gate_b", n.shape[-1]))',
     'n + 0.0 * self.step.linear(inner, w, "norm.gate_b", n.shape[-1])', "axk2"),
    ("a rotary key that is not normed", "latent", "if a.k_rope_norm is not None", "if False", "dots3_note"),
    ("latents that are never out of sight", "latent", "step.mask(next(iter(held.values())).shape[-2], a.window, None)",
     "step.mask(next(iter(held.values())).shape[-2], None, None)", "dots3_note"),
    ("latents that are gone too early", "latent", "step.reach(a.window, None)",
     "step.reach(a.window and a.window - 2, None)", "dots3_note"),
    ("latents without sinks", "latent", "if a.sinks else None", "if False else None", "hy_v4"),
    ("an index head's first channels turned", "latent", 'if index.rotates == "last" else 0', "if False else 0",
     "hy_v4"),
    ("outputs spread as in DeepSeek-V4", "hyper", "* s.magnitude", "* s.magnitude * 1.1", "hy_v4"),
    ("values without a delay", "convolved", ', other, 1)[:, : x.shape[1]]', ', other, 1)[:, 1:]',
     "zaya"),
    ("no offset between the convolutions", "convolved", 'w("u_conv.bias", channels)',
     'w("u_conv.bias", channels) * 0.0', "zaya"),
    ("a mean of one query for all", "convolved", "mean.mean(axis=3)", "mean[:, :, :, 0]", "zaya"),
    ("a router that hands nothing on", "experts", "h = h + step.router * w", "h = h + 0.0 * step.router * w", "zaya"),
    ("a skipped expert that returns its input", "experts", 'if m.identity == "input"', "if True", "zaya_sliding"),
    ("positions from 1 in decode only", "step", "np.arange(self.start, self.length, like=tokens)  # (T,)",
     "np.arange(self.start, self.length, like=tokens) + (self.start > 0)", "llama_gqa"),
    ("YaRN without its factor", "rope", "np.cos(angle) * factor", "np.cos(angle)", "llama_rope_yarn"),
    ("YaRN's ramp upside down", "rope", "mixture: Array = divided * plain / scaling.factor + (1 - divided) * plain",
     "mixture: Array = (1 - divided) * plain / scaling.factor + divided * plain", "llama_rope_yarn"),
    ("long factors from the start", "rope", "length > scaling.original", "length > 0", "phi3_longrope_crossing"),
    ("Llama 3's bands swapped", "rope", "kept * plain + (1 - kept) * plain / scaling.factor",
     "(1 - kept) * plain + kept * plain / scaling.factor", "llama_rope_llama3"),
    ("scores not scaled", "attention", "q * a.score_scale", "q", "gpt2"),
    ("a glance at the next token", "step", "distance >= 0 if causal", "distance >= -1 if causal", "gpt2"),
    ("a window one too wide", "step", "(distance < window)", "(distance <= window)", "mistral_sw"),
    ("a window one too wide in decode", "step", "min(window - 1 + self.new, self.length)",
     "min(window + self.new, self.length)", "mistral_sw"),
    ("a window that evicts too early", "step", "else min(window, self.length)", "else min(window - 2, self.length)",
     "mistral_sw"),
    ("heads dealt to KV heads in turn", "attention", ".reshape(batch, g, n_heads // g, new, a.d_head)",
     ".reshape(batch, n_heads // g, g, new, a.d_head).swapaxes(1, 2)", "llama_gqa"),
    ("no sinks", "attention", "    if a.scores.sinks:", "    if False:", "gpt_oss"),
    ("queries not normed", "attention", "if norm is not None and not norm.after_rope", "if False", "qwen3_qknorm"),
    ("the norm's offset ignored", "norms", "weight + 1.0 if spec.offset else weight", "weight", "gemma"),
    ("the mean not subtracted", "norms", "x = x - x.mean(axis=-1, keepdims=True)", "x = x + 0.0", "gpt2"),
    ("variance by n − 1", "norms", "np.square(x).mean(axis=-1, keepdims=True)",
     "np.square(x).sum(axis=-1, keepdims=True) / (x.shape[-1] - 1)", "llama_gqa"),
    ("no norm behind", "block", 'mixer.norm_at != "post":\n            y = normed', 'False:\n            y = normed',
     "gemma3_text"),
    ("the embedding not scaled", "embedding", "if e.scale != 1.0", "if False", "gemma"),
    ("parallel units in sequence", "block", "y, _ = self.branch(unit, x, read)", "y, _ = self.branch(unit, x, x)",
     "falcon7b_mqa_parallel"),
    ("gate and up exchanged", "mlp", "y = activate(function, gate)\n",
     "gate, up = up, gate; y = activate(function, gate)\n",
     "llama_gqa"),
    ("gelu by tanh", "activations", 'case "gelu":\n            return x * (erf(x * math.sqrt(0.5)) + 1.0) * 0.5',
     'case "gelu":\n            return gelu_tanh(x)', "falcon7b_mqa_parallel"),
    ("gelu exact where by tanh", "activations", "y *= 0.044715 * math.sqrt(2 / math.pi)", "y *= 0.0", "gpt2"),
    ("experts not normalised", "experts", "if m.normalize", "if False", "qwen3_moe"),
    ("the least likely experts", "experts", "scores * -1.0", "scores * 1.0", "mixtral"),
    ("the selection bias in the weights", "experts", "weight = np.take_along_axis(scores, index, axis=-1)",
     "weight = np.take_along_axis(_selection(m, scores, w), index, axis=-1)", "deepseek_v3"),
    ("no selection bias", "experts", "if m.selection_bias", "if False", "deepseek_v3"),
    ("groups ignored", "experts", "if m.groups is not None and m.groups.n > 1", "if False", "deepseek_v3"),
    ("groups by their best expert alone", "experts", "merit = two.sum(axis=-1)", "merit = two[..., 0]", "deepseek_v3"),
    ("no routed scale", "experts", "weight * router.scale", "weight", "deepseek_v3"),
    ("no shared expert", "experts", "if m.shared is not None", "if False", "deepseek_v3"),
    ("YaRN's mscale once", "latent", "a.q_scale * a.score_scale",
     "a.q_scale * a.score_scale / a.rope.scaling.sharpening(a.rope.scaling.mscale_all_dim)", "deepseek_v3"),
    ("latents not normed", "latent", 'normed(latent, a.latent_norm, w.at("kv_a_norm")) * a.kv_scale',
     "latent * a.kv_scale",
     "deepseek_v2_noqlora_greedy"),
    ("streams of any size", "altup", "scaled: Array = x * wanted / found", "scaled: Array = x", "gemma3n_text"),
    ("coefficients of the mixture transposed", "altup", "step.dot(mixture, streams",
     "step.dot(mixture.swapaxes(2, 3), streams", "gemma3n_text"),
    ("streams corrected by all of the change", "altup", 'step.dot(route, w("correction", a.n, a.n)) + 1.0',
     'step.dot(route, w("correction", a.n, a.n)) * 0.0 + 1.0', "gemma3n_text"),
    ("the per-layer embedding in the first stream too", "model", "np.concatenate([x[:1], x[1:] + y])", "x + y",
     "gemma3n_text"),
    ("the gate reads what is not scaled", "model", "if altup.scale else x[altup.active]",
     "if False else x[altup.active]", "gemma3n_text"),
    ("residuals summed without the root of two", "block", "* math.sqrt(0.5)\n        else", "* 1.0\n        else",
     "gemma3n_text"),
    ("convolved with what comes", "convolution", "whole[:, k : k + new, :, None] for k in range(kernel)",
     "whole[:, kernel - 1 - k : kernel - 1 - k + new, :, None] for k in range(kernel)", "inkling_text"),
    ("convolved instead of added", "convolution", "both: Array = x + convolution(", "both: Array = convolution(",
     "inkling_text"),
    ("a sum that is not scaled", "convolution", "math.sqrt(kernel + 1)) if scaled", "1) if scaled", "inkling2_text"),
    ("a slow state alone", "loops", 'step.states["slow"] + step.states["fast"]', 'step.states["slow"] * 1.0',
     "hrm_text"),
    ("states that are not normed", "loops", "if loop.norm is not None", "if False", "hrm_text"),
    ("a fast state that begins as the embedding", "loops", '"fast": w("start", x.shape[-1])', '"fast": x', "hrm_text"),
    ("a pass that goes on", "loops", "x, aside = step.loop_entry", "aside = step.loop_entry[1]", "inkling2_loop_text"),
    ("sums of all passes", "loops", "step.sums_aside = list(aside)", "pass", "inkling2_loop_text"),
    ("messages that nobody hears", "loops", "if step.number_of_pass > 0", "if False", "inkling2_loop_text"),
    ("messages with what was before the loop", "loops", "step.sums_aside[loop.aside :]", "step.sums_aside",
     "inkling2_loop_text"),
    ("nothing forgotten", "loops", "x * (1.0 - forget)", "x", "inkling2_loop_text"),
    ("passes that share a cache", "model", "if step.number_of_pass else self.cache", "if False else self.cache",
     "inkling2_loop_text"),
    ("one norm for the inputs of all", "block", "if mixer.own_inputs else", "if False else", "inkling2_loop_text"),
    ("taps of the token forgotten", "convolution", "(made + own)[..., None]", "own[..., None]", "inkling2_text"),
    ("taps from the farthest on", "convolution", "kernel - 1 - k : kernel - 1 - k + new, :, None] for k",
     "k : k + new, :, None] for k", "inkling2_text"),
    ("taps made of what queries read", "attention", "_convolved(a, a.kv_conv, v, of_values,",
     "_convolved(a, a.kv_conv, v, x,", "inkling2_text"),
    ("sums not normed", "residuals", 'normed(sums, residuals.norm, w.at("norm"))', "sums", "inkling2_text"),
    ("the newest sum left out of the mixture", "residuals", "(*step.sums_aside, x)", "(*step.sums_aside, x * 0.0)",
     "inkling2_text"),
    ("a stream that goes on where it begins anew", "block", "self.step.sums_aside.append(x)\n            return y",
     "self.step.sums_aside.append(x)\n            return x + y", "inkling2_text"),
    ("nothing set aside", "block", "self.step.sums_aside.append(x)\n", "pass\n", "inkling2_text"),
    ("one input for queries, keys and values", "block", "read[:, :, n] if read.ndim", "read[:, :, 0] if read.ndim",
     "inkling2_text"),
    ("the last mixture forgotten", "model", "attention_residuals is not None", "attention_residuals is None",
     "inkling2_text"),
    ("queries without their factors", "attention", 'q * w("q_factor", a.n_heads, a.d_head)', "q * 1.0",
     "inkling2_text"),
    ("states of distances without their factors", "attention", 'states * w("factor", a.n_heads, width)',
     "states * 1.0", "inkling2_text"),
    ("no sink of the token", "attention", "if not a.scores.token_sinks", "if True", "inkling2_text"),
    ("gates without bounds", "mlp", "if caps is not None", "if False", "inkling2_text"),
    ("a bound inside the sigmoid", "mlp", "softcapped(gate, caps.gate) * sigmoid(gate)",
     "softcapped(gate, caps.gate) * sigmoid(softcapped(gate, caps.gate))", "inkling2_text"),
    ("a bias beyond its extent", "attention", "distance < extent,", "distance < extent + 1,",
     "inkling_text"),
    ("a bias that does not grow with the queries", "attention",
     "states = states * step.temperature(a.scores.temperature)", "pass", "inkling_text"),
    ("shared experts not weighed", "mlp", "if weight is not None", "if False", "inkling_text"),
    ("chosen experts weighed without the shared ones", "experts", "weight.sum(axis=-1, keepdims=True)",
     "weight[..., : m.top_k].sum(axis=-1, keepdims=True)", "inkling_text"),
    ("a block that counts for its newest key", "attention", ".reshape(*score.shape[:3], n, size).max(axis=-1)",
     ".reshape(*score.shape[:3], n, size)[..., -1]", "minimax_m3_vl_text"),
    ("a choice without the own block", "attention", "np.where(newest, math.inf, best)", "best", "minimax_m3_vl_text"),
    ("the same blocks for all heads", "attention", "allowed[:, :, None]", "allowed[:, :1, None]", "minimax_m3_vl_text"),
    ("index heads not rotated", "attention",
     "q, k = rotate(q, cos, sin, a.rope.pairing), rotate(k, cos, sin, a.rope.pairing)", "pass", "minimax_m3_vl_text"),
    ("no sparse activations", "mlp", "if m.sparsity and gate is not None", "if False", "gemma3n_text"),
    ("an encoder that looks back alone", "step", "if causal else distance > -(window or 0)",
     "if True else distance > 0", "modernbert"),
    ("no window behind the query", "step", "distance > -(window or 0)", "distance > -10**9", "modernbert"),
    ("token types forgotten", "embedding", "    if e.types:", "    if False:", "bert"),
    ("types of the second sentence", "embedding", "step.tokens * 0, axis=0", "step.tokens * 0 + 1, axis=0", "bert"),
    ("positions from 0 where two rows are kept", "embedding", "step.positions + e.offset, axis=0",
     "step.positions, axis=0", "roberta"),
    ("sinusoids in turn for halves", "embedding", 'order == "interleaved"', 'order != "interleaved"', "marian"),
    ("frequencies of the paper for tensor2tensor's", "embedding", 'if order == "tensor2tensor"', "if False", "m2m_100"),
    ("the embedding not normed", "embedding", "if e.norm is not None", "if False", "bart"),
    ("frames looked at from behind", "embedding", "before = (kernel - 1) // 2", "before = 0", "whisper"),
    ("every frame a position", "embedding", "k : k + taken[-1] + 1 : stride", "k : k + len(taken)", "whisper"),
    ("the last token pooled", "head", 'x[:, :1] if p.token == "first" else', "", "bert_pooler"),
    ("a pooler without its function", "head", 'if d.function != "none"', "if False", "bert_pooler"),
    ("the head's norm left out", "head", "x if d.norm is None else", "x if True else", "bert"),
    ("the head's dense layer left out", "head", "x = dense(head.dense, x, w, step)", "pass", "roberta"),
    ("the output's bias left out", "head", "    if head.bias:", "    if False:", "albert"),
    ("buckets of one side alone", "relative", "both=not a.causal)  # (T, S)", "both=False)  # (T, S)", "t5_v1"),
    ("buckets upside down", "relative", "np.where(distance < 0, n, 0)", "np.where(distance > 0, n, 0)", "t5_v1"),
    ("one table of distances for all layers", "relative", "step.weights if buckets.shared else w", "step.weights",
     "umt5"),
    ("distances not normed", "relative", "if p.norm is not None", "if False", "deberta-v2"),
    ("no distances that grow by the logarithm", "relative", "if p.max_distance is None", "if True", "deberta-v2"),
    ("queries' distances for keys' distances", "relative", "met, place.swapaxes(-1, -2)", "met, place", "deberta-v2"),
    ("positions by the matrix of queries", "relative", 'name = "position_q" if p.own else "q"', 'name = "q"',
     "deberta"),
    ("queries of distances without a bias", "relative", 'p.own or "q" in a.bias', "False", "deberta"),
    ("a convolution of the stream", "embedding", "convolved_over_time(step.embedded,",
     "convolved_over_time(step.embedded * 0.5,", "deberta_conv"),
    ("a convolution without its function", "embedding", 'y if m.function == "none" else', "y if True else",
     "deberta_conv"),
    ("keys of distances not scaled", "relative", "queries[None] * a.score_scale", "queries[None]", "deberta-v2"),
    ("gates of a residual wide open", "sublayer", "np.tanh(w(\"output\", 1))", "w(\"output\", 1)",
     "mllama"),
    ("an image that nobody reads", "model", "step.source = given.astype(self.weights.dtype)",
     "step.source = given.astype(self.weights.dtype) * 0.0", "mllama"),
    ("the encoder's output forgotten in decode", "attention",
     'return step.cache.held(key, "k"), step.cache.held(key, "v")',
     'return step.cache.held(key, "k") * 0, step.cache.held(key, "v") * 0', "t5_v1"),
    ("no rotary scores when absorbed", "latent", 's += step.dot(q_rope, k_rope.swapaxes(-1, -2), "scores")', "pass",
     "deepseek_v3"),
]  # fmt: skip


def worst(name: str) -> float:
    return max(distances(name, np.float64).values())


@pytest.mark.parametrize(("error", "module", "old", "new", "name"), MUTANTS, ids=[mutant[0] for mutant in MUTANTS])
def test_a_mutant_is_noticed(error: str, module: str, old: str, new: str, name: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        mutate(importlib.import_module(f"gptcalc.reference.{module}"), old, new, patch)
        assert not worst(name) < 1e-4, f"{error}: {name} does not notice"
    assert worst(name) < 1e-4


#: errors that no golden model can see: counts, and a clamp that their small activations never reach
BY_HAND = [
    ("the clamp forgotten", "mlp", "if clamp is not None", "if False", "test_a_clamp_bounds_gate_and_up"),
    ("multiply-adds for FLOPs", "tally", "flops = 2 * prod", "flops = prod", "test_flops_of_a_grouped_model"),
    ("products not counted by all rows", "tally", "prod(product.shape)", "prod(product.shape[1:])",
     "test_only_chosen_experts_are_computed"),
    ("nothing evicted", "cache", "array.shape[-2] > n", "False", "test_a_window_evicts"),
    ("the clamp after the gate forgotten", "mlp", 'clamp_at == "output":', "False:", "test_a_clamp_after_the_gate"),
    ("vectors of any length", "attention", "np.minimum(limit / (length + LENGTH_EPS), 1.0)", "1.0",
     "test_a_vector_is_no_longer_than_its_limit"),
    ("vectors that grow to their limit", "attention", "np.minimum(limit / (length + LENGTH_EPS), 1.0)",
     "limit / length", "test_a_vector_is_no_longer_than_its_limit"),
    ("residuals added where they are mixed", "sublayer", "x * rest + y * share", "x + y",
     "test_a_gated_residual_keeps_the_size"),
    ("residuals added where they are averaged", "step", "if self.sums is None", "if True",
     "test_averaged_residuals_weigh_all_summands_alike"),
    ("a power for a logarithm", "step", 't.form == "power"', "False", "test_queries_that_grow_by_a_power"),
    ("queries grow from the start", "step", "np.maximum(self.positions, length)", "self.positions + 2",
     "test_queries_grow_beyond_a_length"),
    ("a norm's weight at the wrong end", "norms", 'spec.weight_at == "input"', 'spec.weight_at == "output"',
     "test_a_norm_whose_weight_multiplies_its_input"),
    ("unrotated copies of the keys kept", "attention", "late = a.qk_norm is not None",
     'step.cache.append(w.prefix, "raw", k.swapaxes(1, 2)); late = a.qk_norm is not None',
     "test_a_layer_that_reuses_keys_holds_none"),
    ("absorbed where expanded is asked for", "latent", 'step.form == "absorbed" or', 'step.form == "expanded" or',
     "test_flops_of_latent_attention_in_both_forms"),
]  # fmt: skip


@pytest.mark.parametrize(("error", "module", "old", "new", "test"), BY_HAND, ids=[mutant[0] for mutant in BY_HAND])
def test_a_mutant_is_noticed_by_hand_worked_numbers(error: str, module: str, old: str, new: str, test: str) -> None:
    check = getattr(importlib.import_module("tests.reference.test_reference_properties"), test)
    check()
    with pytest.MonkeyPatch.context() as patch:
        mutate(importlib.import_module(f"gptcalc.reference.{module}"), old, new, patch)
        try:
            check()
        except (AssertionError, KeyError):
            pass
        else:
            pytest.fail(f"{error}: {test} does not notice")
    check()
