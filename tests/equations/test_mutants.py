"""Tests must be seen to fail: deliberate errors in equations and analyses, each noticed by an independent number.

A mutant replaces a piece of a module's source. Clean code gives every figure below; a mutant must miss one at least.
"""

from __future__ import annotations

import importlib

import pytest

from gptcalc.analysis import flops, params
from gptcalc.analysis.memory import cache
from gptcalc.document import build
from gptcalc.equations.model import remembered
from gptcalc.sources import load
from tests.mutation import mutate

#: what is asked of a preset, and the answer: totals and caches as in test_eleven, FLOPs as in test_oracle; totals and
#: active parameters of other presets are those of data/preset_totals.json, which says whose they are
FIGURES: dict[str, tuple[str, int]] = {
    "gpt2 total": ("gpt2", 124_439_808),
    "gpt2 embedding": ("gpt2", 39_383_808),
    "gpt2 cache at 1024": ("gpt2", 1024 * 36_864),
    "gpt2 full at 1024": ("gpt2", 291_648_307_200),
    "gpt2 causal at 1024": ("gpt2", 252_993_601_536 + 38_654_705_664 * 1025 // 2048),
    "gpt2 decode at 257": ("gpt2", 256_538_112),
    "gpt2 macs at 1024": ("gpt2", 252_993_601_536 // 2 + 38_654_705_664 * 1025 // 4096),
    "llama-3-8b total": ("llama-3-8b", 8_030_261_248),
    "llama-3-8b decode at 257": ("llama-3-8b", 2 * (7_504_924_672 - 266_240) + 2 * 2 * 32 * 257 * 4096),
    "llama-3-8b cache at 1024": ("llama-3-8b", 1024 * 131_072),
    "qwen2.5-7b total": ("qwen2.5-7b", 7_615_616_512),
    "mixtral-8x7b total": ("mixtral-8x7b", 46_702_792_704),
    "mixtral-8x7b active": ("mixtral-8x7b", 12_879_925_248),
    "mixtral-8x7b full at 256": ("mixtral-8x7b", 6_561_636_286_464),
    "qwen3-30b-a3b total": ("qwen3-30b-a3b", 30_532_122_624),
    "gemma-2-9b total": ("gemma-2-9b", 9_241_705_984),
    "gemma-2-9b cache at 8192": ("gemma-2-9b", 2_113_929_216),
    "gpt-oss-20b total": ("gpt-oss-20b", 20_914_757_184),
    "gpt-oss-20b active": ("gpt-oss-20b", 4_187_440_704),
    "gpt-oss-20b cache at 131072": ("gpt-oss-20b", 3_224_371_200),
    "falcon-7b total": ("falcon-7b", 6_921_720_704),
    "deepseek-v2-lite total": ("deepseek-v2-lite", 15_706_484_224),
    "deepseek-v3 total": ("deepseek-v3", 671_026_419_200),
    "deepseek-v3 active": ("deepseek-v3", 37_552_297_472),
    "deepseek-v3 mtp": ("deepseek-v3", 11_610_068_224),
    "deepseek-v3 cache at 1024": ("deepseek-v3", 1024 * 70_272),
    "deepseek-v3 expanded cache at 1024": ("deepseek-v3", 1024 * 4_997_120),
    "deepseek-v3 full at 256": ("deepseek-v3", 19_079_284_916_224),
    "gemma-3n-e2b total": ("gemma-3n-e2b", 4_435_182_688),
    "gemma-3n-e2b full at 256": ("gemma-3n-e2b", 1_256_497_266_688),
    "gemma-3n-e2b decode at 257": ("gemma-3n-e2b", 4_908_438_208),
    "minimax-m3 total": ("minimax-m3", 426_174_572_928),
    # every active matrix once; 3 layers see all keys, 57 see 15 blocks and one key of their own, index heads all
    "minimax-m3 decode at 4097": (
        "minimax-m3",
        2 * (25_962_473_856 - 1_229_193_216 - 743_424 - (60 + 57) * 256 - 57 * 128)
        + 2 * 2 * 64 * 128 * (3 * 4097 + 57 * (15 * 128 + 1)) + 2 * 57 * 4 * 128 * 4097,
    ),
    "inkling-975b-a41b total": ("inkling-975b-a41b", 975_340_287_042),
    # of each window 512 tokens; the last 3 keys, values and outputs of both sublayers before their convolutions
    "inkling-975b-a41b cache at 1024": (
        "inkling-975b-a41b",
        2 * 128 * 2 * (55 * 16 * 512 + 11 * 8 * 1024)
        + 2 * 3 * 2 * (55 * (2048 + 6144) + 11 * (1024 + 6144)),
    ),
    # every active matrix once, without the embedding, norms, 66 factors and biases; the profiles for each of 64 heads
    "inkling-975b-a41b decode at 1025": (
        "inkling-975b-a41b",
        2 * (41_059_071_042 - 1_235_091_456 - (2 + 2 * 66) * 6144 - 66 * (1 + 256 + 2 * 128))
        + 2 * 63 * 16 * (55 * 512 + 11 * 1024)
        + 2 * 2 * 64 * 128 * (55 * 512 + 11 * 1025),
    ),
    "inkling-2-small total": ("inkling-2-small", 593_718_497_280),
    # 48 layers of 8 heads; the last 3 keys, values and outputs of both sublayers before their convolutions
    "inkling-2-small cache at 1024": ("inkling-2-small", 2 * 48 * (2 * 8 * 128 * 1024 + 3 * (2 * 1024 + 2 * 4608))),
    # every active matrix once, without the embedding, norms (2 a layer, 2 more for three inputs, and 2), factors of
    # queries and distances, biases; the profiles for each of 48 heads; in layers that see all 3·2·1024 products of
    # taps that are made, not learned; scores and values; what is mixed: in layer l of 6·b + r, b + 1 sums at the
    # first sublayer if r = 0, else b + 2, of queries, keys and values apart if r = 5; b + 2 at the second; 9 at the end
    "inkling-2-small decode at 1025": (
        "inkling-2-small",
        2 * (18_880_745_472 - 201_024 * 4608 - (2 * 48 + 2 * 8 + 2) * 4608 - 48 * 48 * (128 + 16) - 48 * 384
             - (40 + 8 * 3 - 1 + 48 + 1) * 4608)
        + 2 * 47 * 48 * 16 * 1024
        + 2 * 2 * 48 * 128 * (40 * 1024 + 8 * 1025)
        + 2 * 2 * 4608 * (sum(4 * (b + 2) + 3 * (b + 2) + 6 * (b + 2) + (b + 1) for b in range(8)) - 1 + 9),
    ),
    "inkling-2-mini total": ("inkling-2-mini", 26_068_159_488),
    # as above; of 24 layers 12 run three times, and keep as much in each
    "inkling-2-mini cache at 1024": ("inkling-2-mini", 2 * 48 * (2 * 8 * 128 * 1024 + 3 * (2 * 1024 + 2 * 2304))),
    # as above, without gates and queries for messages; half of the layers twice more, the head not; in two passes of
    # 12 layers four inputs have gates of 2·2304·64 + 2·64·2304 and mix two sums
    "inkling-2-mini decode at 1025": (
        "inkling-2-mini",
        2 * (2 * (3_135_802_368 - 201_024 * 2304 - (2 * 24 + 2 * 4 + 2) * 2304 - 24 * 24 * (128 + 16) - 24 * 128
                  - (20 + 4 * 3 - 1 + 24 + 1) * 2304 - 12 * 4 * (4 * 64 + 1) * 2304) - 200_058 * 2304)
        + 2 * 23 * 48 * 16 * 1024
        + 2 * 2 * 24 * 128 * (40 * 1024 + 8 * 1025)
        + 2 * 2 * 2304 * (sum(13 * (b + 2) + (b + 1) for b in (0, 1, 1, 1, 2, 2, 2, 3)) - 1 + 5)
        + 2 * 2 * 12 * 4 * (4 * 64 * 2304 + 2 * 2 * 2304),
    ),
    # two stacks of 16 layers, five matrices of 12 heads and three of the MLP; a vector in which the fast state begins
    "speeds total": (
        "speeds", 32 * (5 * 1536**2 + 3 * 1536 * 4096) + 2 * 1536 * 151_808 + 1536
    ),
    # 16 layers six times, 16 twice
    "speeds cache at 1024": ("speeds", 2 * 16 * (6 + 2) * 2 * 1536 * 1024),
    "speeds decode at 1024": (
        "speeds",
        2 * 16 * (6 + 2) * (5 * 1536**2 + 3 * 1536 * 4096 + 2 * 1536 * 1024) + 2 * 1536 * 151_808,
    ),
    "yuan2-2b total": ("yuan2-2b", 2_088_724_480),
    "yuan2-m32 total": ("yuan2-m32", 39_942_842_368),
    # keys and values; the last token's input of both convolutions, d and d/2 channels
    "yuan2-2b cache at 1024": ("yuan2-2b", 2 * 24 * (1024 * 2 * 2048 + 2048 + 1024)),
    "zaya1-8b total": ("zaya1-8b", 8_840_489_464),
    # keys and values; of the 8 + 2 heads the last channels before both convolutions, of half the values the last
    "zaya1-8b cache at 1024": ("zaya1-8b", 2 * 40 * (1024 * 2 * 256 + 2 * 1280 + 128)),
    # queries and outputs, keys and both halves of the values; both convolutions; the router's layers; one expert
    "zaya1-8b decode at 1025": (
        "zaya1-8b",
        2 * 40 * (2 * 2048 * 1024 + 2 * 2048 * 256 + 2 * 1280 + 10 * 2 * 128 * 128
                  + 2048 * 256 + 2 * 256 * 256 + 256 * 17 + 3 * 2048 * 2048 + 2 * 8 * 128 * 1025)
        + 2 * 2048 * 262_272,
    ),
    "nanochat-d20 total": ("nanochat-d20", 560_988_160),
    # matrices of 8·(16 + 4) + 8·2·10 + 16·2·(6 + 7) + 2·7·8 in attention, 3·8·5 in the MLP; norms of 16, 4, 8 and 8
    "latents total": ("latents", 2 * (848 + 120 + 36) + 2 * 9 * 8 + 8),
    "latents cache at 99": ("latents", 2 * 5 * (16 + 4) * 2),
    "latents causal at 99": ("latents", 2 * 99 * (2 * (848 + 120) + 9 * 8) + 2 * 485 * 2 * 2 * (6 + 4 + 7)),
    "window decode at 9": ("window", 2 * 2 * (4 * 8 * 8 + 3 * 8 * 5) + 2 * 9 * 8 + 2 * 2 * 2 * 3 * 8),
}  # fmt: skip

WINDOW = {"d": 8, "v": 9, "c": 99, "n_heads": 2, "n_layers": 2, "d_ff": 5, "attn": {"window": 3}}
LATENTS = {
    **{key: value for key, value in WINDOW.items() if key != "attn"}, "layers": "n*mla+mlp",
    "mla": {"kv_rank": 16, "d_nope": 6, "d_rope": 4, "d_v": 7, "window": 5, "k_rope_norm": {"kind": "rmsnorm"}},
}  # fmt: skip
#: the sizes that HRM-Text's class has by default; its total is data/causal_lm_types.json's
SPEEDS = {
    "d": 1536, "v": 151_808, "c": 2048, "n_heads": 12, "n_layers": 32, "d_ff": 4096, "norm": {"weight": False},
    "final_norm": False, "speeds": {"fast": 16, "cycles": 2, "fast_cycles": 3}, "attn": {"gate": "full"},
}  # fmt: skip
WRITTEN = {"window": WINDOW, "latents": LATENTS, "speeds": SPEEDS}


def figure(name: str) -> int:
    """One figure by its name in the table."""
    remembered.cache_clear()
    preset, what = name.split(" ", 1)
    model = build(WRITTEN[preset]) if preset in WRITTEN else load(preset).architecture
    words = what.split(" at ")
    context = int(words[1]) if len(words) > 1 else None
    match words[0]:
        case "total" | "active" | "embedding" | "mtp":
            return int(getattr(params.params(model), words[0]))
        case "cache":
            return cache.kv(model, context=context).bytes
        case "expanded cache":
            return cache.kv(model, context=context, mla_cache="expanded").bytes
        case "full":
            return flops.flops(model, context=context, pairs="full").total
        case "causal":
            return flops.flops(model, context=context).total
        case "decode":
            return flops.flops(model, context=context, phase="decode").total
        case "macs":
            return flops.flops(model, context=context).macs
    raise AssertionError(name)


#: the error, the module, what is written, what the mutant writes, and a figure that must notice
MUTANTS: list[tuple[str, str, str, str, str]] = [
    (
        "K counted with all heads",
        "equations.attention",
        "W_K[{ix(i, kv, 'a')}]",
        "W_K[{ix(i, 'g,r' if kv == 'g' else kv, 'a')}]",
        "llama-3-8b total",
    ),
    ("V left out", "equations.attention", 'W_V=Mark("v", "values"), b_V="v.bias"', 'b_V="v.bias"', "gpt2 total"),
    ("no bias on K", "equations.attention", '"k" in a.bias', "False", "gpt2 total"),
    (
        "a bias on the output where only q, k, v have one",
        "equations.attention",
        '"out" in a.bias',
        "True",
        "qwen2.5-7b total",
    ),
    (
        "qk-norm left out",
        "equations.attention_heads",
        "if norm is not None and not norm.after_rope:",
        "if False:",
        "qwen3-30b-a3b total",
    ),
    (
        "qk-norm over the whole width",
        "equations.attention_heads",
        '"a" if norm.over == "head"',
        '"a" if False',
        "qwen3-30b-a3b total",
    ),
    ("sinks left out", "equations.attention", ', sink="sinks"', "", "gpt-oss-20b total"),
    (
        "scores of every KV head once",
        "equations.attention",
        "z[{here}] = Σ_a q[{query}]·",
        "z[{ix('t', s, kv)}] = Σ_a k[{ix('t', kv, 'a')}]·",
        "llama-3-8b decode at 257",
    ),
    (
        "weighted sum not counted",
        "equations.attention",
        'lines.sum(f"o[{out}] = Σ_{s}',
        'lines.pointwise(f"o[{out}] = Σ_{s}',
        "gpt2 full at 1024",
    ),
    (
        "no cache of V",
        "equations.attention",
        """lines.store(f"V[{ix(s, kv, 'w')}] = v[{ix(s, kv, 'w')}]", "values", kept)""",
        "pass",
        "gpt2 cache at 1024",
    ),
    (
        "window ignored in the cache",
        "analysis.memory.pools",
        "return context if self.limit is None else min(context, self.limit)",
        "return context",
        "gpt-oss-20b cache at 131072",
    ),
    (
        "window ignored in decode",
        "equations.conditions",
        "return min(s, self.window or self.top_k or s)",
        "return s",
        "window decode at 9",
    ),
    (
        "a token doesn't see itself",
        "equations.conditions",
        "return n * (n + 1) // 2",
        "return n * (n - 1) // 2",
        "gpt2 causal at 1024",
    ),
    (
        "half the square for causal",
        "equations.conditions",
        "return triangle(limit) + (s - limit) * limit",
        "return s * s // 2",
        "gpt2 causal at 1024",
    ),
    (
        "multiply-adds for FLOPs",
        "equations.language",
        "return 2 * self.terms(work)",
        "return self.terms(work)",
        "gpt2 full at 1024",
    ),
    (
        "experts all active",
        "equations.language",
        "return self.params * chosen.active // chosen.total",
        "return self.params",
        "mixtral-8x7b active",
    ),
    (
        "all experts multiplied",
        "equations.conditions",
        "return work.new_tokens * self.active",
        "return work.new_tokens * self.total",
        "mixtral-8x7b full at 256",
    ),
    ("no router", "equations.experts", "lines.sum(logits", "lines.pointwise(logits", "mixtral-8x7b full at 256"),
    ("router bias left out", "equations.experts", '"router" in m.bias', "False", "gpt-oss-20b total"),
    ("selection bias left out", "equations.experts", "* m.selection_bias", "* False", "deepseek-v3 total"),
    ("expert biases left out", "equations.experts", '"down" in m.bias', "False", "gpt-oss-20b total"),
    ("no gate", "equations.mlp", "if activation.gated:", "if False:", "llama-3-8b total"),
    (
        "shared expert left out",
        "equations.experts",
        "    if m.shared is not None:\n        _shared",
        "    if False:\n        _shared",
        "deepseek-v3 total",
    ),
    (
        "latent norm left out",
        "equations.latent",
        'lines, a.latent_norm, "c_KV[t,l]", "c_KV[t,l]", "l", "kv_a_norm"',
        'lines, type(a.latent_norm)(weight=False), "c_KV[t,l]", "c_KV[t,l]", "l", "kv_a_norm"',
        "deepseek-v3 total",
    ),
    (
        "rotary key not cached",
        "equations.latent",
        'lines.store("K_R[s,p] = k_R[s,p]"',
        'lines.read("K_R[s,p] = k_R[s,p]") if True else lines.store("K_R"',
        "deepseek-v3 cache at 1024",
    ),
    (
        "latent cached twice",
        "equations.latent",
        'lines.store("C[s,l] = c_KV[s,l]", "latent", Pairs(a.window))',
        'lines.store("C[s,l] = c_KV[s,l]", "latent", Pairs()); lines.store("C[s,l] = c_KV[s,l]", "latent", Pairs())',
        "deepseek-v3 cache at 1024",
    ),
    (
        "latents kept beyond their window",
        "equations.latent",
        '"latent", Pairs(a.window))',
        '"latent", Pairs())',
        "latents cache at 99",
    ),
    (
        "a rotary key that is not normed",
        "equations.latent",
        "if a.k_rope_norm is not None",
        "if False",
        "latents total",
    ),
    (
        "latents that see beyond their window",
        "equations.latent",
        "pairs = Pairs(a.window)",
        "pairs = Pairs()",
        "latents causal at 99",
    ),
    (
        "expanded keys without the rotary part",
        "equations.latent",
        'lines.store("K[s,h,b] = k[s,h,b]"',
        'lines.store("K[s,h,a] = k[s,h,a]"',
        "deepseek-v3 expanded cache at 1024",
    ),
    (
        "no rotary scores",
        "equations.latent",
        'lines.sum(f"z[t,s,h] += Σ_p q_R[t,h,p]·{rotary}", pairs)',
        "pass",
        "deepseek-v3 full at 256",
    ),
    ("tied matrix counted twice", "analysis.params", "if weight.tied or", "if", "gpt2 total"),
    (
        "tied head does not multiply",
        "equations.head",
        "lines.sum(text, wanted, saved=4, E=table",
        "lines.pointwise(text, wanted, saved=4, E=table",
        "gpt2 full at 1024",
    ),
    (
        "multi-token modules in the total",
        "analysis.params",
        "for stage in model.main)\n    total",
        "for stage in model.stages)\n    total",
        "deepseek-v3 total",
    ),
    (
        "no norm behind",
        "equations.sublayer",
        'if norm is not None and at != "post"',
        'if norm is not None and at == "output"',
        "gemma-2-9b total",
    ),
    (
        "a norm of its own for each parallel unit",
        "equations.parts",
        "if part.norm is not None:",
        "if part.norm is not None and False:",
        "falcon-7b total",
    ),
    (
        "streams mixed for nothing",
        "equations.altup",
        'lines.sum("X′[t,λ,i]',
        'lines.pointwise("X′[t,λ,i]',
        "gemma-3n-e2b full at 256",
    ),
    (
        "streams not projected back",
        "equations.altup",
        'lines.sum("Y[t,e,i] = Σ_υ X[t,e + 1,υ]·W_B[e,υ,i]", Wanted(), saved=2, W_B=Mark("out", "streams"))',
        "pass",
        "gemma-3n-e2b total",
    ),
    (
        "routed once a layer",
        "equations.altup",
        'Δ_X[t,i] = x[t,i] − X′[t,λ,i], λ = {a.active}", saved=2)\n    _router(lines, a)',
        'Δ_X[t,i] = x[t,i] − X′[t,λ,i], λ = {a.active}", saved=2)',
        "gemma-3n-e2b decode at 257",
    ),
    (
        "no learned residual",
        "equations.sublayer",
        "if residual.low_rank is not None",
        "if False",
        "gemma-3n-e2b total",
    ),
    (
        "a token's own block taken for a full one",
        "equations.conditions",
        "self.earlier + (s - 1) % self.block + 1)",
        "self.earlier + self.block)",
        "minimax-m3 decode at 4097",
    ),
    (
        "index scores for nothing",
        "equations.attention",
        'lines.sum(f"ζ',
        'lines.pointwise(f"ζ',
        "minimax-m3 decode at 4097",
    ),
    (
        "no state of convolutions",
        "equations.convolution",
        'lines.store(f"R_{name}',
        'None and lines.store(f"R_{name}',
        "inkling-975b-a41b cache at 1024",
    ),
    (
        "profiles for nothing",
        "equations.attention",
        'lines.sum(f"b_P',
        'lines.pointwise(f"b_P',
        "inkling-975b-a41b decode at 1025",
    ),
    (
        "convolutions for nothing",
        "equations.convolution",
        "lines.sum(text, None, saved, component, **marks)",
        "lines.pointwise(text, None, saved, component, **marks)",
        "inkling-975b-a41b decode at 1025",
    ),
    (
        "a router without shared experts",
        "equations.experts",
        'm.n_experts + m.sink.n, "choices")',
        'm.n_experts, "choices")',
        "inkling-975b-a41b total",
    ),
    (
        "queries of sums for one input alone",
        "equations.parts",
        "residuals.scope(part.sums, 3 if several else 1)",
        "residuals.scope(part.sums, 2 if several else 1)",
        "inkling-2-small total",
    ),
    (
        "one norm for three inputs",
        "equations.sublayer",
        '"n{name}[t,i]", own, "i", key,',
        '"n{name}[t,i]", own, "i", "norm",',
        "inkling-2-small total",
    ),
    (
        "sums compared for nothing",
        "equations.residuals",
        "lines.sum(compared",
        "lines.pointwise(compared",
        "inkling-2-small decode at 1025",
    ),
    (
        "sums mixed for nothing",
        "equations.residuals",
        "lines.sum(mixture",
        "lines.pointwise(mixture",
        "inkling-2-small decode at 1025",
    ),
    (
        "as many sums in every layer",
        "equations.residuals",
        "Symbols.derived(str(sums), sums",
        "Symbols.derived(str(2), 2",
        "inkling-2-small decode at 1025",
    ),
    (
        "a loop that runs once",
        "equations.stages",
        '"all": n,',
        '"all": 1,',
        "inkling-2-mini decode at 1025",
    ),
    (
        "messages in the first pass",
        "equations.stages",
        '"later": n - 1,',
        '"later": n,',
        "inkling-2-mini decode at 1025",
    ),
    (
        "one cache for all passes",
        "analysis.memory.cache",
        "times = layers * stage.runs_in_passes(line)",
        "times = layers",
        "inkling-2-mini cache at 1024",
    ),
    (
        "weights of each pass",
        "analysis.params",
        "1 if self.tensor.weight.shared else self.stage.times",
        "1 if self.tensor.weight.shared else self.stage.times * self.stage.passes",
        "inkling-2-mini total",
    ),
    (
        "messages of one sum",
        "architecture.places",
        "sums = 1 + sum(",
        "sums = 1 + 0 * sum(",
        "inkling-2-mini decode at 1025",
    ),
    (
        "fast layers no faster",
        "architecture.places",
        "passes=speeds.cycles * speeds.fast_cycles",
        "passes=speeds.cycles",
        "speeds decode at 1024",
    ),
    ("a fast state that begins as nothing", "equations.loops", ', z_F="start")', ")", "speeds total"),
    ("gates without a gain", "equations.loops", '("g_H", "G_M", "gain")', "", "inkling-2-mini total"),
    (
        "taps of the token for nothing",
        "equations.convolution",
        'lines.sum(f"{made} = ',
        'lines.pointwise(f"{made} = ',
        "inkling-2-small decode at 1025",
    ),
    (
        "no state of convolutions with taps of the token",
        "equations.convolution",
        (
            "_keep(lines, name, rest, lines.scope[token].symbol, before)\n    "
            'lines.pointwise(_added(lines, y, f"{name}̂[t,{rest}]", terms), saved=2)'
        ),
        'lines.pointwise(_added(lines, y, f"{name}̂[t,{rest}]", terms), saved=2)',
        "inkling-2-small cache at 1024",
    ),
    ("sinks of the token left out", "equations.attention", ', W_T="token_sinks"', "", "inkling-2-small total"),
    (
        "factors of queries left out",
        "equations.attention_heads",
        "if key is not None:",
        "if False:",
        "inkling-2-small total",
    ),
    (
        "logits for all rows of the table",
        "equations.head",
        "if head.rows is not None",
        "if False",
        "inkling-2-small total",
    ),
    ("one index head", "equations.attention", "W_IQ[{ix('i', kv, 'ι')}]", "W_IQ[i,ι]", "minimax-m3 total"),
    ("LayerNorm without bias", "equations.norms", "if norm.bias:", "if False:", "gpt2 total"),
    ("final norm left out", "equations.model", "if own.norm is not None:", "if False:", "gpt2 total"),
    ("positions left out", "equations.embedding", 'P=Mark("position", "positions")', "", "gpt2 total"),
    (
        "a byte a number",
        "dtypes",
        "return -(-elements // self.block) * self.block_bytes",
        "return elements",
        "gpt2 cache at 1024",
    ),
    (
        "values without a state",
        "equations.convolved",
        'lines.store("R_v',
        '0 and lines.store("R_v',
        "zaya1-8b cache at 1024",
    ),
    (
        "convolved heads without a state",
        "equations.convolved",
        'lines.store(f"R_head',
        '0 and lines.store(f"R_head',
        "zaya1-8b cache at 1024",
    ),
    (
        "a filter without a state",
        "equations.convolved",
        'lines.store(f"R_{end}',
        '0 and lines.store(f"R_{end}',
        "yuan2-2b cache at 1024",
    ),
    (
        "a filter of one token",
        "equations.convolved",
        'symbols.index("kernel", f.kernel, "taps", section)',
        'symbols.index("kernel", 1, "taps", section)',
        "yuan2-2b total",
    ),
    (
        "a router of one matrix",
        "equations.experts",
        "if m.router.attention:\n        _attention",
        "if False:\n        _attention",
        "yuan2-m32 total",
    ),
    (
        "convolutions of queries alone",
        "equations.convolved",
        "a.n_heads + a.n_kv_heads, ",
        "a.n_heads, ",
        "zaya1-8b total",
    ),
    (
        "residuals without offsets",
        "equations.sublayer",
        '"b_x": "residual.stream.bias"',
        '"b_z": "residual.stream.bias"',
        "zaya1-8b total",
    ),
    (
        "a router of one layer",
        "equations.experts",
        "if m.router.layers is not None:\n        source",
        "if False:\n        source",
        "zaya1-8b decode at 1025",
    ),
    (
        "a router's layer for nothing",
        "equations.experts",
        'lines.sum(f"a_R',
        'lines.pointwise(f"a_R',
        "zaya1-8b decode at 1025",
    ),
    ("MACs reported as FLOPs", "analysis.flops", "macs=total // 2", "macs=total", "gpt2 macs at 1024"),
]


@pytest.mark.parametrize("name", FIGURES)
def test_clean_code_gives_the_figure(name: str) -> None:
    assert figure(name) == FIGURES[name][1]


@pytest.mark.parametrize(("error", "module", "old", "new", "name"), MUTANTS, ids=[mutant[0] for mutant in MUTANTS])
def test_a_mutant_is_noticed(error: str, module: str, old: str, new: str, name: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        mutate(importlib.import_module(f"gptcalc.{module}"), old, new, patch)
        assert figure(name) != FIGURES[name][1], f"{error}: {name} does not notice"
