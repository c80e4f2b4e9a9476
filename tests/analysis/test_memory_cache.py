"""Caches: types, windows and engines, held against logs and messages of the engines."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gptcalc.analysis.memory.account import memory
from gptcalc.analysis.memory.cache import KVCache, kv, pools, types
from gptcalc.analysis.memory.engines import held, page_bytes
from gptcalc.analysis.memory.sharding import Layout
from gptcalc.architecture import Architecture
from gptcalc.conventions import Engine
from gptcalc.document import build
from gptcalc.equations import Constant, Equations, Index, Layer, Pairs, Stage, equations
from gptcalc.equations.lines import Lines
from gptcalc.equations.symbols import Symbols
from gptcalc.errors import InputError
from gptcalc.sources import load
from tests.conftest import Command

MIB, GIB = 2**20, 2**30
ENGINES: tuple[Engine, ...] = ("ideal", "vllm", "sglang", "llama.cpp", "transformers")


def decoder(n_layers: int, n_kv_heads: int, d_head: int, **more: Any) -> Architecture:
    """A model of which only the cache matters."""
    return build({"d": 64, "v": 8, "c": 4096, "n_heads": n_kv_heads, "n_kv_heads": n_kv_heads, "d_head": d_head,
                  "n_layers": n_layers, "d_ff": 8, **more})  # fmt: skip


def alternating(n_layers: int, n_kv_heads: int, d_head: int, window: int, layers: str) -> Architecture:
    return decoder(n_layers, n_kv_heads, d_head, layers=layers, local={"like": "attn", "window": window})


GPT_OSS = "n*[local+mlp attn+mlp]"
LATENT = {"q_rank": 8, "kv_rank": 512, "d_nope": 128, "d_rope": 64, "d_v": 128}
DEEPSEEK = build(
    {"d": 64, "v": 8, "c": 163840, "n_heads": 128, "n_layers": 61, "d_ff": 8, "layers": "n*mla+mlp", "mla": LATENT}
)


@pytest.mark.parametrize(
    ("case", "model", "context", "expected"),
    [
        ("HD01", decoder(36, 8, 128), 4096, 603_979_776),  # 36 · 2 · 8 · 128 · 2 = 147,456 a token
        ("GQ02", decoder(32, 8, 128), 8192, 1_073_741_824),
        ("GQ03 7B", decoder(32, 32, 128), 32768, 16 * GIB),
        ("GQ03 70B", decoder(80, 8, 128), 32768, 10 * GIB),
        ("GQ10", decoder(32, 32, 80), 1, 327_680),
        ("HY04", decoder(16, 4, 256), 262144, 16 * GIB),  # the 16 of 64 layers that have attention
    ],
)
def test_sizes_in_16_bits(case: str, model: Architecture, context: int, expected: int) -> None:
    assert kv(model, context=context).bytes == expected, case


@pytest.mark.parametrize(
    ("case", "model", "context", "dtype", "mib"),
    [
        ("GQ04", decoder(60, 52, 128), 512, "fp32", 1560), ("GQ04", decoder(60, 52, 128), 512, "fp16", 780),
        ("GQ05", decoder(32, 32, 128), 512, "fp32", 512), ("GQ05", decoder(32, 32, 128), 512, "fp16", 256),
        ("GQ07", decoder(28, 4, 128), 2048, "fp16", 112),
        ("GQ11", decoder(6, 8, 64), 32768, "fp16", 384),
        ("ML03", DEEPSEEK, 32768, "fp16", 2196), ("ML03", DEEPSEEK, 32768, "q8_0", 1166.625),
        ("SW02", alternating(24, 8, 64, 128, GPT_OSS), 131072, "fp16", 3072 + 18),
    ],
)  # fmt: skip
def test_lines_in_llama_cpp_logs(case: str, model: Architecture, context: int, dtype: str, mib: float) -> None:
    """SW02: the window of 128 and a micro-batch of 512 are 640 cells, rounded up to 768: 18 MiB."""
    assert kv(model, context=context, kv_dtype=dtype, engine="llama.cpp").bytes == mib * MIB, case


def test_keys_and_values_of_different_types() -> None:
    """8 heads of 128: 32 blocks of 34 bytes for keys, of 18 for values."""
    assert kv(decoder(10, 8, 128), context=100, kv_dtype="q8_0:q4_0").bytes == 10 * 100 * 32 * (34 + 18)
    assert kv(decoder(10, 8, 128), context=100, kv_dtype="q8_0").bytes == 10 * 100 * 2 * 32 * 34


def test_rows_are_whole_blocks() -> None:
    """3 heads of 20 channels: 60 numbers are two blocks of 32."""
    assert kv(decoder(1, 3, 20), context=7, kv_dtype="q8_0").bytes == 7 * 2 * 2 * 34


def test_ollama_q8() -> None:
    """Qwen2.5-7B at 262,144 tokens: 14.0 GiB in 16 bits, 7.4375 GiB in q8_0 (34 bytes for 32; ollama#10128)."""
    model = decoder(28, 4, 128)
    assert kv(model, context=262144).bytes == 14 * GIB
    assert kv(model, context=262144, kv_dtype="q8_0").bytes == 14 * GIB * 34 // 64


# --- windows ----------------------------------------------------------------------------------------------------------


def test_gpt_oss_120b() -> None:
    """SW01: 36 layers, half of them with a window of 128."""
    model = alternating(36, 8, 64, 128, GPT_OSS)
    assert kv(model, context=1).bytes == 73_728
    found = kv(model, context=131072)
    assert found.bytes == 4_836_556_800
    assert found.full_bytes == 9 * GIB


def test_gemma_4_31b() -> None:
    """SW06: 50 layers of 16 × 256 and 10 of 4 × 512. By architecture 901,120 bytes; with pages of one size 983,040."""
    model = build(
        {"d": 64, "v": 8, "c": 64, "n_heads": 16, "n_layers": 60, "d_ff": 8, "layers": "n*[5*local+mlp attn+mlp]",
         "attn": {"n_kv_heads": 4, "d_head": 512},
         "local": {"like": "attn", "window": 32, "n_kv_heads": 16, "d_head": 256}}
    )  # fmt: skip
    assert kv(model, context=1).bytes == 901_120
    assert 60 * page_bytes(pools(equations(model), types("bf16"))) == 16 * 983_040  # pages of 16 tokens


def test_mistral_7b() -> None:
    """SW07: a window of 4096 in all layers; llama.cpp allocates the whole context."""
    model = decoder(32, 8, 128, attn={"window": 4096})
    assert kv(model, context=32768).bytes == 512 * MIB
    assert kv(model, context=32768, engine="llama.cpp").bytes == 4 * GIB
    assert kv(model, context=32768).full_bytes == 4 * GIB


def test_gemma_2_9b() -> None:
    """SW08: every second layer keeps 4096 of 8192 tokens."""
    found = kv(alternating(42, 8, 256, 4096, "n*[local+mlp attn+mlp]"), context=8192)
    assert (found.bytes, found.full_bytes) == (2016 * MIB, 2688 * MIB)


def test_gemma_3n_e4b() -> None:
    """KS01: the last 15 of 35 layers reuse what is stored; 4 full and 16 windowed layers own a cache."""
    model = decoder(
        35, 2, 256, layers="4*[4*local+mlp attn+mlp] 3*[4*again+mlp reuse+mlp]",
        local={"like": "attn", "window": 512}, again={"like": "local", "kv": {"from": "local"}},
        reuse={"like": "attn", "kv": {"from": "attn"}},
    )  # fmt: skip
    found = kv(model, context=32768)
    assert found.bytes == 272 * MIB
    assert sum(group.layers for group in found.groups) == 20


def test_two_lengths_give_the_rate() -> None:
    """FT07: a hybrid's cache is a + b·S; dividing bytes by tokens gives no rate."""
    model = alternating(24, 8, 64, 128, GPT_OSS)
    one, two = kv(model, context=1000), kv(model, context=2000)
    rate = (two.bytes - one.bytes) // 1000
    fixed = one.bytes - 1000 * rate
    assert (fixed, rate) == (12 * 128 * 2 * 8 * 64 * 2, 12 * 2 * 8 * 64 * 2)
    assert one.formula == f"49,152·S for S ≤ 128; {fixed:,} + {rate:,}·S beyond"


# --- latent attention -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("form", "per_token"), [("latent", 61 * (512 + 64) * 2), ("expanded", 61 * 128 * (192 + 128) * 2)]
)
def test_latent_and_expanded(form: Any, per_token: int) -> None:
    """ML01: 70,272 bytes a token, and what expanded keys and values would take."""
    found = kv(DEEPSEEK, context=10, mla_cache=form)
    assert found.bytes_per_token == per_token
    assert found.bytes == 10 * per_token


