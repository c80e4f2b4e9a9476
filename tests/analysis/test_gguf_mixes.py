"""GGUF files of small models, byte by byte as llama.cpp's quantiser sizes them."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from gptcalc.analysis.memory.account import memory
from gptcalc.analysis.memory.forms import checked
from gptcalc.analysis.memory.sharding import Layout
from gptcalc.analysis.memory.weights import Weights, total
from gptcalc.document import build
from gptcalc.errors import InputError
from gptcalc.sources import load
from gptcalc.sources.huggingface import read
from tests import TESTS

LINES = (TESTS / "data" / "gguf_mixes.jsonl").read_text(encoding="utf-8").splitlines()
CASES: dict[str, dict[str, Any]] = {case["id"]: case for case in map(json.loads, LINES)}


@pytest.mark.parametrize("name", CASES)
def test_a_file_is_as_large_as_the_quantiser_says(name: str) -> None:
    case = CASES[name]
    assert total(build(read(case["config"]).document), case["dtype"]) == case["bytes"]


@pytest.mark.parametrize(
    ("preset", "dtype", "size"),
    [
        ("gpt-oss-20b", "q8_0", 12_096_558_336),  # experts stay as they are published, in mxfp4 (llama.cpp#15117)
        ("gpt-oss-120b", "q8_0", 63_374_323_968),
        ("qwen1.5-0.5b", "q4_k_m", 401_210_368),  # the file has the tied output matrix a second time (mllm#271)
        # llama-quantize --dry-run on full-size headers without data, of the same llama.cpp
        ("dbrx", "q4_k_m", 79_898_861_568),
        ("deepseek-r1", "q4_k_m", 404_488_847_360),
        ("deepseek-v3.2", "q4_k_m", 403_995_214_848),
        ("glm-4.5", "q4_k_m", 212_728_299_136),
        ("bloom-176b", "q4_k_m", 112_722_018_304),
        ("exaone-4.0-32b", "q4_k_m", 19_339_596_032),  # with the factors of its frequencies
    ],
)
def test_published_and_full_size(preset: str, dtype: str, size: int) -> None:
    assert total(load(preset).architecture, dtype) == size


@pytest.mark.parametrize(
    ("preset", "dtype", "size"),
    [
        ("phi-4", "iq1_s", 3_889_889_280),
        ("phi-4", "iq2_xs", 4_911_841_280),
        ("phi-4", "iq2_m", 5_487_800_320),
        ("phi-4", "iq3_xs", 6_452_039_680),
        ("phi-4", "iq3_m", 6_910_279_680),
        ("phi-4", "iq4_xs", 8_255_262_720),
        ("phi-4", "iq4_nl:imatrix", 8_576_471_040),
        ("phi-4", "q4_0:imatrix", 8_408_535_040),
        ("phi-4", "iq3_xxs", 6_125_752_320),
        ("phi-4", "q2_k_s", 5_540_720_640),
        ("phi-4", "tq1_0", 3_587_543_040),
        ("phi-4", "mxfp4_moe", 15_576_944_640),
        ("phi-4", "q1_0", 2_412_318_720),
        ("phi-4", "q2_0", 4_546_007_040),
        ("qwen3-30b-a3b", "q1_0", 4_554_450_944),
        ("qwen3-30b-a3b", "q2_0", 8_889_989_120),
        ("llama-3.2-1b", "q2_0", 489_418_880),
        ("deepseek-v3.2", "iq1_s", 133_904_634_880),
        ("deepseek-v3.2", "iq2_xs", 195_469_095_936),
        ("deepseek-v3.2", "iq2_m", 217_824_095_232),
        ("deepseek-v3.2", "iq3_xs", 272_884_771_840),
        ("deepseek-v3.2", "iq3_m", 292_519_572_480),
        ("deepseek-v3.2", "iq4_xs", 360_011_711_488),
        ("deepseek-v3.2", "iq4_nl:imatrix", 378_539_672_576),
        ("deepseek-v3.2", "q4_0:imatrix", 379_507_639_296),
        ("deepseek-v3.2", "iq3_xxs", 258_342_046_720),
        ("deepseek-v3.2", "q2_k_s", 225_060_463_616),
        ("deepseek-v3.2", "tq1_0", 143_201_831_936),
        ("deepseek-v3.2", "mxfp4_moe", 366_253_280_256),
        # queries, keys and values are one matrix in its checkpoint and its file, three in transformers' class
        ("sarvam-30b", "q2_k", 12_222_794_240),
        ("sarvam-30b", "q3_k_l", 16_963_471_872),
    ],
)
def test_smallest_types(preset: str, dtype: str, size: int) -> None:
    """IQ types and importance matrices, by llama.cpp's dry run on full-size headers without data."""
    assert total(load(preset).architecture, dtype) == size


def test_rows_that_q1_0_has_no_blocks_for() -> None:
    """llama-quantize has no other type for them, and stops."""
    with pytest.raises(InputError, match="rows of 10,944 numbers are no whole blocks of 128"):
        total(load("deepseek-v2-lite").architecture, "q1_0")


