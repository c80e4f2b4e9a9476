"""Draft models of published configs (sgl-project/SpecForge, configs/): totals counted on torch modules on the meta
device that have the classes' layers, and what follows from the sizes by hand."""

from __future__ import annotations

from typing import Any

import pytest

from gptcalc.analysis.flops import flops
from gptcalc.analysis.memory.cache import kv
from gptcalc.analysis.params import params
from gptcalc.architecture import Architecture
from gptcalc.document import build
from gptcalc.errors import InputError
from gptcalc.sources.huggingface import read

EAGLE3: dict[str, Any] = {
    "architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama", "hidden_act": "silu", "num_hidden_layers": 1,
    "rms_norm_eps": 1e-5, "max_position_embeddings": 2048, "tie_word_embeddings": False, "draft_vocab_size": 32000,
}  # fmt: skip


def eagle3(d: int, d_ff: int, n: int, g: int, v: int, **more: Any) -> dict[str, Any]:
    sizes = {"hidden_size": d, "intermediate_size": d_ff, "num_attention_heads": n, "num_key_value_heads": g}
    return {**EAGLE3, **sizes, "vocab_size": v, **more}


#: config, total, what the target's tables have
DRAFTS: dict[str, tuple[dict[str, Any], int, dict[str, int]]] = {
    "llama3-8B-eagle3": (eagle3(4096, 14336, 32, 8, 128256), 424_689_664, {"embedding": 128256 * 4096}),
    "qwen2.5-0.5b-eagle3": (
        eagle3(896, 4864, 14, 2, 151936, draft_vocab_size=16000), 32_689_664, {"embedding": 151936 * 896},
    ),
    "qwen3-30B-A3B-eagle3.1": (
        eagle3(2048, 12288, 32, 4, 151936, head_dim=128, fc_norm=True, norm_output=True), 182_990_848,
        {"embedding": 151936 * 2048},
    ),
    "qwen3-235B-A22B-eagle3": (
        eagle3(
            4096, 24576, 64, 4, 151936, head_dim=128,
            eagle_config={"eagle_aux_hidden_state_layer_ids": [1, 46, 90], "use_aux_hidden_state": True},
        ),
        592_461_824, {"embedding": 151936 * 4096},
    ),
    "phi4-eagle3": (eagle3(5120, 17920, 40, 10, 100352, model_type="phi3"), 622_612_480, {"embedding": 100352 * 5120}),
    # AngelSlim's name for the class: a tie that its rows rule out, a setting of its training. fc of 3·d², q, k, v of
    # 2·d·(n + 2·g)·d_head, an output of n·d_head·d, 3·d·d_ff, four norms, 32,000 rows
    "AngelSlim's qwen3-4b-eagle3": (
        eagle3(
            2560, 9728, 32, 8, 151936, head_dim=128, architectures=["Eagle3LlamaForCausalLM"],
            tie_word_embeddings=True, modal_type="VLM",
        ),
        3 * 2560**2 + 2 * 2560 * 48 * 128 + 32 * 128 * 2560 + 3 * 2560 * 9728 + 4 * 2560 + 32000 * 2560,
        {"embedding": 151936 * 2560},
    ),
    # the target is wider, so the table is the draft's own: 128256 · 6144, and fc reads 3 · 8192
    "of a wider target": (
        eagle3(6144, 16384, 48, 8, 128256, target_hidden_size=8192),
        3 * 8192 * 6144 + 2 * 6144 * (48 + 16) * 128 + 6144 * 48 * 128 + 3 * 6144 * 16384 + 4 * 6144
        + (32000 + 128256) * 6144,
        {},
    ),
}  # fmt: skip


DFLASH: dict[str, Any] = {
    "architectures": ["DFlashDraftModel"], "model_type": "qwen3", "attention_bias": False, "hidden_act": "silu",
    "rms_norm_eps": 1e-6, "max_position_embeddings": 40960, "rope_theta": 1000000, "num_target_layers": 36,
    "max_window_layers": 5, "use_sliding_window": False, "num_hidden_layers": 5, "tie_word_embeddings": False,
}  # fmt: skip