# --- states -----------------------------------------------------------------------------------------------------------


def test_states_do_not_grow() -> None:
    """A recurrent state is kept in the states' type, a convolution's like keys; neither is per token."""
    past, heads = Index("S", 0, "past"), Index("n_heads", 4, "heads", "tp")
    lines = Lines("mixer", "recurrent", {"s": past, "h": heads, "a": Index("d_head", 8, "channels")}, Symbols())
    lines.store("H[h,a] = h[t,h,a]", "state", Constant())
    lines.store("Γ[h] = c[t,h]", "convolution", Constant())
    lines.store("K[s,h] = k[s,h]", "keys", Pairs())
    (block, _), *_ = decoder(1, 1, 2).groups()
    layer = Layer(name="mixer", times=3, lines=tuple(lines.lines), runs="layer", block=block)
    nothing = Stage(name="nothing", lines=())
    model = Equations(embedding=nothing, layers=(layer,), output=nothing, symbols={})
    found = {pool.kind: (pool.bytes, pool.grows) for pool in pools(model, types("bf16", "fp32"))}
    assert found == {"state": (4 * 8 * 4, False), "conv": (4 * 2, False), "full": (4 * 2, True)}
    assert {part.pool.kind: part.bytes for part in held("ideal", pools(model, types("bf16")), 256)} == {
        "state": 3 * 128, "conv": 3 * 8, "full": 3 * 8 * 256
    }  # fmt: skip
    split = {pool.kind: pool.bytes for pool in pools(model, types("bf16"), Layout(tp=4))}
    assert split == {"state": 8 * 4, "conv": 2, "full": 2}


