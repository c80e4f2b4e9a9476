"""Deliberate errors in what few decoders have: each is noticed by a golden model."""

from __future__ import annotations

import importlib

import pytest

from tests.equations.test_lines import held
from tests.mutation import mutate
from tests.reference.test_reference_mutants import worst
from tests.reference_cases import architecture

#: the error, the module, what is written, what the mutant writes, the golden model that must notice
MUTANTS: list[tuple[str, str, str, str, str]] = [
    # differential attention
    ("the first softmax alone", "differential", "halves[:, 0] - halves[:, 1] *", "halves[:, 0] - 0.0 *", "diffllama"),
    ("λ the same in all layers", "differential", "-0.3 * step.layer", "-0.3 * 0", "diffllama"),
    ("λ without its vectors", "differential", "np.exp(one) - np.exp(two) + start", "start", "diffllama"),
    ("a difference that isn't normed", "differential", 'normed(o, d.norm, w.at("difference_norm"))', "o", "diffllama"),
    ("a difference that isn't scaled", "differential", "* (1.0 - start)", "* 1.0", "diffllama"),
    ("each half reads its own values", "differential", ".transpose(0, 2, 3, 1, 4)",
     "[:, ::-1].transpose(0, 2, 3, 1, 4)", "diffllama"),
    # dynamic masks
    ("values say nothing of the scores", "differential", "bias = np.exp(grown)", "bias = 0.0 * np.exp(grown)", "doge"),
    ("one slope for all KV heads", "differential", '* w("A", g)', '* w("A", g)[:1]', "doge_masked"),
    ("growth without softplus", "differential", 'softplus(step.linear(flat, w, "dt", g, bias=mask.bias))',
     'step.linear(flat, w, "dt", g, bias=mask.bias)', "doge"),
    ("all keys seen", "differential", "if keys > mask.top_k", "if False", "doge_masked"),
    ("fewer keys seen", "differential", "top(bias, mask.top_k)", "top(bias, mask.top_k - 1)", "doge_masked"),
    # compressed convolutional attention
    ("queries without the mean", "convolved", "u[:, :, : a.n_heads] + mean", "u[:, :, : a.n_heads] + 0.0 * mean",
     "zaya"),
    ("keys without the mean", "convolved", "u[:, :, a.n_heads :] + mean_of_keys", "u[:, :, a.n_heads :]", "zaya"),
    ("a mean that is a sum", "convolved", "* 0.5", "* 1.0", "zaya"),
    ("the mean of the first query alone", "convolved", "mean.mean(axis=3)", "mean[:, :, :, 0]", "zaya"),
    ("convolved with what comes", "convolved", "whole[:, k : k + new, :, None] for k in range(cca.kernel)",
     "whole[:, k : k + new, :, None] for k in reversed(range(cca.kernel))", "zaya"),
    ("the second convolution over one token", "convolved", "inner[:, k : k + new, ..., None] for k in",
     "inner[:, cca.head_kernel - 1 :, ..., None] * float(k + 1 == cca.head_kernel) for k in", "zaya"),
    ("zeros before the second convolution moved by the bias", "convolved",
     'cca.head_kernel - 1) + w("u_conv.bias", channels)', 'cca.head_kernel - 1) + 2.0 * w("u_conv.bias", channels)',
     "zaya"),
    ("values that are filtered, too", "attention", "keys_and_values(a, of_keys, of_values, w, step)",
     "keys_and_values(a, of_keys, of_keys, w, step)", "yuan"),
    ("queries that are not filtered", "attention", "of_keys if a.filter is not None else x", "x", "yuan"),
    ("a filter instead of the input", "convolved", "normed(x + _over_all", "normed(_over_all", "yuan"),
    ("a filter's norm before its second half", "convolved", 'y = _over_all(x, "inner_conv"',
     'y = _over_all(normed(x, f.norm, w.at("norm")), "inner_conv"', "yuan"),
    ("a filter over one token", "convolved", "whole[:, k : k + new, :, None] for k in range(kernel)",
     "whole[:, kernel - 1 :, :, None] for k in range(kernel)", "yuan"),
    ("experts that attend to nothing", "experts", "softmax(q * k.swapaxes(-1, -2))",
     "softmax(q * k.swapaxes(-1, -2) * 0.0)", "yuan_moe"),
    ("keys for queries of experts", "experts", 'for name in ("router", "router_k", "router_v")',
     'for name in ("router_k", "router", "router_v")', "yuan_moe"),
    ("values of this token alone", "convolved", "[:, : x.shape[1]]", "[:, 1:]", "zaya"),
    ("the values' halves exchanged", "convolved", "np.concatenate([own, before]", "np.concatenate([before, own]",
     "zaya"),
    ("keys without their factors", "attention", 'k = k * w("k_factor", a.n_kv_heads).reshape(a.n_kv_heads, 1)', "pass",
     "zaya"),
    # residuals and routers of ZAYA
    ("a residual that isn't moved", "sublayer", "if f.bias:", "if False:", "zaya"),
    ("a stream without its factor", "sublayer", "if f.stream:", "if False:", "zaya"),
    ("an output without its factor", "sublayer", 'if f.output != "none"', "if False", "zaya"),
    ("an embedding that isn't moved", "embedding", '(x + w("offset", x.shape[-1]))', "x", "zaya"),
    ("routers that know nothing of the one before", "experts", 'h = h + step.router * w("router_carried", layers.d)',
     "pass", "zaya"),
    ("a router's norm carried on", "experts",
     "    step.router = h\n    h = normed(h, layers.norm, w.at(\"router_norm\"))",
     "    h = normed(h, layers.norm, w.at(\"router_norm\"))\n    step.router = h", "zaya"),
    ("a router of one layer less", "experts", 'for name in ("router_1", "router_2")', 'for name in ("router_1",)',
     "zaya"),
    # a block that is denoised
    ("a block whose tokens see none behind them", "step", "or self.canvas:\n            return None",
     "or False:\n            return None", "diffusion_gemma"),
    ("a block without its prompt", "model", "cache = self.cache.of_pass(0, writes=False)",
     "cache = Cache(writes=False)", "diffusion_gemma"),
    ("nothing of the step before", "model", "if before is not None:", "if False:", "diffusion_gemma"),
    ("the prompt's factors of layers", "model", "if step.canvas:", "if False:", "diffusion_gemma"),
    ("what enters isn't normed", "canvas", "normed(x + y, replace(c.norm, weight=False, bias=False), w)", "x + y",
     "diffusion_gemma"),
    # experts of images beside those of text
    ("experts of text for images, too", "experts", 'if m.tokens != "all"', "if False", "ernie4_5_vl_moe"),
    ("experts of images for text", "experts", 'step.images if m.tokens == "images"',
     'step.images if m.tokens == "text"', "ernie4_5_vl_moe"),
    # latent attention
    ("a rotary key that isn't normed", "latent", "if a.k_rope_norm is not None", "if False", "dots3_note"),
    ("gates of the normed bottleneck alone", "latent", "np.concatenate([x, raw], axis=-1) if a.raw_queries",
     "np.concatenate([x, x], axis=-1) if a.raw_queries", "axk2"),
    ("gates of the layer's input", "latent", "read if a.raw_queries else x",
     "np.concatenate([x[..., : read.shape[-1]], read[..., x.shape[-1] :]], axis=-1) if a.raw_queries else x", "axk2"),
    ("an indexer whose first channels turn", "latent", 'if index.rotates == "last" else 0', "if False else 0", "hy_v4"),
    ("an indexer paired as the heads", "latent", "pairing or a.rope.pairing", '"half"', "dots3_note"),
    ("latents beyond their window", "latent", "a.window, None)", "None, None)", "dots3_note"),
    # norms and streams
    ("a norm without its gate", "block", "if mixer.norm_gate is None", "if True", "axk2"),
    ("a norm's gate without SiLU", "block", 'activate("silu", self.step.linear(n, w, "norm.gate_a"',
     '(lambda _, x: x)("silu", self.step.linear(n, w, "norm.gate_a"', "axk2"),
    ("a norm without its factor", "block", "if mixer.adaptive_norm is not None", "if False", "voxtral_realtime"),
    ("sines in front of cosines", "sublayer", "[np.cos(angle[:half]), np.sin(angle)]",
     "[np.sin(angle), np.cos(angle[:half])]", "voxtral_realtime"),
    ("a norm's factor without GELU", "sublayer", 'activate("gelu", step.linear(of_time',
     '(lambda _, x: x)("gelu", step.linear(of_time', "voxtral_realtime"),
    ("streams that are mixed", "hyper", "if not s.mixed:\n            self.spread = self.spread + s.eps",
     "if not s.mixed:\n            self.spread = self.spread * 0.5", "hy_v4"),
    ("streams summed evenly", "hyper", "self.joined = _joined(join, streams, step)",
     "self.joined = streams.mean(axis=2)", "hy_v4"),
    # positions
    ("rotations forward", "rope", "if rope.backward", "if False", "nanochat"),
    ("sinusoids in turn", "embedding", 'order == "interleaved"', 'order != "interleaved"', "ctrl"),
    ("positions from row 0", "embedding", "step.positions + e.offset, axis=0", "step.positions, axis=0", "biogpt"),
    # factors
    ("outputs at their full size", "block", "y if mixer.residual.scale == 1.0 else y * mixer.residual.scale", "y",
     "hyperclovax"),
    ("logits at their full size", "head", "if head.scale != 1.0", "if False", "granitemoe_swa"),
]  # fmt: skip


@pytest.mark.parametrize(("error", "module", "old", "new", "name"), MUTANTS, ids=[mutant[0] for mutant in MUTANTS])
def test_a_mutant_is_noticed(error: str, module: str, old: str, new: str, name: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        mutate(importlib.import_module(f"gptcalc.reference.{module}"), old, new, patch)
        assert not worst(name) < 1e-4, f"{error}: {name} does not notice"
    assert worst(name) < 1e-4


def test_pairs_of_heads_of_both_halves() -> None:
    """The golden model has two KV heads, which are one pair either way; of four, the lines tell."""
    held(architecture("difference"))
    with pytest.MonkeyPatch.context() as patch:
        module = importlib.import_module("gptcalc.reference.differential")
        mutate(module, "p.reshape(batch, 2, g // 2, r, new, keys)",
               "p.reshape(batch, g // 2, 2, r, new, keys).swapaxes(1, 2)", patch)  # fmt: skip
        with pytest.raises(AssertionError):
            held(architecture("difference"))