def dflash(d: int, d_ff: int, n: int, g: int, h: int, v: int, listed: int = 5, **more: Any) -> dict[str, Any]:
    chosen = {"mask_token_id": 1, "target_layer_ids": list(range(1, 1 + listed)), **more.pop("dflash_config", {})}
    sizes = {"hidden_size": d, "intermediate_size": d_ff, "num_attention_heads": n, "num_key_value_heads": g}
    kinds = ["full_attention"] * more.get("num_hidden_layers", 5)
    own = {"head_dim": h, "vocab_size": v, "dflash_config": chosen, "layer_types": kinds, "block_size": 16}
    return {**DFLASH, **sizes, **own, **more}


def tables(v: int, d: int) -> dict[str, int]:
    return {"embedding": v * d, "output": v * d}


DSPARK: dict[str, Any] = {
    "architectures": ["DSparkDraftModel"],
    "dflash_config": {
        "attention_mode": "gqa", "confidence_head_alpha": 1.0, "confidence_head_with_markov": True,
        "enable_confidence_head": True, "markov_head_type": "vanilla", "markov_rank": 256, "projector_type": "dspark",
    },
}  # fmt: skip

DOMINO: dict[str, Any] = {
    "architectures": ["DominoDraftModel"],
    "dflash_config": {
        "projector_type": "domino", "pure_draft_prefix_len": 1, "emb_dim": 256, "gru_hidden_dim": 1024,
        "shift_label": False,
    },
}  # fmt: skip
SHIFTED = {**DOMINO, "dflash_config": {**DOMINO["dflash_config"], "shift_label": True}}

DRAFTS |= {
    "qwen3-4b-dflash": (dflash(2560, 9728, 32, 8, 128, 151936), 537_427_200, tables(151936, 2560)),
    "qwen3-8b-dflash": (dflash(4096, 12288, 32, 8, 128, 151936), 1_048_626_432, tables(151936, 4096)),
    "lfm2.5-1.2b-instruct-dflash": (
        dflash(2048, 6144, 32, 8, 64, 65536, num_hidden_layers=8, rms_norm_eps=1e-5, tie_word_embeddings=True),
        406_885_376, tables(65536, 2048),
    ),
    "longcat-flash-dflash": (
        dflash(6144, 12288, 32, 8, 128, 131072, num_target_layers=28), 1_635_853_568, tables(131072, 6144),
    ),
    "qwen3-4b-dspark": (
        dflash(2560, 9728, 32, 8, 128, 151936, **DSPARK, block_size=7), 615_221_249, tables(151936, 2560),
    ),
    "kimi-k3-dspark": (
        dflash(7168, 14336, 64, 16, 64, 163840, **DSPARK, block_size=7), 2_249_289_601, tables(163840, 7168),
    ),
    "glm-5.2-dspark": (
        dflash(6144, 12288, 64, 16, 64, 154880, **DSPARK, block_size=7), 1_715_157_889, tables(154880, 6144),
    ),
    "qwen3.6-27b-domino": (
        dflash(5120, 17408, 32, 8, 128, 248320, **DOMINO, num_target_layers=64), 1_814_230_272, tables(248320, 5120),
    ),
    "qwen3-8b-domino": (
        dflash(4096, 12288, 32, 8, 128, 151936, **SHIFTED), 1_104_561_408, tables(151936, 4096),
    ),
}  # fmt: skip


def draft(name: str) -> Architecture:
    return build(read(DRAFTS[name][0]).document)


@pytest.mark.parametrize("name", DRAFTS)
def test_total_and_what_is_borrowed(name: str) -> None:
    found = params(draft(name))
    assert (found.total, found.borrowed) == DRAFTS[name][1:]
    assert found.total == sum(found.components.values())


def test_cost_of_an_eagle3_draft() -> None:
    """One layer of 8 KV heads of 128; every weight but the norms' 4 · 4096 is multiplied once by each token."""
    model = draft("llama3-8B-eagle3")
    assert kv(model, context=1000).bytes == 1000 * 2 * 8 * 128 * 2
    found = flops(model, context=1000, phase="decode")
    assert found.total == 2 * (424_689_664 - 4 * 4096) + 2 * 2 * 4096 * 1000