# --- engines ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("blocks", "tokens", "model", "gib"),
    [(378, 6048, decoder(80, 8, 128), 1.845703125), (229, 3664, decoder(32, 32, 128), 1.7890625)],
)
def test_blocks_in_vllm_logs(blocks: int, tokens: int, model: Architecture, gib: float) -> None:
    """FT03: OpenRLHF#336 and vllm#2418."""
    last_block_begun = kv(model, context=tokens - 15, engine="vllm")
    assert last_block_begun.groups[0].cached_tokens == 16 * blocks == tokens
    assert last_block_begun.bytes == kv(model, context=tokens).bytes == gib * GIB


def test_vllm_windows() -> None:
    """12 windowed layers: ⌈(127 + 8192)/16⌉ + 1 = 521 pages of 16 tokens; 12 full ones: 131072/16 pages."""
    found = kv(alternating(24, 8, 64, 128, GPT_OSS), context=131072, engine="vllm")
    page = 16 * 2 * 8 * 64 * 2
    assert found.bytes == 12 * page * (521 + 8192)


def test_vllm_has_two_passes_in_flight() -> None:
    """--prefill-chunk is max_num_batched_tokens: ⌈(127 + 2 · 512)/16⌉ + 1 = 73 pages."""
    found = kv(alternating(24, 8, 64, 128, GPT_OSS), context=131072, engine="vllm", prefill_chunk=512)
    assert found.groups[0].cached_tokens == 16 * 73


