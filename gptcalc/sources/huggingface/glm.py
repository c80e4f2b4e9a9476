"""GLM: ChatGLM, partial rotations of neighbours, mixtures with sigmoid routing, latent attention with chosen keys."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gptcalc.errors import InputError
from gptcalc.sources.huggingface.deepseek import DEEPSEEK_V32, FIRST_DENSE, LATENT, ROUTED, index
from gptcalc.sources.huggingface.experts import SPARSE, modules
from gptcalc.sources.huggingface.fields import Fields, shown
from gptcalc.sources.huggingface.heads import DECODERS
from gptcalc.sources.huggingface.llama import LLAMA, PREFIX
from gptcalc.sources.huggingface.pattern import listed, stack
from gptcalc.sources.huggingface.reader import (
    Hole,
    Reader,
    flag,
    layernorm,
    number,
    optional,
    preferred,
    sites,
    size,
    when,
)
from gptcalc.sources.huggingface.rope import rope
from gptcalc.sources.huggingface.tensors import GATE_UP, QKV, fused, in_layers

GLM = LLAMA.but(
    document={"rope": rope(pairing="adjacent"), "bias": sites(qkv="attention_bias")},
    defaults={"partial_rotary_factor": 0.5},
    names=in_layers(PREFIX, fused("mlp.gate_up_proj", GATE_UP)),
)

GLM4 = GLM.but(
    document={"norm_at": "sandwich"},
    names=in_layers(PREFIX, {"attn.post_norm": "post_self_attn_layernorm", "mlp.post_norm": "post_mlp_layernorm"}),
)

GLM4_MOE = ROUTED.but(
    document={"bias": sites(qkv="attention_bias"), "attn": {"qk_norm": when("use_qk_norm", "head")}},
    defaults={"partial_rotary_factor": 0.5},
)


def own_choice(fields: Fields, n: int) -> Sequence[str]:
    """Which layers choose their keys themselves: a pattern of F and S, or after some first ones every so many."""
    pattern = fields.get("index_topk_pattern")
    step, offset = (fields.size("index_topk_freq") or 1, fields.size("index_skip_topk_offset", least=0))
    if isinstance(pattern, str):
        if len(pattern) != n or set(pattern) - {"F", "S"}:
            raise InputError(f"{fields.within}index_topk_pattern: expected {n} letters F or S, found {shown(pattern)}")
        return ["mla" if letter == "F" else "follower" for letter in pattern]
    begin = 2 if offset is None else offset
    return ["mla" if max(i - begin + 1, 0) % step == 0 else "follower" for i in range(n)]


_glm_index = index(pairing=when("indexer_rope_interleave", "adjacent", "half"))

GLM_MOE_DSA = DEEPSEEK_V32.but(
    document={
        "layers": stack(listed("indexer_types", {"full": "mla", "shared": "follower"}, own_choice), SPARSE),
        "mla": {**LATENT, "index": _glm_index},
        "follower": {"like": "mla", "index": {**_glm_index, "shared": True}},
        "mtp": {"n": Hole(modules), "block": "mla+moe"},
    },
    defaults={"indexer_rope_interleave": True},
    irrelevant=("index_topk_freq", "index_skip_topk_offset", "index_topk_pattern", "index_share_for_mtp_iteration"),
)

# --- ChatGLM ----------------------------------------------------------------------------------------------------------


def groups_of_queries(fields: Fields) -> int | None:
    number_of_groups = fields.size("multi_query_group_num")
    return number_of_groups if fields.flag("multi_query_attention") else None


def stretched(fields: Fields) -> float:
    return 10000 * (fields.number("rope_ratio") or 1)


def words(*names: str) -> Hole:
    """The words of a table, and a note where a prefix was trained beside the model (P-tuning), which isn't counted."""

    def read(fields: Fields) -> int:
        prefix = fields.size("pre_seq_len", least=0)
        if prefix:
            fields.notes.append(f"pre_seq_len = {prefix}: what makes that prefix (P-tuning) is left out")
        return int(preferred(*names).read(fields))

    return Hole(read)


