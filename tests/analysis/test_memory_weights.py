"""The bytes of weights, held against published sizes of files and counts of headers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gptcalc.analysis.memory import forms, mixes
from gptcalc.analysis.memory.sharding import Layout
from gptcalc.analysis.memory.weights import Weights, total
from gptcalc.architecture import Architecture, Attention, Experts, sublayers
from gptcalc.document import build
from gptcalc.equations.roles import Use
from gptcalc.errors import InputError

LLAMA_31_8B = build(
    {"d": 4096, "v": 128256, "c": 131072, "n_heads": 32, "n_kv_heads": 8, "n_layers": 32, "d_ff": 14336}
)
PARAMS = 8_030_261_248
GPT_OSS: dict[str, Any] = {
    "d": 2880, "v": 201088, "c": 131072, "n_heads": 64, "n_kv_heads": 8, "d_head": 64, "bias": "all",
    "layers": "n*[local+moe attn+moe]", "attn": {"sinks": True}, "local": {"like": "attn", "window": 128},
}  # fmt: skip
DEEPSEEK_V3: dict[str, Any] = {
    "d": 7168, "v": 129280, "c": 163840, "n_heads": 128, "d_ff": 18432, "layers": "3*mla+mlp n*mla+moe",
    "mla": {"q_rank": 1536, "kv_rank": 512, "d_nope": 128, "d_rope": 64, "d_v": 128},
    "moe": {"n_experts": 256, "top_k": 8, "d_ff": 2048, "n_shared": 1, "router": "sigmoid", "selection_bias": True},
}  # fmt: skip


def llama_2(d: int, n_layers: int, n_heads: int, n_kv_heads: int, d_ff: int) -> Architecture:
    return build({"d": d, "v": 32000, "c": 4096, "n_heads": n_heads, "n_kv_heads": n_kv_heads, "n_layers": n_layers,
                  "d_ff": d_ff})  # fmt: skip


@pytest.mark.parametrize(("dtype", "width"), [("fp32", 4), ("bf16", 2), ("fp16", 2), ("bfloat16", 2)])
def test_plain_types(dtype: str, width: int) -> None:
    """FT05: 8,030,261,248 parameters are 16,060,522,496 bytes in 16 bits."""
    assert total(LLAMA_31_8B, dtype) == width * PARAMS


@pytest.mark.parametrize(
    ("dtype", "size"),
    [
        # GG01: 16 of 32 layers have ffn_down and attn_v in Q6_K, the output is Q6_K, norms F32
        ("q4_k_m", 4_912_898_048),
        # GG02: only the 65 norms stay F32
        ("q8_0", 8_532_934_656), ("q6_k", 6_588_170_240), ("f16", 16_061_054_976), ("gguf-bf16", 16_061_054_976),
    ],
)  # fmt: skip
def test_gguf_to_the_byte(dtype: str, size: int) -> None:
    """Tensors of Llama 3.1 8B as llama.cpp's quantize makes them (tools/quantize/README.md)."""
    assert total(LLAMA_31_8B, dtype) == size


@pytest.mark.parametrize(
    ("dtype", "bits", "gib"),
    [
        ("q2_k", 3.1593, 2.95), ("q3_k_s", 3.6429, 3.41), ("q3_k_l", 4.2979, 4.02), ("q4_k_s", 4.6672, 4.36),
        ("q4_k_m", 4.8944, 4.58), ("q5_k_s", 5.5704, 5.21), ("q5_k_m", 5.7036, 5.33), ("q6_k", 6.5633, 6.14),
        ("q8_0", 8.5008, 7.95), ("f16", 16.0005, 14.96),
    ],
)  # fmt: skip
def test_gguf_table_of_llama_31(dtype: str, bits: float, gib: float) -> None:
    """The table in llama.cpp's tools/quantize/README.md, at its digits."""
    size = total(LLAMA_31_8B, dtype)
    assert round(size * 8 / PARAMS, 4) == bits
    assert round(size / 2**30, 2) == gib