def test_types_by_hand() -> None:
    """llama-quantize --tensor-type: Llama 3 8B's 32 down projections and its table in Q8_0."""
    model = load("llama-3-8b").architecture
    plain, q8 = total(model, "q4_k_s"), total(model, "q4_k_s,ffn_down=q8_0,token_embd=q8_0")
    down, table = 4096 * 14336, 128256 * 4096
    first = 4  # an eighth of the layers has Q5_K in this mix
    before = (first * down * 176 + (32 - first) * down * 144 + table * 144) // 256
    assert q8 - plain == (32 * down + table) // 32 * 34 - before
    assert checked("Q4_K_S,ffn_down=Q8_0") == "q4_k_s,ffn_down=q8_0"


def moved(tensors: int, numbers: int, before: int, after: int) -> int:
    """Bytes that tensors of so many numbers take more, from one type's bytes for 256 numbers to another's."""
    return tensors * numbers // 256 * (after - before)


@pytest.mark.parametrize(
    ("model", "types", "more"),
    [
        # Llama 3 8B, V of 4096 × 1024: Q5_K in the first four layers, Q4_K in the others
        ("llama-3-8b", r"blk\.0\.attn_v=q8_0", moved(1, 4096 * 1024, 176, 272)),
        ("llama-3-8b", "blk.[0-7].attn_v=q8_0",
         moved(4, 4096 * 1024, 176, 272) + moved(4, 4096 * 1024, 144, 272)),
        # `.` is any character: layers 1 and 10 to 19, `blk.1.` and `blk.1?.`
        ("llama-3-8b", r"blk\.1.*\.ffn_gate=q6_k", moved(11, 4096 * 14336, 144, 210)),
        # the first pattern that is found decides
        ("llama-3-8b", "blk.3.ffn_up=q8_0,ffn_up=q3_k",
         moved(1, 4096 * 14336, 144, 272) + moved(31, 4096 * 14336, 144, 110)),
        ("llama-3-8b", "^output=q8_0", moved(1, 4096 * 128256, 210, 272)),
        # all that stands in a name: gate, up and down
        ("llama-3-8b", "blk.31.ffn=q8_0", moved(3, 4096 * 14336, 144, 272)),
        # Phi 3 mini keeps queries, keys and values in one matrix, gate and up in another
        ("phi-3-mini-4k", "blk.5.attn_qkv=q8_0", moved(1, 3072 * 9216, 144, 272)),
        # Qwen3 30B-A3B: 128 experts; a shared name of experts alone
        ("qwen3-30b-a3b", "blk.47.ffn_down_exps=q6_k", moved(128, 768 * 2048, 144, 210)),
        # what mixes have no rule for has a name, too
        ("deepseek-v2-lite", "attn_kv_a_mqa=q8_0", moved(27, 2048 * 576, 144, 272)),
    ],
)  # fmt: skip
def test_types_by_patterns(model: str, types: str, more: int) -> None:
    """llama-quantize --tensor-type in Q4_K_S; a pattern is looked for anywhere in a tensor's name."""
    architecture = load(model).architecture
    assert total(architecture, f"q4_k_s,{types}") - total(architecture, "q4_k_s") == more


def test_types_by_patterns_of_a_part_of_the_layers() -> None:
    """Two devices: the pattern's layers are on the first."""
    model = load("llama-3-8b").architecture
    plain, given = (Weights(model, name, Layout(pp=2)) for name in ("q4_k_s", "q4_k_s,blk.[0-7].ffn_down=q8_0"))
    more = [
        sum(share.row.total for share in given.stage(n)) - sum(share.row.total for share in plain.stage(n))
        for n in (0, 1)
    ]
    assert more == [moved(4, 4096 * 14336, 176, 272) + moved(4, 4096 * 14336, 144, 272), 0]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("q4_k_s,ffn=q9", "no type 'q9'"),
        ("q4_k_s,ffn_gate_inp=q8_0", "no quantised tensor is called 'ffn_gate_inp'"),
        ("q4_k_s,attn_norm=q8_0", "no quantised tensor is called 'attn_norm'"),
        ("q4_k_s,blk.32.ffn_down=q8_0", "no quantised tensor is called"),
        ("q4_k_s,ffn_(down=q8_0", "is no pattern"),
        ("q4_k_s,ffn_down{99999999999}=q8_0", "is no pattern"),
        ("q4_k_s,((.*)*)*x=q8_0", "repeats a group"),
        ("q4_k_s,(ffn|f.n){2}=q8_0", "repeats a group"),
        ("q4_k_s,.*.*.*.*.*x=q8_0", "has 5 repetitions"),
        (f"q4_k_s,{'.?' * 13}x=q8_0", "has 13 groups and choices"),
        ("q4_k_s,ffn_down", "names no type"),
        ("f16,ffn_down=q8_0", "nothing is quantised"),
    ],
)
def test_no_such_type_by_hand(name: str, said: str) -> None:
    with pytest.raises(InputError, match=re.escape(said)):
        total(load("llama-3-8b").architecture, name)