def test_cost_of_a_drafted_block() -> None:
    """Of each new token its states pass fc and every layer's k and v; the block's 16 slots pass all of the layers, see
    all tokens and each other, and 15 of them the target's output matrix."""
    model = draft("qwen3-8b-dflash")
    assert kv(model, context=1000).bytes == 1000 * 5 * 2 * 8 * 128 * 2
    token = 5 * 4096 * 4096 + 5 * 2 * 4096 * 1024
    layer = 2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 12288
    slots = 16 * 5 * layer + 15 * 4096 * 151936
    seen = 5 * 2 * 16 * 4096
    for new, found in (
        (1000, flops(model, context=1000)),
        (1, flops(model, context=1000, phase="decode")),
    ):
        assert found.total == 2 * (new * token + slots + seen * (1000 + 16))
        assert found.attention == 2 * seen * (1000 + 16)
    with pytest.raises(InputError, match="drafts blocks"):
        flops(model, context=1000, phase="train")


def test_cost_of_a_chain() -> None:
    """Beside DFlash: a row of 256 to the vocabulary for each of 6 slots, and 2560 + 256 channels to a confidence."""
    chain = draft("qwen3-4b-dspark")
    plain = build(read({**DRAFTS["qwen3-4b-dspark"][0], "architectures": ["DFlashDraftModel"],
                        "dflash_config": {"target_layer_ids": [1, 2, 3, 4, 5]}}).document)  # fmt: skip
    more = 2 * 6 * (256 * 151936 + 2560 + 256)
    assert flops(chain, context=9, phase="decode").total - flops(plain, context=9, phase="decode").total == more
    assert params(chain).total - params(plain).total == 2 * 256 * 151936 + 2560 + 256 + 1