@pytest.mark.parametrize(
    ("model", "params", "bits"),
    [
        (llama_2(4096, 32, 32, 32, 11008), 6_738_415_616, {"q3_k_m": 3.91, "q4_k_s": 4.58, "q4_k_m": 4.84,
                                                           "q5_k_s": 5.52, "q5_k_m": 5.68, "q6_k": 6.56}),
        (llama_2(5120, 40, 40, 40, 13824), 13_015_864_320, {"q3_k_m": 3.89, "q4_k_s": 4.56, "q4_k_m": 4.83,
                                                            "q5_k_s": 5.51, "q5_k_m": 5.67, "q6_k": 6.56}),
        # 80 layers that share KV heads: attn_v gets Q5_K where it would have had Q4_K
        (llama_2(8192, 80, 64, 8, 28672), 68_976_648_192, {"q4_k_m": 4.80, "q5_k_s": 5.50, "q5_k_m": 5.65,
                                                           "q6_k": 6.56}),
    ],
)  # fmt: skip
def test_gguf_table_of_llama_2(model: Architecture, params: int, bits: dict[str, float]) -> None:
    """Bits per weight in llama.cpp's examples/quantize/README.md of 2024. (Its Q2_K was another mix then.)"""
    assert {dtype: round(total(model, dtype) * 8 / params, 2) for dtype in bits} == bits


def types(model: Architecture, dtype: str) -> dict[str, dict[str, int]]:
    """How many tensors of each name have which type."""
    found: dict[str, dict[str, int]] = {}
    for share in Weights(model, dtype, Layout()).stage(0):
        counts = found.setdefault(share.row.name, {})
        counts[share.row.type] = counts.get(share.row.type, 0) + share.row.count
    return found


def test_gguf_mixtral() -> None:
    """With eight experts K and V are Q8_0 and the attention's output Q5_K; the router stays F32 (PRs #4872, #4906)."""
    found = types(
        build({"d": 4096, "v": 32000, "c": 32768, "n_heads": 32, "n_kv_heads": 8, "n_layers": 32, "d_ff": 14336,
               "layers": "n*attn+moe", "moe": {"n_experts": 8, "top_k": 2}}),
        "q4_k_m",
    )  # fmt: skip
    assert found["attn.k"] == found["attn.v"] == {"q8_0": 32}
    assert found["attn.out"] == {"q5_k": 32}
    assert found["attn.q"] == found["moe.up"] == found["moe.gate"] == {"q4_k": 32}
    assert found["moe.router"] == found["attn.norm.weight"] == {"fp32": 32}
    # layers 0–3 and 28–31, and every third of 4–27, counted from 4 (6, 9, …, 27)
    assert found["moe.down"] == {"q6_k": 4 + 4 + 8, "q4_k": 16}


def test_gguf_latent_attention() -> None:
    """Rows of k_b are 128 long, which Q4_K's blocks don't divide: Q5_0 (log in ik_llama.cpp#185: 16 → 5.5 MiB)."""
    model = build({**DEEPSEEK_V3, "n_layers": 61})
    found = types(model, "q4_k_m")
    assert found["attn.k_b"] == {"q5_0": 61}
    assert found["attn.v_b"] == {"q4_k": 61}
    row = next(s.row for s in Weights(model, "q4_k_m", Layout()).stage(0) if s.row.name == "attn.k_b")
    assert (2 * row.params, row.bytes) == (16 * 2**20, 5.5 * 2**20)


def test_gguf_experts_by_layer() -> None:
    """blk.3.ffn_down_exps and ffn_down_shexp of DeepSeek's 61 layers are Q6_K: 3 < 61/8 (llama.cpp#16379)."""
    assert mixes.more_bits(3, 61)
    rows = [s.row for s in Weights(build({**DEEPSEEK_V3, "n_layers": 61}), "q4_k_m", Layout()).stage(0)]
    (down,) = [r for r in rows if r.name == "moe.down" and r.type == "q6_k"]
    assert down.bytes == 2940 * 2**20
    (shared,) = [r for r in rows if r.name == "moe.shared.down" and r.type == "q6_k"]
    assert round(shared.bytes / 2**20, 2) == 11.48


