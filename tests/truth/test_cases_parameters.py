"""Mistakes that people and tools really made in counting parameters: experts, tied tables, positions, biases, norms.

Every expected value is the right one of the report, with its working; the wrong one that was given stands beside it.
"""

from __future__ import annotations

from typing import Any

import pytest

from gptcalc.analysis.params import params
from gptcalc.document import build
from gptcalc.sources import load
from tests.configs import (
    DEEPSEEK_V3,
    GPT_OSS_20B,
    GPT_OSS_120B,
    LLAMA_3_2_1B,
    MIXTRAL_8X7B,
    QWEN_3_30B_A3B,
    llama_4,
    llama_like,
    model,
)
from tests.conftest import Command

GPT2 = {"model_type": "gpt2", "n_layer": 12, "n_head": 12, "n_embd": 768, "n_positions": 1024, "vocab_size": 50257}


# --- experts ----------------------------------------------------------------------------------------------------------


def test_eight_experts_are_not_eight_models() -> None:
    # attention, norms, router and tables are there once; 8 · 7 B = 56 B, 84 B and 176 B were said
    small = params(model(MIXTRAL_8X7B))
    assert (small.total, small.active) == (46_702_792_704, 12_879_925_248)  # with one MLP a layer 7,241,732,096
    rows = llama_like("mixtral", 6144, 56, 48, 8, 16384, 32768, num_local_experts=8, num_experts_per_tok=2)
    found = params(model(rows))
    assert (found.total, found.active) == (140_630_071_296, 39_161_468_928)
    assert params(model(rows, vocab_size=32000)).total == 140_620_634_112


def test_the_width_of_an_expert_is_a_field_of_its_own() -> None:
    # moe_intermediate_size 768, not intermediate_size 6144, which gives 233,469,327,360
    found = params(model(QWEN_3_30B_A3B))
    assert found.total == 30_532_122_624
    assert found.active == 3_353_032_704
    assert found.active - found.embedding == 3_041_867_776


def test_active_parameters_with_and_without_the_token_table() -> None:
    # a card says 37 B, a calculator 37.6 B: the table of 129280·7168 counts or it doesn't
    found = params(model(DEEPSEEK_V3))
    assert found.total == 671_026_419_200
    assert found.total - 58 * 256 == 671_026_404_352  # without the router's biases
    assert found.active == 37_552_297_472
    assert found.active - found.embedding == 36_625_618_432


def test_the_prediction_module_is_extra() -> None:
    # num_hidden_layers = 61 are all main layers. A module is one layer of experts, 11,507,286,272 with the 256 of its
    # router's bias, a projection 2·7168² and three norms; checkpoints copy embedding and head, 1,853,358,080
    found = params(model(DEEPSEEK_V3))
    assert sum(group.layers for group in found.groups if "mla" in group.name) == 61
    assert found.mtp == 11_610_068_224 == 11_507_286_272 + 2 * 7168**2 + 3 * 7168
    assert found.total + found.mtp + 1_853_358_080 == 684_489_845_504
    assert params(model(DEEPSEEK_V3, num_nextn_predict_layers=0)).total == found.total


MINIMAX = llama_like(
    "minimax_m2", 3072, 62, 48, 8, 1536, 200064,
    head_dim=128, num_local_experts=256, num_experts_per_tok=8, rotary_dim=64, scoring_func="sigmoid",
    use_qk_norm=True, qk_norm_type="per_layer", use_routing_bias=True, shared_intermediate_size=0,
    num_mtp_modules=3, mtp_transformer_layers=1,
)  # fmt: skip


def test_prediction_modules_that_a_config_announces() -> None:
    # a layer: q and out 2·3072·6144, k and v 2·3072·1024, their norms 6144 + 1024, router 3072·256 and its bias,
    # 256·3·3072·1536 in experts, two norms
    layer = 2 * 3072 * 6144 + 2 * 3072 * 1024 + 6144 + 1024 + 3072 * 256 + 256 + 256 * 3 * 3072 * 1536 + 2 * 3072
    total = 2 * 200064 * 3072 + 62 * layer + 3072
    without, announced = (params(model(MINIMAX, use_mtp=use)) for use in (False, True))
    assert (without.total, without.mtp) == (total, 0)
    assert announced.total == total  # never inside the headline
    assert announced.mtp == 3 * (layer + 2 * 3072**2 + 3 * 3072)