def test_cost_of_a_recurrence() -> None:
    """Beside DFlash: a token's row of d channels and a state of g pass three gates of g for each token that is drafted;
    slot and state pass 256 hidden units to the vocabulary, but for the first token's. A shifted block drafts 16 tokens
    of its 16 slots, another one 15. The state begins anew with each block: the cache is DFlash's."""
    for name, d, v, drafted in (("qwen3.6-27b-domino", 5120, 248_320, 15), ("qwen3-8b-domino", 4096, 151_936, 16)):
        walked = draft(name)
        config = {**DRAFTS[name][0], "architectures": ["DFlashDraftModel"],
                  "dflash_config": {"target_layer_ids": [1, 2, 3, 4, 5]}}  # fmt: skip
        plain = build(read(config).document)
        gates, hidden = 3 * 1024 * (d + 1024), 256 * (d + 1024 + v)
        assert params(walked).total - params(plain).total == gates + hidden
        more = drafted * gates + (drafted - 1) * hidden + (drafted - 15) * d * v
        for context in (9, 1):
            found = [flops(model, context=context, phase="decode").total for model in (walked, plain)]
            assert found[0] - found[1] == 2 * more
        assert kv(walked, context=9).bytes == kv(plain, context=9).bytes


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"layer_types": ["sliding_attention"] * 5}, "sliding_attention"),
        ({"target_hidden_size": 8192}, "target_hidden_size"),
        ({"block_size": 1}, "block_size"),
        ({"dflash_config": {"projector_type": "domino"}}, "projector_type"),
        ({"dflash_config": {"target_layer_ids": []}}, "no layer of the target is read"),
        ({"dflash_config": {"depth": 2}}, "dflash_config.depth"),
        ({"architectures": ["DSparkDraftModel"]}, "without a Markov head"),
        ({**DSPARK, "dflash_config": {**DSPARK["dflash_config"], "markov_head_type": "rnn"}}, "markov_head_type"),
        ({**DOMINO, "dflash_config": {"emb_dim": 8}}, "dflash_config.gru_hidden_dim is missing"),
        ({**DOMINO, "dflash_config": {**DOMINO["dflash_config"], "gru_layers": 2}}, "dflash_config.gru_layers"),
    ],
)
def test_what_a_block_draft_has_not_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read({**DRAFTS["qwen3-8b-dflash"][0], **changes})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_hidden_layers": 2}, "the class has one layer"),
        ({"norm_output": False}, "norm_output"),
        ({"attention_bias": True}, "attention_bias"),
        ({"norm_before_residual": True}, "norm_before_residual"),
        ({"eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 2]}}, "expected three layers"),
        ({"eagle_config": {"use_last_hidden": True}}, "eagle_config.use_last_hidden"),
        ({"draft_vocab_size": None}, "draft_vocab_size is missing"),
        ({"draft_vocab_size": 128256, "tie_word_embeddings": True}, "tie_word_embeddings"),
    ],
)
def test_what_the_class_has_not_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read({**DRAFTS["llama3-8B-eagle3"][0], **changes})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"target": {"layers": 3}}, "with_target: there is no target with a block"),
        ({"causal": True}, "attn.with_target: the whole block is seen, so causal must be false"),
        ({"attn": {}}, "target: not defined together with causal"),
        ({"attn": {"causal": True}}, "target.block: every attention must be with_target"),
        ({"attn": {"with_target": True, "window": 3}}, "attn.with_target: not defined together with window"),
        ({"layers": "n*attn+mlp+conv", "conv": {"kernel": 3}}, "not defined in a block"),
        ({"mlp": {"activation": "swiglu", "out_conv": 3}}, "not defined in a block"),
        ({"target": {"layers": 3, "block": 1}}, "block"),
        ({"target": {"layers": 3, "block": 4, "d": 32}}, "the target's table has 32 channels"),
        ({"tying": True}, "head.borrowed: there is no output matrix beside the embedding"),
        ({"head": {"rows": 30, "markov": {"rank": 2}}}, "head.markov: needs a target.block"),
        ({"head": {"rows": 30, "gru": {"d_state": 2, "d_hidden": 3}}}, "head.gru: needs a target.block"),
        ({"head": {"gru": {"d_state": 2, "d_hidden": 3, "first": 3}}}, "head.gru.first: leaves none of 3 tokens"),
        ({"head": {"gru": {"d_state": 2, "d_hidden": 3}, "markov": {"rank": 2}}}, "together with head.markov"),
        (
            {"head": {"gru": {"d_state": 2, "d_hidden": 3}}, "embedding": {"borrowed": True, "scale": 2.0}},
            "head.gru: reads the token table's rows as they are",
        ),
        ({"target": {"layers": 3, "shifted": True}}, "target.shifted: there is no block"),
    ],
)
def test_what_contradicts_in_a_block(changes: dict[str, Any], message: str) -> None:
    document = {
        "d": 24, "v": 61, "c": 40, "n_heads": 3, "n_layers": 1, "d_ff": 31, "causal": False,
        "target": {"layers": 3, "block": 4}, "embedding": {"borrowed": True}, "head": {"borrowed": True},
        "attn": {"with_target": True},
    }  # fmt: skip
    build(document)
    with pytest.raises(InputError, match=message):
        build({**document, **changes})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"target": None}, "embedding.borrowed: there is no target"),
        ({"target": {"layers": 3, "d": 32}}, "the target's table has 32 channels, here there are 24"),
        ({"attn": {}}, "no layer reads the tokens"),
        ({"tying": True, "embedding": {}}, "head.rows: the output matrix is the embedding's"),
        ({"head": {"borrowed": True, "rows": 5}}, "head.rows: the output matrix is the target's"),
        ({"mtp": {"n": 1, "block": "mlp"}}, "target: not defined together with mtp"),
        ({"causal": False}, "target: not defined together with causal"),
        ({"attn": {"with_embedding": "apart", "laurel": {"rank": 3}}}, "laurel"),
    ],
)
def test_what_contradicts_in_a_document(changes: dict[str, Any], message: str) -> None:
    document = {
        "d": 24, "v": 61, "c": 40, "n_heads": 3, "n_layers": 1, "d_ff": 31, "target": {"layers": 3},
        "embedding": {"borrowed": True}, "head": {"rows": 37}, "attn": {"with_embedding": "apart"},
    }  # fmt: skip
    with pytest.raises(InputError, match=message):
        build({**document, **changes})