def test_gguf_tied_table_is_quantised_as_the_output() -> None:
    model = build({"d": 2048, "v": 1024, "c": 64, "n_heads": 8, "n_layers": 2, "d_ff": 1024, "tying": True})
    assert types(model, "q4_k_m")["embedding.token"] == {"q6_k": 1}
    assert types(model, "q8_0")["embedding.token"] == {"q8_0": 1}


def test_gguf_rows_that_blocks_do_not_divide() -> None:
    """d = 896 is no multiple of 256: Q5_0 for Q4_K, Q8_0 for Q6_K; d_ff = 40 fits no block: F16."""
    model = build({"d": 896, "v": 1024, "c": 64, "n_heads": 14, "n_layers": 8, "d_ff": 40, "tying": True})
    found = types(model, "q4_k_m")
    assert found["attn.q"] == {"q5_0": 8}
    assert found["embedding.token"] == {"q8_0": 1}
    assert found["mlp.down"] == {"fp16": 8}


def walked(model: Architecture, mix: str, start: int, stop: int) -> dict[tuple[str, str], int]:
    """The types of V and of down projections by going through all layers, as llama.cpp does."""
    traits = mixes.traits(model, mix in mixes.NEEDS_IMATRIX)
    layers: list[list[tuple[Use, bool]]] = [
        [
            ("values" if isinstance(mixer, Attention) else "down", isinstance(mixer, Experts))
            for mixer in sublayers(block)
        ]
        for block in model.blocks()
    ]
    values = sum(use == "values" for uses in layers for use, _ in uses)
    seen: dict[Use, int] = {"values": 0, "down": 0}
    found: dict[tuple[str, str], int] = {}
    for layer, uses in enumerate(layers):
        for use, stacked in uses:
            i = layer if use == "down" and traits.n_experts > 1 and mix not in mixes.LOW else seen[use]
            seen[use] += 1
            if start <= layer < stop:
                n = values if use == "values" else model.n_layers
                name = mixes.tensor_type(mix, use, 256, traits, i, n, stacked).name
                found[use, name] = found.get((use, name), 0) + 1
    return found


@given(
    st.sampled_from(["n*attn+mlp", "2*attn+mlp n*attn+moe", "n*[2*attn+mlp attn+moe]", "3*attn n*[attn+mlp+mlp mlp]",
                     "n*[attn+moe 3*[attn mlp]] 1*attn+mlp", "1*[4*[attn+mlp mlp]] n*attn"]),
    st.integers(9, 90), st.sampled_from(sorted(mixes.MIXES)), st.data(),
)  # fmt: skip
def test_types_by_layer_are_those_walked(layers: str, n_layers: int, mix: str, data: st.DataObject) -> None:
    model = build({"d": 256, "v": 256, "c": 8, "n_heads": 4, "n_kv_heads": 2, "n_layers": n_layers, "d_ff": 256,
                   "layers": layers, **({"moe": {"n_experts": 4, "top_k": 1}} if "moe" in layers else {})})  # fmt: skip
    start = data.draw(st.integers(0, n_layers))
    stop = data.draw(st.integers(start, n_layers))
    found: dict[tuple[str, str], int] = {}
    for share in Weights(model, mix, Layout()).layers(start, stop):
        use = share.tensor.weight.use
        if use in ("values", "down"):
            found[use, share.row.type] = found.get((use, share.row.type), 0) + share.row.count
    assert found == walked(model, mix, start, stop)


@pytest.mark.parametrize(
    ("n_layers", "n_experts", "blocks", "scales", "bf16"),
    [(24, 32, 9_555_148_800, 597_196_800, 1_804_459_584), (36, 128, 57_330_892_800, 3_583_180_800, 2_167_371_072)],
)  # fmt: skip
def test_mxfp4_as_gpt_oss_ships(n_layers: int, n_experts: int, blocks: int, scales: int, bf16: int) -> None:
    """QC01: the bytes of blocks and scales and the bf16 numbers in the headers (huggingface.js PR #2323)."""
    moe = {"n_experts": n_experts, "top_k": 4, "d_ff": 2880}
    assert total(build({**GPT_OSS, "n_layers": n_layers, "moe": moe}), "mxfp4") == blocks + scales + 2 * bf16