CHATGLM = Reader(
    document={
        "d": size("hidden_size"),
        "v": words("padded_vocab_size", "vocab_size"),
        "c": preferred("seq_length", "max_position_embeddings"),
        "n_heads": size("num_attention_heads"),
        "n_layers": size("num_layers", "num_hidden_layers"),
        "n_kv_heads": Hole(groups_of_queries),
        "d_head": optional("kv_channels"),
        "d_ff": size("ffn_hidden_size", "intermediate_size"),
        "tying": flag("tie_word_embeddings"),
        "rope": {"theta": Hole(stretched), "fraction": 0.5, "pairing": "adjacent"},
        "norm": {
            "kind": when("rmsnorm", "rmsnorm", "layernorm"),
            "eps": number("layernorm_epsilon"),
            "bias": Hole(lambda fields: not fields.flag("rmsnorm")),
        },
        "final_norm": flag("post_layer_norm"),
        "bias": sites(qkv="add_qkv_bias", out="add_bias_linear", mlp="add_bias_linear"),
    },
    defaults={
        "layernorm_epsilon": 1e-5,
        "rmsnorm": True,
        "post_layer_norm": True,
        "multi_query_attention": False,
        "add_qkv_bias": False,
        "add_bias_linear": False,
        "tie_word_embeddings": False,
    },
    only={
        "apply_residual_connection_post_layernorm": False,
        "original_rope": True,
        "interleaved_qkv": False,
        "num_key_value_heads": None,
        "prefix_projection": False,
    },
    irrelevant=frozenset({"prefix_projection", "hidden_act", "quantization_bit", "rotary_percent"}),
    classes={**DECODERS, "Model": {}},  # its language model is called ChatGLMModel
    names={
        "embedding.token": "transformer.embedding.word_embeddings",
        **in_layers(
            "transformer.encoder.layers.{l}.",
            {
                "attn.norm": "input_layernorm",
                **fused("self_attention.query_key_value", QKV),
                "attn.out": "self_attention.dense",
                "mlp.norm": "post_attention_layernorm",
                **fused("mlp.dense_h_to_4h", GATE_UP),
                "mlp.down": "mlp.dense_4h_to_h",
            },
        ),
        "final_norm": "transformer.encoder.final_layernorm",
        "head": "transformer.output_layer",
    },
)

# --- ChatGLM-6B, which says that it is a chatglm, too -----------------------------------------------------------------

#: √(2·n_layers) of the 28 layers that the model has: the class takes it so whatever a config says
STREAM_SCALE = math.sqrt(2 * 28)

#: each half of a head's channels turns by positions of its own; [gMASK] ends a prompt, and the token behind it, which
#: begins the answer, is the first that the prompt does not see
CHATGLM_6B = Reader(
    document={
        "d": size("hidden_size"),
        "v": words("vocab_size"),
        "c": size("max_sequence_length"),
        "n_heads": size("num_attention_heads"),
        "n_layers": size("num_layers", "num_hidden_layers"),
        "d_ff": size("inner_hidden_size"),
        "tying": flag("tie_word_embeddings"),
        "whole_prompt": True,
        "rope": {"axes": 2},
        "norm": layernorm("layernorm_epsilon"),
        "norm_at": "stream",
        "attn": {"stream_scale": STREAM_SCALE},
        "mlp": {"activation": "gelu_tanh", "stream_scale": STREAM_SCALE},
        "bias": "all",
    },
    defaults={"layernorm_epsilon": 1e-5, "tie_word_embeddings": True},
    only={"position_encoding_2d": True, "quantization_embeddings": False},
    irrelevant=frozenset({"prefix_projection", "quantization_bit"}),
    classes={**DECODERS, "Model": {}, "ForConditionalGeneration": {}},
    names={
        "embedding.token": "transformer.word_embeddings",
        **in_layers(
            "transformer.layers.{l}.",
            {
                "attn.norm": "input_layernorm",
                **fused("attention.query_key_value", QKV, groups="n_heads"),
                "attn.out": "attention.dense",
                "mlp.norm": "post_attention_layernorm",
                "mlp.up": "mlp.dense_h_to_4h",
                "mlp.down": "mlp.dense_4h_to_h",
            },
        ),
        "final_norm": "transformer.final_layernorm",
        "head": "lm_head",
    },
)

#: of GLM-4.1V and 4.5V Flash, and of GLM-OCR
GLM4V = GLM4.but(document={"bias": "qkv"})
GLM_OCR = GLM4.but(document={"bias": None})

READERS: dict[str, Reader] = {
    "glm": GLM,
    "glm4": GLM4,
    "glm4_moe": GLM4_MOE,
    "glm4v_moe_text": GLM4_MOE,
    "chatglm": CHATGLM,
    "chatglm-6b": CHATGLM_6B,
    "glm_moe_dsa": GLM_MOE_DSA,
    "glm4_moe_lite": FIRST_DENSE,
    "glm4v_text": GLM4V,
    "glm_ocr_text": GLM_OCR,
}