@pytest.mark.parametrize(
    ("experts", "step", "qk_norm", "total", "active"),
    [
        (16, 1, True, 107_769_861_120, 17_172_894_720),
        # experts in every second layer, dense layers of intermediate_size_mlp = 16384 between
        (128, 2, False, 400_711_848_960, 17_184_691_200),
    ],
)
def test_experts_between_dense_layers(experts: int, step: int, qk_norm: bool, total: int, active: int) -> None:
    found = params(model(llama_4(experts, step, qk_norm)))
    assert (found.total, found.active) == (total, active)


# --- tied tables ------------------------------------------------------------------------------------------------------


def test_a_tied_head_adds_nothing() -> None:
    # 124,439,808 + 50257·768 = 163,037,184 was expected
    tied, untied = (params(model(GPT2, tie_word_embeddings=flag)) for flag in (True, False))
    assert tied.total == 124_439_808
    assert untied.total - tied.total == 38_597_376
    assert untied.components["output"] == 38_597_376


def test_an_untied_head_adds_its_matrix() -> None:
    # 12 blocks of 12·768² and tables of 50304·768; the model's 36 learned scalars are not of any architecture here
    blocks = {"d": 768, "v": 50304, "c": 1024, "n_heads": 12, "n_layers": 12, "mlp": "relu2"}
    plain = {**blocks, "norm": {"weight": False}}
    assert params(build(plain)).total == 162_201_636 - 36  # not the 124 M that it was called
    assert params(build({**plain, "tying": True})).total == 123_568_164 - 36


def test_a_tied_table_counts_once() -> None:
    # left out altogether the total would be 973,146,112
    assert params(model(LLAMA_3_2_1B)).total == 1_235_814_400


def test_a_tie_flag_inside_the_text_model() -> None:
    # Ministral 3 3B: the flag stands in text_config only; untied 3,831,659,520
    text = llama_like(
        "ministral3", 3072, 26, 32, 8, 9216, 131072, head_dim=128, tie_word_embeddings=True,
        rope_parameters={"rope_type": "yarn", "factor": 16.0, "original_max_position_embeddings": 16384},
    )  # fmt: skip
    found = params(model({"model_type": "mistral3", "text_config": text, "vision_config": {"hidden_size": 1024}}))
    assert found.tying
    assert found.total == 3_429_006_336


def test_tied_or_not_where_no_flag_says() -> None:
    gemma = llama_like("gemma3_text", 2560, 34, 8, 4, 10240, 262208, head_dim=256)
    del gemma["tie_word_embeddings"]
    whole = {"model_type": "gemma3", "text_config": gemma, "vision_config": {"hidden_size": 1152}}
    assert not params(model(llama_4(16, 1, True))).tying
    assert params(model(gemma)).tying
    assert params(model(whole)).tying
    for model_type, tied in {"llama": False, "mixtral": False, "qwen3_moe": False, "gpt2": True, "gemma": True}.items():
        assert params(model({"model_type": model_type})).tying is tied


# --- positions and vocabularies ---------------------------------------------------------------------------------------


def test_what_non_embedding_means() -> None:
    # less the positions 123,653,376, which was called the total and "non-embedding"
    found = params(model(GPT2))
    assert found.total == 124_439_808
    assert found.total - 1024 * 768 == 123_653_376
    assert found.non_embedding == 85_056_000


@pytest.mark.parametrize(
    ("name", "count"),
    [("pythia-160m", 85_056_000), ("pythia-12b", 11_327_027_200), ("qwen3-8b", 6_946_075_648),
     ("qwq-32b", 31_206_740_992)],
)  # fmt: skip
def test_what_papers_and_cards_call_non_embedding(name: str, count: int) -> None:
    """PB01 (EleutherAI/pythia#54, Qwen's cards): without the output matrix, too."""
    assert params(load(name).architecture).without_tables == count


def test_active_parameters_beside_experts_without_weights() -> None:
    """PB05: LongCat Flash's card says 18.6 to 31.3 B, 27 B on average, without the token table of 131,072 · 6144.

    Of 12 choices among 512 experts and 256 that do nothing, 8 have weights on average.
    """
    found = params(load("longcat-flash-560b").architecture)
    table = 131_072 * 6144
    assert found.active - table == 31_377_370_112
    assert found.active_mean is not None
    assert found.active_mean - table == 27_149_511_680
    assert params(load("mixtral-8x7b").architecture).active_mean is None


def test_a_padded_vocabulary_without_biases() -> None:
    document = load("gpt2").document
    padded = {**document, "v": 50304, "bias": "none", "norm": {"kind": "layernorm", "bias": False}}
    assert params(build(padded)).total == 124_373_760
    assert params(build(padded)).total - 1024 * 768 == 123_587_328