def test_nf4_as_bitsandbytes_stores_it() -> None:
    """QC02: unsloth's Llama-3.1-8B: bf16 1,050,939,392 numbers, 3,489,660,928 bytes of packed weights.

    Beside them an 8-bit absmax for 64 weights, an fp32 one for 256 of those, and in each of the 224 matrices the tables
    of 16 and 256 values and an offset.
    """
    packed = 3_489_660_928
    absmax = 2 * packed // 64
    tables = 4 * (16 + 256 + 1)
    expected = 2 * 1_050_939_392 + packed + absmax + 4 * absmax // 256 + 224 * tables
    assert total(LLAMA_31_8B, "nf4-double") == expected


def test_fp8_blocks_of_deepseek_v3() -> None:
    """QC06: F8 680,571,043,840 and 41,540,496 scales, the MTP module's layer counted: 62 layers.

    bf16 stay both tables, norms, routers: 3,918,786,560 less the MTP module's copies of the tables, its projection
    2·7168² and three norms. The router's bias is counted in 16 bits here.
    """
    rows = [s.row for s in Weights(build({**DEEPSEEK_V3, "n_layers": 62}), "fp8-block", Layout()).stage(0)]
    packed = [r for r in rows if r.type == "fp8-block"]
    assert sum(r.count * r.params for r in packed) == 680_571_043_840
    assert sum(r.total for r in packed) == 680_571_043_840 + 4 * 41_540_496
    wide = sum(r.count * r.params for r in rows if r.type == "bf16" and r.name != "moe.selection_bias")
    assert wide == 3_918_786_560 - 2 * 129280 * 7168 - 2 * 7168**2 - 3 * 7168


@pytest.mark.parametrize("dtype", ["fp8", "fp8-block", "int8", "int4", "gptq", "nf4", "nvfp4"])
def test_what_quantisers_leave_wide(dtype: str) -> None:
    """Tables, output, norms, routers and gates with one output stay bf16; experts do not."""
    moe = {"n_experts": 8, "top_k": 2, "d_ff": 256, "n_shared": 1, "shared_gate": True}
    model = build({"d": 256, "v": 512, "c": 64, "n_heads": 4, "n_layers": 2, "layers": "n*attn+moe", "moe": moe})
    found = types(model, dtype)
    wide = {name for name, counts in found.items() if counts.keys() == {"bf16"}}
    assert wide == {"embedding.token", "head.weight", "final_norm.weight", "attn.norm.weight", "moe.norm.weight",
                    "moe.router", "moe.shared_gate"}  # fmt: skip


def test_mxfp4_without_experts_packs_all_matrices() -> None:
    assert types(LLAMA_31_8B, "mxfp4")["mlp.up"] == {"mxfp4": 32}


def test_int4_by_hand() -> None:
    """Two layers of four 256 × 256 matrices and three of 256 × 512, groups of 128."""
    model = build({"d": 256, "v": 512, "c": 64, "n_heads": 4, "n_layers": 2, "d_ff": 512})
    square = 256 * 256 // 2 + 2 * 256 * 2 + 2 * 256 // 2
    wide = 256 * 512 // 2 + 2 * 512 * 2 + 2 * 512 // 2
    narrow = 512 * 256 // 2 + 4 * 256 * 2 + 4 * 256 // 2
    assert total(model, "int4") == 2 * (4 * square + 2 * wide + narrow) + 2 * (2 * 512 * 256 + 5 * 256)


@pytest.mark.parametrize("name", ["q4", "q4_k_xl", "int5", "f16:imatrix", "", "Q4_K_M_L", "int4:7:yes"])
def test_no_such_format(name: str) -> None:
    with pytest.raises(InputError):
        forms.checked(name)


def test_every_name_is_a_format() -> None:
    for name in [*forms.names(), "q4_0:imatrix"]:
        assert forms.checked(name) == name
        assert forms.checked(name.upper()) == name
        assert total(LLAMA_31_8B, name) > 0