def test_signs_that_repeat_nothing_are_many() -> None:
    """A set and an escaped sign say only which sign is meant: this is the pattern of all down projections."""
    model = load("llama-3-8b").architecture
    odd = r"q4_k_s,[*+?{(][*+?{(]|ffn_dow[n*+?{)]|\(\)\*\+\{\?=q8_0"
    assert total(model, odd) == total(model, "q4_k_s,ffn_down=q8_0")


def test_a_log_with_the_multi_token_module() -> None:
    """llama.cpp#23269: Qwen3.6-35B-A3B in Q8_0 with its module is 35.19 GiB; the module's router is bf16 there."""
    rows = Weights(load("qwen3.6-35b-a3b").architecture, "q8_0", Layout(), modules=True).stage(0)
    router_and_gate = (256 + 1) * 2048
    size = sum(share.row.total for share in rows) - (4 - 2) * router_and_gate
    assert round(size / 2**30, 2) == 35.19


@pytest.mark.parametrize(("preset", "gb"), [("4b", 4.5), ("9b", 9.5), ("27b", 28.6), ("35b-a3b", 36.9),
                                            ("122b-a10b", 129.9), ("397b-a17b", 421.5)])  # fmt: skip
def test_a_catalogue_of_qwen35(preset: str, gb: float) -> None:
    """Q8_0 files (Llama-macOS#63): convolutions, decays, norms and routers stay F32."""
    assert round(total(load(f"qwen3.5-{preset}").architecture, "q8_0") / 1e9, 1) == gb


@pytest.mark.parametrize(
    ("preset", "dtype", "published"),
    [
        ("llama-3-8b", "gguf-bf16", True),
        ("gpt-oss-20b", "gguf-bf16", True),  # its experts in mxfp4
        ("deepseek-v3", "gguf-bf16", False),  # there are no blocks of fp8
        ("kimi-k2.6", "gguf-bf16", False),
    ],
)
def test_llamacpp_holds_what_its_converter_makes(preset: str, dtype: str, published: bool) -> None:
    """convert_hf_to_gguf.py --outtype auto."""
    found = memory(load(preset).architecture, engine="llama.cpp", context=16)
    assert (found.dtype, found.published) == (dtype, published)
    assert any("as published" in line for line in found.exact) == published


def test_llamacpp_has_no_such_weights() -> None:
    found = memory(load("llama-3-8b").architecture, engine="llama.cpp", dtype="awq", context=16)
    assert not any(line.startswith("weights") for line in found.exact)
    assert any("llama.cpp has no awq" in line for line in found.estimated)


def test_every_table_has_the_vocabularys_rows() -> None:
    """Gemma 3n's per-layer table of 262,144 rows gets the 262,400 of the vocabulary (conversion/gemma.py)."""
    rows = [share.row for share in Weights(load("gemma-3n-e2b").architecture, "q8_0", Layout()).stage(0)]
    (table,) = (row for row in rows if row.name == "ple.token")
    assert table.bytes == 262_400 * 30 * 256 // 32 * 34


def test_bits_per_weight() -> None:
    """EXL3 at 4.0: 6,979,321,856 numbers at half a byte, the output at 6 bits, the rest wide."""
    model = load("llama-3-8b").architecture
    table, norms = 128256 * 4096, 65 * 4096
    assert total(model, "exl3:4.0") == 6_979_321_856 // 2 + table * 6 // 8 + 2 * (table + norms)
    found = memory(model, dtype="exl3:4.0", context=16)
    assert not any(line.startswith("weights") for line in found.exact)
    assert any(line.startswith("weights: exl3:4.0's bits") for line in found.estimated)


def test_a_published_file_of_an_earlier_rule() -> None:
    """phi-4's Q5_K_M of January 2025 has 10.60 GB (bartowski/phi-4-GGUF). Then fused heads' matrices were Q6_K in every
    layer of this mix; since 2026 they count as values (category_is_attn_v), Q6_K in 20 of the 40: so much less."""
    now = total(load("phi-4").architecture, "q5_k_m")
    heads = 5120 * (5120 + 2 * 1280)
    then = now + 20 * heads // 256 * (210 - 176)
    assert round(then / 1e9, 2) == 10.60
    assert round(now / 1e9, 2) == 10.50


@pytest.mark.parametrize("dtype", ["f16", "q8_0", "q4_k_m"])
def test_what_layers_share_is_there_once(dtype: str) -> None:
    """ALBERT's twelve layers are one: 11,221,680 parameters, as transformers' class has them on the meta device."""
    shares = Weights(load("albert-base-v2").architecture, dtype, Layout()).stage(0)
    assert sum(share.row.count * share.row.params for share in shares) == 11_221_680