def test_mask_buffers_are_no_parameters() -> None:
    # a header has twelve masks of 1024·1024 beside them: 12,582,912 + 124,439,808 = 137,022,720
    assert 137_022_720 - params(load("gpt2").architecture).total == 12_582_912 == 12 * 1024 * 1024


def test_rows_of_the_table_are_not_the_tokenizers() -> None:
    # 152064 rows for a tokenizer of 151665; with those 7,612,756,480
    qwen = llama_like("qwen2", 3584, 28, 28, 4, 18944, 152064)
    found = params(model(qwen))
    assert found.total == 7_615_616_512
    assert found.embedding == 152064 * 3584
    # 32256 rows for a tokenizer of 32022: one table of 32022 rows would be 131,162,112
    coder = params(model(llama_like("llama", 4096, 32, 32, 32, 11008, 32256)))
    assert coder.embedding == 132_120_576
    assert coder.embedding + coder.components["output"] == 264_241_152


# --- biases and norms -------------------------------------------------------------------------------------------------


def test_biases_of_queries_keys_and_values() -> None:
    # 28·(3584 + 2·512) of biases that the config doesn't mention; without them 7,615,487,488
    found = params(model(llama_like("qwen2", 3584, 28, 28, 4, 18944, 152064)))
    biases = sum(t.params * t.count for group in found.groups for t in group.tensors if t.name.endswith(".bias"))
    assert biases == 129_024
    assert found.total - biases == 7_615_487_488


@pytest.mark.parametrize(
    ("config", "total", "active"),
    [(GPT_OSS_20B, 20_914_757_184, 3_608_307_264), (GPT_OSS_120B, 116_829_156_672, 5_132_849_472)],
)
def test_biases_of_experts_and_router_and_sinks(config: dict[str, Any], total: int, active: int) -> None:
    # q, k, v, out, the router, 2·d_ff + d an expert, and one sink a head; without them 20,907,927,360 for the smaller
    found = params(model(config))
    assert found.total == total
    assert found.active - found.embedding == active


def two_norms(norm: Any) -> tuple[int, int]:
    """Parameters of 32 layers' two norms, and of the final one."""
    found = params(build({"d": 4096, "v": 10, "c": 10, "n_heads": 32, "n_layers": 32, "d_ff": 10, "norm": norm}))
    norms = [t for group in found.groups for t in group.tensors if "norm" in t.name]
    final = sum(t.params for t in norms if t.name.startswith("final_norm"))
    return sum(t.params * t.count for t in norms) - final, final


def test_norms_with_and_without_a_bias() -> None:
    # 2·4096 a layer, and 4·4096 with biases; a formula gave one for the other
    assert two_norms("rmsnorm") == (262_144, 4_096)
    assert two_norms("layernorm") == (524_288, 8_192)


def test_a_norm_behind_the_embedding() -> None:
    # 250880·14336 + 70·(12·14336² + 13·14336) + 4·14336; without biases 176,234,168,320
    bloom = {"model_type": "bloom", "vocab_size": 250880, "hidden_size": 14336, "n_layer": 70}
    assert params(model(bloom, num_attention_heads=112)).total == 176_247_271_424
    assert params(model(bloom, n_head=112)).total == 176_247_271_424


def test_a_null_width_is_four_times_the_model() -> None:
    # 6·(12·768² + 13·768) in blocks; called 20 M
    gpt = model({**GPT2, "n_layer": 6, "n_head": 8, "n_inner": None, "vocab_size": 10000})
    found = params(gpt)
    assert found.total == 50_995_200
    assert found.components["attention"] + found.components["mlp"] + found.components["norm"] == 42_527_232 + 2 * 768


def test_three_matrices_and_the_true_width() -> None:
    # Qwen1.5 72B; two matrices of three times the width 56.19 B
    qwen = llama_like("qwen2", 8192, 80, 64, 64, 24576, 152064)
    assert params(model(qwen)).total == 72_287_920_128


# --- the same on the command line -------------------------------------------------------------------------------------


def test_on_the_command_line(gptcalc: Command) -> None:
    assert gptcalc("params", "mixtral-8x7b", "--get", "active").out == "12879925248\n"
    assert gptcalc("params", "gpt2", "--set", "tying=false", "--get", "total").out == "163037184\n"
    found = gptcalc("params", "deepseek-v3", "--json").json
    assert (found["total"], found["mtp"]) == (671_026_419_200, 11_610_068_224)
    untied = gptcalc("params", "llama-2-7b", "--set", "v=32256", "--json").json["components"]
    assert untied["embedding"] + untied["output"] == 264_241_152