def test_vllm_pads_groups() -> None:
    """Gemma 3 27B: 52 windowed and 10 full layers are groups of 10, the last of the windowed ones padded by 8."""
    model = alternating(62, 16, 128, 1024, "n*[5*local+mlp attn+mlp]")
    found = kv(model, context=131072, engine="vllm")
    page, window = 16 * 2 * 16 * 128 * 2, -(-(1023 + 8192) // 16) + 1
    assert [(g.name, g.layers) for g in found.groups] == [("local+mlp", 52), ("attn+mlp", 10), ("padding layers", 8)]
    assert found.bytes == 10 * page * (6 * window + 8192)


def test_transformers_keeps_one_less_of_a_window() -> None:
    """The newest token is in flight (cache_utils.py, DynamicSlidingWindowLayer)."""
    found = kv(alternating(24, 8, 64, 128, GPT_OSS), context=1000, engine="transformers")
    assert [group.cached_tokens for group in found.groups] == [127, 1000]


def test_llama_cpp_rounds_up_to_256() -> None:
    assert kv(decoder(1, 1, 32), context=257, engine="llama.cpp").groups[0].cached_tokens == 512


@given(
    st.sampled_from(ENGINES), st.integers(1, 5000), st.integers(1, 3), st.integers(1, 600),
    st.sampled_from(["n*[local+mlp attn+mlp]", "n*[2*local+mlp attn+mlp]", "n*local+mlp"]),
)  # fmt: skip
def test_engines_set_aside_enough_and_ever_more(
    engine: Engine, context: int, batch: int, window: int, layers: str
) -> None:
    model = alternating(6, 2, 16, window, layers)

    def found(engine: Engine, context: int, batch: int = batch) -> KVCache:
        return kv(model, context=context, batch=batch, engine=engine)

    here = found(engine, context)
    assert found(engine, context + 1).bytes >= here.bytes
    assert found(engine, context, batch + 1).bytes >= here.bytes
    assert here.bytes == sum(group.bytes for group in here.groups)
    # what a window has at least may exceed a short context
    assert here.bytes <= here.full_bytes or engine in ("vllm", "sglang")
    if engine != "transformers":
        assert here.bytes >= found("ideal", context).bytes


@pytest.mark.parametrize("dtype", ["q4_k", "bf16:nope", ":q8_0", "a:b:c"])
def test_no_such_type(dtype: str) -> None:
    with pytest.raises(InputError, match="unknown data type"):
        kv(decoder(1, 1, 32), kv_dtype=dtype)


def test_latents_in_a_window() -> None:
    """transformers' DynamicSlidingWindowLayer keeps one less than the window; what others set aside is not known."""
    model = build({
        "name": "latents", "d": 8, "v": 9, "c": 99, "n_heads": 2, "n_layers": 3, "d_ff": 5, "layers": "n*mla+mlp",
        "mla": {"kv_rank": 16, "d_nope": 6, "d_rope": 4, "d_v": 7, "window": 5},
    })  # fmt: skip
    token = 3 * (16 + 4) * 2
    assert [kv(model, context=context).bytes for context in (4, 5, 6, 99)] == [4 * token, *[5 * token] * 3]
    assert kv(model, context=99, engine="transformers").bytes == 4 * token
    with pytest.raises(InputError, match="latents in a window"):
        kv(model, context=99, engine="vllm")


def test_transformers_keeps_one_token_for_rwkv() -> None:
    """Five arrays of d channels a layer: what both mixers read last, in the model's type; sum, weights and exponent in
    fp32 (RwkvModel.forward)."""
    assert kv(load("rwkv-4-169m").architecture, engine="transformers").bytes == 12 * 768 * (2 * 2 + 3 * 4)


def test_compressed_latents_in_deepseeks_layout(gptcalc: Command) -> None:
    """448 channels in fp8, 64 in bf16 and 8 bytes of scales are 584 (vLLM); an indexer's entries 132. At 1,024 tokens
    of DeepSeek-V4-Flash: windows of 43 layers, 21 of 256 entries and as many of an indexer, 20 of 8."""
    asked = ("kv", "deepseek-v4-flash", "--kv-dtype", "fp8_ds_mla", "--context", "1024", "--json")
    groups = json.loads(gptcalc(*asked)[1])["groups"]
    held = {
        kind: sum(group["bytes"] for group in groups if group["kind"] == kind)
        for kind in ("window", "compressed", "index")
    }
    assert held == {"window": 43 * 128 * 584, "compressed": (21 * 256 + 20 * 8) * 584, "index": 21 * 256 * 132}


def test_that_layout_is_of_latents(gptcalc: Command) -> None:
    found = gptcalc("kv", "llama-3-8b", "--kv-dtype", "fp8_ds_mla")
    assert (found.status, found.out, len(found.lines)) == (2, "", 1)


@pytest.mark.parametrize(
    ("model", "tp", "share"),
    [
        ("qwen3-8b", 2, 2),
        ("qwen3-8b", 8, 8),
        ("qwen3-8b", 16, 8),  # eight heads, each on two devices
        ("deepseek-v3", 8, 1),  # a latent lies on all
    ],
)
def test_on_each_of_several_devices(model: str, tp: int, share: int, gptcalc: Command) -> None:
    asked = ("kv", model, "--context", "4096", "--json")
    whole = json.loads(gptcalc(*asked)[1])["bytes"]
    found = json.loads(gptcalc(*asked, "--tp", str(tp))[1])
    assert (found["bytes"], found["tp"]) == (whole // share, tp)
    assert bool(found.get("notes")) == (tp != share)


def test_one_device_of_several_has_no_lines_of_its_own(gptcalc: Command) -> None:
    assert "--tp" in gptcalc("kv", "qwen3-8b", "--tp", "2", "--why", "bytes")[2]


def test_types_of_a_cache_are_named_all(gptcalc: Command) -> None:
    for command in ("kv", "memory"):
        assert "one of auto, fp32, bf16" in gptcalc(command, "gpt2", "--kv-dtype", "foo")[2]
    assert "auto" not in gptcalc("time", "gpt2", "--device", "a100", "--kv-dtype", "foo")[2]


def test_latents_in_nvfp4() -> None:
    """Of vLLM's kernels none of those for latents lists nvfp4 (vllm/v1/attention/backends/mla, 0.33)."""
    with pytest.raises(InputError, match="keeps no latents in it"):
        kv(DEEPSEEK, kv_dtype="nvfp4", engine="vllm")
    assert kv(DEEPSEEK, context=64, kv_dtype="nvfp4").bytes == 61 * 64 * (512 + 64) * 9 // 16


@pytest.mark.parametrize(("engine", "kv_dtype"), [("vllm", "q8_0"), ("llama.cpp", "fp8"), ("transformers", "bf16:fp8")])
def test_a_type_that_an_engine_keeps_no_cache_in(engine: Engine, kv_dtype: str) -> None:
    """vLLM's CacheDType, llama.cpp's kv_cache_types: then nothing is said to be exact."""
    model = decoder(2, 2, 32)
    odd = kv_dtype.rpartition(":")[2]
    (said,) = (note for note in kv(model, kv_dtype=kv_dtype, engine=engine).notes if "keeps no cache" in note)
    assert said.startswith(f"{engine} keeps no cache in {odd}; ")
    found = memory(model, kv_dtype=kv_dtype, engine=engine)
    assert f"kv: {said}" in found.estimated
    assert not any(line.startswith("kv") for line in found.exact)


def test_heads_that_are_no_whole_blocks() -> None:
    """llama.cpp v0.5.0 on such a file: K cache type q8_0 with block size 32 does not divide n_embd_head_k=80."""
    with pytest.raises(InputError, match="heads of 80 channels are no whole blocks of 32"):
        kv(decoder(2, 2, 80), kv_dtype="q8_0", engine="llama.cpp")
    assert memory(decoder(2, 2, 80), kv_dtype="q8_0:fp16", engine="llama.cpp", flash_attn="off").kv_dtype == "q8_0:fp16"
